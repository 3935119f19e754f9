"""What each system call is for, in a line: the table `purposes.toml`, which covers x86-64 and arm64."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple

from oscope.trace.calls import call_name

UNKNOWN_GROUP = "unknown"
COMMON_NUMBERS = 424
"""From this number on a call has the same number on every architecture (Linux 5.1, asm-generic/unistd.h)."""

_RAW = re.compile(r"syscall_0x([0-9a-f]+)")
_WIDTH = re.compile(r"_time64$|(?<=[a-z_])(?:64_64|64|32)$")
_COMPATIBLE = {
    "_llseek": "lseek",
    "_newselect": "select",
    "mmap2": "mmap",
    "recv": "recvfrom",
    "send": "sendto",
    "sigaction": "rt_sigaction",
    "sigprocmask": "rt_sigprocmask",
    "sigreturn": "rt_sigreturn",
    "sync_file_range2": "sync_file_range",
    "ugetrlimit": "getrlimit",
    "umount": "umount2",
    "waitpid": "wait4",
}
"""Names that 32-bit programs have for calls of 64-bit ones, beside those that only tell a width."""


class Purpose(NamedTuple):
    """What a call is for."""

    group: str
    text: str


@cache
def purposes() -> Mapping[str, Purpose]:
    """Return the purpose of each system call of x86-64 and arm64, by name."""
    groups = tomllib.loads(resources.files("oscope.tools.explain").joinpath("purposes.toml").read_text())
    return {name: Purpose(group, text) for group, calls in groups.items() for name, text in calls.items()}


@cache
def purpose(name: str) -> Purpose:
    """Return what the call that strace names `name` is for; of `UNKNOWN_GROUP` where no table has it."""
    table = purposes()
    known = resolve(name)
    for candidate in (known, _COMPATIBLE.get(known, known), _WIDTH.sub("", known)):
        if candidate in table:
            return table[candidate]
    return Purpose(UNKNOWN_GROUP, "a call that is in no table of x86-64 or arm64")


@cache
def resolve(name: str) -> str:
    """Return the name of a call that strace prints by number (`syscall_0x1cf`), being newer than strace."""
    found = _RAW.fullmatch(name)
    if found is None or int(found[1], 16) < COMMON_NUMBERS:
        return name

    named = call_name(int(found[1], 16))
    return name if named.startswith("nr:") else named

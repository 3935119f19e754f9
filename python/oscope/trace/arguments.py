"""Arguments of system calls as a person reads them: as many as a call takes, by their types."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_FORMATS = ("sys/kernel/tracing/events/syscalls", "sys/kernel/debug/tracing/events/syscalls")
_FIELD = re.compile(r"^\tfield:(.+?)(\w+);\toffset:(\d+);", re.MULTILINE)
_FIRST_ARGUMENT_OFFSET = 16
"""Before it stand what all events have and the call's number (kernel/trace/trace_syscalls.c)."""
_LARGEST_PLAIN = 0xFFFF
_SIGNED = ("int", "pid_t", "clockid_t", "const clockid_t", "key_serial_t", "mqd_t")
_AT_FDCWD = -100  # linux/fcntl.h

ARCH_PRCTL: Mapping[int, str] = {
    0x1001: "ARCH_SET_GS",
    0x1002: "ARCH_SET_FS",
    0x1003: "ARCH_GET_FS",
    0x1004: "ARCH_GET_GS",
    0x1011: "ARCH_GET_CPUID",
    0x1012: "ARCH_SET_CPUID",
    0x1021: "ARCH_GET_XCOMP_SUPP",
    0x1022: "ARCH_GET_XCOMP_PERM",
    0x1023: "ARCH_REQ_XCOMP_PERM",
    0x1024: "ARCH_GET_XCOMP_GUEST_PERM",
    0x1025: "ARCH_REQ_XCOMP_GUEST_PERM",
    0x2001: "ARCH_MAP_VDSO_X32",
    0x2002: "ARCH_MAP_VDSO_32",
    0x2003: "ARCH_MAP_VDSO_64",
    0x4001: "ARCH_GET_UNTAG_MASK",
    0x4002: "ARCH_ENABLE_TAGGED_ADDR",
    0x4003: "ARCH_GET_MAX_TAG_BITS",
    0x4004: "ARCH_FORCE_TAGGED_SVA",
    0x5001: "ARCH_SHSTK_ENABLE",
    0x5002: "ARCH_SHSTK_DISABLE",
    0x5003: "ARCH_SHSTK_LOCK",
    0x5004: "ARCH_SHSTK_UNLOCK",
    0x5005: "ARCH_SHSTK_STATUS",
}
"""First argument of arch_prctl(2): arch/x86/include/uapi/asm/prctl.h."""


@dataclass(frozen=True)
class Signatures:
    """Types and names of the arguments of each call, as the running kernel reports them."""

    known: Mapping[str, Sequence[tuple[str, str]]]

    @classmethod
    def read(cls, root: Path) -> Signatures:
        """Read them from the tracefs under `root`; there are none where that has no system-call events."""
        for formats in _FORMATS:
            found = {
                path.parent.name.removeprefix("sys_enter_"): _arguments(path.read_text())
                for path in (root / formats).glob("sys_enter_*/format")
            }
            if found:
                # The kernel's own name of the call differs from the table's here (fs/stat.c).
                return cls(
                    {**found, **{alias: found[name] for alias, name in _ALIASES.items() if name in found}}
                )
        return cls({})

    def describe(self, call: str, values: Sequence[int], paths: Mapping[int, str]) -> list[str]:
        """Return the arguments of `call` as texts; all six registers where its signature is not known.

        A path stands in quotes, a pointer and a large number in hexadecimal.
        """
        kinds = self.known.get(call, [("unsigned long", "")] * len(values))
        texts = [_describe(kind, name, value) for (kind, name), value in zip(kinds, values, strict=False)]
        if call == "arch_prctl" and texts:
            texts[0] = ARCH_PRCTL.get(values[0] & 0xFFFFFFFF, texts[0])
        for index, path in paths.items():
            if index < len(texts):
                texts[index] = _quoted(path)
        return texts


_ALIASES = {"stat": "newstat", "lstat": "newlstat", "fstat": "newfstat", "uname": "newuname"}


def _arguments(text: str) -> list[tuple[str, str]]:
    return [
        (kind.strip(), name)
        for kind, name, offset in _FIELD.findall(text)
        if int(offset) >= _FIRST_ARGUMENT_OFFSET
    ]


def _describe(kind: str, name: str, value: int) -> str:
    if "*" in kind or kind.endswith("_t __user"):
        return hex(value) if value else "NULL"
    # Descriptors are declared unsigned here and there; -1 is -1 to a person.
    if kind in _SIGNED or name.endswith("fd"):
        low = value & 0xFFFFFFFF
        signed = low - 2**32 if low >= 2**31 else low
        if signed == _AT_FDCWD and name.endswith(("dfd", "fd")):
            return "AT_FDCWD"
        return str(signed) if -_LARGEST_PLAIN <= signed <= _LARGEST_PLAIN else hex(low)
    return str(value) if value <= _LARGEST_PLAIN else hex(value)


def _quoted(path: str) -> str:
    return '"' + path.encode("unicode_escape").decode().replace('"', '\\"') + '"'

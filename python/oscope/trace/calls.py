"""System calls: their names, the errors they return, and which of them transfer bytes."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from functools import cache

from system_calls import NoSuchSystemCall, NotSupportedSystemCall, syscalls

TRANSFERS: Mapping[str, int | None] = {
    "read": 2,
    "write": 2,
    "pread64": 2,
    "pwrite64": 2,
    "readv": None,
    "writev": None,
    "preadv": None,
    "pwritev": None,
    "preadv2": None,
    "pwritev2": None,
    "sendto": 2,
    "recvfrom": 2,
    "sendmsg": None,
    "recvmsg": None,
    "splice": 4,
    "tee": 2,
    "vmsplice": None,
    "sendfile": 3,
    "copy_file_range": 4,
    "getrandom": 1,
}
"""Calls that return how many bytes they moved: which argument, from 0, asks for how many.

None: that stands in a structure in memory (an iovec), which is not read.
"""

MOST_MOVED = 0x7FFF_F000
"""The most bytes that one call moves (linux/fs.h, MAX_RW_COUNT): what asks for more asks for all there is."""

_RESTARTS = {
    512: "ERESTARTSYS",
    513: "ERESTARTNOINTR",
    514: "ERESTARTNOHAND",
    516: "ERESTART_RESTARTBLOCK",
}
"""Seen only by tracers: a signal came, and the call starts anew or gives EINTR (linux/errno.h)."""

_LARGEST_ERROR = 4095  # linux/err.h, MAX_ERRNO


@cache
def _table() -> syscalls:
    return syscalls()


def call_name(number: int) -> str:
    """Return the name of system call `number` on this machine; `nr:N` for one that has none."""
    try:
        return str(_table()[number])
    except NoSuchSystemCall:
        # A number is 32 bits wide in the kernel: -1 is what a tracer or a filter puts for a call it refuses.
        return f"nr:{number - 2**32 if number >= 2**31 else number}"


def error_name(result: int) -> str | None:
    """Return the name of the error that a call's `result` is; None where it is none."""
    if not -_LARGEST_ERROR <= result < 0:
        return None
    return errno.errorcode.get(-result) or _RESTARTS.get(-result) or f"errno {-result}"


def transfer_numbers() -> dict[int, int | None]:
    """Return `TRANSFERS` by the numbers of this machine; a call that it has not is left out."""
    return {number: asked for name, asked in TRANSFERS.items() if (number := call_number(name)) is not None}


def call_number(name: str) -> int | None:
    """Return the number of system call `name` on this machine; None where it has none."""
    try:
        return int(_table()[name])
    except (NoSuchSystemCall, NotSupportedSystemCall):
        return None

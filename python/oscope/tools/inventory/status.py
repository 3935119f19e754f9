"""What a file is, asked of the kernel alone: a file system whose server does not answer holds nothing up."""

from __future__ import annotations

import ctypes
import os
import struct
from functools import cache
from pathlib import Path
from typing import NamedTuple

_AT_FDCWD = -100
_AT_STATX_DONT_SYNC = 0x4000
_WANTED = 0x0001 | 0x0002 | 0x0004 | 0x0100
"""STATX_TYPE, STATX_MODE, STATX_NLINK and STATX_INO (linux/stat.h)."""
_STATX = struct.Struct("=16xI8xH2xQ88xII120x")
"""struct statx (statx(2)): links, mode, inode, major and minor number; the rest is passed over."""


class Status(NamedTuple):
    """What is known of a file."""

    links: int
    mode: int
    """Type and permissions, as `stat` has them."""
    inode: int
    major: int
    minor: int
    """Of the device that a device file stands for."""


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def status(path: Path) -> Status:
    """Return what the kernel remembers of a file, links followed: no server is asked (statx(2)).

    It may be older than what the server would tell, but a file that is open does not change its type. The
    path itself must not lead through such a file system: as links of /proc/PID/fd do not. Raises OSError.
    """
    content = ctypes.create_string_buffer(_STATX.size)
    found = _libc().statx(_AT_FDCWD, os.fsencode(path), _AT_STATX_DONT_SYNC, _WANTED, content)
    if found != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
    return Status(*_STATX.unpack(content.raw))

"""A shared mapping that keeps no descriptor of its own, as mmap(2) means it; Python's keeps one."""

from __future__ import annotations

import ctypes
import mmap
import os

_LIBRARY = ctypes.CDLL(None, use_errno=True)
_LIBRARY.mmap.restype = ctypes.c_void_p
_LIBRARY.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
)  # fmt: skip
_LIBRARY.msync.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_LIBRARY.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FAILED = ctypes.c_void_p(-1).value
_MS_SYNC = 4


class SharedMapping:
    """The first `length` bytes of an open file, shared, to read and to write. Raises OSError."""

    def __init__(self, descriptor: int, length: int) -> None:
        self._length = length
        way = mmap.PROT_READ | mmap.PROT_WRITE
        self._at = _LIBRARY.mmap(None, length, way, mmap.MAP_SHARED, descriptor, 0)
        if self._at == _FAILED:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def write(self, offset: int, data: bytes) -> None:
        """Store `data`; where the file has shrunk below it, the process gets SIGBUS."""
        assert offset + len(data) <= self._length
        ctypes.memmove(self._at + offset, data, len(data))

    def read(self, offset: int, size: int) -> bytes:
        """Load bytes."""
        assert offset + size <= self._length
        return ctypes.string_at(self._at + offset, size)

    def sync(self) -> None:
        """msync(MS_SYNC) of all."""
        self._check(_LIBRARY.msync(self._at, self._length, _MS_SYNC))

    def close(self) -> None:
        """Munmap."""
        self._check(_LIBRARY.munmap(self._at, self._length))

    def _check(self, answer: int) -> None:
        if answer != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

"""A file of random content that grows until it is long enough. Writing it is not measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy

from oscope.model.errors import OscopeError

PIECE = 4 * 2**20
_FLUSHED = 64 * 2**20
"""Bytes after which the device is waited for: little is left to do when an interruption comes."""
MOST_OF_FREE_SPACE = 0.9


class GrowingFile:
    """A file open for writing; other processes open it at `place`, also where it has no name."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.written = 0
        """Bytes of content so far."""
        self._descriptor = descriptor

    @property
    def place(self) -> str:
        """Where this and other processes of this user find it, as long as this process has it open."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def room(self) -> int:
        """Return the longest that it may become: what it has, and most of the space that is free."""
        space = os.fstatvfs(self._descriptor)
        return self.written + int(MOST_OF_FREE_SPACE * space.f_bavail * space.f_frsize)

    def hide(self) -> None:
        """Take its name away. Whatever ends this process then, nothing is left of the file."""
        self.path.unlink()

    def resize(self, size: int, check: Callable[[], None]) -> None:
        """Write what is missing of `size` bytes, or cut off what is too much, and wait for the device.

        `check` is called now and then, and may raise. Raises OscopeError that says how far it got.
        """
        try:
            if size < self.written:
                os.ftruncate(self._descriptor, size)
                self.written = size
            elif size > self.written:
                # Finds out at once whether there is room, and gives the file one piece of the disk.
                os.posix_fallocate(self._descriptor, self.written, size - self.written)
            self._append(size, check)
            os.fsync(self._descriptor)
        except OSError as error:
            raise OscopeError(
                f"writing {self.path}: {error.strerror} after {self.written} of {size} bytes",
                remedy="free some space, or name a file on another file system",
            ) from error

    def _append(self, size: int, check: Callable[[], None]) -> None:
        # Not for secrets: only no file system shall find zeros, or two blocks alike, to store as one.
        random = numpy.random.default_rng()
        flushed = self.written
        while self.written < size:
            check()
            length = min(PIECE, size - self.written)
            piece = random.integers(0, 2**64, -(-length // 8), numpy.uint64).tobytes()
            self.written += os.pwrite(self._descriptor, piece[:length], self.written)
            if self.written - flushed >= _FLUSHED:
                os.fdatasync(self._descriptor)
                flushed = self.written


@contextmanager
def growing_file(path: Path) -> Iterator[GrowingFile]:
    """Make the file `path`, open as long as the context lasts; FileExistsError where there is one."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        yield GrowingFile(path, descriptor)
    finally:
        os.close(descriptor)

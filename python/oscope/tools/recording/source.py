"""The bytes of a recording: its beginning can be looked at, the rest passes by in pieces."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from oscope.model.errors import OscopeError, UsageError
from oscope.model.file_kinds import check_readable_to_its_end

STANDARD_INPUT = "-"
_HEAD = 1 << 16
_CHUNK = 1 << 18
LONGEST_LINE = 64 << 20
"""Bytes of a line, or of an event, that are taken for one."""


@dataclass(frozen=True)
class Line:
    """A line without its end."""

    number: int
    text: bytes


class Source:
    """A recording that is read once, from its beginning to its end."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        """Read the first 64 KiB of `file`, or all if it is shorter. Raises OscopeError."""
        self.name = name
        self._file = file
        self.head = b""
        while len(self.head) < _HEAD and (piece := self._read()):
            self.head += piece

    def chunks(self) -> Iterator[bytes]:
        """Yield all bytes, the head's first."""
        if self.head:
            yield self.head
        while piece := self._read():
            yield piece

    def lines(self) -> Iterator[Line]:
        """Yield all lines. One of more than 64 MiB is given in pieces, which share its number."""
        rest = b""
        number = 1
        for chunk in self.chunks():
            *whole, tail = chunk.split(b"\n")
            for text in whole:
                yield Line(number, rest + text)
                number += 1
                rest = b""
            rest += tail
            if len(rest) > LONGEST_LINE:
                yield Line(number, rest)
                rest = b""
        if rest:
            yield Line(number, rest)

    def _read(self) -> bytes:
        try:
            return self._file.read(_CHUNK) or b""
        except OSError as error:
            raise OscopeError(
                f"{self.name} cannot be read ({error.strerror})", remedy="name a file that can be read"
            ) from error


@contextlib.contextmanager
def opened(path: str) -> Iterator[Source]:
    """Open the recording at `path`; `-` is standard input. Raises UsageError where there is none."""
    if path == STANDARD_INPUT:
        yield Source("standard input", io.FileIO(sys.stdin.fileno(), closefd=False))
        return
    if not Path(path).is_dir():
        check_readable_to_its_end(Path(path), remedy="name a recording, or -")
    try:
        file = io.FileIO(path)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror})", remedy="name a file that can be read"
        ) from error
    with file:
        yield Source(path, file)

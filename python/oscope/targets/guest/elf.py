"""Reads of an ELF file of 64 bits what a guest needs to know of it (elf(5))."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from oscope.model.errors import OscopeError

_INTERPRETER = 3
"""PT_INTERP."""
_SECTIONS_AT = slice(40, 48)
_SECTIONS = slice(60, 64)
"""In the header: where the table of sections is; their number, and which of them has their names."""


def loader(program: Path) -> Path | None:
    """Return the loader that `program` names; None where it names none. Raises OscopeError."""
    with program.open("rb") as file:
        for kind, offset, length in _segments(file, program):
            if kind == _INTERPRETER:
                file.seek(offset)
                return Path(str(file.read(length).rstrip(b"\0"), "utf-8", "surrogateescape"))
    return None


def loaded_part(program: Path) -> bytes:
    """Return `program` without what is never loaded: symbols, debugging information, the table of sections.

    It executes as the whole does. Raises OscopeError.
    """
    with program.open("rb") as file:
        end = max(offset + length for _, offset, length in _segments(file, program))
        file.seek(0)
        image = bytearray(file.read(end))
    image[_SECTIONS_AT] = bytes(8)
    image[_SECTIONS] = bytes(4)
    return bytes(image)


def _segments(file: BinaryIO, program: Path) -> Iterator[tuple[int, int, int]]:
    """Yield kind, offset and length in bytes of each segment; the table of them lies in one of them."""
    head = file.read(64)
    if head[:5] != b"\x7fELF\x02":
        raise OscopeError(
            f"{program} is no program of 64 bits", remedy="build the probe anew with `make setup`"
        )
    table, size, count = struct.unpack_from("<32xQ14xHH", head)
    for number in range(count):
        file.seek(table + number * size)
        kind, _, offset, _, _, length = struct.unpack("<IIQQQQ", file.read(40))
        yield kind, offset, length

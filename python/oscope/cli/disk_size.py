"""`oscope disk size`: finds, by reading, a file size that takes a wanted time to read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

from oscope.cli.disk_transfer import LONGEST_S, PATIENCE_S, bytes_text
from oscope.cli.disk_transfer_bar import bar
from oscope.cli.errors import note
from oscope.cli.options import parse_option
from oscope.model.errors import OscopeError, UsageError
from oscope.model.factors import Level
from oscope.model.units import format_bytes, parse_duration
from oscope.probe import catalogue
from oscope.tools.disk.bytes_moved import moved
from oscope.tools.disk.file_transfers import FileSession, Transfer
from oscope.tools.disk.growing_file import GrowingFile, growing_file
from oscope.tools.disk.size import Range, find_size

Ending = Literal["remove", "keep"]

_SHORTEST_S = 0.001
_OVERTIME = 2
"""A reading is ended after so many times what is wanted at most: the size is too large then in any case."""


def parse_between(text: str) -> Range:
    """Read `LOW,HIGH`, two durations; UsageError naming the option."""
    ends = [parse_option("--between", parse_duration, part) for part in text.split(",")]
    if len(ends) != 2 or not 0 < ends[0] < ends[1]:
        raise UsageError(
            f"--between {text}: not a shorter and a longer time", remedy="write it like --between 5s,15s"
        )
    if not _SHORTEST_S <= ends[1] <= LONGEST_S / _OVERTIME:
        raise UsageError(
            f"--between {text}: the longer time is too short or too long", remedy="give 1 ms to 12 h"
        )
    return Range(*ends)


def find(path: Path, block_size: int, limits: Range, *, ending: Ending) -> Transfer:
    """Find a size whose reading time lies in `limits` and return what reading it gave.

    A file that is there is only read. Raises OscopeError where no size is found, or that file is read in
    another time.
    """
    # Refused now rather than once the file is made.
    block = catalogue.load().workload("disk.read").parameter("block_size")
    if block is not None:
        catalogue.check_level(block, block_size)
    reading = _ColdReading(path, block_size, _OVERTIME * limits.high)
    with FileSession(reading.note) as reading.session:
        try:
            with growing_file(path) as file:
                reading.place = file.place
                return _grow(file, reading, limits, ending)
        except FileExistsError:
            reading.place = str(path)
            return _measure_as_it_is(path, reading, limits)


def _grow(file: GrowingFile, reading: _ColdReading, limits: Range, ending: Ending) -> Transfer:
    """Find the size with a file that was made for it."""
    if ending == "remove":
        file.hide()
        note(f"{file.path} is made without a name and gone afterwards (--keep keeps it)")
    else:
        note(f"{file.path} is made, and kept whether or not a size is found")

    def measure(size: int) -> float:
        with bar(f"writing {format_bytes(size)}", size, lambda: file.written):
            file.resize(size, reading.session.check)
        return reading.seconds(size)

    find_size(measure, limits, block_size=reading.block_size, largest=file.room())
    return reading.last


def _measure_as_it_is(path: Path, reading: _ColdReading, limits: Range) -> Transfer:
    """Read a file that somebody else made."""
    size = path.stat().st_size
    seconds = reading.seconds(size)
    if seconds not in limits:
        raise OscopeError(
            f"{path} is there already, and reading its {bytes_text(size)} bytes takes about {seconds:.3g} s, "
            f"not {limits}",
            remedy="name a file that is to be made, or another --between",
        )
    return reading.last


class _ColdReading:
    """Reads one file again and again, with nothing of it in the page cache, and reports each time."""

    session: FileSession
    last: Transfer
    """What the last reading gave."""

    def __init__(self, path: Path, block_size: int, longest_s: float) -> None:
        self.block_size = block_size
        self.place = str(path)
        """Where the probe finds the file."""
        self._path = path
        self._longest_s = longest_s
        self._noted: set[str] = set()

    def seconds(self, size: int) -> float:
        """Return the seconds that reading all `size` bytes takes; reckoned, where that takes far too long."""
        params: dict[str, Level] = {
            "file": self.place,
            "block_size": self.block_size,
            "count": 0,
            "cache": "cold",
            "engine": "read",
            "threads": 1,
            "work": "none",
            "longest": self._longest_s,
        }
        limit_s = self._longest_s + PATIENCE_S
        try:
            with bar(f"reading {format_bytes(size)}", size, moved(self.session.pid, "read")):
                self.last = self.session.transfer("disk.read", params, limit_s=limit_s)
        except OscopeError as error:
            error.message = self._named(error.message)
            raise
        done = self.last
        if done.bytes >= size:
            note(f"{format_bytes(size)}: {done.time_s:.3g} s, {done.mib_per_s:.4g} MiB/s")
            return done.time_s
        note(f"{format_bytes(size)}: {bytes_text(done.bytes)} bytes of it in {done.time_s:.3g} s")
        return done.time_s * size / done.bytes if done.bytes else math.inf

    def note(self, text: str) -> None:
        """Tell what the probe says, once."""
        if text not in self._noted:
            self._noted.add(text)
            note(self._named(text))

    def _named(self, text: str) -> str:
        """Call the file what the user calls it."""
        return text.replace(self.place, str(self._path))

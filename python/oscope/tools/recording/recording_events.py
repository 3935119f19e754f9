"""What a recording holds, whatever program made it, and what reading it brought to light."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Self

from oscope.model.errors import UsageError

LARGEST = 500
"""Columns and rows at most: the probe's emulator takes no more."""
_SIZE = re.compile(r"(\d{1,9})x(\d{1,9})")


@dataclass(frozen=True)
class Size:
    """Size of a terminal's window, in cells."""

    columns: int
    rows: int

    def __str__(self) -> str:
        return f"{self.columns}x{self.rows}"

    @property
    def is_sensible(self) -> bool:
        """Whether an emulator can have it."""
        return 1 <= self.columns <= LARGEST and 1 <= self.rows <= LARGEST

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the size that `text`, such as `80x24`, stands for. Raises UsageError."""
        found = _SIZE.fullmatch(text)
        size = cls(int(found[1]), int(found[2])) if found else None
        if size is None or not size.is_sensible:
            raise UsageError(
                f"{text!r} is not a size of 1x1 to {LARGEST}x{LARGEST}",
                remedy="write columns and rows like 80x24",
            )
        return size


USUAL = Size(80, 24)
"""What a terminal has where nothing is known of it."""


@dataclass(frozen=True)
class Start:
    """A session begins, in a terminal of its own."""

    size: Size | None
    """As in the recording; None where it has none."""


@dataclass(frozen=True)
class Resize:
    """The window got another size."""

    size: Size


Event = Start | Resize | bytes
"""Bytes are what the terminal got; they may end in the middle of a character or sequence."""


@dataclass
class Findings:
    """What is to be said of a recording beside its text, each in one line."""

    notes: list[str] = field(default_factory=list)
    """What was taken for granted."""
    problems: list[str] = field(default_factory=list)
    """What is broken or missing in the recording."""

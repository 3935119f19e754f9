"""Figures of the original reports, cited as theirs: for shape and order of magnitude, never targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import mean, median, stdev
from typing import NamedTuple, TypeVar

from oscope.questions.table import Column, number

Row = TypeVar("Row")


class Cited(NamedTuple):
    """A column of Table 1 of the report on a new system call (Linux 5.0), in cycles."""

    iterations: tuple[int, ...]
    mean: float
    median: float
    deviation: float


def _column(*iterations: int) -> Cited:
    """Return a column with its last three rows, which the report prints to two decimals."""
    return Cited(iterations, *(round(of(iterations), 2) for of in (mean, median, stdev)))


MY_PRECIOUS = _column(9082, 8491, 12096, 11904, 8368, 8038, 9738, 12284, 8099, 8275)
FORK_CHILD = _column(441178, 372276, 331146, 1637624, 364679, 264381, 295363, 334424, 877629, 306909)
FORK_PARENT = _column(308194, 208966, 176359, 212812, 277028, 138237, 145741, 255372, 136247, 154925)

CALLS_PER_SECOND: Mapping[str, float] = {
    "read": 1.03041e6,
    "lseek": 1.51284e6,
    "getpid": 1.19449e6,
    "gethostid": 130980.0,
}
"""Calls a second, from the report on disk reads; it counts each call as one byte."""


def cited(of: Callable[[Row], Cited | None]) -> list[Column[Row]]:
    """Return the columns mean, median and standard deviation of what a row cites."""

    def column(name: str, field: str) -> Column[Row]:
        return number(f"original: {name} [cycles]", lambda row: getattr(of(row), field, None))

    return [column("mean", "mean"), column("median", "median"), column("std. dev.", "deviation")]

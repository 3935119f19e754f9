"""Figures of the original reports, cited as theirs: for shape and order of magnitude, never targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean, median, stdev
from typing import NamedTuple, TypeVar

from oscope import questions as q

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


def cited(of: Callable[[Row], Cited | None]) -> list[q.Column[Row]]:
    """Return the columns mean, median and standard deviation of what a row cites."""

    def column(name: str, field: str) -> q.Column[Row]:
        return q.cited(name, "cycles", lambda row: getattr(of(row), field, None))

    return [column("mean", "mean"), column("median", "median"), column("std. dev.", "deviation")]


class CitedRow(NamedTuple):
    """A row beside the original report: what was measured here, if it was, and what is cited, if it is."""

    name: str
    point: q.Point | None
    original: Cited | None

    @property
    def label(self) -> str:
        """The name with what an iteration is here."""
        if self.point is None:
            return self.name
        alone = self.point.run.experiment.workload == "process.create"
        return f"{self.name} ({'one call each' if alone else q.iteration(self.point.samples)})"

    @property
    def summary(self) -> q.Summary | None:
        """What was measured."""
        return None if self.point is None else self.point.summary


def statistics(
    title: str, rows: Sequence[CitedRow], unit: str, note: str, missing: Callable[[CitedRow], str] = str
) -> q.Table:
    """Return mean, median and deviation, here and in the original report; `missing`: why there are none."""

    def count(row: CitedRow) -> str:
        return q.format_count(row.summary.n) if row.summary else missing(row)

    return q.TableOf[CitedRow](
        title,
        q.text("", lambda row: row.label),
        q.text("n", lambda row: q.format_count(row.summary.n) if row.summary else missing(row), numeric=True),
        # Without a prefix: a fork takes a thousand times what a silent call does.
        q.stat("{}", lambda row: row.summary, unit, "mean", "median", "95 %", "std. dev.", prefix=False),
        *cited(lambda row: row.original),
        note=f"{note} The interval: the median's.",
    ).of(rows)

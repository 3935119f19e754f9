"""Iterations that the original report lists one by one, and their statistics beside those measured here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean, median, stdev
from typing import NamedTuple, TypeVar

from oscope.figures.answer_text import iteration
from oscope.model.document import Table
from oscope.model.formatting import format_count
from oscope.questions.run import Point
from oscope.questions.table import Column, TableOf, cited, stat, text
from oscope.statistics import Summary

Row = TypeVar("Row")


class Cited(NamedTuple):
    """A column of the original report: iterations in cycles, and their statistics to two decimals."""

    iterations: tuple[int, ...]
    mean: float
    median: float
    deviation: float

    @classmethod
    def of(cls, *iterations: int) -> Cited:
        """Return the column of these iterations."""
        return cls(iterations, *(round(of(iterations), 2) for of in (mean, median, stdev)))


def cited_columns(of: Callable[[Row], Cited | None]) -> list[Column[Row]]:
    """Return the columns mean, median and standard deviation of what a row cites."""

    def column(name: str, field: str) -> Column[Row]:
        return cited(name, "cycles", lambda row: getattr(of(row), field, None))

    return [column("mean", "mean"), column("median", "median"), column("std. dev.", "deviation")]


class CitedRow(NamedTuple):
    """A row beside the original report: what was measured here, if it was, and what is cited, if it is."""

    name: str
    point: Point | None
    original: Cited | None

    @property
    def label(self) -> str:
        """The name with what an iteration is here."""
        if self.point is None:
            return self.name
        alone = self.point.run.experiment.workload == "process.create"
        return f"{self.name} ({'one call each' if alone else iteration(self.point.samples)})"

    @property
    def summary(self) -> Summary | None:
        """What was measured."""
        return None if self.point is None else self.point.summary


def cited_statistics(
    title: str, rows: Sequence[CitedRow], unit: str, note: str, missing: Callable[[CitedRow], str] = str
) -> Table:
    """Return mean, median and deviation, here and in the original report; `missing`: why there are none."""

    def count(row: CitedRow) -> str:
        return format_count(row.summary.n) if row.summary else missing(row)

    return TableOf[CitedRow](
        title,
        text("", lambda row: row.label),
        text("n", count, numeric=True),
        # Without a prefix: a fork takes a thousand times what a silent call does.
        stat("{}", lambda row: row.summary, unit, "mean", "median", "95 %", "std. dev.", prefix=False),
        *cited_columns(lambda row: row.original),
        note=f"{note} The interval: the median's.",
    ).of(rows)

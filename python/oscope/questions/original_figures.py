"""Figures of the report that a lab is after: read from its tables, and shown beside what is measured here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from oscope.model.document import Table
from oscope.model.formatting import MISSING, Scale
from oscope.questions.quantity import Quantity
from oscope.questions.run import Point

Column = TypeVar("Column")


@dataclass(frozen=True)
class Known:
    """A figure of the original report."""

    mean: float
    deviation: float = 0.0
    """Standard deviation of its runs; 0 where all had the same."""

    def text(self, unit: str = "", factor: float = 1.0) -> str:
        """Return `3.163 ± 0.005 µs`: mean and standard deviation times `factor`, which makes them `unit`."""
        mean, deviation = self.mean * factor, self.deviation * factor
        scale = Scale.choose([mean], [deviation], unit)
        if not deviation:
            return scale.with_unit(mean)
        return " ".join(filter(None, [f"{scale.text(mean)} ± {scale.text(deviation)}", scale.unit]))


def read_table(columns: Iterable[Column], text: str) -> Mapping[Column, Mapping[str, Known]]:
    """Read a table with a metric in each row: `mean±deviation` in each column, or - where it has none."""
    rows = [line.split() for line in text.strip().splitlines()]
    return {
        column: {
            name: Known(*map(float, cells[index].split("±"))) for name, *cells in rows if cells[index] != "-"
        }
        for index, column in enumerate(columns)
    }


Labelled = tuple[Sequence[str], Point, Mapping[str, Known]]
"""The labels of a row, its point, and the original report's figures of it."""
Derived = Mapping[str, Callable[[Point], str | None]]
"""Further columns of what was measured here, by their headings."""


def cited_table(
    title: str,
    heads: Sequence[str],
    found: Iterable[Labelled],
    quantities: Sequence[Quantity],
    note: str,
    derived: Derived,
) -> Table:
    """Return a row for each point of what was measured here, and one of the original report's if any."""
    rows = []
    for labels, point, known in found:
        here = [each.text(point.run.experiment, point.samples) for each in quantities]
        rows.append([*labels, "here", *here, *(of(point) or MISSING for of in derived.values())])
        if any(each.key in known for each in quantities):
            theirs = [known[one.key].text(one.unit) if one.key in known else MISSING for one in quantities]
            rows.append([*labels, "original report", *theirs, *(MISSING for _ in derived)])
    columns = [*heads, "measured", *(each.name for each in quantities), *derived]
    return Table(title, columns, rows, frozenset(), note)

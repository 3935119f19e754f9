"""Tables declared by their columns: each says what it shows of a row, the engine writes units and digits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from oscope.figures.tables import row_scale, shared_scale
from oscope.figures.words import median
from oscope.labs.engine.words import ratio_text
from oscope.model.document import Table
from oscope.model.formatting import MISSING, Scale, format_count, format_share
from oscope.statistics import ComparedMetric, Summary

Row = TypeVar("Row")

INTERVAL = "95 %"
PARTS: Mapping[str, Callable[[Summary, Scale], str]] = {
    "n": lambda found, _: format_count(found.n),
    "mean": lambda found, own: own.text(found.mean),
    "std. dev.": lambda found, own: own.text(found.std),
    "median": lambda found, own: own.text(found.median),
    INTERVAL: lambda found, own: own.span(found.ci95),
    "min": lambda found, own: own.text(found.minimum),
    "max": lambda found, own: own.text(found.maximum),
}
"""What a column may show of a summary."""


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column, or several that show one figure."""

    headings: tuple[str, ...]
    cells: Callable[[Row, Scale], Sequence[str]]
    numeric: bool = False
    """Whether its figures are aligned on the decimal point."""
    summary: Callable[[Row], Summary | None] | None = None
    """The figure by which the unit is chosen."""
    unit: str = ""
    scale: str = ""
    """Columns of the same scale share a unit."""
    why: Callable[[Row], str | None] | None = None
    """Why a row has no such figure: it stands in place of the figure and of all after it."""
    prefix: bool = True
    """Whether the unit may have a prefix; without one, figures of any size share it."""


def text(heading: str, of: Callable[[Row], str | None], *, numeric: bool = False) -> Column[Row]:
    """Return a column of texts; None is missing."""
    return Column((heading,), lambda row, _: [_or_missing(of(row))], numeric)


def _or_missing(found: str | None) -> str:
    return MISSING if found is None else found


def count(heading: str, of: Callable[[Row], float | None]) -> Column[Row]:
    """Return a column of whole numbers."""
    return text(heading, lambda row: None if (n := of(row)) is None else format_count(n), numeric=True)


def share(heading: str, of: Callable[[Row], float | None], spread: float | None = 0.01) -> Column[Row]:
    """Return a column of shares, as per cent with the digits that `spread` allows."""
    return text(heading, lambda row: format_share(of(row), spread))


def value(heading: str, of: Callable[[Row], Summary | None], unit: str) -> Column[Row]:
    """Return a column of medians with interval and unit in one cell."""
    return text(heading, lambda row: None if (found := of(row)) is None else median(found, unit))


def stat(
    heading: str,
    of: Callable[[Row], Summary | None],
    unit: str,
    *parts: str,
    scale: str = "",
    why: Callable[[Row], str | None] | None = None,
    prefix: bool = True,
) -> Column[Row]:
    """Return columns of a summary: median and interval, or other `parts`, all in one unit.

    With `{}` in the heading it is written once for each part; else it is the first part's, and the others
    have their own name.
    """
    chosen = parts or ("median", INTERVAL)
    named = "{}" in heading
    headings = tuple(
        heading.format(part) if named else (part if index else heading) for index, part in enumerate(chosen)
    )

    def cells(row: Row, shared: Scale) -> list[str]:
        found = of(row)
        if found is None:
            return [MISSING] * len(chosen)
        own = row_scale(shared, found)
        return [PARTS[part](found, own) for part in chosen]

    named_headings = tuple(f"{each}{{unit}}" for each in headings)
    return Column(named_headings, cells, True, of, unit, scale or unit, why, prefix)


def in_unit(heading: str, of: Callable[[Row], tuple[float, float | None] | None], scale: str) -> Column[Row]:
    """Return a column of figures in the unit of `scale`, each with what decides its digits, if known."""

    def cells(row: Row, shared: Scale) -> list[str]:
        found = of(row)
        if found is None:
            return [MISSING]
        return [(shared if found[1] is None else shared.row(*found)).text(found[0])]

    return Column((f"{heading}{{unit}}",), cells, True, scale=scale)


def ratio(heading: str, of: Callable[[Row], ComparedMetric | None], *verdicts: str) -> Column[Row]:
    """Return a column of ratios with their intervals, and one for each of `different` and `matters`."""

    def cells(row: Row, _: Scale) -> list[str]:
        found = of(row)
        answers = [MISSING if found is None else str(getattr(found, name)) for name in verdicts]
        return [ratio_text(found), *answers]

    return Column((f"{heading} (95 %)", *verdicts), cells)


@dataclass(frozen=True)
class TableOf(Generic[Row]):
    """A table's title, columns and note."""

    title: str
    columns: Sequence[Column[Row]]
    note: str = ""

    def of(self, rows: Iterable[Row], **names: Any) -> Table:
        """Return the table of these rows; `names` are what title, headings and note leave open."""
        lines = list(rows)
        scales = {name: self._scale(name, lines) for name in {each.scale for each in self.columns}}
        headings: list[str] = []
        numeric: set[int] = set()
        for column in self.columns:
            numeric |= set(range(len(headings), len(headings) + len(column.headings) * column.numeric))
            unit = scales[column.scale].unit
            shown = f" [{unit}]" if unit else ""
            headings += [each.replace("{unit}", shown) for each in column.headings]
        body = [self._cells(row, scales) for row in lines]
        given = [each.format(**names) if names else each for each in (self.title, self.note, *headings)]
        return Table(given[0], given[2:], body, frozenset(numeric), given[1])

    def _cells(self, row: Row, scales: Mapping[str, Scale]) -> list[str]:
        found: list[str] = []
        for column in self.columns:
            if column.why and column.summary and column.summary(row) is None and (why := column.why(row)):
                return [*found, why]
            found += column.cells(row, scales[column.scale])
        return found

    def _scale(self, name: str, rows: Sequence[Row]) -> Scale:
        """Return the unit that the columns of a scale share."""
        own = [each for each in self.columns if each.scale == name and each.summary is not None]
        if not own or not own[0].prefix:
            return Scale(own[0].unit if own else "", 1.0, 0)
        found = [each for column in own for row in rows if column.summary and (each := column.summary(row))]
        return shared_scale(found, own[0].unit)

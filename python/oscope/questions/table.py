"""Tables declared by their columns: each says what it shows of a row; units and digits are chosen here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Generic, TypeVar, cast

from oscope.figures.answer_text import median
from oscope.figures.tables import row_scale, shared_scale, uncertainty
from oscope.model.document import Table
from oscope.model.factors import Level
from oscope.model.formatting import MISSING, Scale, format_count, format_share
from oscope.questions.quantity import Quantity
from oscope.questions.run import Point, first
from oscope.questions.section_text import Verdict, ratio_text
from oscope.statistics import ComparedMetric, Summary

_Row = TypeVar("_Row")
Of = Callable[[_Row], Summary | None] | str | Quantity
"""The summary that a column shows of a row; of a point it may be named: a metric, or another quantity."""
Number = Callable[[_Row], float | Summary | None] | str | Quantity
"""The same, or a plain figure; of a summary the median is shown."""
Digits = float | Summary | None
"""What decides the digits of a figure: its spread, or the summary whose digits it has."""

INTERVAL = "95 %"
PARTS: Mapping[str, Callable[[Summary, Scale], str]] = {
    "n": lambda found, _: format_count(found.n),
    "mean": lambda found, own: own.text(found.mean),
    "std. dev.": lambda found, own: own.text(found.std),
    "median": lambda found, own: own.text(found.median),
    # What is the same in every sample has none.
    INTERVAL: lambda found, own: MISSING if uncertainty(found) is None else own.span(found.ci95),
    "min": lambda found, own: own.text(found.minimum),
    "max": lambda found, own: own.text(found.maximum),
}
"""What a column may show of a summary."""


@dataclass(frozen=True)
class Column(Generic[_Row]):
    """A column, or several that show one figure."""

    headings: tuple[str, ...]
    cells: Callable[[_Row, Scale], Sequence[str]]
    numeric: bool = False
    """Whether its figures are aligned on the decimal point."""
    summary: Callable[[_Row], Summary | None] | None = None
    """The figure by which the unit is chosen."""
    unit: str = ""
    scale: str = ""
    """Columns of the same scale share a unit."""
    why: Callable[[_Row], str | None] | None = None
    """Why a row has no such figure: it stands in place of the figure and of all after it."""
    prefix: bool = True
    """Whether the unit may have a prefix; without one, figures of any size share it."""


def text(heading: str, of: Callable[[_Row], str | None], *, numeric: bool = False) -> Column[_Row]:
    """Return a column of texts; None is missing."""
    return Column((heading,), lambda row, _: [MISSING if (found := of(row)) is None else found], numeric)


def items(*headings: str) -> list[Column[Any]]:
    """Return a column of texts for each of the first items of a row."""
    return [text(heading, itemgetter(index)) for index, heading in enumerate(headings)]


def level(name: str, heading: str = "") -> Column[Any]:
    """Return a column of the levels of a factor, as a person writes them: of points, or of contrasts."""
    return text(heading or name, lambda row: row.level(name))


def levels(*names: str) -> list[Column[Any]]:
    """Return a column for each of these factors."""
    return [level(name) for name in names]


def at_level(heading: str, asked: Quantity, **levels: Level) -> Column[Any]:
    """Return a column of a quantity at these levels of some factors; the others are those of the row."""

    def cell(row: Any) -> str:
        experiment = row.run.experiment
        return asked.text(experiment, first(experiment, **{**row.factors, **levels}))

    return text(heading, cell)


def _read(of: Number[_Row]) -> Callable[[_Row], Any]:
    return of if callable(of) else lambda row: cast("Point", row).of(of)


def _figure(of: Number[_Row]) -> Callable[[_Row], float | None]:
    read = _read(of)
    return lambda row: found.median if isinstance(found := read(row), Summary) else found


def count(heading: str, of: Number[_Row]) -> Column[_Row]:
    """Return a column of whole numbers."""
    return written(heading, of, format_count, numeric=True)


def number(heading: str, of: Number[_Row], form: str = ".2f") -> Column[_Row]:
    """Return a column of figures in a Python format, without unit and interval."""
    return written(heading, of, lambda found: format(found, form), numeric=True)


def written(
    heading: str, of: Number[_Row], write: Callable[[float], str | None], *, numeric: bool = False
) -> Column[_Row]:
    """Return a column of figures that `write` writes; None is missing."""
    read = _figure(of)
    return text(heading, lambda row: None if (n := read(row)) is None else write(n), numeric=numeric)


def cited(
    name: str,
    unit: str,
    of: Callable[[_Row], float | str | None] | Mapping[_Row, float],
    form: str = ".2f",
) -> Column[_Row]:
    """Return a column of figures of the original report, in its own unit: numbers in a Python format.

    They may be given by row. None is missing: it has no such figure.
    """
    read = of.get if isinstance(of, Mapping) else of

    def cell(row: _Row) -> str | None:
        found = read(row)
        return found if found is None or isinstance(found, str) else format(found, form)

    shown = f" [{unit}]" if unit else ""
    return text(f"original: {name}{shown}", cell, numeric=True)


def share(heading: str, of: Number[_Row], spread: float | None = 0.01) -> Column[_Row]:
    """Return a column of shares, as per cent with the digits that `spread` allows."""
    read = _figure(of)
    return text(heading, lambda row: format_share(read(row), spread))


def value(heading: str, of: Of[_Row], unit: str) -> Column[_Row]:
    """Return a column of medians with interval and unit in one cell."""
    read: Callable[[_Row], Summary | None] = _read(of)
    return text(heading, lambda row: None if (found := read(row)) is None else median(found, unit))


def stat(
    heading: str,
    of: Of[_Row],
    unit: str,
    *parts: str,
    scale: str = "",
    why: Callable[[_Row], str | None] | None = None,
    prefix: bool = True,
) -> Column[_Row]:
    """Return columns of a summary: median and interval, or other `parts`, all in one unit.

    With `{}` in the heading it is written once for each part; else it is the first part's, and the others
    have their own name. A part `p99` is a percentile.
    """
    chosen = parts or ("median", INTERVAL)
    named = (heading, *chosen[1:]) if "{}" not in heading else tuple(map(heading.format, chosen))
    headings, read = tuple(f"{each}{{unit}}" for each in named), _read(of)

    def cells(row: _Row, shared: Scale) -> list[str]:
        found = read(row)
        if found is None:
            return [MISSING] * len(chosen)
        own = row_scale(shared, found)
        return [_part(part)(found, own) for part in chosen]

    return Column(headings, cells, True, read, unit, scale or unit, why, prefix)


def _part(name: str) -> Callable[[Summary, Scale], str]:
    """Return what writes a part; that of `p99.9` the percentile, missing where too few samples lie beyond."""
    return PARTS.get(name) or (
        lambda found, own: own.text(found.percentiles.get(float(name[1:]), (None,))[0])
    )


def in_unit(heading: str, of: Callable[[_Row], tuple[float, Digits] | None], scale: str) -> Column[_Row]:
    """Return a column of figures in the unit of `scale`, each with what decides its digits.

    That is its spread, or the summary whose digits it has; None: those of the column.
    """

    def cells(row: _Row, shared: Scale) -> list[str]:
        found = of(row)
        if found is None:
            return [MISSING]
        figure, digits = found
        if isinstance(digits, Summary):
            return [row_scale(shared, digits).text(figure)]
        return [(shared if digits is None else shared.row(figure, digits)).text(figure)]

    return Column((f"{heading}{{unit}}",), cells, True, scale=scale)


def ratio(
    heading: str, of: Callable[[_Row], ComparedMetric | Verdict | None], *verdicts: str
) -> Column[_Row]:
    """Return a column of ratios with their intervals, and one for each of `different` and `matters`."""

    def cells(row: _Row, _: Scale) -> list[str]:
        found = of(row)
        answers = [MISSING if found is None else str(getattr(found, name)) for name in verdicts]
        return [found.ratio if isinstance(found, Verdict) else ratio_text(found), *answers]

    return Column((f"{heading} (95 %)", *verdicts), cells)


class TableOf(Generic[_Row]):
    """A table's title, columns and note."""

    def __init__(self, title: str, *columns: Column[_Row], note: str = "") -> None:
        self.title = title
        self.columns = columns
        self.note = note

    def of(self, rows: Iterable[_Row], **names: Any) -> Table:
        """Return the table of these rows; `names` are what title, headings and note leave open."""
        lines = list(rows)
        scales = {name: self._scale(name, lines) for name in {each.scale for each in self.columns}}
        headings: list[str] = []
        numeric: set[int] = set()
        for column in self.columns:
            numeric |= set(range(len(headings), len(headings) + len(column.headings) * column.numeric))
            unit = scales[column.scale].unit
            shown = f" [{unit}]" if unit else ""
            headings += [each.replace("{unit}", shown).strip() for each in column.headings]
        body = [self._cells(row, scales) for row in lines]
        given = [each.format(**names) if names else each for each in (self.title, self.note, *headings)]
        return Table(given[0], given[2:], body, frozenset(numeric), given[1])

    def _cells(self, row: _Row, scales: Mapping[str, Scale]) -> list[str]:
        found: list[str] = []
        for column in self.columns:
            if column.why and column.summary and column.summary(row) is None and (why := column.why(row)):
                return [*found, why]
            found += column.cells(row, scales[column.scale])
        return found

    def _scale(self, name: str, rows: Sequence[_Row]) -> Scale:
        """Return the unit that the columns of a scale share."""
        own = [each for each in self.columns if each.scale == name and each.summary is not None]
        if not own or not own[0].prefix:
            return Scale(own[0].unit if own else "", 1.0, 0)
        found = [each for column in own for row in rows if column.summary and (each := column.summary(row))]
        return shared_scale(found, own[0].unit)

"""What a report says of which quantity: each figure of its tables and drawings with the labels beside it.

A reader tells two figures apart by what is written beside them: the words of the title and of the column, and
the levels of factors in the row, the column and the title. Where these are equal, the figures must be, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from oscope.figures.analysed import levels
from oscope.model.document import Figure, Table
from oscope.model.samples import Results
from oscope.report.build import Report

OURSELVES = {"oscope", "here", "measured", "median", "medians"}
"""Words that say no more than that the figure is one of this report."""
LINKS = {"a", "an", "and", "at", "by", "for", "from", "in", "of", "on", "over", "the", "to", "with", "evenly"}
UNIT = re.compile(r"\[([^\]]+)\]")
INTERVAL = re.compile(r"\d \([-\d]|^-?[\d\u202f.]+ to -?[\d\u202f.]+$")
NUMBER = re.compile(r"-?\d")


@dataclass(frozen=True)
class Place:
    """What is written beside a figure."""

    part: str
    """The lab or the experiment."""
    quantity: tuple[frozenset[str], frozenset[str]]
    """Words of the title, and of the column."""
    labels: frozenset[str]


@dataclass(frozen=True)
class Cell:
    """A figure of a report."""

    place: Place
    text: str
    where: str


class Words:
    """The levels that the factors of some results have, as reports write them."""

    def __init__(self, results: Results) -> None:
        self.factor_of: dict[str, str] = {}
        self.factors = {"sample", "iteration", "#"}
        for experiment in results.experiments:
            for point in experiment.points:
                self.factors.update(point.factors)
                for factor, text in levels(experiment, point.factors).items():
                    if not text.isdigit():
                        self.factor_of.setdefault(text.lower(), factor)

        longest_first = sorted(self.factor_of, key=len, reverse=True)
        self._patterns = {
            level: re.compile(rf"(?<![\w./-]){re.escape(level)}(?![\w/-]|\.\d)") for level in longest_first
        }
        self._split: dict[str, tuple[set[str], set[str]]] = {}

    def split(self, text: str) -> tuple[set[str], set[str]]:
        """Return the words of a text that are no level, and the levels in it."""
        if text not in self._split:
            rest, found = f" {text.lower()} ", set()
            for level, pattern in self._patterns.items():
                if pattern.search(rest):
                    rest = pattern.sub(" ", rest)
                    found.add(level)
            words = set(re.findall(r"[^\s,:;()]+", rest))
            self._split[text] = words - LINKS - OURSELVES, found - OURSELVES
        return self._split[text]

    def lone(self, found: set[str]) -> set[str]:
        """Return those levels that are the only one of their factor: a title that names two has neither."""
        factors = [self.factor_of[level] for level in found]
        return {level for level in found if factors.count(self.factor_of[level]) == 1}


def cells(results: Results, report: Report) -> Iterator[Cell]:
    """Yield every figure of the report of `results`."""
    words = Words(results)
    for part in report.labs:
        for section in part.sections:
            yield from _of_part(words, part.key, section.tables, section.figures)
    for view in report.experiments:
        yield from _of_part(words, view.name, view.tables, view.figures)


def _of_part(words: Words, part: str, tables: Sequence[Table], figures: Sequence[Figure]) -> Iterator[Cell]:
    for table in tables:
        yield from _of_table(words, part, table)
    for figure in figures:
        yield from _of_figure(words, part, figure)


def _place(words: Words, part: str, title: str, column: str, row: Mapping[str, str]) -> Place:
    """Put together what is written beside a figure; what the row or the column says goes before the title."""
    unit = UNIT.search(column)
    bare = UNIT.sub("", column)
    quantity, named = words.split(title)
    of_column, stated = words.split(bare)
    labels = {f"{head}: {text}" for head, text in row.items()}
    labels |= stated
    factors = {words.factor_of[level] for level in stated} | {
        words.factor_of[text.lower()] for text in row.values() if text.lower() in words.factor_of
    }
    labels |= {level for level in words.lone(named) if words.factor_of[level] not in factors}
    headings = {word for head in row for word in words.split(head)[0]}
    of_title = frozenset(quantity - headings)
    return Place(part, (of_title, frozenset(of_column | {unit[0] if unit else ""})), frozenset(labels))


def _of_table(words: Words, part: str, table: Table) -> Iterator[Cell]:
    measured = {
        index
        for index, name in enumerate(table.columns)
        if index and name not in words.factors and (index in table.numeric or UNIT.search(name))
    }
    for cells_of_row in table.rows:
        if len(cells_of_row) < len(table.columns):
            continue
        figures = {
            index: text
            for index, text in enumerate(cells_of_row)
            if NUMBER.search(text) and (index in measured or INTERVAL.search(text))
        }
        row = {
            table.columns[index]: text
            for index, text in enumerate(cells_of_row)
            if index not in figures and index not in measured
        }
        before = ""
        for index, text in figures.items():
            heading = table.columns[index]
            # An interval stands beside the figure that it is of.
            column = f"{before} {heading}" if heading.startswith("95 %") else heading
            before = before if heading.startswith("95 %") else heading
            place = _place(words, part, table.title, column, row)
            yield Cell(place, text, f"table “{table.title}”, {heading}, {' · '.join(row.values())}")


def _of_figure(words: Words, part: str, figure: Figure) -> Iterator[Cell]:
    x, y = figure.layout["xaxis"], figure.layout["yaxis"]
    for trace in figure.traces:
        if trace["meta"].get("role", "series") not in ("series", "estimate") or trace.get("mode") == "lines":
            continue
        upright = y.get("type") == "category" or "error_x" in trace or trace["meta"].get("role") == "estimate"
        axis, values, places = (x, trace["x"], trace["y"]) if upright else (y, trace["y"], trace["x"])
        names = trace.get("text") if upright and "text" in trace else [_tick(x, each) for each in places]
        for name, value in zip(names or [], values, strict=True):
            series = str(trace.get("name", ""))
            row = {"at": str(name), "series": series}
            place = _place(words, part, figure.title, axis["title"]["text"], row)
            yield Cell(place, str(value), f"figure “{figure.title}”, {series}, {name}")


def _tick(axis: Mapping[str, object], value: object) -> str:
    """Return what is written at a place of an axis."""
    ticks = axis.get("tickvals")
    if isinstance(ticks, list) and value in ticks:
        texts = axis["ticktext"]
        assert isinstance(texts, list)
        return str(texts[ticks.index(value)])
    return str(value)


def contradictions(results: Results, report: Report) -> list[str]:
    """Return a line for each pair of figures that stand under equal labels and differ."""
    seen: dict[tuple[bool, Place], Cell] = {}
    found = []
    for cell in cells(results, report):
        first = seen.setdefault((cell.where.startswith("table"), cell.place), cell)
        if first.text != cell.text:
            found.append(f"{cell.place.part}: {first.where} is {first.text}; {cell.where} is {cell.text}")
    return found

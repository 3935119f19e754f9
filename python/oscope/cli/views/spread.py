"""The runs of each command on one axis, drawn with characters: where most of them lie, and the median."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

import numpy as np

from oscope.figures.analysed import measured
from oscope.model.formatting import format_value
from oscope.programs.findings import Findings, ProgramRow

MOST_ROWS = 4
"""With the axis and the legend these are six lines."""
WIDEST = 100
LONGEST_NAME = 24
NARROWEST = 20
"""Columns of the axis below which nothing is drawn."""
LOGARITHMIC = 10.0
"""From this ratio of its ends on, the axis is logarithmic."""
_GAP = "  "
_ENDS = (5, 95)


@dataclass(frozen=True)
class Marks:
    """The characters of a drawing."""

    median: str = "●"
    interval: str = "━"
    runs: str = "─"


ASCII = Marks("o", "=", "-")


@dataclass(frozen=True)
class Spread:
    """What is drawn of a command, in the metric's unit."""

    name: str
    low: float
    high: float
    """Percentiles 5 and 95 of its runs."""
    median: float
    interval: tuple[float, float]
    """The 95 % confidence interval of the median; the median twice where there is none."""

    @classmethod
    def of(cls, row: ProgramRow, metric: str) -> Spread | None:
        """Return what is drawn of a row; None where no run counts."""
        values = measured(row.point, metric)[0]
        if row.summary is None or not len(values):
            return None
        low, high = (float(end) for end in np.percentile(values, _ENDS))
        median = row.summary.median
        return cls(
            row.name, min(low, median), max(high, median), median, row.summary.ci95 or (median, median)
        )

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest of what is drawn."""
        return min(self.low, self.interval[0]), max(self.high, self.interval[1])


@dataclass(frozen=True)
class Axis:
    """From `low` to `high` over `width` columns; logarithmic where they are far apart."""

    low: float
    high: float
    width: int

    @property
    def is_logarithmic(self) -> bool:
        """Whether equal ratios are equally wide."""
        return self.low > 0 and self.high / self.low > LOGARITHMIC

    def column(self, value: float) -> int:
        """Return where a value stands."""
        place, low, high = (
            (log10(each) for each in (value, self.low, self.high))
            if self.is_logarithmic
            else (value, self.low, self.high)
        )
        return round((place - low) / (high - low) * (self.width - 1)) if high > low else self.width // 2


def draw(findings: Findings, width: int, marks: Marks) -> list[str]:
    """Return the lines of the figure, none wider than `width`; no line where there is no room."""
    found = [spread for row in findings.rows if (spread := Spread.of(row, findings.metric)) is not None]
    shown = found[:MOST_ROWS]
    if not shown:
        return []
    names = [_cut(spread.name) for spread in shown]
    room = min(width, WIDEST) - max(map(len, names)) - len(_GAP)
    axis = Axis(min(s.ends[0] for s in shown), max(s.ends[1] for s in shown), room)
    if room < NARROWEST or axis.high <= axis.low:
        return []
    blank = " " * max(map(len, names)) + _GAP
    lines = [blank + _labels(axis, findings.experiment.metrics[findings.metric].shown_unit)]
    for name, spread in zip(names, shown, strict=True):
        lines.append(name.ljust(len(blank)) + _row(spread, axis, marks))
    more = f"; {len(found) - len(shown)} more are in the table" if len(found) > len(shown) else ""
    scale = ", logarithmic axis" if axis.is_logarithmic else ""
    key = f"{marks.median} median, {marks.interval} its 95 % interval, {marks.runs} 90 % of the runs"
    legend = f"{key}{scale}{more}"
    return [line.rstrip() for line in (*lines, *([legend] if len(legend) <= width else []))]


def _labels(axis: Axis, unit: str) -> str:
    step = (axis.high - axis.low) / 20
    low, high = (format_value(end, step, unit) for end in (axis.low, axis.high))
    return low + high.rjust(axis.width - len(low)) if len(low) + len(high) < axis.width else low


def _row(spread: Spread, axis: Axis, marks: Marks) -> str:
    cells = [" "] * axis.width
    for (low, high), mark in (((spread.low, spread.high), marks.runs), (spread.interval, marks.interval)):
        first, last = axis.column(low), axis.column(high)
        cells[first : last + 1] = mark * (last + 1 - first)
    cells[axis.column(spread.median)] = marks.median
    return "".join(cells)


def _cut(name: str) -> str:
    """Return a name in the room that the figure has for it: its end differs more often."""
    return name if len(name) <= LONGEST_NAME else f"{name[:9]}…{name[len(name) - LONGEST_NAME + 10 :]}"


def lines_for(findings: Findings, width: int, encoding: str) -> Sequence[str]:
    """Return the figure for a terminal of this width that takes this encoding."""
    marks = Marks() if encoding.lower().startswith("utf") else ASCII
    lines = draw(findings, width, marks)
    return lines if marks is not ASCII else [line.replace("…", "~") for line in lines]

"""Figures declared by what they show: points with their samples, medians, ratios, and lines over a factor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from oscope.figures import experiments, plots
from oscope.figures.tables import shared_scale
from oscope.model.document import Figure
from oscope.model.formatting import Scale
from oscope.model.samples import Floats, Ints
from oscope.questions.run import Point, Run
from oscope.statistics import ComparedMetric, Summary, summarise

INTERVALS = "Medians with their 95 % intervals."
STRIPS = "Faint: single repetitions. Diamond: median with its 95 % interval."
RATIOS = "Ratios with their 95 % intervals; 1 is no change."

Drawn = Summary | ComparedMetric
"""What a dot shows: a median or a ratio, with its interval."""


def dot(name: str, shown: Drawn, factor: float = 1.0) -> plots.Dot:
    """Return a median, in units of `factor`, or a ratio, with its interval where it has one."""
    if isinstance(shown, Summary):
        ends = shown.ci95
        return plots.Dot(name, shown.median / factor, interval(ends, factor))
    known = all(isfinite(end) for end in shown.ci95)
    return plots.Dot(name, shown.ratio, shown.ci95 if known else None)


def samples_dot(point: Point, scale: Scale, name: str, colour: int = 0) -> plots.Dot:
    """Return the median of a point with its interval and the samples behind it, in the unit of `scale`."""
    asked = (point.samples, point.metric)
    return experiments.dot(point.run.results, point.run.experiment, asked, scale, name=name, colour=colour)


def median_lines(
    series: Mapping[str, Sequence[tuple[float, Drawn]]], factor: float = 1.0
) -> list[plots.Line]:
    """Return a line of medians, in units of `factor`, or of ratios, for each series, each in a colour."""
    return [
        plots.Line(name, [(place, dot(name, each, factor)) for place, each in row], colour)
        for colour, (name, row) in enumerate(series.items())
    ]


def with_expected(
    series: Mapping[tuple[str, str], Sequence[tuple[float, str, Drawn, float]]], factor: float
) -> list[plots.Line]:
    """Return a line of medians for each series, and, dashed in its colour, what is expected of them.

    A series has two names, for both lines; each of its dots a place, a name, and both figures, in units of
    `factor`. An infinite one is not known, and a single one makes no line.
    """
    lines = []
    for colour, ((name, expected), row) in enumerate(series.items()):
        dots = [(place, dot(text, shown, factor)) for place, text, shown, _ in row]
        known = [(place, plots.Dot(expected, end / factor)) for place, *_, end in row if isfinite(end)]
        lines.append(plots.Line(name, dots, colour))
        lines += [plots.Line(expected, known, colour, "dash")] if len(known) > 1 else []
    return lines


def interval(ends: tuple[float, float] | None, factor: float) -> tuple[float, float] | None:
    """Return an interval in units of `factor`."""
    return None if ends is None else (ends[0] / factor, ends[1] / factor)


def strips(
    title: str,
    what: str,
    rows: Iterable[tuple[str, Point | None]],
    colour: Callable[[Point], int] = lambda _: 0,
    note: str = STRIPS,
) -> Figure:
    """Draw each point as a row by its name: its samples, and their median with its interval."""
    named = [(name, point) for name, point in rows if point is not None]
    scale = shared_scale([point.summary for _, point in named], named[0][1].unit if named else "")
    drawn = [samples_dot(point, scale, name, colour(point)) for name, point in named]
    return plots.strips(title, f"{what} [{scale.unit}]" if what else scale.unit, drawn, note)


def sample_strips(title: str, what: str, rows: Iterable[tuple[str, Floats, Ints]]) -> Figure:
    """Draw groups of samples, each with its name and its blocks, as rows: the samples and their median."""
    found = ((name, values, summarise(values, blocks)) for name, values, blocks in rows)
    drawn = [plots.Dot(name, each.median, each.ci95, values) for name, values, each in found]
    return plots.strips(title, what, drawn, "Faint: single samples. Diamond: median with its 95 % interval.")


def strips_by(
    title: str, what: str, factor: str, name: Callable[[Point], str], note: str = STRIPS
) -> Callable[[Run, Sequence[Point]], Figure]:
    """Return what draws the points as such rows, each level of a factor in a colour of its own."""

    def draw(_: Run, found: Sequence[Point]) -> Figure:
        return strips(title, what, ((name(each), each) for each in found), by_level(found, factor), note)

    return draw


def by_level(points: Sequence[Point], factor: str) -> Callable[[Point], int]:
    """Return a colour for each level of a factor, in the order of the points."""
    order = list(dict.fromkeys(each.samples.factors.get(factor) for each in points))
    return lambda point: order.index(point.samples.factors.get(factor))


def dots(
    title: str, what: str, rows: Iterable[tuple[str, str, Drawn]], unit: str = "", note: str = INTERVALS
) -> Figure:
    """Draw medians or ratios, each in the colour of its series (first) and the row of its name (second)."""
    kept = [row for row in rows if isinstance(row[2], Summary) or isfinite(row[2].ratio)]
    scale = shared_scale([each for *_, each in kept if isinstance(each, Summary)], unit)
    series: dict[str, list[plots.Dot]] = {}
    for name, row, each in kept:
        series.setdefault(name, []).append(dot(row, each, scale.factor))
    return plots.dots(title, f"{what} [{scale.unit}]" if unit else what, series, note)


def bars(
    title: str,
    axis: dict[str, Any],
    rows: Iterable[tuple[str, str, Summary | float | None]],
    note: str = "Bars: medians; whiskers: 95 % intervals.",
    factor: float = 1.0,
    cited: Sequence[str] = (),
) -> Figure:
    """Draw medians or plain numbers, each in the colour of its series (first) at its category (second).

    They are in units of `factor`; None is a gap, and a series of gaps is left out. Series that are `cited`
    are the original report's. A category that a series has twice stands there twice.
    """
    series: dict[str, dict[tuple[str, int], Summary | float | None]] = {}
    for name, category, value in rows:
        own = series.setdefault(name, {})
        own[category, sum(category == other for other, _ in own)] = value
    places = list(dict.fromkeys(place for own in series.values() for place in own))
    drawn = []
    for name, own in series.items():
        row = [own.get(place) for place in places]
        values = [each.median if isinstance(each, Summary) else each for each in row]
        ends = [each.ci95 if isinstance(each, Summary) else None for each in row]
        intervals = [interval(each, factor) for each in ends] if any(ends) else ()
        shown = [None if each is None else each / factor for each in values]
        if any(each is not None for each in shown):
            role = "reference" if name in cited else "series"
            drawn.append(plots.Bars(name, shown, intervals, role))
    return plots.bars(title, axis, [category for category, _ in places], drawn, note)


def stacked_medians(
    title: str, what: str, rows: Iterable[tuple[str, str, Summary | None]], unit: str, note: str
) -> Figure:
    """Draw medians of parts (first) on top of each other, for each category (second)."""
    found = list(rows)
    scale = shared_scale([each for *_, each in found if each is not None], unit)
    medians = ((name, category, each and each.median) for name, category, each in found)
    axis = plots.axis(f"{what} [{scale.unit}]", rangemode="tozero")
    return plots.stacked(bars(title, axis, medians, note, scale.factor))


def logarithmic(figure: Figure, axis: str = "xaxis") -> Figure:
    """Return the figure with an axis by powers."""
    title = figure.layout[axis]["title"]["text"]
    return replace(figure, layout={**figure.layout, axis: plots.axis(title, scale="log")})

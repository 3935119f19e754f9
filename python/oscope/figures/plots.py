"""The figures of reports, of two kinds of traces only, `scatter` and `bar`, which two renderers can draw.

A trace says what it is in `meta`: `role` is `series` (the default), `samples` (faint single samples),
`estimate` (a figure with its interval), `reference` (a document's own figure) or `mark` (a vertical line);
`colour` is an index into the theme's palette, so that what belongs together looks alike; `symbol` is Plotly's
name of a marker that is no circle. The mode of a `scatter` may be `text` too: words at places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from oscope.model.document import Figure
from oscope.model.samples import Floats

SHOWN_SAMPLES = 3000
"""A figure shows at most this many samples; more look the same and make a page slow."""
WIDE_RATIO = 30.0
"""A range wider than this is drawn on a logarithmic axis."""
OUTER_SHARE = 0.01
"""Share of each point's samples, on each side, that may lie outside the axis."""
ROW_HEIGHT = 34
LARGEST_COUNT = 1e9
"""Whole numbers below it are not rounded."""
GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Dot:
    """A figure with its interval, and the samples behind it. All in one unit."""

    name: str
    value: float
    interval: tuple[float, float] | None = None
    samples: Floats = field(default_factory=lambda: np.zeros(0))
    colour: int = 0


def axis(title: str, *, scale: str = "linear", **more: Any) -> dict[str, Any]:
    """Return an axis; `scale` is `linear`, `log` or `category`."""
    return {"title": {"text": title}, "type": scale, **more}


def strips(title: str, axis_title: str, dots: Sequence[Dot], note: str = "") -> Figure:
    """Each point as a row: its samples, its median and the 95 % interval of the median."""
    low, high = _window(dots)
    shown = max(50, SHOWN_SAMPLES // max(1, len(dots)))
    traces: list[dict[str, Any]] = []
    outside = 0
    for row, dot in enumerate(dots):
        inside = dot.samples[(dot.samples >= low) & (dot.samples <= high)]
        outside += len(dot.samples) - len(inside)
        traces.append(_cloud(thin(inside, shown), row, dot))
    traces.append(_estimates(dots))
    layout = {
        "xaxis": axis(axis_title, **_extent(low, high)),
        "yaxis": axis("", showgrid=False, **_rows([dot.name for dot in dots])),
        "height": 110 + ROW_HEIGHT * len(dots),
        "showlegend": False,
    }
    return Figure(
        title,
        traces,
        layout,
        " ".join(filter(None, [note, _outside_text(outside, sum(len(d.samples) for d in dots))])),
    )


def _cloud(samples: Floats, row: int, dot: Dot) -> dict[str, Any]:
    """Return the samples of a row, spread over its height by the golden ratio: evenly, always the same."""
    height = row + 0.56 * ((np.arange(len(samples)) * GOLDEN) % 1 - 0.5)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": dot.name,
        "x": significant(samples),
        "y": np.round(height, 3).tolist(),
        "hoverinfo": "x",
        "meta": {"role": "samples", "colour": dot.colour},
    }


def _estimates(dots: Sequence[Dot]) -> dict[str, Any]:
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "name": "median, 95 % interval",
        "x": significant(dot.value for dot in dots),
        "y": list(range(len(dots))),
        "text": [dot.name for dot in dots],
        "hovertemplate": "%{text}: %{x}<extra>median</extra>",
        "meta": {"role": "estimate", "colours": [dot.colour for dot in dots]},
    }
    return trace | {"error_x": error_bars([dot.value for dot in dots], [dot.interval for dot in dots])}


def error_bars(values: Sequence[float], intervals: Sequence[tuple[float, float] | None]) -> dict[str, Any]:
    """Return error bars from values to the ends of their intervals; none where there is no interval."""
    pairs = [(interval or (value, value)) for value, interval in zip(values, intervals, strict=True)]
    return {
        "type": "data",
        "symmetric": False,
        "array": significant(max(0.0, high - value) for value, (_, high) in zip(values, pairs, strict=True)),
        "arrayminus": significant(
            max(0.0, value - low) for value, (low, _) in zip(values, pairs, strict=True)
        ),
    }


def dots(title: str, axis_title: str, series: Mapping[str, Sequence[Dot]], note: str = "") -> Figure:
    """Medians with intervals, a row for each name and a colour for each series: to compare few levels.

    The series of a row are drawn below each other, or equal ones would hide each other.
    """
    every = [dot for row in series.values() for dot in row]
    values = [end for dot in every for end in (dot.interval or (dot.value, dot.value))]
    names = list(dict.fromkeys(dot.name for dot in every))
    together = {
        name: [key for key, row in series.items() if name in {dot.name for dot in row}] for name in names
    }

    def height(name: str, key: str) -> float:
        beside = together[name]
        step = min(0.26, 0.6 / len(beside))
        return round(names.index(name) + (beside.index(key) - (len(beside) - 1) / 2) * step, 3)

    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": significant(dot.value for dot in row),
            "y": [height(dot.name, name) for dot in row],
            "text": [dot.name for dot in row],
            "hovertemplate": "%{text}: %{x}<extra>" + name + "</extra>",
            "error_x": error_bars([dot.value for dot in row], [dot.interval for dot in row]),
            "meta": {"role": "series", "colour": place},
        }
        for place, (name, row) in enumerate(series.items())
    ]
    layout = {
        "xaxis": axis(axis_title, **_extent(min(values, default=0.0), max(values, default=1.0))),
        "yaxis": axis("", **_rows(names)),
        "height": 130 + ROW_HEIGHT * len(names),
        "showlegend": len(traces) > 1,
    }
    return Figure(title, traces, layout, note)


def _rows(names: Sequence[str]) -> dict[str, Any]:
    """Return what an axis needs to name the rows at 0, 1, …, the first of them on top."""
    return {
        "tickvals": list(range(len(names))),
        "ticktext": list(names),
        "range": [len(names) - 0.4, -0.6],
        "zeroline": False,
    }


@dataclass(frozen=True)
class Line:
    """Figures over a numeric factor, ascending."""

    name: str
    points: Sequence[tuple[float, Dot]]
    colour: int = 0
    dash: str = "solid"
    """`solid`, `dash` or `dot`."""


def lines(
    title: str, axes: tuple[dict[str, Any], dict[str, Any]], series: Sequence[Line], note: str = ""
) -> Figure:
    """Medians with intervals over a numeric factor."""
    traces = []
    for line in series:
        every = [dot for _, dot in line.points]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": line.name,
                "x": [x for x, _ in line.points],
                "y": significant(dot.value for dot in every),
                "error_y": error_bars([dot.value for dot in every], [dot.interval for dot in every]),
                "line": {"dash": line.dash},
                "meta": {"role": "series", "colour": line.colour},
            }
        )
    layout = {"xaxis": axes[0], "yaxis": axes[1], "height": 420, "showlegend": len(traces) > 1}
    return Figure(title, traces, layout, note)


@dataclass(frozen=True)
class Bars:
    """A series of bars over the same categories."""

    name: str
    values: Sequence[float | None]
    intervals: Sequence[tuple[float, float] | None] = ()
    role: str = "series"
    colour: int | None = None
    """None: by the place of the series."""


def bars(
    title: str,
    value_axis: dict[str, Any],
    categories: Sequence[str],
    series: Sequence[Bars],
    note: str = "",
) -> Figure:
    """Draw horizontal bars, the series side by side."""
    traces = []
    for colour, one in enumerate(series):
        trace: dict[str, Any] = {
            "type": "bar",
            "orientation": "h",
            "name": one.name,
            "x": [None if value is None else significant([value])[0] for value in one.values],
            "y": list(categories),
            "meta": {"role": one.role, "colour": colour if one.colour is None else one.colour},
        }
        if one.intervals:
            trace["error_x"] = error_bars([value or 0.0 for value in one.values], one.intervals)
        traces.append(trace)
    layout = {
        "xaxis": value_axis,
        "yaxis": axis("", scale="category", autorange="reversed", showgrid=False),
        "barmode": "group",
        "height": 130 + 26 * len(categories) * len(series),
        "showlegend": len(series) > 1,
    }
    return Figure(title, traces, layout, note)


def stacked(figure: Figure) -> Figure:
    """Return a figure of bars with the series of a category end to end, what is below zero to its left."""
    rows = len(figure.traces[0]["y"]) if figure.traces else 0
    return replace(figure, layout={**figure.layout, "barmode": "relative", "height": 130 + 36 * rows})


def with_estimates(
    figure: Figure, name: str, values: Sequence[float], intervals: Sequence[tuple[float, float] | None]
) -> Figure:
    """Return a figure of bars with a value and its interval in each category, to hold them against."""
    trace = {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": significant(values),
        "y": list(figure.traces[0]["y"]),
        "error_x": error_bars(values, intervals),
        "meta": {"role": "estimate"},
    }
    return replace(figure, traces=[*figure.traces, trace])


def distribution(
    title: str,
    axis_title: str,
    series: Mapping[str, Floats],
    *,
    marks: Sequence[tuple[str, float]] = (),
    note: str = "",
) -> Figure:
    """Draw the share of samples at or below each value (ECDF), with vertical marks such as modes."""
    dots = [
        Dot(name, float(np.median(values)), None, values, colour)
        for colour, (name, values) in enumerate(series.items())
    ]
    low, high = _window(dots)
    outside = sum(int(((dot.samples < low) | (dot.samples > high)).sum()) for dot in dots)
    each = SHOWN_SAMPLES // max(1, 2 * len(dots))
    traces: list[dict[str, Any]] = [_steps(dot, each) for dot in dots]
    traces += [_mark(name, value) for name, value in marks]
    layout = {
        "xaxis": axis(axis_title, **_extent(low, high)),
        "yaxis": axis("samples at or below [%]", range=[0, 101]),
        "height": 380,
        "showlegend": True,
    }
    return Figure(
        title,
        traces,
        layout,
        " ".join(filter(None, [note, _outside_text(outside, sum(len(d.samples) for d in dots))])),
    )


def _steps(dot: Dot, most: int) -> dict[str, Any]:
    values = np.sort(dot.samples)
    ranks = np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).astype(int))
    return {
        "type": "scatter",
        "mode": "lines",
        "name": dot.name,
        "x": significant(values[ranks]),
        "y": np.round((ranks + 1) / len(values) * 100, 3).tolist(),
        "line": {"shape": "hv"},
        "meta": {"role": "series", "colour": dot.colour},
    }


def _mark(name: str, value: float) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": significant([value, value]),
        "y": [0, 100],
        "hoverinfo": "name",
        "meta": {"role": "mark"},
    }


def thin(samples: Floats, most: int) -> Floats:
    """Return at most `most` of `samples`, evenly by rank, the least and the greatest among them."""
    ordered: Floats = np.sort(samples)
    if len(ordered) <= most:
        return ordered
    kept: Floats = ordered[np.linspace(0, len(ordered) - 1, most).astype(int)]
    return kept


def significant(values: Any) -> list[float]:
    """Return values with the five digits that a figure can show; whole ones as they are, since they count."""
    return [_shown(float(value)) for value in values]


def _shown(value: float) -> float:
    return value if value.is_integer() and abs(value) < LARGEST_COUNT else float(f"{value:.5g}")


def _window(dots: Sequence[Dot]) -> tuple[float, float]:
    """Return the extent of an axis that shows all but the outermost samples, and all estimates."""
    filled = [dot for dot in dots if len(dot.samples)]
    if not filled:
        return 0.0, 1.0
    edges = [np.quantile(dot.samples, [OUTER_SHARE, 1 - OUTER_SHARE]) for dot in filled]
    ends = [end for dot in filled for end in (dot.interval or (dot.value, dot.value))]
    low = min(min(float(edge[0]) for edge in edges), *ends)
    high = max(max(float(edge[1]) for edge in edges), *ends)
    least, most = (
        min(float(dot.samples.min()) for dot in filled),
        max(float(dot.samples.max()) for dot in filled),
    )
    span = high - low
    # An axis that would have to grow by little shows everything.
    return (least if low - least <= 0.3 * span else low), (most if most - high <= 0.3 * span else high)


def _extent(low: float, high: float) -> dict[str, Any]:
    """Return type and range of an axis from `low` to `high`."""
    if low > 0 and high / low > WIDE_RATIO:
        start, end = np.log10(low), np.log10(high)
        pad = 0.04 * (end - start)
        return {"scale": "log", "range": significant([start - pad, end + pad])}
    pad = 0.04 * (high - low) or abs(high) * 0.05 or 1.0
    return {"scale": "linear", "range": significant([low - pad, high + pad])}


def _outside_text(outside: int, samples: int) -> str:
    return (
        f"{outside} of {samples} samples lie outside the axis; the tables and the data hold them."
        if outside
        else ""
    )

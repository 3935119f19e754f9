"""The history of an experiment as a figure: each point's median over the runs, beside its first one."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import datetime

import numpy as np

from oscope.analysis.run_history import Line, Series
from oscope.figures.plots import Dot, axis, lines
from oscope.figures.plots import Line as Drawn
from oscope.model.document import Figure, Section
from oscope.model.samples import ExperimentResults
from oscope.report import page, theme
from oscope.report.build import LabPart, Report
from oscope.report.figures import DOTS_PER_INCH, draw

MOST_TICKS = 5
NOTHING = np.zeros(0)
_DASHES = ("solid", "dash", "dot")
"""Series beyond the colours repeat them, dashed."""
_ROOM = 0.3
"""Part of the way between two runs over which the series of one run are spread: intervals stay apart."""


def encode(experiment: str, found: Sequence[Line], changes: Sequence[str], form: str) -> bytes:
    """Return the history as a PNG (`form` .png), or as an HTML page without links that has the `changes`."""
    drawn = figure(experiment, found)
    if form == ".png":
        target = io.BytesIO()
        draw(drawn).savefig(target, format="png", dpi=DOTS_PER_INCH)
        return target.getvalue()
    headline = changes[0] if changes else "No change was found."
    section = Section(f"{experiment} over its runs", headline, text=changes[1:], figures=(drawn,))
    part = LabPart("history", f"History of {experiment}", "", (section,))
    report = Report(f"History of {experiment}", headline, (), (part,), (), (), ())
    return page.render(report).encode()


def figure(experiment: str, found: Sequence[Line]) -> Figure:
    """Return the figure: medians with their 95 % intervals over the runs of all lines, in order of time."""
    runs = in_order(found)
    place = {run.run_id: number for number, run in enumerate(runs, 1)}
    metrics = list(dict.fromkeys(series.metric.name for line in found for series in line.series))
    every = [
        _drawn(line, series, place, several=len(found) > 1, metrics=len(metrics))
        for line in found
        for series in line.series
    ]
    # A point of one run has no history, and hides those which have.
    drawn = [(name, points) for name, points in every if len(points) > 1] or every
    shown = np.unique(np.linspace(0, len(runs) - 1, min(MOST_TICKS, len(runs))).astype(int))
    across = axis(
        "run",
        tickvals=[int(index) + 1 for index in shown],
        ticktext=_dates([runs[index].started for index in shown]),
    )
    # What has to be seen is how medians move, not how wide the widest interval is.
    heights = [dot.value for _, points in drawn for _, dot in points]
    margin = max(float(np.ptp(heights)) / 2, 0.02)
    name = metrics[0] if len(metrics) == 1 else "median"
    begins_with_0 = any(points[0][1].value == 0 for _, points in drawn if points)
    base = "the first that is not 0" if begins_with_0 else "that of the first run"
    up = axis(f"{name} / {base}", range=[min(heights) - margin, max(heights) + margin])
    series = [
        Drawn(
            name,
            _beside(points, index, len(drawn)),
            index,
            _DASHES[index // len(theme.SERIES["light"]) % len(_DASHES)],
        )
        for index, (name, points) in enumerate(drawn)
    ]
    return lines(
        f"{experiment} over its runs", (across, up), series, "Intervals may reach beyond the figure."
    )


def _beside(points: Sequence[tuple[float, Dot]], index: int, count: int) -> list[tuple[float, Dot]]:
    """Return the points of the series `index` of `count`, a little beside those of the others."""
    aside = _ROOM * (index / (count - 1) - 0.5) if count > 1 else 0.0
    return [(place + aside, dot) for place, dot in points]


def in_order(found: Sequence[Line]) -> list[ExperimentResults]:
    """Return the runs of all lines in order of time; those of one second in the order of their line."""
    return sorted((run for line in found for run in line.runs), key=lambda run: run.started)


def _dates(started: Sequence[str]) -> list[str]:
    """Return the local day of each ISO 8601 time, and the time of day where two days are equal.

    Lines are short, so that labels stand beside each other on a telephone.
    """
    times = [datetime.fromisoformat(each).astimezone() for each in started]
    several = len({time.date() for time in times}) < len(times)
    return [time.strftime("%-d %b<br>%Y<br>%H:%M" if several else "%-d %b<br>%Y") for time in times]


def _drawn(
    line: Line, series: Series, place: dict[str, int], *, several: bool, metrics: int
) -> tuple[str, list[tuple[float, Dot]]]:
    parts = [str(level) for level in series.factors.values()]
    levels = " · ".join(parts if parts and metrics == 1 else [*parts, series.metric.name])
    name = f"{levels} ({line.runs[0].environment.get('machine')})" if several else levels
    # Nothing can be drawn over a count of 0.
    first = next((value.median for value in series.values if np.isfinite(value.median) and value.median), 1.0)
    points = []
    for run, value in zip(line.runs, series.values, strict=True):
        if np.isfinite(value.median):
            low, high = value.ci95 or (value.median, value.median)
            dot = Dot(run.run_id, value.median / first, (low / first, high / first), NOTHING)
            points.append((float(place[run.run_id]), dot))
    return name, points

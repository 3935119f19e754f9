"""How the times of single calls and of fork are distributed: percentiles, modes, tail."""

from __future__ import annotations

from collections.abc import Sequence

from oscope.figures import plots
from oscope.figures.analysed import Analysed, measured
from oscope.figures.tables import row_scale, shared_scale
from oscope.figures.words import counted
from oscope.labs.engine.run import Point, Run
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import Scale, format_count, format_share, format_value
from oscope.statistics import Summary
from oscope.statistics.shape import FEWEST_FOR_MODES

PERCENTS = (1.0, 25.0, 75.0, 95.0, 99.0, 99.9)
NAMES = {"child_ns": "fork, child runs", "parent_ns": "fork, parent returns"}

Series = Sequence[tuple[str, Point]]


def section(results: Analysed) -> Section | None:
    """Show how single calls and fork are distributed."""
    cost, create = Run.of(results, "syscall.cost"), Run.of(results, "process.create")
    calls = [(each.level("call"), each) for each in cost.points("time_ns", style="single")] if cost else []
    fork = [
        (name, point)
        for metric, name in NAMES.items()
        for point in (create.points(metric, how="fork", resident=0)[:1] if create else ())
    ]
    every = [*calls, *fork]
    if not every:
        return None
    judged = [(name, point.summary) for name, point in every if point.summary.n >= FEWEST_FOR_MODES]
    drawn = [("single calls", calls), ("fork", fork)]
    return Section(
        title="How the times are spread",
        answer=_headline(judged),
        text=_step(every),
        figures=[_figure(name, series) for name, series in drawn if series],
        tables=[_table(every)],
    )


def _headline(judged: Sequence[tuple[str, Summary]]) -> str:
    """Say which tail is the heaviest, by the highest percentile that all distributions have."""
    if not judged:
        return f"Too few samples to say how the times are spread: {FEWEST_FOR_MODES} of a point are needed."
    for percent, rare in ((99.0, "one sample in a hundred"), (95.0, "one sample in twenty")):
        if not all(percent in summary.percentiles and summary.median > 0 for _, summary in judged):
            continue
        name, summary = max(judged, key=lambda each: each[1].percentiles[percent][0] / each[1].median)
        most, low, high = (figure / summary.median for figure in summary.percentiles[percent])
        subject = f"The heaviest tail is that of “{name}”" if len(judged) > 1 else f"“{name}” has a tail"
        # Not rounded by so lopsided an interval: that would leave a bare 1.
        return f"{subject}: {rare} takes {most:.3g} times [{low:.3g}, {high:.3g}] the median or more."
    several = sum(len(summary.modes) > 1 for _, summary in judged)
    return f"{several} of {counted(len(judged), 'distribution')} have more than one mode."


def _step(series: Series) -> list[str]:
    """Say how large the clock's step is where single calls show it."""
    step = max(point.summary.resolution for _, point in series)
    if not any(point.summary.resolution > 0.01 * point.summary.median for _, point in series):
        return []
    return [
        (
            f"The clock advances in steps of {format_value(step, step / 10, 'ns')} here, so single calls "
            "fall on few values; peaks no more than two steps apart are not counted as modes."
        )
    ]


def _figure(what: str, series: Series) -> Figure:
    scale = shared_scale([point.summary for _, point in series], "ns")
    values = {name: measured(each.samples, each.metric)[0] / scale.factor for name, each in series}
    marks = [
        (f"{name}: mode, {format_share(mode.share, 0.01)}", mode.location / scale.factor)
        for name, point in series
        if len(point.summary.modes) > 1
        for mode in point.summary.modes
    ]
    note = "A steep rise is a mode; a long flat end is the tail." + (
        " Dotted: the modes of distributions that have several." if marks else ""
    )
    return plots.distribution(
        f"Distribution of the time of {what}", f"time [{scale.unit}]", values, marks=marks, note=note
    )


def _table(series: Series) -> Table:
    scale = shared_scale([point.summary for _, point in series], "ns")
    known = {percent for percent in PERCENTS if any(percent in p.summary.percentiles for _, p in series)}
    percents = sorted({*known, 50.0})
    rows = []
    for name, point in series:
        found, text = point.summary, row_scale(scale, point.summary).text
        values = {percent: figures[0] for percent, figures in found.percentiles.items()} | {
            50.0: found.median
        }
        given = [text(each) for each in (found.minimum, *map(values.get, percents), found.maximum)]
        rows.append([name, format_count(found.n), *given, _modes(found, scale)])
    heads = ["median" if percent == 50 else f"p{percent:g}" for percent in percents]
    columns = ["", "n", "min", *heads, "max", "modes (share)"]
    note = "A percentile is given only where at least 5 samples lie beyond it."
    return Table(f"Percentiles [{scale.unit}]", columns, rows, frozenset(range(1, len(columns) - 1)), note)


def _modes(summary: Summary, column: Scale) -> str:
    text = row_scale(column, summary).text
    if len(summary.modes) < 2:
        return "one" if summary.n >= FEWEST_FOR_MODES else "too few samples"
    return ", ".join(f"{text(mode.location)} ({format_share(mode.share, 0.01)})" for mode in summary.modes)

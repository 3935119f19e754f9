"""How the times of single calls and of fork are spread: distribution, percentiles, modes."""

from __future__ import annotations

from oscope.figures import plots
from oscope.figures.analysed import Analysed, measured
from oscope.figures.tables import row_scale, shared_scale
from oscope.figures.words import counted, listed, with_samples
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import Scale, format_count, format_share, format_value
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics import Summary
from oscope.statistics.shape import FEWEST_FOR_MODES

PERCENTS = (1.0, 25.0, 75.0, 95.0, 99.0, 99.9)
FORK_METRICS = ("child_ns", "parent_ns")
NAMES = {"child_ns": "fork, child runs", "parent_ns": "fork, parent returns"}

Series = list[tuple[str, ExperimentResults, PointSamples, str, Summary]]


def section(results: Analysed) -> Section | None:
    """Show how single calls and fork are distributed."""
    calls, fork = _calls(results), _fork(results)
    if not calls and not fork:
        return None
    drawn = [("single calls", calls), ("fork", fork)]
    return Section(
        title="How the times are spread",
        answer=_answer([*calls, *fork]),
        text=_step([*calls, *fork]),
        figures=[_figure(name, series) for name, series in drawn if series],
        tables=[_table([*calls, *fork])],
    )


def _calls(results: Analysed) -> Series:
    experiment = results.get("syscall.cost")
    if experiment is None:
        return []
    found = with_samples(results, experiment, "time_ns")
    return [
        (str(point.factors["call"]), experiment, point, "time_ns", summary)
        for point, summary in found
        if point.factors.get("style") == "single"
    ]


def _fork(results: Analysed) -> Series:
    experiment = results.get("process.create")
    point = experiment.point(how="fork", resident=0) if experiment else None
    if experiment is None or point is None:
        return []
    found = [
        (NAMES[name], experiment, point, name, results.summary(experiment, point, name))
        for name in FORK_METRICS
    ]
    return [
        (label, where, at, metric, summary)
        for label, where, at, metric, summary in found
        if summary is not None
    ]


def _answer(series: Series) -> str:
    judged = [each for each in series if each[-1].n >= FEWEST_FOR_MODES]
    if not judged:
        return f"Too few samples to tell how the times are spread: {FEWEST_FOR_MODES} of a point are needed."
    several = [name for name, _, _, _, summary in judged if len(summary.modes) > 1]
    what = " and ".join(
        dict.fromkeys(
            "fork" if where.experiment == "process.create" else "single calls" for _, where, *_ in judged
        )
    )
    if len(judged) == 1:
        (name, *_, summary) = judged[0]
        modes = f"The distribution of “{name}” has {counted(len(summary.modes), 'mode')}"
    elif several:
        modes = f"{len(several)} of {counted(len(judged), 'distribution')} of {what} have more than one mode"
        modes = f"{modes} ({listed(several)})"
    else:
        modes = f"No distribution of {what} has more than one mode ({len(judged)} judged)"
    return f"{modes}. {_tail(judged)}".strip()


def _tail(judged: Series) -> str:
    """Tell the heaviest tail, by the highest percentile that all distributions have."""
    for percent, rare in ((99.0, "one sample in a hundred"), (95.0, "one sample in twenty")):
        if not all(percent in summary.percentiles and summary.median > 0 for *_, summary in judged):
            continue
        name, *_, summary = max(judged, key=lambda each: each[-1].percentiles[percent][0] / each[-1].median)
        most, low, high = (figure / summary.median for figure in summary.percentiles[percent])
        subject = f"The heaviest tail is that of “{name}”" if len(judged) > 1 else "Its tail"
        # Not rounded by so lopsided an interval: that would leave a bare 1.
        times = f"{most:.2g} ({low:.2g} to {high:.2g})"
        return f"{subject}: {rare} takes {times} times the median or more."
    return ""


def _step(series: Series) -> list[str]:
    """Tell the clock's step where single calls show it."""
    step = max(summary.resolution for *_, summary in series)
    if not any(summary.resolution > 0.01 * summary.median for *_, summary in series):
        return []
    return [
        (
            f"The clock advances in steps of {format_value(step, step / 10, 'ns')} here (what all "
            "readings are multiples of), so single calls fall on few values; peaks no more than two "
            "steps apart are the clock's, and are not counted as modes."
        )
    ]


def _figure(what: str, series: Series) -> Figure:
    scale = shared_scale([summary for *_, summary in series], "ns")
    values = {name: measured(point, metric)[0] / scale.factor for name, _, point, metric, _ in series}
    marks = [
        (f"{name}: mode, {format_share(mode.share, 0.01)}", mode.location / scale.factor)
        for name, _, _, _, summary in series
        if len(summary.modes) > 1
        for mode in summary.modes
    ]
    note = "A steep rise is a mode; a long flat end is the tail." + (
        " Dotted: the modes of distributions that have several." if marks else ""
    )
    return plots.distribution(
        f"Distribution of the time of {what}", f"time [{scale.unit}]", values, marks=marks, note=note
    )


def _table(series: Series) -> Table:
    scale = shared_scale([summary for *_, summary in series], "ns")
    percents = [
        percent for percent in PERCENTS if any(percent in summary.percentiles for *_, summary in series)
    ]
    rows = []
    for name, _, _, _, summary in series:
        text = row_scale(scale, summary).text
        known = {percent: figures[0] for percent, figures in summary.percentiles.items()} | {
            50.0: summary.median
        }
        given = [text(known.get(percent)) for percent in sorted({*percents, 50.0})]
        ends = (text(summary.minimum), text(summary.maximum))
        rows.append([name, format_count(summary.n), ends[0], *given, ends[1], _modes(summary, scale)])
    heads = ["median" if percent == 50 else f"p{percent:g}" for percent in sorted({*percents, 50.0})]
    columns = ["", "n", "min", *heads, "max", "modes (share)"]
    note = "A percentile is given only where at least 5 samples lie beyond it."
    return Table(f"Percentiles [{scale.unit}]", columns, rows, frozenset(range(1, len(columns) - 1)), note)


def _modes(summary: Summary, column: Scale) -> str:
    text = row_scale(column, summary).text
    if len(summary.modes) < 2:
        return "one" if summary.n >= FEWEST_FOR_MODES else "too few samples"
    return ", ".join(f"{text(mode.location)} ({format_share(mode.share, 0.01)})" for mode in summary.modes)

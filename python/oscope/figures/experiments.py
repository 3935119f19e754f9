"""Any experiment as figures and tables, whatever lab it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oscope.analysis.waiting import waiting_note
from oscope.figures import plots, traces, variation
from oscope.figures.analysed import WORDS, Analysed, label, level_text, measured, shown_metrics
from oscope.figures.answer_text import cause, with_unit
from oscope.figures.plots import Dot
from oscope.figures.tables import meaning, shared_scale, summary_table
from oscope.model.document import Figure, Table
from oscope.model.formatting import Scale, format_count, format_share, format_value
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.planning import interference
from oscope.statistics import carryover
from oscope.statistics.summary import UNMEASURED

MOST_ROWS = 40
"""Points that a figure shows as rows."""
STRIPS = "Faint: single samples. Diamond: median with its 95 % interval."
FEWEST_FOR_LINES = 3
"""Levels from which a numeric factor makes a line."""
MOST_COLOURS = 7
CLOCK_SHARE = 0.01
"""A clock's step above this share of the median is reported."""


@dataclass(frozen=True)
class ExperimentView:
    """What the report says of one experiment."""

    name: str
    title: str
    question: str
    timing_model: str
    figures: Sequence[Figure]
    tables: Sequence[Table]
    """The headline metric's first."""
    notes: Sequence[str]
    skipped: Table | None
    """Points that could not be measured: why, and how to get them."""
    traced: Sequence[Table] = ()
    command: str = ""
    """The command that repeats it; empty where it is not known."""
    answers: Sequence[str] = ()
    """What was found, in words, where the experiment itself and no lab says it: a bench."""


def view(results: Analysed, experiment: ExperimentResults) -> ExperimentView:
    """Return `experiment` as figures and tables."""
    metrics = [name for name in shown_metrics(experiment) if name not in WORDS]
    drawn, causes = _spread(results, experiment)
    return ExperimentView(
        name=experiment.experiment,
        title=experiment.title or experiment.experiment,
        question=experiment.question,
        timing_model=experiment.timing_model,
        figures=[
            *(f for name in _drawn(experiment, metrics) for f in _figures(results, experiment, name)),
            *drawn,
        ],
        tables=[
            *(summary_table(results, experiment, name) for name in metrics or [experiment.headline]),
            *causes,
        ],
        notes=_notes(results, experiment),
        skipped=_skipped(experiment),
        traced=traces.tables(experiment),
    )


def _spread(results: Analysed, experiment: ExperimentResults) -> tuple[list[Figure], list[Table]]:
    """Return what the spread of the headline metric comes from, where there are samples enough to tell."""
    # A count of instructions does not vary by what goes on around it.
    if experiment.clock != "wall" or experiment.headline in WORDS:
        return [], []
    every = variation.of_experiment(results, experiment, experiment.headline)
    if not any(each.judged for each in every):
        return [], []
    figure = variation.figure(every[:MOST_ROWS])
    return [] if figure is None else [figure], [
        variation.table(every),
        *variation.tails(every),
        *variation.slow(every),
    ]


def _drawn(experiment: ExperimentResults, metrics: Sequence[str]) -> list[str]:
    """Return the metrics that get a figure: cycles and equal columns only repeat what another one shows."""
    drawn: list[str] = []
    for name in metrics:
        repeats = experiment.metrics[name].unit == "cycles" and drawn
        if not repeats and not any(_equal(experiment, name, other) for other in drawn):
            drawn.append(name)
    return drawn


def _equal(experiment: ExperimentResults, one: str, other: str) -> bool:
    return all(
        np.array_equal(
            point.metrics.get(one, np.zeros(0)), point.metrics.get(other, np.zeros(0)), equal_nan=True
        )
        for point in experiment.points
    )


def _figures(results: Analysed, experiment: ExperimentResults, metric: str) -> list[Figure]:
    """Return a metric's figures: over a numeric factor, if there is one, and the samples of each point."""
    points = [point for point in experiment.points if len(measured(point, metric)[0])]
    column = experiment.metrics[metric]
    summaries = [results.summary(experiment, point, metric) for point in points]
    scale = shared_scale([each for each in summaries if each is not None], column.shown_unit)
    name = f"{meaning(column)} ({metric})"
    axis_title = with_unit(metric, scale.unit)
    names = [label(experiment, point.factors, _names(experiment)) for point in points]
    dots = dots_of(results, experiment, metric, dict(zip(points, names, strict=True)), scale)
    figures = []
    numeric = _numeric_factor(experiment)
    if numeric is not None:
        figures.append(_over(experiment, numeric, (name, axis_title), list(zip(points, dots, strict=True))))
    if len(dots) <= MOST_ROWS:
        figures.append(plots.strips(name, axis_title, dots, STRIPS))
    elif numeric is None:
        shown = f"The first {MOST_ROWS} of {len(dots)} points; the table has all."
        figures.append(plots.strips(name, axis_title, dots[:MOST_ROWS], shown))
    return figures


def dots_of(
    results: Analysed,
    experiment: ExperimentResults,
    metric: str,
    names: Mapping[PointSamples, str],
    scale: Scale,
) -> list[Dot]:
    """Return these points, each under its name, coloured by what is compared."""
    colours = _colours(experiment, names)
    return [
        dot(results, experiment, (point, metric), scale, name=name, colour=colour)
        for (point, name), colour in zip(names.items(), colours, strict=True)
    ]


def dot(
    results: Analysed,
    experiment: ExperimentResults,
    what: tuple[PointSamples, str],
    scale: Scale,
    **looks: str | int,
) -> Dot:
    """Return a point's median, interval and samples in the unit of `scale`; `looks` are name and colour."""
    point, metric = what
    summary = results.summary(experiment, point, metric)
    values = measured(point, metric)[0] / scale.factor
    if summary is None:
        return Dot(str(looks["name"]), float("nan"), None, values, int(looks.get("colour", 0)))
    interval = (
        None if summary.ci95 is None else (summary.ci95[0] / scale.factor, summary.ci95[1] / scale.factor)
    )
    return Dot(
        str(looks["name"]), summary.median / scale.factor, interval, values, int(looks.get("colour", 0))
    )


def _names(experiment: ExperimentResults) -> tuple[str, ...]:
    return experiment.varied() or tuple(experiment.points[0].factors)


def _colours(experiment: ExperimentResults, points: Iterable[PointSamples]) -> list[int]:
    """Colour by the factor with the fewest levels: what is compared stands out."""
    # Of factors that have a meaning at every point.
    everywhere = [n for n in experiment.varied() if all(n in point.factors for point in experiment.points)]
    levels = {name: experiment.levels(name) for name in everywhere}
    few = sorted((len(found), name) for name, found in levels.items() if len(found) <= MOST_COLOURS)
    if not few:
        return [0 for _ in points]
    name = few[0][1]
    return [levels[name].index(point.factors[name]) for point in points]


def _numeric_factor(experiment: ExperimentResults) -> str | None:
    """Return the factor that makes the x axis: the numeric one with the most levels, if they are enough."""
    candidates = []
    for name in experiment.varied():
        levels = experiment.levels(name)
        if any(name not in point.factors for point in experiment.points):
            continue
        if all(isinstance(each, int | float) and not isinstance(each, bool) for each in levels):
            candidates.append((len(levels), name))
    count, name = max(candidates, default=(0, ""))
    return name if count >= FEWEST_FOR_LINES else None


def _over(
    experiment: ExperimentResults,
    factor: str,
    names: tuple[str, str],
    dots: Sequence[tuple[PointSamples, Dot]],
) -> Figure:
    """Return medians over a numeric factor, a line for each combination of the other factors."""
    others = [name for name in _names(experiment) if name != factor]
    series: dict[str, list[tuple[float, Dot]]] = {}
    for point, each in dots:
        series.setdefault(label(experiment, point.factors, others) or experiment.experiment, []).append(
            (float(point.factors[factor]), each)
        )
    for line in series.values():
        line.sort(key=lambda pair: pair[0])
    levels = sorted({x for line in series.values() for x, _ in line})
    wide = levels[0] > 0 and levels[-1] / levels[0] > plots.WIDE_RATIO
    ticks = {
        "tickvals": levels,
        "ticktext": [level_text(_as_level(x), experiment.factor_types.get(factor)) for x in levels],
    }
    values = [each.value for _, each in dots]
    steep = min(values) > 0 and max(values) / min(values) > plots.WIDE_RATIO
    axes = (
        plots.axis(factor, scale="log" if wide else "linear", **ticks),
        plots.axis(names[1], scale="log" if steep else "linear", rangemode="normal" if steep else "tozero"),
    )
    drawn = [plots.Line(name, line, colour) for colour, (name, line) in enumerate(series.items())]
    return plots.lines(f"{names[0]}, over {factor}", axes, drawn, "Medians with their 95 % intervals.")


def _as_level(number: float) -> int | float:
    return int(number) if number.is_integer() else number


def failures(experiment: ExperimentResults) -> list[str]:
    """Return a line for each point that has failed samples."""
    names = _names(experiment) if experiment.points else ()
    return [
        f"{experiment.experiment} {label(experiment, point.factors, names)}".rstrip() + f": {_failed(point)}"
        for point in experiment.points
        if point.failed
    ]


def _failed(point: PointSamples) -> str:
    count, reason = len(point.failed), point.failed[0][1]
    return f"{format_count(count)} of {format_count(len(point))} samples failed: {reason}"


def _notes(results: Analysed, experiment: ExperimentResults) -> list[str]:
    """Return remarks on the points: notes, failed samples, what the summaries found."""
    found: dict[str, dict[str, None]] = {}
    names = _names(experiment) if experiment.points else ()
    for point in experiment.points:
        where = label(experiment, point.factors, names)
        remarks = [cause(each) for each in point.notes]
        remarks += [_failed(point)] if point.failed else []
        summary = results.summary(experiment, point, experiment.headline)
        if summary is not None:
            remarks += [note for note in summary.notes if not note.endswith(UNMEASURED)]
            if summary.resolution > CLOCK_SHARE * abs(summary.median):
                unit = experiment.metrics[experiment.headline].unit
                remarks.append(
                    f"the clock shows {experiment.headline} in steps of "
                    f"{format_value(summary.resolution, summary.resolution / 10, unit)}"
                )
            if summary.drift.found:
                remarks.append(f"{experiment.headline} {_drifted(summary.drift.relative)} over the run")
        for remark in remarks:
            found.setdefault(remark, {})[where] = None
    everywhere = len(experiment.points)
    general = (interference.remark(experiment), waiting_note(experiment), carryover.remark(experiment))
    return [
        *(
            text if len(where) == everywhere else f"{'; '.join(where)}: {text}"
            for text, where in found.items()
        ),
        *(text for text in general if text is not None),
    ]


def _drifted(relative: float) -> str:
    """Say how far it moved from the first process to the last; for skewed samples by more than 100 %."""
    times = abs(relative) >= 1
    amount = f"{abs(relative):.1f} times" if times else f"{format_share(abs(relative))} of"
    return f"{'rose' if relative > 0 else 'fell'} by {amount} its median"


def _skipped(experiment: ExperimentResults) -> Table | None:
    points = [point for point in experiment.points if point.skipped is not None]
    if not points:
        return None
    rows = [
        [label(experiment, p.factors, _names(experiment)), p.skipped or "", p.remedy or "–"] for p in points
    ]
    return Table("Not measured here", ["point", "why", "how to get it"], rows)

"""How much slower the points of an experiment are under each tracer than without one: the probe effect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from oscope.figures.analysed import label, measured, paired_difference
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.questions.run import Run
from oscope.statistics import ComparedMetric, Summary, compare_pairs
from oscope.trace.factor import UNTRACED
from oscope.trace.reading import merge


class Slowdown(NamedTuple):
    """One point under one tracer."""

    experiment: ExperimentResults
    tracer: str
    name: str
    """The levels that distinguish the point from others, but for the tracer."""
    plain: PointSamples
    """The same point without a tracer."""
    row: ComparedMetric
    """Time traced over untraced; all of an experiment are one family of tests."""
    added: Summary | None
    """Time traced less untraced, in the metric's unit, one difference a block."""


def slowdowns(run: Run, metric: str, tracers: Iterable[str]) -> list[Slowdown]:
    """Return the points that have times under one of these tracers and without one."""
    experiment, pairs = run.experiment, []
    others = [each for each in experiment.varied() if each != "tracer"]
    for tracer in tracers:
        for point in run.only(tracer=tracer).experiment.points:
            plain = experiment.point(**{**point.factors, "tracer": UNTRACED})
            if plain is not None and all(len(measured(each, metric)[0]) for each in (plain, point)):
                pairs.append((plain, point))
    rows = compare_pairs(experiment, pairs, metric).rows if pairs else ()
    return [
        Slowdown(
            experiment,
            str(point.factors["tracer"]),
            label(experiment, point.factors, others),
            plain,
            row,
            paired_difference(experiment, plain, point, metric),
        )
        for (plain, point), row in zip(pairs, rows, strict=True)
    ]


def counted_calls(experiment: ExperimentResults, plain: PointSamples) -> tuple[float, str] | None:
    """Return how many calls a repetition of a point makes by the trace of one of its tracers, and which."""
    for point in experiment.points:
        # A tracer of the whole process counts more than the repetition's calls.
        readings = [each for each in point.traces if "calls" in each and "scope" not in each]
        if readings and {**point.factors, "tracer": UNTRACED} == {**plain.factors, "tracer": UNTRACED}:
            whole = merge(readings)
            count = sum(call["count"] for call in whole["calls"].values())
            return float(count / whole["reps"]), str(whole["tracer"])
    return None

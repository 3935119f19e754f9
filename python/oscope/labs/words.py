"""Pieces of sentences and cells that the answers of several labs need."""

from __future__ import annotations

from collections.abc import Sequence

from oscope.digits import Scale, format_count, format_share
from oscope.report.analysis import Analysed, measured
from oscope.report.tables import doubt
from oscope.samples import ExperimentResults, PointSamples
from oscope.statistics import Summary


def median(summary: Summary, unit: str) -> str:
    """Return `98.1 ns (97.9 to 98.4)`: the median and its 95 % interval, no digit finer than the clock."""
    scale = Scale.choose([summary.median], [doubt(summary)], unit)
    if summary.ci95 is None:
        return scale.with_unit(summary.median)
    return (
        f"{scale.with_unit(summary.median)} ({scale.text(summary.ci95[0])} to {scale.text(summary.ci95[1])})"
    )


def counted(number: int, noun: str) -> str:
    """Return `1 point`, `2 points`."""
    return f"{format_count(number)} {noun}" + ("" if number == 1 else "s")


def share(part: float, low: float, high: float) -> str:
    """Return a share of the variance with its interval, in per cent."""
    return f"{format_share(part, 0.01)} ({format_share(low, 0.01)} to {format_share(high, 0.01)})"


def listed(names: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def with_samples(
    results: Analysed, experiment: ExperimentResults, metric: str
) -> list[tuple[PointSamples, Summary]]:
    """Return the points that have values of `metric`, with their summaries."""
    found = []
    for point in experiment.points:
        summary = results.summary(experiment, point, metric) if len(measured(point, metric)[0]) else None
        if summary is not None:
            found.append((point, summary))
    return found


def excludes_zero(summary: Summary) -> bool:
    """Say whether the median's interval lies on one side of 0, further from it than half a step of the clock.

    The interval is wider by half a step already; both readings of a difference step.
    """
    margin = summary.resolution / 2
    return summary.ci95 is not None and (summary.ci95[0] > margin or summary.ci95[1] < -margin)

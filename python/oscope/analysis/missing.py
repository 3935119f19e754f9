"""What a baseline has measured and a run has not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from oscope.model.factors import Level
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics.interrupt_filter import CENSORED, CPU_TIME, without_partial


@dataclass(frozen=True)
class Missing:
    """What the baseline has and the run has not."""

    experiment: str
    factors: Mapping[str, Level] | None
    """None where the whole experiment is missing."""
    metric: str | None
    """None where no metric has a value."""


def has_value(point: PointSamples | None, metric: str) -> bool:
    """Say whether a sample of the point has the metric."""
    if point is None:
        return False
    values = without_partial(point, metric).metrics.get(metric, np.zeros(0))
    return bool(np.isfinite(values).any())


def is_censored(point: PointSamples | None, metric: str) -> bool:
    """Whether only longer or larger runs than those of `point` have the metric; a caveat says so."""
    return metric in CENSORED and has_value(point, CPU_TIME)


def missing_points(a: ExperimentResults, b: ExperimentResults) -> Iterator[Missing]:
    """Yield what has a value in `a` and none in `b`, whose runs are neither too short nor too small."""
    others = {b.key(point, a): point for point in b.points}
    for point in a.points:
        other = others.get(a.key(point, b))
        measured = [name for name in a.metrics if has_value(point, name)]
        lost = [name for name in measured if not has_value(other, name) and not is_censored(other, name)]
        if lost and lost == measured:
            yield Missing(a.experiment, point.factors, None)
        else:
            yield from (Missing(a.experiment, point.factors, name) for name in lost)

"""What curves over the size show: levels with steps between them, a knee, and which of two is the higher.

Levels are segments (`statistics.segments`) of two sizes or more. A segment of one size is no level: the size
lies on the way between two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np

from oscope.figures.analysed import block_medians, measured
from oscope.model.samples import ExperimentResults
from oscope.questions.curves import At, size_of
from oscope.statistics import ComparedMetric, compare_pairs, compare_points
from oscope.statistics.effect import LEVEL
from oscope.statistics.multiplicity import holm
from oscope.statistics.segments import cuts, proven


@dataclass(frozen=True)
class Segment:
    """Neighbouring sizes whose values are the same, but for noise."""

    found: tuple[At, ...]

    @property
    def high(self) -> int:
        """Return the largest size."""
        return self.found[-1].size

    @property
    def middle(self) -> At:
        """Return the size whose median is that of all."""
        ordered = sorted(self.found, key=lambda each: each.summary.median)
        return ordered[len(ordered) // 2]


@dataclass(frozen=True)
class Levels:
    """What a curve is made of."""

    plateaus: tuple[Segment, ...]
    between: tuple[Segment, ...]
    """Single sizes on the way from one level to the next, or at an end."""
    unseparated: tuple[tuple[int, int], ...]
    """Neighbouring sizes whose values differ in the fit, but not in a test."""


def levels(found: Sequence[At], metric: str) -> Levels:
    """Return the levels of a curve of positive values, by rising size."""
    medians = [block_medians(each.point, metric) for each in found]
    blocks = sorted(set().union(*medians))
    values = np.array([[each.get(block, np.nan) for each in medians] for block in blocks])
    edges = cuts([each.summary.median for each in found])
    kept = proven(np.log(values), edges)
    parts = [Segment(tuple(found[start:end])) for start, end in pairwise([0, *kept, len(found)])]
    return Levels(
        tuple(part for part in parts if len(part.found) > 1),
        tuple(part for part in parts if len(part.found) == 1),
        tuple((found[edge - 1].size, found[edge].size) for edge in edges if edge not in kept),
    )


class Knee(NamedTuple):
    """The smallest size of a rising curve that no larger one beats, by the medians."""

    first: At
    """The smallest size measured."""
    low: At
    """The smallest size that no larger one is found to beat: at it the knee may be as well."""
    at: At
    last: At
    """The largest size measured."""

    @property
    def place(self) -> str:
        """Where it is: a size, or the sizes between which it is not known."""
        return self.at.name if self.low is self.at else f"{self.low.name} to {self.at.name}"


def knee(experiment: ExperimentResults, row: Sequence[At], metric: str, helps: float) -> Knee:
    """Return the smallest sizes of a rising curve that no larger one beats by more than the factor `helps`.

    First the one that none is found to beat (paired by block, Holm), then that by the medians.
    """
    low = None
    for index, each in enumerate(row):
        rows = [ratio_of(experiment, metric, each, other) for other in row[index + 1 :]]
        better = np.array([found.ratio > helps for found in rows], dtype=bool)
        found_better = better & (holm(np.array([found.p for found in rows])) < LEVEL)
        if low is None and not found_better.any():
            low = each
        if low is not None and not better.any():
            return Knee(row[0], low, each, row[-1])
    return Knee(row[0], row[-1], row[-1], row[-1])


def ratio_of(experiment: ExperimentResults, metric: str, a: At, b: At) -> ComparedMetric:
    """Return the metric at one size over that at another, paired by block."""
    return compare_points(a.point, b.point, experiment.metrics[metric], same_run=True)


def orders(
    experiment: ExperimentResults, metric: str, factor: str, names: Sequence[str]
) -> dict[tuple[str, str, int], int]:
    """Return which of each two levels of a factor has more of a metric at each size.

    1: the first, in the order of `names`; -1: the second; 0: they cannot be distinguished (paired by block,
    Holm for all). Pairs and sizes of which one point is missing are left out.
    """
    sizes = sorted({size for point in experiment.points if (size := size_of(point)) is not None})
    levels = sorted({str(point.factors[factor]) for point in experiment.points}, key=list(names).index)
    placed = {(point.factors[factor], size_of(point)): point for point in reversed(experiment.points)}
    points = {
        (a, b, size): (first, second)
        for size in sizes
        for a, b in combinations(levels, 2)
        if (first := placed.get((a, size)))
        and (second := placed.get((b, size)))
        and all(len(measured(each, metric)[0]) for each in (first, second))
    }
    # A row is "yes" only where the medians of all samples differ in the direction of the ratio.
    rows = compare_pairs(experiment, list(points.values()), metric).rows if points else ()
    return {
        key: (0 if row.different != "yes" else -1 if row.ratio > 1 else 1)
        for key, row in zip(points, rows, strict=True)
    }

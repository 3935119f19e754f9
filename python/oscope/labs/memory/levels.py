"""The levels of a latency curve: where the logarithm of the time changes by steps (exact segmentation).

The sizes are cut into neighbouring segments, so that the sum of the squares of ln(time) around each segment's
mean, with `CHANGE` added for each cut, is least (optimal partitioning: Jackson et al., IEEE Signal Processing
Letters 12, 2005). A cut between two sizes alone pays from 30 % on, between three and three from 15 %
on.

The cuts are chosen on the data that have to prove them, so each is tested against what choosing alone would
find: the sizes are permuted within each block, and the best single cut is sought anew each time (permutation
test of the largest statistic: Good, Permutation, Parametric and Bootstrap Tests of Hypotheses, 3rd ed.). The
whole curve comes first; where it is not a flat one, its clearest cut stays, and the parts on both
sides are tested in turn (p corrected for all cuts: Bonferroni). Two single sizes leave nothing to choose:
they are compared paired by block. A segment of one size is no level: the size lies on the way between two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import log

import numpy as np

from oscope.figures.analysed import block_medians
from oscope.labs.engine.curves import At
from oscope.model.samples import Floats
from oscope.statistics.effect import LEVEL, paired

CHANGE = log(1.3) ** 2 / 2
FEWEST_BLOCKS = 2
PERMUTATIONS = 999
SEED = 1
"""The same curve has the same levels each time."""
TIE = 1e-9
"""Relative rounding error below which two statistics are the same."""


@dataclass(frozen=True)
class Plateau:
    """Neighbouring sizes at which a load takes the same time, but for noise."""

    found: tuple[At, ...]

    @property
    def high(self) -> int:
        """Return the largest size."""
        return self.found[-1].size

    @property
    def middle(self) -> At:
        """Return the size whose time is the median of all."""
        ordered = sorted(self.found, key=lambda each: each.summary.median)
        return ordered[len(ordered) // 2]


@dataclass(frozen=True)
class Levels:
    """What a curve is made of."""

    plateaus: tuple[Plateau, ...]
    """Of two sizes or more."""
    between: tuple[At, ...]
    """Sizes on the way from one level to the next, or at an end."""
    unseparated: tuple[tuple[int, int], ...]
    """Neighbouring sizes whose times differ in the fit, but not in a test."""


def segments(times: Sequence[float]) -> list[tuple[int, int]]:
    """Return the first index of each segment, and the one after its last."""
    values = np.log(np.asarray(times, dtype=float))

    def spread(start: int, end: int) -> float:
        return float(((values[start:end] - values[start:end].mean()) ** 2).sum())

    @cache
    def best(end: int) -> tuple[float, int]:
        """Return the least cost of the first `end` sizes, and where their last segment starts."""
        if end == 0:
            return -CHANGE, 0
        return min((best(start)[0] + CHANGE + spread(start, end), start) for start in range(end))

    cuts: list[tuple[int, int]] = []
    end = len(values)
    while end > 0:
        start = best(end)[1]
        cuts.insert(0, (start, end))
        end = start
    return cuts


def levels(found: Sequence[At], metric: str) -> Levels:
    """Return the levels of a curve by rising size."""
    if not found:
        return Levels((), (), ())
    cuts = segments([each.summary.median for each in found])
    kept, unseparated = _separated(found, cuts, metric)
    parts = [tuple(found[start:end]) for start, end in kept]
    return Levels(
        tuple(Plateau(part) for part in parts if len(part) > 1),
        tuple(part[0] for part in parts if len(part) == 1),
        tuple(unseparated),
    )


def _separated(
    found: Sequence[At], cuts: Sequence[tuple[int, int]], metric: str
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Join the neighbouring segments that a test does not separate."""
    if len(cuts) < 2:
        return list(cuts), []
    edges = [start for start, _ in cuts[1:]]
    kept = _kept(found, edges, metric, LEVEL / len(edges))
    unseparated = [(found[edge - 1].size, found[edge].size) for edge in edges if edge not in kept]
    return list(pairwise([0, *kept, len(found)])), unseparated


def _kept(piece: Sequence[At], edges: Sequence[int], metric: str, level: float) -> list[int]:
    """Return those of the edges in a piece that are clearer than noise: the clearest, then those beside."""
    if not edges or _p(piece, metric) >= level:
        return []
    means = _times(piece, metric).mean(axis=0)
    best = max(edges, key=lambda edge: _gains(means)[edge - 1])
    before = _kept(piece[:best], [edge for edge in edges if edge < best], metric, level)
    after = _kept(piece[best:], [edge - best for edge in edges if edge > best], metric, level)
    return [*before, best, *(edge + best for edge in after)]


def _p(piece: Sequence[At], metric: str) -> float:
    """Return the p of all sizes of a piece taking the same time, against one cut somewhere."""
    times = _times(piece, metric)
    if len(times) < FEWEST_BLOCKS:
        return 1.0
    if len(piece) == 2:
        return paired(times[:, 1] - times[:, 0]).p
    generator = np.random.default_rng(SEED)
    drawn = generator.permuted(np.broadcast_to(times, (PERMUTATIONS, *times.shape)), axis=2)
    found, by_chance = (_gains(each.mean(axis=-2)).max(axis=-1) for each in (times, drawn))
    reached = int(np.count_nonzero(by_chance >= found * (1 - TIE)))
    return (1 + reached) / (1 + PERMUTATIONS)


def _gains(means: Floats) -> Floats:
    """Return by how much each single cut lowers the sum of squares; the last axis is that of the sizes."""
    means = means - means.mean(axis=-1, keepdims=True)
    count = means.shape[-1]
    left = np.arange(1, count)
    sums = np.cumsum(means, axis=-1)[..., :-1]
    # The sum of all is 0, so that of the right side is minus that of the left.
    return np.asarray(sums**2 * (1 / left + 1 / (count - left)), dtype=float)


def _times(piece: Sequence[At], metric: str) -> Floats:
    """Return ln(time) of each size (columns) in each block (rows) that has all of them."""
    medians = [block_medians(each.point, metric) for each in piece]
    shared = sorted(set.intersection(*(set(each) for each in medians)))
    return np.array([[log(each[block]) for each in medians] for block in shared]).reshape(-1, len(piece))

"""The levels of a latency curve: where the logarithm of the time changes by steps (exact segmentation).

The sizes are cut into neighbouring segments, so that the sum of the squares of ln(time) around each segment's
mean, with `CHANGE` added for each cut, is least (optimal partitioning: Jackson et al., IEEE Signal Processing
Letters 12, 2005). A cut between two sizes alone is worth it from 30 % on, between three and three from 15 %
on. A cut stays only if the segments on its two sides can be told apart (paired by block, p corrected: Holm).
A segment of one size is no level: the size lies on the way between two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import log

import numpy as np

from oscope.labs.curve import At
from oscope.report.analysis import block_medians
from oscope.statistics.effect import LEVEL, holm, paired

CHANGE = log(1.3) ** 2 / 2


@dataclass(frozen=True)
class Plateau:
    """Neighbouring sizes at which a load takes the same time, but for noise."""

    found: tuple[At, ...]

    @property
    def low(self) -> int:
        """Return the smallest size."""
        return self.found[0].size

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
    untold: tuple[tuple[int, int], ...]
    """Neighbouring sizes whose times differ in the fit, but cannot be told apart."""


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
    kept, untold = _told_apart(found, cuts, metric)
    parts = [tuple(found[start:end]) for start, end in kept]
    return Levels(
        tuple(Plateau(part) for part in parts if len(part) > 1),
        tuple(part[0] for part in parts if len(part) == 1),
        tuple(untold),
    )


def _told_apart(
    found: Sequence[At], cuts: Sequence[tuple[int, int]], metric: str
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Join the neighbouring segments that cannot be told apart."""
    if len(cuts) < 2:
        return list(cuts), []
    tests = [_p(found[slice(*first)], found[slice(*second)], metric) for first, second in pairwise(cuts)]
    apart = holm(np.array(tests)) < LEVEL
    edges = [start for start, _ in cuts[1:]]
    starts = [0, *(edge for edge, told in zip(edges, apart, strict=True) if told)]
    untold = [
        (found[edge - 1].size, found[edge].size) for edge, told in zip(edges, apart, strict=True) if not told
    ]
    return list(zip(starts, [*starts[1:], len(found)], strict=True)), untold


def _p(first: Sequence[At], second: Sequence[At], metric: str) -> float:
    """Return the p of no difference between two segments, paired by block."""
    one, other = (_by_block(part, metric) for part in (first, second))
    shared = sorted(one.keys() & other.keys())
    if len(shared) < 2:
        return 1.0
    return paired(np.array([other[block] - one[block] for block in shared])).p


def _by_block(part: Sequence[At], metric: str) -> dict[int, float]:
    """Return the mean ln(time) of a segment in each block that has all of its sizes."""
    medians = [block_medians(each.point, metric) for each in part]
    shared = set.intersection(*(set(each) for each in medians))
    return {block: float(np.mean([log(each[block]) for each in medians])) for block in shared}

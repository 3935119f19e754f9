"""The levels of a latency curve: segments of it (`statistics.segments`) that have two sizes or more.

A segment of one size is no level: the size lies on the way between two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from oscope import questions as q
from oscope.statistics.segments import cuts, proven


@dataclass(frozen=True)
class Plateau:
    """Neighbouring sizes at which a load takes the same time, but for noise."""

    found: tuple[q.At, ...]

    @property
    def high(self) -> int:
        """Return the largest size."""
        return self.found[-1].size

    @property
    def middle(self) -> q.At:
        """Return the size whose time is the median of all."""
        ordered = sorted(self.found, key=lambda each: each.summary.median)
        return ordered[len(ordered) // 2]


@dataclass(frozen=True)
class Levels:
    """What a curve is made of."""

    plateaus: tuple[Plateau, ...]
    between: tuple[q.At, ...]
    """Sizes on the way from one level to the next, or at an end."""
    unseparated: tuple[tuple[int, int], ...]
    """Neighbouring sizes whose times differ in the fit, but not in a test."""


def levels(found: Sequence[q.At], metric: str) -> Levels:
    """Return the levels of a curve by rising size."""
    medians = [q.block_medians(each.point, metric) for each in found]
    blocks = sorted(set().union(*medians))
    times = np.array([[each.get(block, np.nan) for each in medians] for block in blocks])
    edges = cuts([each.summary.median for each in found])
    kept = proven(np.log(times), edges)
    parts = [tuple(found[start:end]) for start, end in pairwise([0, *kept, len(found)])]
    return Levels(
        tuple(Plateau(part) for part in parts if len(part) > 1),
        tuple(part[0] for part in parts if len(part) == 1),
        tuple((found[edge - 1].size, found[edge].size) for edge in edges if edge not in kept),
    )

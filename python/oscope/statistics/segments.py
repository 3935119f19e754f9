"""Segments of a curve: where the logarithm of its values changes by steps, and which steps are proven.

The places are cut into neighbouring segments, so that the sum of the squares of ln(value) around each
segment's mean, with `CHANGE` added for each cut, is least (optimal partitioning: Jackson et al., IEEE Signal
Processing Letters 12, 2005). A cut between two places alone pays from 30 % on, between three and three from
15 % on.

The cuts are chosen on the data that have to prove them, so each is tested against what choosing alone would
find: the places are permuted within each block, and the best single cut is sought anew each time (permutation
test of the largest statistic: Good, Permutation, Parametric and Bootstrap Tests of Hypotheses, 3rd ed.). The
whole curve comes first; where it is not a flat one, its clearest cut stays, and the parts on both sides are
tested in turn (p corrected for all cuts: Bonferroni). Two single places leave nothing to choose: they are
compared paired by block.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import log

import numpy as np

from oscope.model.samples import Floats
from oscope.statistics.effect import LEVEL, paired
from oscope.statistics.multiplicity import bonferroni

CHANGE = log(1.3) ** 2 / 2
FEWEST_BLOCKS = 2
PERMUTATIONS = 999
SEED = 1
"""The same curve has the same segments each time."""
TIE = 1e-9
"""Relative rounding error below which two statistics are the same."""


def cuts(values: Sequence[float]) -> list[int]:
    """Return the first index of each segment but the first; the values are positive."""
    logs = np.log(np.asarray(values, dtype=float))

    def spread(start: int, end: int) -> float:
        return float(((logs[start:end] - logs[start:end].mean()) ** 2).sum())

    @cache
    def best(end: int) -> tuple[float, int]:
        """Return the least cost of the first `end` places, and where their last segment starts."""
        if end == 0:
            return -CHANGE, 0
        return min((best(start)[0] + CHANGE + spread(start, end), start) for start in range(end))

    found: list[int] = []
    end = len(logs)
    while end > 0 and (end := best(end)[1]) > 0:
        found.insert(0, end)
    return found


def proven(logs: Floats, chosen: Sequence[int]) -> list[int]:
    """Return those of the chosen cuts that are clearer than noise.

    `logs` has ln(value) of each block (rows) at each place (columns); NaN where a block has none.
    """
    return _proven(logs, chosen, len(chosen))


def _proven(logs: Floats, chosen: Sequence[int], tests: int) -> list[int]:
    """Return the clearest of the cuts in a piece and those beside it; none if the piece may be flat."""
    whole = logs[np.isfinite(logs).all(axis=1)]
    if not chosen or not bonferroni(_p(whole), tests) < LEVEL:
        return []
    gains = _gains(whole.mean(axis=0))
    best = max(chosen, key=lambda cut: gains[cut - 1])
    before = _proven(logs[:, :best], [cut for cut in chosen if cut < best], tests)
    after = _proven(logs[:, best:], [cut - best for cut in chosen if cut > best], tests)
    return [*before, best, *(cut + best for cut in after)]


def _p(logs: Floats) -> float:
    """Return the p of all places of a piece having the same value, against one cut somewhere."""
    if len(logs) < FEWEST_BLOCKS:
        return 1.0
    if logs.shape[1] == 2:
        return paired(logs[:, 1] - logs[:, 0]).p
    generator = np.random.default_rng(SEED)
    drawn = generator.permuted(np.broadcast_to(logs, (PERMUTATIONS, *logs.shape)), axis=2)
    found, by_chance = (_gains(each.mean(axis=-2)).max(axis=-1) for each in (logs, drawn))
    reached = int(np.count_nonzero(by_chance >= found * (1 - TIE)))
    return (1 + reached) / (1 + PERMUTATIONS)


def _gains(means: Floats) -> Floats:
    """Return by how much each single cut lowers the sum of squares; the last axis is that of the places."""
    means = means - means.mean(axis=-1, keepdims=True)
    count = means.shape[-1]
    left = np.arange(1, count)
    sums = np.cumsum(means, axis=-1)[..., :-1]
    # The sum of all is 0, so that of the right side is minus that of the left.
    return np.asarray(sums**2 * (1 / left + 1 / (count - left)), dtype=float)

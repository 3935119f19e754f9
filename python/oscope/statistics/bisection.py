"""Where in a line of commits a metric changed, from noisy readings of some: probabilistic bisection.

The line has positions 0 to n: 0 is the end before the change, n the one after it. One of the commits 1 to n
made the change, each with the same prior probability. A reading of a position says how far the metric lies
from the middle of both ends, and how sure that is; it gives the probability that the position is after the
change, and so, by Bayes' rule, a posterior over the commits. The next reading is taken at its median, which
is the most informative choice (Horstein, IEEE Trans. Inform. Theory 9, 1963; Waeber, Frazier and Henderson,
SIAM J. Control Optim. 51, 2013). There all answers are wrong at one known rate; here each reading has a
rate of its own.

A position that cannot be read leaves the commits around it indistinguishable: they form a group.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy

from oscope.model.samples import Floats
from oscope.statistics import student

SPREAD = 0.25
"""Standard deviation, in shares of the change, by which commits on one side differ from that side's end for
other reasons, such as the layout of their code: a reading in between is no strong evidence, however sure."""
FLOOR = 0.005
"""Rate at which even the clearest reading of a position is taken to be wrong."""
ENOUGH = 0.95
"""Probability of a group at which the search ends."""
NEGLIGIBLE = 0.01
"""A position that is before or after the change as surely as this is not read."""
MOST_ROUNDS = 3
"""Readings of one position."""


@dataclass(frozen=True)
class Reading:
    """What one run found at a position; all three are differences of logarithms."""

    position: int
    centre: float
    """The metric less the middle of both ends, as measured in the same blocks."""
    error: float
    """Its standard error."""
    change: float
    """The end after the change less the end before it."""


@dataclass(frozen=True)
class Group:
    """Commits that no reading tells apart: those after the position `before`, up to `after`."""

    before: int
    after: int
    probability: float


def probability_after(readings: Iterable[Reading]) -> float:
    """Return the probability that a position with these readings is after the change: 0.5 for none.

    The readings are pooled by their variances. Commits of one side scatter about its end with `SPREAD` of the
    change, which more readings do not take away.
    """
    found = list(readings)
    if not found:
        return 0.5
    centre, error = _pool([each.centre for each in found], [each.error for each in found])
    change = float(np.mean([each.change for each in found]))
    spread = error**2 + (SPREAD * change) ** 2
    if spread == 0:
        return 0.5
    after = float(scipy.special.expit(centre * change / spread))
    return min(max(after, FLOOR), 1 - FLOOR)


def _pool(values: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """Return the mean weighted by the inverse variances, and its standard error."""
    # What always repeats exactly has no error at all.
    weights = np.array([1 / max(error, 1e-12) ** 2 for error in errors])
    mean = float(np.average(values, weights=weights))
    exact = all(error == 0 for error in errors)
    return mean, 0.0 if exact else float(1 / math.sqrt(weights.sum()))


def posterior(commits: int, readings: Iterable[Reading]) -> Floats:
    """Return the probability of each commit to have made the change: (commits,), that of commit 1 first."""
    own: Mapping[int, list[Reading]] = defaultdict(list)
    for reading in readings:
        own[reading.position].append(reading)
    logs = np.zeros(commits)
    numbers = np.arange(1, commits + 1)
    for position, found in own.items():
        after = probability_after(found)
        logs += np.where(numbers <= position, math.log(after), math.log1p(-after))
    shares: Floats = np.exp(logs - logs.max())
    shares /= shares.sum()
    return shares


def best_group(probabilities: Floats, unreadable: Collection[int]) -> Group:
    """Return the group of commits with the largest probability."""
    commits = len(probabilities)
    bounds = [0, *(at for at in range(1, commits) if at not in unreadable), commits]
    groups = [
        Group(before, after, float(probabilities[before:after].sum())) for before, after in pairwise(bounds)
    ]
    return max(groups, key=lambda group: group.probability)


def choose(
    probabilities: Floats, unreadable: Collection[int], rounds: Mapping[int, int], misses: int = 0
) -> int | None:
    """Return the position to read next: the one nearest the median; None where none would tell anything.

    `rounds` is how often each was read. After `misses` positions in a row that could not be read, those next
    to unreadable ones are kept away from, twice as far each time: such commits lie together.
    """
    before = np.cumsum(probabilities)
    open_ = [
        at
        for at in range(1, len(probabilities))
        if at not in unreadable
        and rounds.get(at, 0) < MOST_ROUNDS
        and NEGLIGIBLE < before[at - 1] < 1 - NEGLIGIBLE
    ]
    reach = 2**misses - 1
    far = [at for at in open_ if not any(abs(at - lost) <= reach for lost in unreadable)]
    return min(far or open_, key=lambda at: (abs(before[at - 1] - 0.5), at), default=None)


def probability_of_change(changes: Sequence[float], errors: Sequence[float]) -> float:
    """Return an upper bound of the probability that the ends differ at all, from all runs that measured both.

    It has a prior of one half, and the least Bayes factor that the p-value allows (Sellke, Bayarri and
    Berger, The American Statistician 55, 2001): -e p ln p.
    """
    change, error = _pool(changes, errors)
    if error == 0:
        return 1.0 if change else 0.5
    p = student.normal_two_sided(abs(change) / error)
    if p >= 1 / math.e:
        return 0.5
    return 1.0 if p == 0 else 1 / (1 - math.e * p * math.log(p))

"""How much the medians of runs differ on one machine though nothing was changed.

Two runs that lie apart differ by more than their own intervals say: memory is laid out anew, the host or the
clock is in another mood, other programs have left their traces. Two runs cannot show by how much; earlier
runs of the same experiment can. Where there are few, the two runs themselves have to show it, by how they
wander from one part to the next: that counts as `ASSUMED_RUNS` runs, which real ones replace one for one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from oscope.model.samples import Floats
from oscope.statistics.replication import winsorised

ASSUMED = 0.017
"""Relative deviation between runs that is assumed at least, whether they wander or not: 1.7 %.

Unchanged runs of system calls, files, memory and faults do: docs/explanation/statistics-checks.md.
"""
ASSUMED_RUNS = 9
"""The number of runs that the assumption counts as."""
PARTS = 5
"""Parts of a run that are compared with each other, to see how it wanders."""
NEWEST = 30
"""Runs that are looked at: what a machine did long ago says little of today."""


@dataclass(frozen=True)
class Spread:
    """The deviation between runs, relative, or in the metric's unit where values are not all above 0."""

    deviation: float
    dof: float
    runs: int
    """Earlier runs that it rests on, beside the prior."""
    within: float = np.inf
    """Standard error of the median within those runs, which the deviation holds; infinite: not known."""

    def scaled(self, by: float) -> Spread:
        """Return it in another unit."""
        return replace(self, deviation=self.deviation * by, within=self.within * by)


NONE = Spread(0.0, ASSUMED_RUNS - 1, 0)
"""Of what repeats exactly."""


def spread(
    medians: Floats, error: float = 0.0, part_deviation: float = 0.0, earlier_error: float = np.inf
) -> Spread:
    """Estimate it from the medians, all above 0, of earlier runs of one point, in order of time.

    `error` is the relative standard error of the median within the runs that are compared, `part_deviation`
    that of their parts (the function of that name): together they stand in for earlier runs. `earlier_error`
    is that of the median within the earlier runs; infinite where it is not known.
    """
    seen = np.log(medians[np.isfinite(medians) & (medians > 0)][-NEWEST:])
    count = len(seen) if len(seen) > 1 else 0
    own = max(count - 1, 0)
    assumed = max(ASSUMED_RUNS - 1 - own, 0)
    squares = float(((seen - seen.mean()) ** 2).sum()) if count else 0.0
    variance = (assumed * (error**2 + part_deviation**2) + squares) / (assumed + own)
    within = (assumed * error**2 + (own * earlier_error**2 if own else 0.0)) / (assumed + own)
    return Spread(float(np.sqrt(variance)), assumed + own, count, float(np.sqrt(within)))


def part_deviation(clusters: Floats) -> float:
    """Return the deviation between parts of a run beyond what its clusters, in order of time, explain.

    The estimate of a one-way analysis of variance (Searle, Casella and McCulloch, "Variance components",
    1992, 3.5), at least `ASSUMED`; that alone where there are fewer than two clusters a part.
    """
    count = len(clusters) // PARTS
    if count < 2:
        return ASSUMED
    parts = winsorised(clusters)[: count * PARTS].reshape(PARTS, count)
    within = float(parts.var(axis=1, ddof=1).mean())
    return float(np.sqrt(max(ASSUMED**2, float(parts.mean(axis=1).var(ddof=1)) - within / count)))

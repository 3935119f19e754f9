"""The slowest samples, and what was out of the ordinary in each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy

from oscope.model.samples import Floats, Ints

SLOW_SAMPLES = 10
SLOW_BEYOND = 3.0
"""A sample is slow if it exceeds the median by so many robust deviations (1.4826 MAD)."""


@dataclass(frozen=True)
class SlowSample:
    """One of the slowest samples and what was out of the ordinary in it."""

    index: int
    """Position in the values given."""
    value: float
    excess: float
    """Above the median, in the metric's unit; of a rate, below it, so that it is negative."""
    causes: tuple[str, ...]
    """Covariates beyond the 1st or 99th percentile of the ordinary samples, the most extreme first."""


def slow_samples(
    data: Floats, given: Mapping[str, Floats], reported: Floats, origin: Ints
) -> tuple[SlowSample, ...]:
    """List the slowest samples, the slowest first, with the covariates that were extraordinary in them.

    `data` are times, or their like; `reported` the values reported for them, and `origin` their positions.
    """
    median = float(np.median(data))
    deviation = float(scipy.stats.median_abs_deviation(data, scale="normal"))
    slow = data > median + SLOW_BEYOND * deviation
    worst = np.argsort(-data, kind="stable")[:SLOW_SAMPLES]
    ordinary = {name: column[~slow & np.isfinite(column)] for name, column in given.items()}
    limits = {
        name: (*np.quantile(c, [0.01, 0.99]), np.median(c), np.std(c))
        for name, c in ordinary.items()
        if len(c)
    }
    listed = []
    for i in worst[slow[worst]]:
        strange = {}
        for name, (low, high, centre, spread) in limits.items():
            x = given[name][i]
            if x < low or x > high:
                strange[name] = abs(x - centre) / spread if spread > 0 else float("inf")
        causes = tuple(sorted(strange, key=lambda name: (-strange[name], name)))
        listed.append(
            SlowSample(int(origin[i]), float(reported[i]), float(reported[i] - np.median(reported)), causes)
        )
    return tuple(listed)

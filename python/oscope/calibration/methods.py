"""What Oscope says of a pair, and what common habits say of the same samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from oscope.samples import ExperimentResults, Floats
from oscope.statistics import compare_results
from oscope.statistics.compare import THRESHOLD

OSCOPE = "Oscope"
T_INTERVAL = "means and t-interval"
MINIMUM = "minimum of N"
MEDIAN = "median of N"
METHODS = (OSCOPE, T_INTERVAL, MINIMUM, MEDIAN)
"""Welch's t-test takes all samples for independent. The minimum (lmbench's way) and the median have no test:
those who use them take a difference of more than 1 % for one."""


@dataclass(frozen=True)
class Verdict:
    """What a method says of a pair, B against A."""

    different: bool
    ratio: float
    low: float = float("nan")
    """Ends of the 95 % interval of the ratio; NaN where the method has none."""
    high: float = float("nan")

    def holds(self, truth: float) -> bool:
        """Say whether the interval holds `truth`."""
        return self.low <= truth <= self.high

    def finds(self, truth: float) -> bool:
        """Say whether it tells a difference, in the right direction."""
        return self.different and (self.ratio - 1) * (truth - 1) > 0


def judge(a: ExperimentResults, b: ExperimentResults) -> tuple[dict[str, Verdict], float]:
    """Return what each method says of the headline of two sides with one point each.

    Oscope's is its verdict as a user gets it: corrected for all metrics of the point. The second value is
    the smallest relative difference that it says it would have found. Raises UsageError where they cannot be
    compared.
    """
    headline = a.headline
    row = next(row for row in compare_results(a, b).rows if row.metric == headline)
    first, second = _values(a), _values(b)
    return {
        OSCOPE: Verdict(row.different == "yes", row.ratio, *row.ci95),
        T_INTERVAL: _t_interval(first, second),
        MINIMUM: _by_one_percent(_best(a, first), _best(b, second)),
        MEDIAN: _by_one_percent(float(np.median(first)), float(np.median(second))),
    }, row.detectable


def _values(results: ExperimentResults) -> Floats:
    values = results.points[0].metrics[results.headline]
    return values[np.isfinite(values)]


def _best(results: ExperimentResults, values: Floats) -> float:
    """Return the minimum of times; of what is better more, the maximum, which the shortest time gives."""
    return float(values.max() if results.metrics[results.headline].better == "more" else values.min())


def _t_interval(a: Floats, b: Floats) -> Verdict:
    found = stats.ttest_ind(b, a, equal_var=False)
    interval = found.confidence_interval(0.95)
    mean = float(a.mean())
    low, high = (1 + float(end) / mean for end in (interval.low, interval.high))
    return Verdict(bool(found.pvalue < 0.05), float(b.mean()) / mean, low, high)


def _by_one_percent(a: float, b: float) -> Verdict:
    ratio = b / a
    return Verdict(abs(ratio - 1) > THRESHOLD, ratio)

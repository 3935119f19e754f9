"""What Oscope says of a pair, and what other tools' rules and common habits say of the same samples."""

from __future__ import annotations

import numpy as np
import scipy

from oscope.analysis.calibration.peers import CRITERION, HYPERFINE, PYPERF, RULES, WELCH
from oscope.analysis.calibration.verdict import MethodVerdict
from oscope.model.samples import ExperimentResults, Floats
from oscope.statistics import compare_results
from oscope.statistics.compare import THRESHOLD

__all__ = ["MEDIAN", "METHODS", "MINIMUM", "OSCOPE", "T_INTERVAL", "WITH_INTERVALS", "MethodVerdict", "judge"]

OSCOPE = "Oscope"
T_INTERVAL = "means and t-interval"
MINIMUM = "minimum of N"
MEDIAN = "median of N"
METHODS = (OSCOPE, T_INTERVAL, HYPERFINE, WELCH, CRITERION, PYPERF, MINIMUM, MEDIAN)
"""In the order in which they are shown; calibrations of earlier versions have some of them.

Welch's t-test takes all samples for independent. The median and the minimum are lmbench's: it reports the
median of 11 results (TRIES in src/bench.h, save_median in src/lib_timing.c), and the minimum in a few
benchmarks (save_minimum: lat_mem_rd, stream). It has no rule to compare them. A difference of more than 1 %
is taken for one here, since its intervals are chosen for an accuracy of 1 % (doc/lmbench3.ms). `perf bench`
prints one figure and has no rule either.
"""
WITH_INTERVALS = (OSCOPE, T_INTERVAL, CRITERION)
"""Methods with a 95 % interval of the ratio."""
_FEWEST = 2
"""Samples of a side without which no rule has a spread."""


def judge(a: ExperimentResults, b: ExperimentResults) -> tuple[dict[str, MethodVerdict], float]:
    """Return what each method says of the headline of two sides with one point each.

    Oscope's is its verdict as a user gets it: corrected for all metrics of the point. The second value is
    the smallest relative difference that it says it would have found. Raises UsageError where they cannot be
    compared.
    """
    headline = a.headline
    row = next(row for row in compare_results(a, b).rows if row.metric == headline)
    first, second = _values(a), _values(b)
    return {
        OSCOPE: MethodVerdict(row.different == "yes", row.ratio, *row.ci95),
        T_INTERVAL: _t_interval(first, second),
        **_peers(first, second, is_rate=a.metrics[headline].better == "more"),
        MINIMUM: _by_one_percent(_best(a, first), _best(b, second)),
        MEDIAN: _by_one_percent(float(np.median(first)), float(np.median(second))),
    }, row.detectable


def _values(results: ExperimentResults) -> Floats:
    values = results.points[0].metrics[results.headline]
    return values[np.isfinite(values)]


def _best(results: ExperimentResults, values: Floats) -> float:
    """Return the minimum of times; of what is better more, the maximum, which the shortest time gives."""
    return float(values.max() if results.metrics[results.headline].better == "more" else values.min())


def _peers(a: Floats, b: Floats, *, is_rate: bool) -> dict[str, MethodVerdict]:
    """Return the verdicts of tools that compare times: a rate is the reciprocal of one, but for a factor."""
    if is_rate:
        a, b = (1 / values[values != 0] for values in (a, b))
    if min(len(a), len(b)) < _FEWEST:
        return dict.fromkeys(RULES, MethodVerdict(different=False, ratio=float("nan")))
    verdicts = {name: rule(a, b) for name, rule in RULES.items()}
    return {name: one.inverted() for name, one in verdicts.items()} if is_rate else verdicts


def _t_interval(a: Floats, b: Floats) -> MethodVerdict:
    found = scipy.stats.ttest_ind(b, a, equal_var=False)
    interval = found.confidence_interval(0.95)
    mean = float(a.mean())
    low, high = (1 + float(end) / mean for end in (interval.low, interval.high))
    return MethodVerdict(bool(found.pvalue < 0.05), float(b.mean()) / mean, low, high)


def _by_one_percent(a: float, b: float) -> MethodVerdict:
    ratio = b / a
    return MethodVerdict(abs(ratio - 1) > THRESHOLD, ratio)

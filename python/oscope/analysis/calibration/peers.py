"""How hyperfine, criterion.rs and pyperf decide that B differs from A: their published rules, in own code.

Each rule takes the times of A's and of B's repetitions, one value each, in any unit, at least two a side, and
returns a verdict on B over A. As in these tools all values of a side are one sample, whichever block or
process they come from.

Sources, read at the commits named: sharkdp/hyperfine 327d5f4, criterion-rs/criterion.rs 567405d, psf/pyperf
ab7fd04.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import scipy

from oscope.analysis.calibration.verdict import MethodVerdict
from oscope.model.samples import Floats
from oscope.statistics import student

HYPERFINE = "hyperfine"
WELCH = "hyperfine, Welch"
CRITERION = "criterion"
PYPERF = "pyperf"

LEVEL = 0.05
"""Significance level of all three tools."""
NOISE = 0.01
"""criterion's default noise threshold (src/lib.rs)."""
RESAMPLES = 2000
"""criterion takes 100 000 by default; see benchmarks/criterion_resamples.py for why fewer do."""
_VALUES_AT_ONCE = 1 << 20
"""Resampled values held in memory at a time."""
_STEPS = (30, 40, 50, 60, 80, 100)
"""Degrees of freedom at which pyperf's table of critical values steps, beyond 30; from `_NORMAL` on it has
those of the normal distribution."""
_NORMAL = 200


def hyperfine(a: Floats, b: Floats) -> MethodVerdict:
    """Judge by the line that hyperfine prints: `B ran 1.05 ± 0.03 times faster than A`.

    The ratio is of the slower mean to the faster one. Its ± is the standard deviation that follows from
    those of both samples by propagation of uncertainty, without covariance (src/benchmark/relative_speed.rs).
    The line comes whenever two means differ at all; a difference is claimed here where the ratio less its ±
    is above 1, as readers take it. That is no 95 % interval.
    """
    first, second = float(a.mean()), float(b.mean())
    if not (first > 0 and second > 0):
        return MethodVerdict(False, float("nan"))
    ratio = max(first, second) / min(first, second)
    deviation = ratio * math.hypot(float(a.std(ddof=1)) / first, float(b.std(ddof=1)) / second)
    return MethodVerdict(ratio - deviation > 1, second / first)


def welch(a: Floats, b: Floats) -> MethodVerdict:
    """Judge by hyperfine's scripts/welch_ttest.py: Welch's t-test on all runs, p below 5 %."""
    with warnings.catch_warnings():
        # Sides without variance: the p-value is then 0, or NaN where the means are equal.
        warnings.simplefilter("ignore", RuntimeWarning)
        p = float(scipy.stats.ttest_ind(b, a, equal_var=False).pvalue)
    return MethodVerdict(p < LEVEL, _ratio(a, b))


def pyperf(a: Floats, b: Floats) -> MethodVerdict:
    """Judge by `pyperf compare_to`: Student's two-sample t-test on the values of all processes, at 95 %.

    `is_significant` and `tscore` of pyperf/_utils.py; the critical values are those of its table, which is
    coarse above 30 degrees of freedom. It wants equal numbers of values, and reports sides with unequal ones
    as significant, with an error (`is_significant_benchs`, pyperf/_compare.py). Here the test for unequal
    numbers is used, so that pyperf is not blamed for a repetition that failed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        score = float(scipy.stats.ttest_ind(b, a, equal_var=True).statistic)
    return MethodVerdict(abs(score) >= critical_value(len(a) + len(b) - 2), _ratio(a, b))


def critical_value(dof: int) -> float:
    """Return the |t| from which pyperf calls a difference significant (`tdist95conf_level`)."""
    if dof >= _NORMAL:
        return student.normal_limit(LEVEL)
    beyond = max((step for step in _STEPS if step <= dof), default=dof)
    return student.limit(beyond, LEVEL)


def criterion(a: Floats, b: Floats, resamples: int = RESAMPLES) -> MethodVerdict:
    """Judge as criterion.rs compares B with the baseline A: `Performance has improved` or `regressed`.

    Both are reported where the p-value of a bootstrapped t-test is below 5 % and the whole 95 % percentile
    interval of the relative change of the mean lies beyond the noise threshold of ±1 %; else `No change in
    performance detected` or `Change within noise threshold` (src/analysis/compare.rs, and
    `compare_to_threshold` with its caller in src/report.rs). A sample is the mean time of an iteration of a
    batch; the slopes of its regression are not compared.

    Resamples follow from the data, so that equal data have equal verdicts; criterion's follow from the clock.
    """
    ratio = _ratio(a, b)
    if not math.isfinite(ratio):
        return MethodVerdict(False, ratio)
    random = np.random.default_rng([zlib.crc32(each.tobytes()) for each in (a, b)])
    ratios = _resampled_means(b, resamples, random) / _resampled_means(a, resamples, random)
    low, high = (float(end) for end in np.quantile(ratios, (0.025, 0.975)))
    beyond = low - 1 > NOISE or high - 1 < -NOISE
    # The test decides only what is beyond the threshold, and is the slower part.
    different = beyond and bootstrap_p(a, b, resamples, random) < LEVEL
    return MethodVerdict(different, ratio, low, high)


def bootstrap_p(a: Floats, b: Floats, resamples: int, random: np.random.Generator) -> float:
    """Return criterion's two-sided p-value: how extreme t is among those of resamples of both sides together.

    Both sides of a resample are drawn from the union of A and B (`mixed::bootstrap`), and t is Welch's
    (`Sample::t`, `Distribution::p_value`; src/stats). 1 where no resample has a finite t.
    """
    together, split = np.concatenate([b, a]), len(b)
    scores = []
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = float(_t(b[None], a[None])[0])
        for rows in _chunks(resamples, len(together)):
            drawn = together[random.integers(len(together), size=(rows, len(together)))]
            scores.append(_t(drawn[:, :split], drawn[:, split:]))
    score = np.concatenate(scores)
    score = score[np.isfinite(score)]
    if not len(score):
        return 1.0
    below = int((score < observed).sum())
    return 2 * min(below, len(score) - below) / len(score)


def _t(b: Floats, a: Floats) -> Floats:
    """Return Welch's t of each row."""
    error = b.var(axis=1, ddof=1) / b.shape[1] + a.var(axis=1, ddof=1) / a.shape[1]
    scores: Floats = (b.mean(axis=1) - a.mean(axis=1)) / np.sqrt(error)
    return scores


def _resampled_means(values: Floats, resamples: int, random: np.random.Generator) -> Floats:
    return np.concatenate(
        [
            values[random.integers(len(values), size=(rows, len(values)))].mean(axis=1)
            for rows in _chunks(resamples, len(values))
        ]
    )


def _chunks(resamples: int, length: int) -> Iterator[int]:
    """Yield numbers of resamples that fit into memory together."""
    most = max(1, _VALUES_AT_ONCE // length)
    for begun in range(0, resamples, most):
        yield min(most, resamples - begun)


def _ratio(a: Floats, b: Floats) -> float:
    """Return the ratio of the means; NaN where one is not above 0, as corrected times can be."""
    first, second = float(a.mean()), float(b.mean())
    return second / first if first > 0 and second > 0 else float("nan")


Rule = Callable[[Floats, Floats], MethodVerdict]

RULES: Mapping[str, Rule] = {HYPERFINE: hyperfine, WELCH: welch, CRITERION: criterion, PYPERF: pyperf}
"""By the method's name."""

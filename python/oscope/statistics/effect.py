"""The size of a difference between medians and its uncertainty: of pairs, or of two separate sets of samples.

The location is the median everywhere, at every number of samples, as `summary` gives it.

- *Pairs* (sides measured in the same blocks, in random order): the median of the pairs' differences. In a
  block of equal sides either is as likely to be the larger one, so the number of pairs above a value decides
  (sign test; its inversion is an interval of order statistics: Conover, "Practical Nonparametric Statistics",
  3.2 and 3.5). With fewer than `SIGNS_FROM` pairs that is too coarse, and Student's t is taken, with the
  standard error that the median of a normal sample has.
- *Separate sides*: the difference of their medians. Its interval is put together from those of the medians
  (Zou and Donner, "Construction of confidence limits about effect measures", Statistics in Medicine 27,
  2008), and from how much runs differ that lie apart in time (`between_runs`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy

from oscope.model.samples import Floats
from oscope.statistics import student
from oscope.statistics.between_runs import Spread

FEWEST_FOR_AUTOCORRELATION = 12
"""Fewer pairs cannot show whether they are autocorrelated."""
SIGNS_FROM = 20
"""Pairs from which on signs alone decide: of independent ones 2e-6 is then the smallest p."""
MEDIAN_ERROR = float(np.sqrt(np.pi / 2))
"""Standard error of the median of a normal sample over that of its mean, from 3 values on at most."""

POWER = 0.8
LEVEL = student.LEVEL


@dataclass(frozen=True)
class Estimate:
    """An effect (B less A, on the scale of the values) with a 95 % interval and the p of "no effect"."""

    effect: float
    low: float
    high: float
    p: float
    error: float
    """Standard error."""
    dof: float
    """Degrees of freedom."""
    bias: float = 0.0
    """What both ends of the interval hold beyond chance: no number of samples makes it smaller."""
    tied: bool = False
    """Whether most pairs are ties, so that their median shows nothing of how the others vary."""

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the interval at another confidence, such as 0.9: the same shape, by Student's t."""
        share = student.limit(self.dof, 1 - confidence) / student.limit(self.dof)
        below, above = self.effect - self.low - self.bias, self.high - self.effect - self.bias
        return self.effect - share * below - self.bias, self.effect + share * above + self.bias

    def detectable(self, level: float, power: float = POWER) -> float:
        """Smallest effect that a test at `level` would have found with this power (noncentral t).

        The standard error is made unbiased first (divided by c4), else it is too small more often than too
        large. NaN where most pairs are ties: there is no standard error then.
        """
        if self.tied:
            return float("nan")
        limit = student.limit(self.dof, level)
        half = self.dof / 2
        unbiased = np.exp(scipy.special.gammaln(half + 0.5) - scipy.special.gammaln(half)) / np.sqrt(half)
        return float(scipy.special.nctdtrinc(self.dof, 1 - power, limit) * self.error / unbiased) + self.bias


@dataclass(frozen=True)
class Median:
    """The median of one side, with its 95 % interval, on the scale of the comparison."""

    value: float
    low: float
    high: float
    dof: float
    """Of the interval: one less than there are clusters."""

    @property
    def error(self) -> float:
        """Standard error within the run."""
        return (self.high - self.low) / 2 / student.limit(self.dof)


def estimate(effect: float, error: float, dof: float) -> Estimate:
    """Build an estimate from its standard error; an error of 0 (values repeat exactly) gives p 0 or 1."""
    half_width = student.limit(dof) * error
    p = student.two_sided(abs(effect) / error, dof) if error > 0 else float(effect == 0)
    return Estimate(effect, effect - half_width, effect + half_width, p, error, dof)


def paired(difference: Floats) -> Estimate:
    """Median of the differences of pairs, in order of time; at least 2."""
    count, median = len(difference), float(np.median(difference))
    ess = count * _independent_share(difference - median)
    # Half a pair is the continuity correction; both deviations shrink with the effective number of pairs.
    rank_distance = student.normal_limit() * np.sqrt(count) / 2 * np.sqrt(count / ess) + 0.5
    if count < SIGNS_FROM or rank_distance > count / 2:
        # No pairs are left beyond the ends of an interval by ranks where few of them are independent.
        factor = MEDIAN_ERROR if count > 2 else 1.0
        error = factor * float(difference.std(ddof=1)) / np.sqrt(ess)
        return estimate(median, error, max(1.0, ess - 1))
    more, less = int((difference > 0).sum()), int((difference < 0).sum())
    if ess == count == more + less:
        p = float(scipy.stats.binomtest(more, count).pvalue)
        rank = int(scipy.stats.binom.ppf(LEVEL / 2, count, 0.5)) - 1
    else:
        z = max(0.0, abs(more - less) / 2 - 0.5) / (np.sqrt(count) / 2) * np.sqrt(ess / count)
        p = student.normal_two_sided(z)
        rank = int(np.floor(count / 2 - rank_distance))
    ordered = np.sort(difference)
    low, high = float(ordered[rank]), float(ordered[count - 1 - rank])
    dof = max(1.0, ess - 1)
    error = (high - low) / 2 / student.limit(dof)
    tied = error == 0 and more + less > 0
    return Estimate(median, min(low, median), max(high, median), p, error, dof, tied=tied)


def separate(a: Median, b: Median, between: Spread) -> Estimate:
    """Difference of the medians of two runs, or of what was not measured in the same blocks.

    Its variance is that of runs of this machine, which holds that of the medians within the earlier runs, and
    what the medians of these two vary by beyond; at least that of the medians within their own runs.
    """
    effect = b.value - a.value
    ends = [
        _combined([(near, side.dof) for near, side in pair], between)
        for pair in (
            ((b.value - b.low, b), (a.high - a.value, a)),
            ((b.high - b.value, b), (a.value - a.low, a)),
        )
    ]
    (below, dof_below), (above, dof_above) = ends
    toward_zero, dof = ends[0] if effect > 0 else ends[1]
    p = student.two_sided(abs(effect) / toward_zero, dof) if toward_zero > 0 else float(effect == 0)
    return Estimate(
        effect,
        effect - student.limit(dof_below) * below,
        effect + student.limit(dof_above) * above,
        p,
        max(below, above),
        min(dof_below, dof_above),
    )


def welch(a: Floats, b: Floats) -> Estimate:
    """Difference of the means of independent values, at least 2 a side (Welch, Biometrika 34, 1947)."""
    parts = np.array([a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)])
    total = float(parts.sum())
    dof = total**2 / float(parts**2 @ (1 / np.array([len(a) - 1, len(b) - 1]))) if total > 0 else 1.0
    return estimate(float(b.mean() - a.mean()), np.sqrt(total), dof)


def single(a: Floats, b: Floats) -> Estimate:
    """Difference where a side has one value: its variance is taken from the other side, if that has two."""
    change = float(np.median(b) - np.median(a))
    spread = max((float(np.std(side, ddof=1)) for side in (a, b) if len(side) > 1), default=float("inf"))
    dof = max(1, len(a) + len(b) - 2)
    if not np.isfinite(spread):
        return Estimate(change, -float("inf"), float("inf"), 1.0, float("inf"), dof)
    return estimate(change, spread * float(np.sqrt(1 / len(a) + 1 / len(b))), dof)


def with_runs(found: Estimate, between: Spread) -> Estimate:
    """Add by how much the runs of two sides differ to what varies within them (Satterthwaite)."""
    own, runs = found.error**2, 2 * between.deviation**2
    dof = (own + runs) ** 2 / (own**2 / found.dof + runs**2 / between.dof)
    return estimate(found.effect, float(np.sqrt(own + runs)), dof)


def with_extra_error(found: Estimate, extra: float) -> Estimate:
    """Add an independent, known standard error."""
    if extra == 0 or not np.isfinite(found.error):
        return found
    error = float(np.hypot(found.error, extra))
    if extra <= 1e-3 * found.error:
        return found
    # No more degrees of freedom than before: of few values that happen to agree, the error is much too small.
    wider = estimate(found.effect, error, found.dof)
    low, high, p = min(found.low, wider.low), max(found.high, wider.high), max(found.p, wider.p)
    return replace(found, low=low, high=high, p=p, error=error)


def with_bias(found: Estimate, most: float) -> Estimate:
    """Add an error of at most so much to each side, that is the same each time: p is for any such error."""
    if most == 0:
        return found
    rest = max(0.0, abs(found.effect) - most)
    # By the end of the interval that is nearer to zero, so that p and interval agree.
    near = found.effect - found.low if found.effect > 0 else found.high - found.effect
    error = (near - found.bias) / student.limit(found.dof)
    p = student.two_sided(rest / error, found.dof) if error > 0 else float(rest == 0)
    return replace(
        found, low=found.low - most, high=found.high + most, p=max(found.p, p), bias=found.bias + most
    )


def _combined(halves: list[tuple[float, float]], between: Spread) -> tuple[float, float]:
    """Return standard error and degrees of freedom of a difference, from half intervals of its terms."""
    parts = np.array([(half / student.limit(dof)) ** 2 for half, dof in halves])
    within, runs = float(parts.sum()), 2 * between.deviation**2
    if within == 0 and runs == 0:
        return 0.0, sum(dof for _, dof in halves)
    own = within**2 / float(parts**2 @ np.array([1 / f for _, f in halves])) if within else 1.0
    beyond = max(0.0, within - 2 * between.within**2)
    if within > runs + beyond:
        return float(np.sqrt(within)), own
    total = runs + beyond
    return float(np.sqrt(total)), total**2 / (runs**2 / between.dof + beyond**2 / own)


def _independent_share(residual: Floats) -> float:
    """Independent values per value, (1 - r) / (1 + r) of an AR(1); 1 where r is not beyond its error.

    By the signs, so that a few values far off tell nothing. Signs about the median have a lag-1 correlation
    that is too low by about 1 / n (Kendall 1954), which is added.
    """
    count, signs = len(residual), np.sign(residual)
    power = float(signs @ signs)
    if count < FEWEST_FOR_AUTOCORRELATION or power == 0:
        return 1.0
    lag = float(signs[1:] @ signs[:-1]) / power
    lag = min((lag * count + 1) / (count - 3), 0.9)
    return (1 - lag) / (1 + lag) if lag > 2 / np.sqrt(count) else 1.0

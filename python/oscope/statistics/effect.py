"""The size of a difference and its doubt, from one value a cluster.

Every estimate is a contrast of a least-squares fit. Its variance is HC2 with Bell and McCaffrey's degrees of
freedom (Imbens and Kolesar, Review of Economics and Statistics 98, 2016), which for two means is Welch's test
and for paired differences Student's: sides may differ in variance and count. Autocorrelation of neighbouring
clusters widens it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from oscope.samples import Floats, Ints

FEWEST_FOR_AUTOCORRELATION = 12
"""Fewer residuals cannot show whether they are autocorrelated."""

POWER = 0.8
LEVEL = 0.05


@dataclass(frozen=True)
class Estimate:
    """An effect (B less A, on the scale of the values) with a 95 % interval and the p of "no effect"."""

    effect: float
    low: float
    high: float
    p: float
    error: float
    """Standard error."""
    freedom: float
    """Degrees of freedom."""

    def detectable(self, level: float) -> float:
        """Smallest effect that a test at `level` would have found with 80 % power (noncentral t).

        The standard error is made unbiased first (divided by c4), else it is too small more often than too
        large.
        """
        limit = float(stats.t.isf(level / 2, self.freedom))
        half = self.freedom / 2
        bias = np.exp(special.gammaln(half + 0.5) - special.gammaln(half)) / np.sqrt(half)
        return float(special.nctdtrinc(self.freedom, 1 - POWER, limit) * self.error / bias)


def estimate(effect: float, error: float, freedom: float) -> Estimate:
    """Build an estimate from its standard error; an error of 0 (values repeat exactly) gives p 0 or 1."""
    reach = float(stats.t.isf(LEVEL / 2, freedom)) * error
    p = float(2 * stats.t.sf(abs(effect) / error, freedom)) if error > 0 else float(effect == 0)
    return Estimate(effect, effect - reach, effect + reach, p, error, freedom)


def paired(difference: Floats) -> Estimate:
    """Mean of the differences of pairs, in order of time; at least 2."""
    return _contrast(difference, np.ones((len(difference), 1)), np.zeros(len(difference), dtype=np.int64))


def unpaired(a: Floats, b: Floats) -> Estimate:
    """Difference of two means of independent clusters, each in order of time; at least 2 a side."""
    side = np.repeat([0, 1], [len(a), len(b)])
    return _contrast(np.concatenate([a, b]), np.column_stack([np.ones(len(side)), side]), side)


def unpaired_with_trend(a: Floats, b: Floats, time_a: Floats, time_b: Floats) -> Estimate:
    """As `unpaired`, with a linear trend over time common to both sides; at least 2 clusters a side."""
    side = np.repeat([0, 1], [len(a), len(b)])
    time = np.concatenate([time_a, time_b])
    scaled = (time - time.mean()) / (np.ptp(time) or 1.0)
    return _contrast(np.concatenate([a, b]), np.column_stack([np.ones(len(side)), side, scaled]), side)


def envelope(plain: Estimate, adjusted: Estimate) -> Estimate:
    """Say only what both estimates say: the larger p, the interval that spans both, the larger doubt.

    Runs taken one after the other may share one drift (then only `adjusted` is right), or each may drift
    afresh from its start (then only `plain` is right). Whichever holds, the error rate is kept; the price is
    told by `detectable`.
    """
    wider = max(plain, adjusted, key=lambda e: e.error * float(stats.t.isf(LEVEL / 2, e.freedom)))
    return Estimate(
        plain.effect,
        min(plain.low, adjusted.low),
        max(plain.high, adjusted.high),
        max(plain.p, adjusted.p),
        wider.error,
        wider.freedom,
    )


def single(a: Floats, b: Floats) -> Estimate:
    """Difference where a side has one value: its variance is taken from the other side, if that has two."""
    change = float(b.mean() - a.mean())
    spread = max((float(np.std(side, ddof=1)) for side in (a, b) if len(side) > 1), default=float("inf"))
    freedom = max(1, len(a) + len(b) - 2)
    if not np.isfinite(spread):
        return Estimate(change, -float("inf"), float("inf"), 1.0, float("inf"), freedom)
    return estimate(change, spread * float(np.sqrt(1 / len(a) + 1 / len(b))), freedom)


def with_extra_error(found: Estimate, extra: float) -> Estimate:
    """Add an independent, known standard error; degrees of freedom by Satterthwaite."""
    if extra == 0 or not np.isfinite(found.error):
        return found
    error = float(np.hypot(found.error, extra))
    if extra <= 1e-3 * found.error:
        return found
    freedom = min(found.freedom * (error / found.error) ** 4, 1e6) if found.error > 0 else found.freedom
    wider = estimate(found.effect, error, freedom)
    return Estimate(
        wider.effect,
        min(found.low, wider.low),
        max(found.high, wider.high),
        max(found.p, wider.p),
        error,
        freedom,
    )


def holm(p: Floats) -> Floats:
    """Correct p values for having made all these tests (Holm, Scandinavian Journal of Statistics 6, 1979)."""
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(raised, 1.0)
    return corrected


def _contrast(values: Floats, design: Floats, side: Ints) -> Estimate:
    """Estimate the coefficient of the side (or, with one column, the mean)."""
    inverse = np.linalg.inv(design.T @ design)
    solver = inverse @ design.T
    coefficients = solver @ values
    chosen = min(1, design.shape[1] - 1)
    weight = solver[chosen]
    hat = design @ solver
    maker = np.eye(len(values)) - hat
    residual = values - design @ coefficients
    spare = np.maximum(np.diag(maker), 1e-9)
    scale = weight**2 / spare
    variance = float(scale @ residual**2)
    form = maker * np.sqrt(scale)
    gram = form.T @ form
    freedom = float(np.trace(gram) ** 2 / (gram**2).sum())
    worth = _independent_share(residual, side, design.shape[1])
    return estimate(float(coefficients[chosen]), np.sqrt(variance / worth), max(1.0, freedom * worth))


def _independent_share(residual: Floats, side: Ints, parameters: int) -> float:
    """Independent clusters per cluster, (1 - r) / (1 + r) of an AR(1); 1 where r is not beyond its error.

    Residuals of a fit with k parameters have a lag-1 correlation that is too low by about k / n (Kendall
    1954), which is put back.
    """
    count = len(residual)
    power = float(residual @ residual)
    if count < FEWEST_FOR_AUTOCORRELATION or power == 0:
        return 1.0
    same = side[1:] == side[:-1]
    lag = float(residual[1:][same] @ residual[:-1][same]) / power
    lag = min((lag * count + parameters) / (count - 3), 0.9)
    return (1 - lag) / (1 + lag) if lag > 1 / np.sqrt(count) else 1.0

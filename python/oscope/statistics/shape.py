"""The shape of a set of samples: modes, outliers, drift over the run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy

from oscope.model.samples import Floats, Ints
from oscope.statistics import order

SIGNIFICANT = 0.01
"""Level of the test for a drift: it is looked for in every point of every run."""

FEWEST_FOR_MODES = 30
KDE_SAMPLES = 2000
MODE_GRID = 512
LEAST_MODE_SHARE = 0.05
VALLEY_ERRORS = 4.0
"""Two peaks are two modes only if the valley between them is this many standard errors below the lower
one."""

DRIFT_SEGMENTS = 20


@dataclass(frozen=True)
class Mode:
    """A peak of the density."""

    location: float
    """In the metric's unit."""
    share: float
    """Share of the samples nearer to it than the valleys beside it, 0 to 1."""


@dataclass(frozen=True)
class Drift:
    """A monotone change over the run."""

    relative: float
    """Change from the first to the last sample over the median, by Theil and Sen's slope; NaN where the
    median is 0."""
    p: float
    """Of Kendall's rank correlation with time; 1 where there is too little to test."""
    found: bool


def outlier_share(values: Floats, step: float = 0.0) -> float:
    """Share beyond Tukey's fences, each side scaled by its own half of the box, for skewed data.

    The fences are q1 - 3 * (median - q1) and q3 + 3 * (q3 - median): equal to Tukey's where the quartiles are
    symmetric. A value one step of the clock beside a quartile is no outlier: where most values fall on one
    step, the box has no width.
    """
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    below, above = (max(3 * half, 1.5 * step) for half in (middle - low, high - middle))
    outside = (values < low - below) | (values > high + above)
    return float(outside.mean()) if high > low or step else float((values != middle).mean())


def modes(values: Floats, effective: float) -> tuple[Mode, ...]:
    """Return the peaks that the samples support, lowest first; always at least one.

    Density by `scipy.stats.gaussian_kde` over the central 98 %, peaks by `scipy.signal.find_peaks`; a valley
    counts when it is deeper than the sampling error of `effective` independent samples would make it.
    """
    only = (Mode(float(np.median(values)), 1.0),)
    low, high = np.quantile(values, [0.01, 0.99])
    if len(values) < FEWEST_FOR_MODES:
        return only
    ordered = np.sort(values[(values >= low) & (values <= high)])
    if ordered[0] == ordered[-1]:
        # Their deviation may still be a rounding error above 0, of which SciPy makes no density.
        return only
    thin = ordered[np.linspace(0, len(ordered) - 1, min(len(ordered), KDE_SAMPLES)).astype(int)]
    quartiles = np.quantile(thin, [0.25, 0.75])
    spread = float(np.std(thin, ddof=1))
    width = 0.9 * (min(spread, float(np.ptp(quartiles)) / 1.34) or spread) * min(len(thin), effective) ** -0.2
    if not width > 0:
        return only
    grid = np.linspace(low - 2 * width, high + 2 * width, MODE_GRID)
    density = scipy.stats.gaussian_kde(thin, bw_method=width / spread)(grid)
    # Variance of a Gaussian kernel estimate: f / (n h 2 sqrt(pi)) (Silverman 1986, section 3.3).
    error = np.sqrt(density.max() / (effective * width * 2 * np.sqrt(np.pi)))
    peaks, _ = scipy.signal.find_peaks(density, prominence=VALLEY_ERRORS * error * np.sqrt(0.5))
    return _shares(values, grid, density, peaks) or only


def resolved(found: tuple[Mode, ...], values: Floats, step: float) -> tuple[Mode, ...]:
    """Return the modes if a clock that steps by `step` can tell them apart, else one that stands for all."""
    if any(b.location - a.location <= 2 * step for a, b in pairwise(found)):
        return (Mode(float(np.median(values)), 1.0),)
    return found


def _shares(values: Floats, grid: Floats, density: Floats, peaks: Ints) -> tuple[Mode, ...]:
    """Cut the samples at the valleys between `peaks`; peaks of too small a share are given up."""
    while len(peaks) > 1:
        valleys = [a + int(np.argmin(density[a:b])) for a, b in pairwise(peaks)]
        shares = np.bincount(np.searchsorted(grid[valleys], values), minlength=len(peaks)) / len(values)
        if shares.min() >= LEAST_MODE_SHARE:
            return tuple(Mode(float(grid[p]), float(s)) for p, s in zip(peaks, shares, strict=True))
        peaks = np.delete(peaks, int(np.argmin(shares)))
    return ()


def drift(values: Floats, unit_code: Ints) -> Drift:
    """Look for a monotone trend over time in the medians of the units (or of equal stretches of one)."""
    units = int(unit_code.max()) + 1
    if units == 1:
        units = min(DRIFT_SEGMENTS, len(values))
        unit_code = np.arange(len(values)) * units // len(values)
    elif units > 10 * DRIFT_SEGMENTS:
        unit_code, units = unit_code * (10 * DRIFT_SEGMENTS) // units, 10 * DRIFT_SEGMENTS
    medians = group_medians(values, unit_code)
    if units < 5 or np.ptp(medians) == 0:
        return Drift(0.0, 1.0, False)
    p = float(scipy.stats.kendalltau(np.arange(units), medians).pvalue)
    change = float(scipy.stats.theilslopes(medians).slope) * units
    centre = float(np.median(values))
    relative = change / abs(centre) if centre else float("nan")
    return Drift(relative, p, p < SIGNIFICANT)


def group_medians(values: Floats, code: Ints) -> Floats:
    """Median of the values of each code 0 to k - 1; every code must occur."""
    sorted_by_code = values[np.argsort(code, kind="stable")]
    ends = np.cumsum(np.bincount(code))
    return np.array([order.median(part) for part in np.split(sorted_by_code, ends[:-1])])

"""Intervals of quantiles of clustered samples.

Three methods, chosen by the number of clusters so that simulated coverage stays between 92 and 97 % from 2
clusters on (`tests/test_statistics_summary.py`):

- From `BOOTSTRAP_FROM` clusters on, the median's interval is a BCa bootstrap (Efron, JASA 82, 1987) that
  resamples whole clusters. Its nominal level is raised as Student's t is wider than the normal, and by k / (k
  - 1), since the plain bootstrap is too narrow by that much.
- Below, and for other quantiles, the test inverted is "is the share of samples below x equal to q?", with the
  share's error taken from the clusters and Student's t (Woodruff, JASA 47, 1952; Francisco and Fuller, Annals
  of Statistics 19, 1991). It always contains the sample quantile.
- With 2 to 5 clusters shares are too coarse: Student's t over the clusters' medians. Amounts, which are never
  below zero, are taken by their logarithms where all are above zero, since times and speeds vary by factors;
  else by their square roots, whose spread is nearly the same for counts of any mean (Bartlett, Supplement to
  the JRSS 3, 1936): no amount has a root below zero, so that the interval ends at zero there. Differences
  may be below zero, and are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy

from oscope.model.samples import Floats
from oscope.statistics import student
from oscope.statistics.replication import Clusters

MOST_BINS = 2048
"""Bins of equal share that stand for the values: exact for as many distinct values, else within 1/2048
of the ranks."""

BOOTSTRAP_FROM = 20
SHARES_FROM = 6
RESAMPLES = 2999
RESAMPLE_BATCH = 500
"""Resamples computed at once, which bounds the memory."""
DISCRETENESS = 1.06
"""Factor on the t limit of the share test: where clusters hardly overlap, shares are steps of 1 / k; without
it 7, 13 and 16 clusters would fall to 88 to 92 % (exact binomial calculation)."""

Interval = tuple[float, float]

Range = Literal["amount", "difference"]
"""An amount (a time, a size, a count) is never below zero; a difference may be."""


@dataclass(frozen=True)
class Binned:
    """The samples of each cluster counted below the edges of common bins."""

    edges: Floats
    """Upper edge of each bin, itself a sample value; ascending."""
    below: Floats
    """Clusters x edges: samples of the cluster at or below the edge."""


def binned(values: Floats, found: Clusters) -> Binned:
    """Count the samples of each cluster in bins of equal share."""
    edges = np.unique(values)
    if len(edges) > MOST_BINS:
        ranks = np.linspace(0, len(values) - 1, MOST_BINS).astype(int)
        edges = np.unique(np.sort(values)[ranks])
    place = np.searchsorted(edges, values) + found.code * len(edges)
    counts = np.bincount(place, minlength=found.count * len(edges)).reshape(found.count, len(edges))
    return Binned(edges, np.cumsum(counts, axis=1).astype(float))


def quantile_interval(bins: Binned, q: float) -> Interval | None:
    """Interval of quantile `q` by inverting the t test of the share below; None with one cluster."""
    count = len(bins.below)
    if count < 2:
        return None
    score = bins.below - q * bins.below[:, -1:]
    total = score.sum(axis=0)
    error = np.sqrt(count * score.var(axis=0, ddof=1))
    limit = DISCRETENESS * student.limit(count - 1)
    kept = np.flatnonzero(np.abs(total) <= limit * error)
    if not len(kept):
        only = float(bins.edges[np.searchsorted(total, 0.0)])
        return only, only
    return float(bins.edges[kept[0]]), float(bins.edges[min(kept[-1] + 1, len(bins.edges) - 1)])


def median_interval(bins: Binned, seed: int, kind: Range = "amount") -> Interval | None:
    """95 % interval of the median of all samples; None with one cluster.

    Where a correction took an amount below zero, its interval is that of a difference.
    """
    count = len(bins.below)
    if len(bins.edges) == 1 and count > 1:
        return float(bins.edges[0]), float(bins.edges[0])
    if 2 <= count < SHARES_FROM:
        return _student(bins, kind)
    if count < BOOTSTRAP_FROM:
        return quantile_interval(bins, 0.5)
    return _bootstrap(bins, seed) or quantile_interval(bins, 0.5)


def widened(found: Interval | None, by: float) -> Interval | None:
    """Return the interval with `by` added at both ends."""
    return None if found is None else (found[0] - by, found[1] + by)


def _student(bins: Binned, kind: Range) -> Interval:
    """Student's t interval over the medians of few clusters, reaching as far as the median of all samples."""
    count = len(bins.below)
    medians = _weighted_medians(bins, np.eye(count))
    centre = float(_weighted_medians(bins, np.ones((1, count)))[0])
    if not np.ptp(medians):
        # The logarithm and back would not quite give equal medians again.
        return min(centre, float(medians[0])), max(centre, float(medians[0]))
    limits = _t_limits(medians)
    # Amounts that a correction took below zero, such as times, have no logarithms.
    least = float(bins.edges[0]) if kind == "amount" else -np.inf
    if least >= 0 and medians.min() == 0:
        limits = np.maximum(_t_limits(np.sqrt(medians)), 0.0) ** 2
    elif least >= 0 and medians.min() > 0:
        with np.errstate(over="ignore"):
            factors = np.exp(_t_limits(np.log(medians)))
        # Medians that lie hundreds of orders of magnitude apart have no limit that could be written.
        limits = factors if np.isfinite(factors).all() else limits
    return min(centre, float(limits[0])), max(centre, float(limits[1]))


def _t_limits(values: Floats) -> Floats:
    """Lower and upper limit of the mean by Student's t."""
    half_width = student.limit(len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return np.asarray([values.mean() - half_width, values.mean() + half_width])


def _bootstrap(bins: Binned, seed: int) -> Interval | None:
    """BCa interval over clusters; None where the resampled median does not vary (BCa is then undefined)."""
    count = len(bins.below)
    # `scipy.stats.bootstrap` gives the same limits; importing it takes longer than all before the result.
    random = np.random.default_rng(seed)
    resampled = np.concatenate(
        [
            _weighted_medians(bins, _times_drawn(random.integers(0, count, (size, count))))
            for size in (RESAMPLE_BATCH,) * (RESAMPLES // RESAMPLE_BATCH) + (RESAMPLES % RESAMPLE_BATCH,)
        ]
    )
    centre = _weighted_medians(bins, np.ones((1, count)))[0]
    # Efron and Tibshirani, An introduction to the bootstrap (1993), equations 14.10, 14.14 and 14.15.
    below = (np.count_nonzero(resampled < centre) + np.count_nonzero(resampled <= centre)) / (2 * RESAMPLES)
    left_out = _weighted_medians(bins, 1 - np.eye(count))
    influence = left_out.mean() - left_out
    half_width = student.limit(count - 1) * np.sqrt(count / (count - 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        acceleration = (influence**3).sum() / 6 / (influence**2).sum() ** 1.5
        bias = scipy.special.ndtri(below)
        moved = bias + np.array([-half_width, half_width])
        shares = scipy.special.ndtr(bias + moved / (1 - acceleration * moved))
    if not np.isfinite(shares).all():
        return None
    low, high = np.quantile(resampled, shares)
    return float(low), float(high)


def _times_drawn(drawn: npt.NDArray[np.int64]) -> Floats:
    """Return how often each cluster was drawn, for each row of drawn numbers: an array of the same shape."""
    rows, count = drawn.shape
    offset = np.arange(rows)[:, None] * count
    return np.bincount((drawn + offset).ravel(), minlength=rows * count).reshape(rows, count).astype(float)


def _weighted_medians(bins: Binned, weights: Floats) -> Floats:
    """Median of the samples, each cluster counted as often as its weight; one for each row of `weights`."""
    half = weights @ bins.below[:, -1] / 2
    below = np.ascontiguousarray(bins.below.T)
    lower = _first_edge(below, weights, lambda count: count >= half)
    upper = _first_edge(below, weights, lambda count: count > half)
    return np.asarray((bins.edges[lower] + bins.edges[upper]) / 2, dtype=float)


def _first_edge(
    below: Floats, weights: Floats, enough: Callable[[Floats], npt.NDArray[np.bool_]]
) -> npt.NDArray[np.int64]:
    """Return for each row of `weights` the first edge at or below which there are samples enough.

    `below` has a row for each edge. The counts rise from edge to edge, so that bisection finds it.
    """
    low = np.zeros(len(weights), dtype=np.int64)
    high = np.full(len(weights), len(below) - 1)
    while (low < high).any():
        middle = (low + high) // 2
        found = enough(np.einsum("rk,rk->r", weights, below[middle]))
        high = np.where(found, middle, high)
        low = np.where(found, low, np.minimum(middle + 1, high))
    return low

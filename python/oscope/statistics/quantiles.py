"""Differences of the slow tail: p90, p99 and p99.9 of two sides, beyond what their medians explain.

The median is the only estimator of the location; rare slow samples are a question of their own. Of metrics of
which more is better the slow samples are the low ones: p10, p1 and p0.1.

- *Pairs* (sides measured in the same blocks): the test is of the shares of both sides' samples that are
  slower than the smaller one of the two quantiles. It is a t test of the differences of the shares within
  each cluster of neighbouring blocks, so that what slows both sides alike does not enter.
- *Separate sides*: the difference of the two quantiles, as `effect.separate` has it for medians, with how
  much the quantile differs between runs (`between_runs`).
- *Interval* of the ratio of the quantiles: each quantile's own interval, by the inverted test of the share
  below it (Woodruff, JASA 47, 1952; Francisco and Fuller, Annals of Statistics 19, 1991), both put together
  with their correlation (Zou and Donner, Statistics in Medicine 27, 2008). It needs no density, which the
  inverted test of pairs would: that one covers the ratio only where both tails fall alike.
- *Beyond the medians*: p is the largest of those for all changes of the tail from none to the median's own,
  over the 95 % interval of the latter (Berger and Boos, JASA 89, 1994). A constant added to each sample
  changes a quantile by less than a factor on each does, so both explanations are among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from oscope.model import clocks
from oscope.model.factors import Level
from oscope.model.samples import Floats, Ints, PointSamples
from oscope.statistics import between_runs, effect, replication, student
from oscope.statistics.between_runs import Spread
from oscope.statistics.effect import Estimate, Median
from oscope.statistics.estimating import Result, scale_of
from oscope.statistics.multiplicity import false_discoveries

SHARES = (0.1, 0.01, 0.001)
"""Shares of the samples beyond the quantiles that are judged."""
SAMPLES_BEYOND = 10
"""A quantile is judged only if each side has so many samples beyond it: p99 from 1000 on."""
FEWEST_CLUSTERS = 10
"""Fewer blocks or boots a side do not show how often slow samples come together."""
MOST_CORRELATION = 0.9
"""Of neighbouring clusters: beyond it the run is too short for an effective number."""
MOST_EDGES = 400
"""Values at which an interval may end, dense where the tail is: within 3 % of the samples beyond them, up
to 100 000 samples."""

KnownQuantiles = Callable[[float], Floats]
"""Returns a quantile of the point's metric in earlier runs, in order of time."""


@dataclass(frozen=True)
class TailDifference:
    """One quantile of the slow tail at one point, B against A."""

    factors: Mapping[str, Level]
    metric: str
    unit: str
    quantile: float
    """0.99 is p99."""
    value_a: float
    """In `unit`."""
    value_b: float
    ratio: float
    """B over A; NaN where values are not all above 0."""
    difference: float
    """B less A, in `unit`."""
    ci95: tuple[float, float]
    """Of the ratio; where there is none, of the difference."""
    p: float
    """Of "the tail changed no further than the median did"."""
    p_corrected: float
    """p, corrected for all quantiles and points of the comparison (Benjamini and Hochberg)."""
    different: bool
    """Whether p_corrected is below 0.05."""
    beyond_a: float
    """Share of A's samples that are slower than A's quantile: 1 % of p99 where no values are equal."""
    beyond_b: float
    """Share of B's samples that are slower than A's quantile."""
    medians_differ: bool
    """Whether the medians of the point are judged to differ, too."""
    method: str
    clusters_a: int
    clusters_b: int

    @property
    def name(self) -> str:
        """Return `p99`, or `p99.9`."""
        return f"p{100 * self.quantile:.4g}"


@dataclass(frozen=True)
class _Side:
    """The samples of one side, mirrored where more is better, so that the slow ones are the large ones."""

    value: Floats
    """Logarithms where both sides are above 0."""
    code: Ints
    """The cluster of each sample, in order of time."""
    size: Floats
    """Samples of each cluster."""

    @property
    def count(self) -> int:
        """Number of clusters."""
        return len(self.size)


@dataclass(frozen=True)
class _Quantile:
    """A quantile of one side with its 95 % interval, and the score of each cluster at it."""

    value: float
    low: float
    high: float
    score: Floats
    """Samples beyond the quantile, less those expected."""


def tail_differences(
    result: Result, known: KnownQuantiles, *, medians_differ: bool
) -> Iterator[TailDifference]:
    """Judge the quantiles of one compared point for which there are samples enough; p is not yet corrected.

    `known` gives quantiles of earlier runs, for sides that were not interleaved. Nothing is judged where
    instructions are counted, which repeat exactly, nor over fewer clusters than `FEWEST_CLUSTERS`.
    """
    paired = result.method.startswith("paired")
    if clocks.counted(result.metric.unit) or result.fewest_clusters < 2:
        return
    if not np.isfinite([result.estimate.low, result.estimate.high]).all():
        return
    sides = _sides(result, paired=paired)
    if min(side.count for side in sides) < FEWEST_CLUSTERS:
        return
    for share in SHARES:
        # The tolerance is for 0.1 * 100 and its like, which are not whole in binary.
        if min(len(side.value) for side in sides) * share < SAMPLES_BEYOND - 1e-9:
            continue
        yield _judge(result, sides, share, known, paired=paired, medians_differ=medians_differ)


def correct_tails(tails: Sequence[TailDifference]) -> tuple[TailDifference, ...]:
    """Correct p for all the quantiles and points that were judged: a family of their own."""
    corrected = false_discoveries([tail.p for tail in tails])
    return tuple(
        replace(tail, p_corrected=float(p), different=bool(p < effect.LEVEL))
        for tail, p in zip(tails, corrected, strict=True)
    )


def _judge(
    result: Result,
    sides: tuple[_Side, _Side],
    share: float,
    known: KnownQuantiles,
    *,
    paired: bool,
    medians_differ: bool,
) -> TailDifference:
    sign = _sign(result)
    quantile = 1 - share if sign > 0 else share
    a, b = (_quantile(side, share) for side in sides)
    # The quantiles are as they were measured: what the core's speed explains of the medians is theirs too.
    speed = 0.0 if result.explained is None else result.explained.change
    median = sorted(sign * (end + speed) for end in (result.estimate.low, result.estimate.high))
    explained = min(0.0, median[0]), max(0.0, median[1])
    if paired:
        found = _combined(a, b)
        lower, upper = (_share_test(sides, share, change) for change in explained)
        p = _largest_p(lower, upper, sides[0].count - 1)
    else:
        spread = _between(result, sides, (a, b), share, known(quantile))
        first, second = (_as_median(each, side.count) for each, side in zip((a, b), sides, strict=True))
        found = effect.separate(first, second, spread)
        p = _p_beyond(found, explained)
    ends = sorted(sign * end for end in (found.low, found.high))
    # Between two samples by their values, not by logarithms: as the summary of a side has it.
    value_a, value_b = (float(np.quantile(_unscaled(result, sign * side.value), quantile)) for side in sides)
    low, high = (_ratio(end) for end in ends) if result.logarithmic else ends
    return TailDifference(
        factors=result.match.factors,
        metric=result.metric.name,
        unit=result.metric.unit,
        quantile=quantile,
        value_a=value_a,
        value_b=value_b,
        ratio=_ratio(sign * found.effect) if result.logarithmic else float("nan"),
        difference=value_b - value_a,
        ci95=(low, high),
        p=p,
        p_corrected=p,
        different=p < effect.LEVEL,
        beyond_a=float((sides[0].value > a.value).mean()),
        beyond_b=float((sides[1].value > a.value).mean()),
        medians_differ=medians_differ,
        method="shares of pairs" if paired else "quantiles of separate sides",
        clusters_a=sides[0].count,
        clusters_b=sides[1].count,
    )


def _sign(result: Result) -> float:
    return -1.0 if result.metric.better == "more" else 1.0


def _ratio(change: float) -> float:
    return float(np.exp(min(change, 700.0)))


def _unscaled(result: Result, values: Floats) -> Floats:
    return np.exp(values) if result.logarithmic else values


def _sides(result: Result, *, paired: bool) -> tuple[_Side, _Side]:
    """Return the samples of both sides by cluster; of pairs, of the blocks or boots that both have."""
    points = (result.match.a, result.match.b)
    if not paired:
        first, second = (_side(result, point, None) for point in points)
        return first, second
    # With a boot a block either names the pair; blocks do where the two runs numbered their boots apart.
    by_boot = result.a.level == "boot" and any(
        len(np.unique(point.boot)) < len(np.unique(point.block)) for point in points
    )
    units = [np.asarray(point.boot if by_boot else point.block) for point in points]
    measured = [np.isfinite(point.metrics[result.metric.name]) for point in points]
    unit_a, unit_b = (unit[keep] for unit, keep in zip(units, measured, strict=True))
    common = np.intersect1d(unit_a, unit_b)
    begun = np.full(len(common), np.iinfo(np.int64).max)
    is_common = np.isin(units[0], common)
    np.minimum.at(begun, np.searchsorted(common, units[0][is_common]), points[0].started_ns[is_common])
    place = np.argsort(np.argsort(begun, kind="stable"), kind="stable")
    count = min(len(common), replication.MOST_CLUSTERS)
    code = place * count // len(common)
    sides = []
    for point, unit in zip(points, units, strict=True):
        kept = np.isin(unit, common)
        own = np.full(len(unit), -1)
        own[kept] = code[np.searchsorted(common, unit[kept])]
        sides.append(_side(result, point, own))
    return sides[0], sides[1]


def _side(result: Result, point: PointSamples, code: Ints | None) -> _Side:
    """Return the finite samples by cluster; without `code` by the highest level that varied."""
    values = point.metrics[result.metric.name]
    kept = np.isfinite(values) if code is None else np.isfinite(values) & (code >= 0)
    values = values[kept]
    if code is None:
        found = replication.clusters(values, replication.codes(point.block[kept]), point.boot[kept])
        own, count = found.code, found.count
    else:
        own, count = code[kept], int(code.max()) + 1
    scaled = _sign(result) * (np.log(values) if result.logarithmic else values)
    return _Side(scaled, own, np.bincount(own, minlength=count).astype(float))


def _quantile(side: _Side, share: float) -> _Quantile:
    """Return the value that `share` of the samples exceed, with its interval.

    Where few samples are beyond, the error that the shares have at the quantile itself is the least: above it
    there are too few to show it.
    """
    edges, beyond = _beyond(side)
    value = float(np.quantile(side.value, 1 - share))
    score = beyond - share * side.size[:, None]
    total = score.sum(axis=0)
    place = min(int(np.searchsorted(-total, 0.0)), len(edges) - 1)
    error = np.sqrt(side.count * score.var(axis=0, ddof=1) * _autocorrelation_time(score[:, place]))
    error = np.maximum(error, error[place])
    kept = np.flatnonzero(np.abs(total) <= student.limit(side.count - 1) * error)
    first, last = (int(kept[0]), int(kept[-1])) if len(kept) else (place, place - 1)
    low, high = float(edges[first]), float(edges[min(last + 1, len(edges) - 1)])
    return _Quantile(value, min(low, value), max(high, value), score[:, place])


def _beyond(side: _Side) -> tuple[Floats, Floats]:
    """Return values in ascending order, and the samples of each cluster (rows) above each of them."""
    ordered, count = np.sort(side.value), len(side.value)
    ranks = np.unique(np.round(np.geomspace(1, count, MOST_EDGES)).astype(int))
    edges = np.unique(ordered[count - ranks])
    place = np.searchsorted(edges, side.value) + side.code * len(edges)
    counts = np.bincount(place, minlength=side.count * len(edges)).reshape(side.count, len(edges))
    return edges, side.size[:, None] - np.cumsum(counts, axis=1)


def _combined(a: _Quantile, b: _Quantile) -> Estimate:
    """Return the difference of the quantiles of pairs, with the correlation of their scores."""
    spread = float(np.sqrt(a.score.var() * b.score.var()))
    rho = float(((a.score - a.score.mean()) * (b.score - b.score.mean())).mean()) / spread if spread else 0.0

    def half_width(near: float, far: float) -> float:
        return float(np.sqrt(max(0.0, near**2 + far**2 - 2 * rho * near * far)))

    change, dof = b.value - a.value, len(a.score) - 1
    below = half_width(b.value - b.low, a.high - a.value)
    above = half_width(b.high - b.value, a.value - a.low)
    error = max(below, above) / student.limit(len(a.score) - 1)
    return Estimate(change, change - below, change + above, float("nan"), error, dof)


def _share_test(sides: tuple[_Side, _Side], share: float, change: float) -> float:
    """Return t of "as many of B's samples, less `change`, are beyond the threshold as of A's", signed.

    The threshold is the smaller one of the two quantiles. At the larger one, or that of all samples together,
    slow samples that one side alone has can lie just below it, and would not count. Half a sample a side is
    the continuity correction.
    """
    a, b = sides
    first, second = a.value, b.value - change
    ranks = [len(values) - 1 - int(np.floor(len(values) * share)) for values in (first, second)]
    threshold = min(
        np.partition(values, rank)[rank] for values, rank in zip((first, second), ranks, strict=True)
    )
    difference = np.zeros(a.count)
    shares = []
    for value, side, sign in ((first, a, -1), (second, b, 1)):
        beyond = np.bincount(side.code, weights=value > threshold, minlength=side.count)
        shares.append(float(beyond.sum()) / len(value))
        difference += sign * (beyond - shares[-1] * side.size) / len(value)
    error = float(np.sqrt(a.count * difference.var(ddof=1) * _autocorrelation_time(difference)))
    gap = shares[1] - shares[0]
    size = max(0.0, abs(gap) - (1 / len(first) + 1 / len(second)) / 2)
    if not error:
        return 0.0 if not size else float(np.copysign(np.inf, gap))
    return float(np.copysign(size / error, gap)) if size else 0.0


def _largest_p(lower: float, upper: float, dof: int) -> float:
    """Return the largest p of the changes between two, given by their t: t falls as the change grows."""
    nearest = upper if upper > 0 else -lower
    return student.two_sided(max(0.0, nearest), dof)


def _p_beyond(found: Estimate, explained: tuple[float, float]) -> float:
    """Return p of "the difference lies between these ends"."""
    gap = max(0.0, found.effect - explained[1], explained[0] - found.effect)
    if not found.error:
        return float(not gap)
    return student.two_sided(gap / found.error, found.dof)


def _as_median(found: _Quantile, clusters: int) -> Median:
    return Median(found.value, found.low, found.high, clusters - 1)


def _between(
    result: Result,
    sides: tuple[_Side, _Side],
    found: tuple[_Quantile, _Quantile],
    share: float,
    known: Floats,
) -> Spread:
    """Return how much the quantile differs between runs: as those of earlier runs, or as these wander."""
    scale = scale_of(found[0].value, found[1].value, logarithmic=result.logarithmic)
    errors = [
        (each.high - each.low) / 2 / student.limit(side.count - 1)
        for each, side in zip(found, sides, strict=True)
    ]
    part_deviation = max(
        _part_deviation(side, share, error, between_runs.ASSUMED * scale)
        for side, error in zip(sides, errors, strict=True)
    )
    error = float(np.sqrt(np.mean(np.square(errors))))
    return between_runs.spread(known, error / scale, part_deviation / scale).scaled(scale)


def _part_deviation(side: _Side, share: float, error: float, least: float) -> float:
    """Return the deviation of the quantile between parts of a run beyond what its error explains."""
    parts = between_runs.PARTS
    if side.count < 2 * parts or len(side.value) * share < 2 * parts:
        return least
    part = side.code * parts // side.count
    quantiles = [np.quantile(side.value[part == number], 1 - share) for number in range(parts)]
    return float(np.sqrt(max(least**2, float(np.var(quantiles, ddof=1)) - parts * error**2)))


def _autocorrelation_time(scores: Floats) -> float:
    """Return how many clusters equal an independent one: (1 + r) / (1 - r) of an AR(1), at least 1.

    1 where the correlation r of neighbours is not beyond its error (one-sided, at 5 %). Its estimate is too
    low by about 1 / n (Kendall, Biometrika 41, 1954), which is added.
    """
    count, centred = len(scores), scores - scores.mean()
    power = float(centred @ centred)
    if count < effect.FEWEST_FOR_AUTOCORRELATION or not power:
        return 1.0
    lag = min((float(centred[1:] @ centred[:-1]) / power * count + 1) / (count - 3), MOST_CORRELATION)
    return (1 + lag) / (1 - lag) if lag > scipy.special.ndtri(0.95) / np.sqrt(count) else 1.0

"""Which hosts of a fleet are odd: a hierarchical model of each metric, and one family of tests over all.

A host is a level of replication above the boot. What a host has of a metric is the median over its blocks of
the blocks' medians. Amounts above zero are compared by their logarithms, since times and speeds vary by
factors; others by their shares of the fleet's median. Hosts are taken for a sample of a population with a
spread of its own, to which each host's uncertainty comes:

- Each host is compared with the mean of the others (externally studentised deviation). The others' standard
  deviation holds both the spread between hosts and their uncertainty, so that Student's t with their degrees
  of freedom is exact for normal host effects. A host that is less certain than that has its own error, with
  the degrees of freedom of Welch and Satterthwaite. Tested is whether the host is beyond the mean by more
  than the threshold, the minimum effect that matters (an interval null hypothesis).
- *By distribution*: the same is asked of the blocks' 10 % and 90 % quantiles, which finds hosts whose median
  is ordinary, and whose fast or slow samples are not (in the sense of SuperBench, arXiv 2402.06194). A median
  over blocks does not follow a single block with interference. Bonferroni over the three.
- Several odd hosts would hide each other. They are taken off one by one, a fifth of the hosts at most
  (generalised extreme studentised deviate, Rosner, Technometrics 25, 1983).
- A host is odd by the median only where the median of all its samples, which other screens show, is too.
- All hosts x metrics are one family: of those that are named odd, 5 % are not (Benjamini and Hochberg, JRSS B
  57, 1995).

The spread between ordinary hosts is estimated as in a meta-analysis (Paule and Mandel, Journal of Research of
the NBS 87, 1982), its interval by the Q profile (Viechtbauer, Statistics in Medicine 26, 2007).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy

from oscope.model.samples import Floats, Ints
from oscope.statistics import student
from oscope.statistics.interval import Interval
from oscope.statistics.multiplicity import bonferroni, false_discoveries
from oscope.statistics.replication import codes

Criterion = Literal["median", "fast samples", "slow samples"]
Verdict = Literal["odd", "ordinary", "cannot tell"]

THRESHOLD = 0.05
"""The minimum effect that matters, as a share of the fleet's median."""
FALSE_DISCOVERIES = 0.05
LEAST_HOSTS = 4
"""With fewer there is no fleet that a host could be compared with."""
LEAST_BLOCKS = 3
"""With fewer a host has no uncertainty of its own that could be judged."""
LEAST_VARIANCE = 1e-12
"""Share of all variance that a host has at least: the weight of one that repeats exactly has to be finite."""
_MOST_ODD = 5
"""At most one in so many hosts is taken off."""
QUANTILES: Mapping[Criterion, float] = {"median": 0.5, "fast samples": 0.1, "slow samples": 0.9}
"""What hosts are compared by: quantiles of the samples of a block."""


@dataclass(frozen=True)
class HostSamples:
    """One metric at one point on one host, in the order taken."""

    values: Floats
    block: Ints


@dataclass(frozen=True)
class Series:
    """One metric at one point on the hosts that have samples of it."""

    key: Hashable
    hosts: Mapping[str, HostSamples]


@dataclass(frozen=True)
class Cell:
    """One metric of one host, beside the other hosts."""

    host: str
    value: float
    """Median of the medians of the blocks, in the metric's unit."""
    effect: float
    """Deviation from the mean of the others by `criterion`, as a share of their median of it."""
    interval: Interval
    """95 % interval of `effect`."""
    criterion: Criterion
    """By which it is oddest."""
    p: float
    """NaN where there was no test."""
    q: float
    """`p` corrected for all hosts x metrics: the share of false ones among those named odd down to it."""
    blocks: int
    verdict: Verdict
    reason: str
    """Why it cannot be judged; empty otherwise."""


@dataclass(frozen=True)
class FleetMetric:
    """One metric at one point over the fleet."""

    key: Hashable
    median: float
    """Of the hosts' values, in the metric's unit."""
    centre: Interval
    """95 % interval of the mean of the hosts that are not odd, in the metric's unit."""
    spread: float
    """Standard deviation between the hosts that are not odd, as a share of the median."""
    spread_interval: Interval
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class _Location:
    values: Mapping[Criterion, float]
    variances: Mapping[Criterion, float]
    """Of the values; NaN with a single block."""
    blocks: int
    whole: float
    """Median of all samples, of whatever block."""

    @property
    def value(self) -> float:
        return self.values["median"]


@dataclass(frozen=True)
class _Deviation:
    """What is known of a host beside the others, before several tests are taken together."""

    criterion: Criterion
    effect: float
    error: float
    degrees: float
    p: float


_UNKNOWN = _Deviation("median", np.nan, np.nan, 0.0, np.nan)


def judge(series: Sequence[Series], threshold: float = THRESHOLD) -> tuple[FleetMetric, ...]:
    """Compare the hosts of each series with each other, all series as one family of tests.

    Series of which the fleet's median is 0, or that fewer than `LEAST_HOSTS` hosts have, have no odd hosts.
    """
    judged = [_Judged.of(one, threshold) for one in series]
    q = iter(false_discoveries([each.p for one in judged for each in one.deviations]).tolist())
    return tuple(one.metric([next(q) for _ in one.deviations]) for one in judged)


@dataclass(frozen=True)
class _Judged:
    """A series whose hosts were compared."""

    key: Hashable
    threshold: float
    names: tuple[str, ...]
    hosts: tuple[_Location, ...]
    median: float
    deviations: tuple[_Deviation, ...]
    """By the criterion with the smallest p, which is corrected for their number."""
    logarithmic: bool
    """Whether all that is known of the hosts is in logarithms."""

    @property
    def scale(self) -> float:
        """What deviations are shares of: 1 for logarithms, whose differences are shares."""
        return 1.0 if self.logarithmic else abs(self.median)

    def _share(self, deviation: float) -> float:
        return float(np.expm1(deviation)) if self.logarithmic else deviation

    def _amount(self, value: float) -> float:
        return float(np.exp(value)) if self.logarithmic else value

    @classmethod
    def of(cls, series: Series, threshold: float) -> _Judged:
        logarithmic = _above_zero(series)
        located = {name: _locate(samples, logarithmic) for name, samples in series.hosts.items()}
        hosts = {name: one for name, one in located.items() if one is not None}
        found = [_UNKNOWN] * len(hosts)
        if len(hosts) >= LEAST_HOSTS:
            limit = float(np.log1p(threshold)) if logarithmic else threshold
            by_criterion = [
                _compare_hosts(list(hosts.values()), each, limit, logarithmic) for each in QUANTILES
            ]
            found = [min(each, key=lambda one: one.p) for each in zip(*by_criterion, strict=True)]
        deviations = tuple(
            replace(one, p=bonferroni(one.p, len(QUANTILES)) if host.blocks >= LEAST_BLOCKS else np.nan)
            for host, one in zip(hosts.values(), found, strict=True)
        )
        median = float(np.median([one.value for one in hosts.values()])) if hosts else np.nan
        return cls(
            series.key, threshold, tuple(hosts), tuple(hosts.values()), median, deviations, logarithmic
        )

    def metric(self, q: Sequence[float]) -> FleetMetric:
        """Return what came of it, with the corrected p of each host."""
        cells = tuple(self._cell(index, own) for index, own in enumerate(q))
        kept = [index for index, cell in enumerate(cells) if cell.verdict != "odd"]
        values = np.array([self.hosts[index].value for index in kept])
        variances = np.array([self.hosts[index].variances["median"] for index in kept])
        scale = self.scale or 1.0
        spread, limits = _spread(values / scale, np.nan_to_num(variances) / scale**2)
        low, high = _mean_interval(values)
        centre = (self._amount(low), self._amount(high))
        return FleetMetric(self.key, self._amount(self.median), centre, spread, limits, cells)

    def _cell(self, index: int, q: float) -> Cell:
        host, found = self.hosts[index], self.deviations[index]
        half = student.limit(found.degrees) * found.error
        reason = self._caveat(index)
        verdict: Verdict = "cannot tell" if reason else "ordinary"
        if not np.isnan(q) and q <= FALSE_DISCOVERIES:
            verdict, reason = "odd", ""
            if found.criterion == "median" and not self._is_seen_in_whole(index):
                verdict, reason = "cannot tell", "its typical block is odd, the median of its samples is not"
        return Cell(
            host=self.names[index],
            value=self._amount(host.value),
            effect=self._share(found.effect),
            interval=(self._share(found.effect - half), self._share(found.effect + half)),
            criterion=found.criterion,
            p=found.p,
            q=q,
            blocks=host.blocks,
            verdict=verdict,
            reason=reason,
        )

    def _is_seen_in_whole(self, index: int) -> bool:
        """Say whether the medians of all samples deviate as those of the blocks do, by what matters."""
        others = [host.whole for i, host in enumerate(self.hosts) if i != index]
        deviation = self._share((self.hosts[index].whole - float(np.median(others))) / self.scale)
        return deviation * self.deviations[index].effect > 0 and abs(deviation) > self.threshold

    def _caveat(self, index: int) -> str:
        """Return why a host cannot be called ordinary; nothing where it can."""
        host = self.hosts[index]
        if len(self.hosts) < LEAST_HOSTS:
            return f"only {len(self.hosts)} hosts were measured, {LEAST_HOSTS} are needed"
        if not np.isfinite(self.median) or self.scale == 0:
            return "the fleet's median is 0: there is no share of it"
        if host.blocks < LEAST_BLOCKS:
            return f"only {host.blocks} blocks were measured, {LEAST_BLOCKS} are needed"
        own = self._share(student.limit(host.blocks - 1) * np.sqrt(host.variances["median"]) / self.scale)
        if own > self.threshold:
            others = np.array([one.value for i, one in enumerate(self.hosts) if i != index])
            usual = self._share(3 * float(np.std(others, ddof=1)) / self.scale)
            if own <= usual:
                return ""
            return f"its own uncertainty, {100 * own:.2g} %, is larger than what matters"
        return ""


def _above_zero(series: Series) -> bool:
    """Say whether no value of any host is 0 or below."""
    return all(not np.any(samples.values <= 0) for samples in series.hosts.values())


def _locate(samples: HostSamples, logarithmic: bool) -> _Location | None:
    """Return what a host has of a metric, in logarithms or not; None where nothing was measured."""
    finite = np.isfinite(samples.values)
    values = samples.values[finite]
    if logarithmic:
        values = np.log(values)
    if not len(values):
        return None
    code = codes(samples.block[finite])
    sizes = np.bincount(code)
    ordered = values[np.argsort(code, kind="stable")]
    levels = list(QUANTILES.values())
    count = len(sizes)
    found = np.empty((len(levels), count))
    starts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes):
        # Blocks of a size together: a host has many, of few sizes.
        own = sizes == size
        found[:, own] = _quantiles(ordered[starts[own, None] + np.arange(size)], levels)
    medians = np.median(found, axis=1)
    variance = np.full(len(levels), np.nan)
    if count > 1:
        # Of normal values: the quartiles are 1.349 standard deviations apart, and the median has pi / 2 of
        # the mean's variance. One block with interference changes neither.
        deviation = np.subtract(*_quantiles(found, [0.75, 0.25])) / 1.349
        variance = np.square(deviation) / count * np.pi / 2
    return _Location(
        dict(zip(QUANTILES, map(float, medians), strict=True)),
        dict(zip(QUANTILES, map(float, variance), strict=True)),
        count,
        float(np.median(values)),
    )


def _quantiles(values: Floats, levels: Sequence[float]) -> Floats:
    """Return quantiles of each row, levels x rows: those of np.quantile, which takes longer."""
    ordered = np.sort(values, axis=1)
    last = values.shape[1] - 1
    place = np.array(levels) * last
    low = np.floor(place).astype(np.int64)
    share = place - low
    below, above = ordered[:, low], ordered[:, np.minimum(low + 1, last)]
    step = above - below
    return np.asarray(np.where(share >= 0.5, above - step * (1 - share), below + step * share).T)


def _compare_hosts(
    hosts: Sequence[_Location],
    criterion: Criterion,
    threshold: float,
    logarithmic: bool,
) -> list[_Deviation]:
    """Compare each host with the others by one criterion, and the most extreme again with what is left.

    One that is taken off is as odd as the oddest that is taken off after it.
    """
    values = np.array([host.values[criterion] for host in hosts])
    scale = 1.0 if logarithmic else abs(float(np.median(values)))
    if scale == 0 or not np.isfinite(scale):
        return [_UNKNOWN] * len(hosts)
    values = values / scale
    own = np.nan_to_num(np.array([host.variances[criterion] for host in hosts])) / scale**2
    blocks = np.array([host.blocks for host in hosts])
    kept = np.arange(len(hosts))
    first = _beside_others(values, own, blocks, threshold)
    effect, error, degrees, p = (each.copy() for each in first)
    taken: list[int] = []
    for _ in range(max(1, len(hosts) // _MOST_ODD)):
        if np.ptp(values[kept]) <= threshold:
            # Whatever else is taken off, no host is beyond the threshold of the others that are left.
            p[kept] = 1.0
            break
        now = _beside_others(values[kept], own[kept], blocks[kept], threshold)
        # Of equal p, such as those that are too small to be told apart, the larger effect.
        at = int(np.lexsort((-np.abs(now[0]), now[3]))[0])
        index = int(kept[at])
        effect[index], error[index], degrees[index], p[index] = (each[at] for each in now)
        taken.append(index)
        kept = np.delete(kept, at)
    p[taken[::-1]] = np.minimum.accumulate(p[taken[::-1]])
    rows = zip(effect.tolist(), error.tolist(), degrees.tolist(), p.tolist(), strict=True)
    return [_Deviation(criterion, a, b, c, d) for a, b, c, d in rows]


def _beside_others(
    values: Floats, own: Floats, blocks: Ints, threshold: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the effect of each host, its standard error, the degrees of freedom, and p."""
    others = len(values) - 1
    centred = values - values.mean()
    mean = (centred.sum() - centred) / others
    squares = np.square(centred).sum() - np.square(centred)
    between = np.maximum(squares - others * mean**2, 0.0) / (others - 1)
    # Rounding leaves what equal values do not have.
    between[between < (1e-12 * np.abs(values).max()) ** 2] = 0.0
    # A host that is less certain than the spread of the others shows deviates by more.
    error = np.sqrt(np.maximum(between, own) + between / others)
    effect = centred - mean
    beyond = np.abs(effect) - threshold
    with np.errstate(divide="ignore", invalid="ignore"):
        two = np.square(own + between / others)
        welch = two / (
            np.square(own) / np.maximum(blocks - 1, 1) + np.square(between / others) / (others - 1)
        )
        degrees = np.where(own > between, welch, others - 1)
        p = 2 * scipy.special.stdtr(np.maximum(degrees, 1), -beyond / error)
    p = np.where(beyond <= 0, 1.0, np.where(error == 0, 0.0, p))
    return effect, error, degrees, np.minimum(p, 1.0)


def _mean_interval(values: Floats) -> Interval:
    if len(values) < 2:
        return (np.nan, np.nan)
    half = student.limit(len(values) - 1) * float(np.std(values, ddof=1)) / np.sqrt(len(values))
    return (float(values.mean() - half), float(values.mean() + half))


def _spread(values: Floats, variances: Floats) -> tuple[float, Interval]:
    """Return the standard deviation between hosts beyond their own uncertainty, and its 95 % interval."""
    count = len(values)
    if count < 2:
        return np.nan, (np.nan, np.nan)
    most = 100 * (float(np.var(values, ddof=1)) + float(variances.max()))

    def heterogeneity(between: float) -> float:
        """Return Cochran's Q where hosts have this variance between them."""
        weights = 1 / np.maximum(variances + between, LEAST_VARIANCE * most)
        centre = (weights * values).sum() / weights.sum()
        return float((weights * (values - centre) ** 2).sum())

    def solve(target: float) -> float:
        if most == 0 or heterogeneity(0.0) <= target:
            return 0.0
        if heterogeneity(most) >= target:
            return most
        return float(scipy.optimize.brentq(lambda between: heterogeneity(between) - target, 0.0, most))

    low, high = scipy.stats.chi2.ppf([0.975, 0.025], count - 1)
    return float(np.sqrt(solve(count - 1))), (float(np.sqrt(solve(low))), float(np.sqrt(solve(high))))

"""One value a cluster for the two sides of a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy

from oscope.model.clocks import UNIT
from oscope.model.samples import Column, Floats, Ints, PointSamples
from oscope.statistics import order
from oscope.statistics.replication import Level

ROUNDING = 1e-12
"""Share of a value up to which two of them count as equal."""
MULTIPLE = 2.0
"""From this ratio on, counts are compared as multiples, not by what one has more."""


@dataclass(frozen=True)
class Measured:
    """One side: a value for each cluster, in order of time."""

    value: Floats
    """Logarithm of the cluster's median, or the median itself where values are not all positive."""
    unit: Ints
    """Number of the block or boot that gave the value."""
    time: Floats
    """Mean start of the cluster's samples in seconds."""
    level: Level
    n: int
    """Finite samples."""
    boots: int
    median: float
    """Of all samples, in the metric's unit."""
    centre: float
    """Median of the clusters' medians, in the metric's unit: what a change of logarithms is relative to."""


@dataclass(frozen=True)
class _How:
    """What both sides are reduced by."""

    logarithmic: bool
    fewest: int
    """Repetitions a block of the poorer side."""
    boots: bool


def measure(a: PointSamples, b: PointSamples, column: Column) -> tuple[Measured, Measured, bool] | None:
    """Reduce both sides to clusters; the flag: values are logarithms. None where a side has no value.

    The median of few samples of a skewed distribution lies elsewhere than that of many. So where the sides
    took different numbers of repetitions a block, each block gives the expected median of as many samples as
    the poorer side has. Counts of instructions repeat exactly and add up: they are taken as they are, each
    block by its median; but where they vary, and one side is a multiple of the other, by logarithms too.
    """
    metric, exact = column.name, column.unit == UNIT
    kept = [np.isfinite(side.metrics[metric]) for side in (a, b)]
    if not (kept[0].any() and kept[1].any()):
        return None
    values = [side.metrics[metric][keep] for side, keep in zip((a, b), kept, strict=True)]
    positive = bool(min(v.min() for v in values) > 0)
    reps_per_block = [
        np.median(np.unique(s.block[k], return_counts=True)[1]) for s, k in zip((a, b), kept, strict=True)
    ]
    boots = all(len(np.unique(side.boot[keep])) > 1 for side, keep in zip((a, b), kept, strict=True))
    fewest = max(map(len, values)) if exact else int(min(reps_per_block))

    def reduced(logarithmic: bool) -> tuple[Measured, Measured, bool]:
        how = _How(logarithmic, fewest, boots)
        first, second = (_side(side, keep, metric, how) for side, keep in zip((a, b), kept, strict=True))
        return first, second, logarithmic

    if not exact:
        return reduced(positive)
    found = reduced(logarithmic=False)
    return reduced(logarithmic=True) if positive and _multiples(*found[:2]) else found


def _multiples(a: Measured, b: Measured) -> bool:
    """Say whether counts vary, and one side's are a multiple of the other's."""
    low, high = sorted((a.centre, b.centre))
    return high >= MULTIPLE * low and any(np.ptp(side.value) > ROUNDING * side.centre for side in (a, b))


def _side(point: PointSamples, keep: npt.NDArray[np.bool_], metric: str, how: _How) -> Measured:
    raw = point.metrics[metric][keep]
    values = np.log(raw) if how.logarithmic else raw
    time = point.started_ns[keep] / 1e9
    units, code = np.unique(point.block[keep], return_inverse=True)
    level: Level = "process"
    block_medians = _medians(values, code, how.fewest)
    when = _means(time, code)
    seen = point.boot[keep]
    if how.boots:
        level = "boot"
        boot_of_unit = np.zeros(len(units), dtype=np.int64)
        boot_of_unit[code] = seen
        boots, inverse = np.unique(boot_of_unit, return_inverse=True)
        # With a boot a block the block's number stays: by it another run whose blocks took turns is paired.
        if len(boots) < len(units):
            units, block_medians, when = (
                boots,
                _medians(block_medians, inverse, len(block_medians)),
                _means(when, inverse),
            )
    by_time = np.argsort(when, kind="stable")
    centre = order.median(block_medians)
    return Measured(
        value=block_medians[by_time],
        unit=units[by_time],
        time=when[by_time],
        level=level,
        n=len(raw),
        boots=len(np.unique(seen)),
        median=order.median(raw),
        centre=float(np.exp(centre)) if how.logarithmic else centre,
    )


def _means(values: Floats, code: Ints) -> Floats:
    origin = values[0]
    return np.asarray(origin + np.bincount(code, weights=values - origin) / np.bincount(code), dtype=float)


def _medians(values: Floats, code: Ints, fewest: int) -> Floats:
    """Median of each group, or the expected median of `fewest` of its samples where it has more."""
    by_group = values[np.argsort(code, kind="stable")]
    parts = np.split(by_group, np.cumsum(np.bincount(code))[:-1])
    return np.array(
        [
            order.median(part) if len(part) <= fewest else _expected_median(np.sort(part), fewest)
            for part in parts
        ]
    )


def _expected_median(ordered: Floats, drawn: int) -> float:
    """Mean median of `drawn` of these samples; of equal ones their value, which weights would round."""
    least = ordered[0]
    return float(least + (ordered - least) @ _median_weights(len(ordered), drawn))


@lru_cache(maxsize=64)
def _median_weights(count: int, drawn: int) -> Floats:
    """Weights of sorted samples that give the mean median of `drawn` of `count`, drawn without return.

    The j-th smallest of the drawn is the i-th of all with probability C(i-1, j-1) C(count-i, drawn-j) /
    C(count, drawn).
    """
    weights = np.zeros(count)
    median_ranks = {(drawn + 1) // 2, drawn // 2 + 1}
    for j in median_ranks:
        i = np.arange(j, count - drawn + j + 1)
        log = (
            _log_choose(i - 1, j - 1)
            + _log_choose(count - i, drawn - j)
            - _log_choose(np.array(count), drawn)
        )
        weights[i - 1] += np.exp(log) / len(median_ranks)
    return np.asarray(weights / weights.sum(), dtype=float)


def _log_choose(n: Ints, k: int) -> Floats:
    return np.asarray(
        scipy.special.gammaln(n + 1) - scipy.special.gammaln(k + 1) - scipy.special.gammaln(n - k + 1),
        dtype=float,
    )

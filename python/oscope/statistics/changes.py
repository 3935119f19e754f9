"""Change points in series of runs: from which run on the level is another one.

A value a run, since what varies between runs does not vary within one. The statistic of a split is the F of a
step there. How large it gets by chance is found by permuting the runs, of all series in the same order, and
taking the largest F of any series (Westfall and Young, "Resampling-based multiple testing", 1993): so the
error rate is that of all series together, and series that tell the same cost nothing. Where a step is found,
it is taken out, and what is left is searched again within the parts (binary segmentation, as E-divisive:
Matteson and James, Journal of the American Statistical Association 109, 2014).

It rests on runs that could have come in any order if nothing had changed. A level that wanders slowly from
run to run has steps by this definition too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, comb

import numpy as np
import numpy.typing as npt

from oscope.samples import Floats, Ints
from oscope.statistics import effect, replication
from oscope.statistics.effect import Estimate
from oscope.statistics.sides import FEWEST_TO_CLIP

FEWEST_RUNS = 8
"""With 7, the order of the runs gives no p below 5 %: 2 of 35 orders part 3 runs from 4."""
SHORTEST = 3
"""Runs on each side of a change at least: two that lie off together are common."""
PERMUTATIONS = 1999
ROUNDING = 1e-9
"""Share of a value below which differences are those of arithmetic."""
_SEED = 20_240_229
_AT_ONCE = 500
"""Permutations in memory at a time."""

Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Change:
    """A step in one series."""

    at: int
    """Index of the first run of the new level."""
    p: float
    """Chance of such a step in any of all series looked at, if nothing changed."""
    logarithmic: bool
    before: float
    """Level of the runs since the change before, in the unit of the values."""
    after: float
    """Level of the runs until the next change."""
    estimate: Estimate
    """Size: after less before, of logarithms if `logarithmic`."""

    @property
    def ratio(self) -> tuple[float, float, float]:
        """After over before, and its 95 % interval; NaN where values are not all positive."""
        if not self.logarithmic:
            return (float("nan"),) * 3
        low, high = (float(np.exp(each)) for each in (self.estimate.low, self.estimate.high))
        return float(np.exp(self.estimate.effect)), low, high


@dataclass
class _Series:
    """One series without its gaps, and the changes found in it so far."""

    present: Booleans
    """For each run, whether the series has a value of it."""
    values: Floats
    """Of those runs; logarithms if all are positive."""
    logarithmic: bool
    floor: float
    """Sum of squares below which nothing varies."""
    edges: dict[int, float]
    """Where parts begin, but the first, by index into `values`; each with its p."""

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Begin and end of each part."""
        ends = [0, *sorted(self.edges), len(self.values)]
        return list(pairwise(ends))


def enough(runs: int, looks: int = 1) -> bool:
    """Say whether a change could be found at all in series of so many runs, with so many tables looked at."""
    return runs >= FEWEST_RUNS and 2 / comb(runs, runs // 2) * looks < effect.LEVEL


def find_changes(table: Floats, *, looks: int = 1) -> tuple[tuple[Change, ...], ...]:
    """Return the changes in each series, in order of time; the same for equal input.

    `table` has a row a series and a column a run, in order of time; NaN where a run has no value. Rows with
    fewer than `FEWEST_RUNS` values are not searched. `looks` is the number of tables that are looked at
    together, over all of which the error rate of 5 % holds.
    """
    every = [_series(row) for row in table]
    searched = [series for series in every if enough(len(series.values), looks)]
    while searched and _split(searched, table.shape[1], looks):
        pass
    return tuple(_changes(series, row) for series, row in zip(every, table, strict=True))


def _series(row: Floats) -> _Series:
    present = np.isfinite(row)
    values = row[present]
    logarithmic = bool(len(values) and values.min() > 0)
    values = np.log(values) if logarithmic else values
    scale = 1.0 if logarithmic else float(np.abs(values).max(initial=0.0))
    floor = len(values) * (ROUNDING * scale) ** 2 or np.finfo(float).tiny
    # One run that another program disturbed would hide any step.
    if len(values) >= FEWEST_TO_CLIP and np.ptp(np.quantile(values, [0.25, 0.75])) > ROUNDING * scale:
        values = replication.winsorised(values)
    return _Series(present, values, logarithmic, floor, {})


def _split(every: Sequence[_Series], runs: int, looks: int) -> bool:
    """Add to each series its next change, where one is proven; say whether there was any."""
    found = [_scan(series.values[None, :], series) for series in every]
    sizes = np.array([float(size[0]) for size, _ in found])
    beyond = _count_beyond(every, sizes * (1 - ROUNDING), runs, _permutations(looks))
    p = np.minimum(looks * (beyond + 1) / (_permutations(looks) + 1), 1.0)
    proven = np.flatnonzero((p < effect.LEVEL) & (sizes > 0))
    for index in proven.tolist():
        every[index].edges[int(found[index][1][0])] = float(p[index])
    return len(proven) > 0


def _permutations(looks: int) -> int:
    """Return how many orders are tried: enough for a p well below the level that `looks` leaves."""
    return max(PERMUTATIONS, ceil(10 * looks / effect.LEVEL) - 1)


def _count_beyond(every: Sequence[_Series], sizes: Floats, runs: int, count: int) -> Ints:
    """Return for each series in how many orders of the runs the largest F of all reaches its own."""
    random = np.random.default_rng(_SEED)
    left = [_residuals(series) for series in every]
    beyond = np.zeros(len(every), dtype=np.int64)
    for start in range(0, count, _AT_ONCE):
        rows = min(_AT_ONCE, count - start)
        orders = random.permuted(np.tile(np.arange(runs), (rows, 1)), axis=1)
        largest = np.zeros(rows)
        for series, residuals in zip(every, left, strict=True):
            # Each order has the same runs, so that each row keeps as many.
            kept = orders[series.present[orders]].reshape(rows, len(series.values))
            largest = np.maximum(largest, _scan(residuals[kept], series)[0])
        beyond += (largest[None, :] >= sizes[:, None]).sum(axis=1)
    return beyond


def _residuals(series: _Series) -> Floats:
    """Return what is left of the values, by run, without the changes found so far."""
    left = np.zeros(len(series.present))
    middle = np.empty(len(series.values))
    for begin, end in series.parts:
        middle[begin:end] = series.values[begin:end].mean()
    left[series.present] = series.values - middle
    return left


def _scan(rows: Floats, series: _Series) -> tuple[Floats, Ints]:
    """Return for each row of values the largest F of one more step within the series' parts, and where it is.

    With s the sum of the first k of n values of mean 0, a step after them takes s² n / (k (n - k)) off the
    sum of squares.
    """
    within, gain = np.zeros(len(rows)), np.zeros(len(rows))
    at = np.zeros(len(rows), dtype=np.int64)
    for begin, end in series.parts:
        part = rows[:, begin:end]
        part = part - part.mean(axis=1, keepdims=True)
        within += (part**2).sum(axis=1)
        n = end - begin
        if n < 2 * SHORTEST:
            continue
        k = np.arange(SHORTEST, n - SHORTEST + 1)
        gains = np.cumsum(part, axis=1)[:, k - 1] ** 2 * (n / (k * (n - k)))
        best = gains.argmax(axis=1)
        most = gains[np.arange(len(rows)), best]
        at = np.where(most > gain, begin + k[best], at)
        gain = np.maximum(gain, most)
    spare = rows.shape[1] - len(series.parts) - 1
    gain[within <= series.floor] = 0.0
    return gain * spare / np.maximum(within - gain, series.floor), at


def _changes(series: _Series, row: Floats) -> tuple[Change, ...]:
    """Return the changes found whose size is not 0, by the values themselves, disturbed ones or not."""
    parts, at = series.parts, np.flatnonzero(series.present)
    values = np.log(row[series.present]) if series.logarithmic else row[series.present]
    found = []
    for (begin, middle), (_, end) in pairwise(parts):
        before, after = values[begin:middle], values[middle:end]
        first, then = (float(np.exp(s.mean()) if series.logarithmic else s.mean()) for s in (before, after))
        size, p = effect.unpaired(before, after), series.edges[middle]
        # A few runs far off make a step that is none of the level.
        if size.low <= 0 <= size.high:
            continue
        found.append(Change(int(at[middle]), p, series.logarithmic, first, then, size))
    return tuple(found)

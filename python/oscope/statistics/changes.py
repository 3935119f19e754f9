"""Change points in series of runs: from which run on the level is another one.

A value a run, since what varies between runs does not vary within one. Runs may be autocorrelated: a level
that wanders is no change. The statistic is the evidence for a step beyond such wandering (`autoregression`).
How large it gets without a step is simulated: the innovations of an AR(1) process, what is new in each run,
are put in random order and made a series again (a sieve bootstrap: Bühlmann, Bernoulli 3, 1997). Their
coefficient is an upper confidence limit of the one seen: the median of the limits of all series, or the
series' own estimate where that is larger.

The order is the same for all series, and the largest evidence of any series counts (Westfall and Young,
"Resampling-based multiple testing", 1993): so the error rate is that of all series together, and series that
move together cost nothing. Where a step is found, it is taken out, and what is left is searched again within
the parts (binary segmentation, as E-divisive: Matteson and James, Journal of the American Statistical
Association 109, 2014).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil, comb

import numpy as np
import numpy.typing as npt

from oscope.model.samples import Floats, Ints
from oscope.statistics import autoregression, effect, replication
from oscope.statistics.autoregression import Layout, Model
from oscope.statistics.effect import Estimate

FEWEST_RUNS = 8
"""With 7, the order of the runs gives no p below 5 %: 2 of 35 orders part 3 runs from 4."""
SHORTEST = 3
"""Runs on each side of a change at least: two that lie off together are common."""
FEWEST_TO_CLIP = 12
"""Fewer values do not show which of them lie far off."""
PERMUTATIONS = 999
"""Series without a step that are simulated at least, where a step may be proven."""
CAUTION = 0.7
"""Confidence of the upper limit of r with which series without a step are simulated. With the estimate alone,
some 10 % of short series of r = 0.6 have a false positive: a step is found where r is too small by chance."""
ROUNDING = 1e-9
"""Share of a value below which differences are those of arithmetic."""
_SEED = 20_240_229
_AT_ONCE = 250
"""Simulated series in memory at a time."""

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


@dataclass(frozen=True)
class Searched:
    """What was found in one series."""

    changes: tuple[Change, ...]
    """In order of time."""
    r: float
    """Correlation of a run with the one before, changes apart (median-unbiased); NaN where not searched."""
    is_autocorrelated: bool
    """Whether `r` is larger than independent runs give, at 5 %."""


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
    r: float = float("nan")
    is_autocorrelated: bool = False

    @property
    def layout(self) -> Layout:
        """Where its values are, and where it may change once more."""
        gaps = np.diff(np.flatnonzero(self.present))
        return Layout(tuple(gaps.tolist()), tuple(sorted(self.edges)), SHORTEST)


@dataclass
class _Search:
    """One series in one round of the search."""

    series: _Series
    model: Model
    factor: float
    at: int
    """Where a step is most likely."""
    left: Floats
    """The values less their levels, with the most likely steps taken out."""
    estimate: float
    """Posterior mean of its coefficient."""
    varies: bool
    """Whether anything is left without its steps."""
    coefficient: float = 0.0
    """With which series without a step are simulated."""
    innovations: Floats = field(default_factory=lambda: np.zeros(0))
    """By run, 0 where there is no value."""

    def simulate(self, coefficient: float, runs: int) -> None:
        """Take the innovations from what is left, with this coefficient."""
        self.coefficient = coefficient
        self.innovations = np.zeros(runs)
        self.innovations[self.series.present] = self.model.layout.innovations(self.left, coefficient)


def enough(runs: int, looks: int = 1) -> bool:
    """Say whether a change could be found at all in series of so many runs, with so many tables looked at."""
    return runs >= FEWEST_RUNS and 2 / comb(runs, runs // 2) * looks < effect.LEVEL


def find_changes(table: Floats, *, looks: int = 1) -> tuple[tuple[Change, ...], ...]:
    """Return the changes in each series, as `search` finds them."""
    return tuple(each.changes for each in search(table, looks=looks))


def search(table: Floats, *, looks: int = 1) -> tuple[Searched, ...]:
    """Return what is found in each series; the same for equal input.

    `table` has a row a series and a column a run, in order of time; NaN where a run has no value. Rows with
    fewer than `FEWEST_RUNS` values are not searched. `looks` is the number of tables that are looked at
    together, over all of which the error rate of 5 % holds.
    """
    every = [_series(row) for row in table]
    searched = [series for series in every if enough(len(series.values), looks)]
    while searched and _split(searched, table.shape[1], looks):
        pass
    return tuple(
        Searched(_changes(series, row), series.r, series.is_autocorrelated)
        for series, row in zip(every, table, strict=True)
    )


def _series(row: Floats) -> _Series:
    present = np.isfinite(row)
    values = row[present]
    logarithmic = bool(len(values) and values.min() > 0)
    values = np.log(values) if logarithmic else values
    scale = 1.0 if logarithmic else float(np.abs(values).max(initial=0.0))
    floor = len(values) * (ROUNDING * scale) ** 2 or np.finfo(float).tiny
    # One run with interference from another program would hide any step.
    if len(values) >= FEWEST_TO_CLIP and np.ptp(np.quantile(values, [0.25, 0.75])) > ROUNDING * scale:
        values = replication.winsorised(values)
    return _Series(present, values, logarithmic, floor, {})


def _split(every: Sequence[_Series], runs: int, looks: int) -> bool:
    """Add to each series its next change, where one is proven; say whether there was any."""
    searches = [_begin(series) for series in every if series.layout.steps]
    if not searches:
        return False
    varying = [search for search in searches if search.varies]
    # Series of the same runs mostly wander alike: one whose r is small by chance is not taken at its word.
    limits = [search.model.coefficient(search.estimate, 1 - CAUTION) for search in varying]
    usual = float(np.median(limits)) if limits else 0.0
    for search in searches:
        search.simulate(max(search.series.r, usual) if search.varies else 0.0, runs)
    proven = False
    for search, p in zip(searches, _p_values(searches, looks), strict=True):
        if p < effect.LEVEL and np.isfinite(search.factor):
            search.series.edges[search.at] = p
            proven = True
    return proven


def _begin(series: _Series) -> _Search:
    """Estimate autocorrelation and the most likely steps, given the changes found so far."""
    layout = series.layout
    model = autoregression.model(layout)
    found = model.evidence(series.values[None, :], series.floor)
    steps = [step for step in found.steps[0].tolist() if step >= 0]
    stepped = replace(layout, edges=tuple(sorted((*layout.edges, *steps))))
    left, r = stepped.residuals(series.values), float(found.r[0])
    at, factor = _place(series, steps), float(found.factor[0])
    if left @ left <= series.floor:
        # Values that repeat exactly between steps do not wander.
        series.r, series.is_autocorrelated = 0.0, False
        return _Search(series, model, factor, at, layout.residuals(series.values), r, varies=False)
    series.r, series.is_autocorrelated = model.coefficient(r, 0.5), model.is_autocorrelated(r)
    return _Search(series, model, factor, at, left, r, varies=True)


def _place(series: _Series, steps: list[int]) -> int:
    """Return the step to add. Of a pair, whose places are coarse, the one with more evidence, placed anew."""
    if len(steps) == 1:
        return steps[0]
    best, at = -np.inf, steps[0]
    for other in steps:
        layout = replace(series.layout, edges=tuple(sorted((*series.edges, other))))
        if not layout.steps:
            continue
        found = autoregression.model(layout).evidence(series.values[None, :], series.floor)
        if found.factor[0] > best:
            best, at = float(found.factor[0]), int(found.single[0])
    return at


def _permutations(looks: int) -> int:
    """Return how many orders are tried: enough for a p well below the level that `looks` leaves."""
    return max(PERMUTATIONS, ceil(10 * looks / effect.LEVEL) - 1)


def _p_values(searches: Sequence[_Search], looks: int) -> list[float]:
    """Return for each series how often the largest factor of all reaches its own without a step.

    Simulated are series with the innovations seen, in random order, the same one for all series. A factor
    counts from what 5 % of its own series reach. It ends as soon as no p can be below the level: what is
    decided is the same.
    """
    random = np.random.default_rng(_SEED)
    sizes = np.array([search.factor for search in searches])
    count, runs = _permutations(looks), len(searches[0].innovations)
    beyond, usual = np.zeros(len(searches), dtype=np.int64), np.zeros(len(searches))
    for start in range(0, count, _AT_ONCE):
        rows = min(_AT_ONCE, count - start)
        orders = random.permuted(np.tile(np.arange(runs), (rows, 1)), axis=1)
        factors = np.array([_simulated(search, orders) for search in searches])
        if start == 0:
            # Else a series that wanders would set what it takes in all others.
            usual = np.quantile(factors, 1 - effect.LEVEL, axis=1, method="higher")
            usual[~np.isfinite(usual)] = 0.0
            sizes -= usual + ROUNDING * np.where(np.isfinite(sizes), np.abs(sizes), 0.0)
        largest = (factors - usual[:, None]).max(axis=0)
        beyond += (largest[None, :] >= sizes[:, None]).sum(axis=1)
        if looks * (beyond.min() + 1) >= effect.LEVEL * (count + 1):
            break
    return [min(1.0, looks * (each + 1) / (count + 1)) for each in beyond.tolist()]


def _simulated(search: _Search, orders: Ints) -> Floats:
    """Return the factor for a step with the innovations in each of these orders."""
    present, layout = search.series.present, search.model.layout
    # Each order has the same runs, so that each row keeps as many.
    kept = orders[present[orders]].reshape(len(orders), layout.size)
    rows = layout.from_innovations(search.innovations[kept], search.coefficient)
    return search.model.evidence(rows, search.series.floor).factor


def _changes(series: _Series, row: Floats) -> tuple[Change, ...]:
    """Return the changes found whose size is not 0, by the values themselves, affected ones or not."""
    parts, at = series.layout.parts, np.flatnonzero(series.present)
    values = np.log(row[series.present]) if series.logarithmic else row[series.present]
    found = []
    for (begin, middle), (_, end) in pairwise(parts):
        before, after = values[begin:middle], values[middle:end]
        first, then = (float(np.exp(s.mean()) if series.logarithmic else s.mean()) for s in (before, after))
        size, p = _difference(before, after, series.r), series.edges[middle]
        # A few runs far off make a step that is none of the level.
        if size.low <= 0 <= size.high:
            continue
        found.append(Change(int(at[middle]), p, series.logarithmic, first, then, size))
    return tuple(found)


def _difference(before: Floats, after: Floats, r: float) -> Estimate:
    """Return the difference of the means of two parts of an AR(1) series: Welch's, with r in its error.

    The mean of m values has f times the variance that it had were they independent, and as much is missing
    from the variance seen: f = 1 + 2 * (sum of (1 - j / m) r^j over j < m).
    """
    found = effect.welch(before, after)
    if r == 0:
        return found
    variances, dofs = [], []
    for part in (before, after):
        m, lag = len(part), np.arange(1, len(part))
        inflation = float(1 + 2 * ((1 - lag / m) @ r**lag))
        variances.append(float(part.var(ddof=1)) * (m - 1) / (m - inflation) * inflation / m)
        dofs.append(max(1.0, m / inflation - 1))
    total = sum(variances)
    squares = sum(v**2 / f for v, f in zip(variances, dofs, strict=True))
    dof = total**2 / squares if squares > 0 else 1.0
    return effect.estimate(found.effect, float(np.sqrt(total)), dof)

"""The difference of one metric between two points, estimated by the method that their replication allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from oscope.model import clocks
from oscope.model.samples import Column, Floats, PointSamples
from oscope.statistics import between_runs, effect, interval, replication
from oscope.statistics.between_runs import Spread
from oscope.statistics.core_clock import AT_ONE_SPEED, Explained, core_loads, excess_error, explain
from oscope.statistics.earlier import EarlierPoints
from oscope.statistics.effect import Estimate, Median
from oscope.statistics.exact import (
    ONE_COURSE,
    Constant,
    coarse,
    counting_error,
    find_constant,
    resolution_error,
    step_of,
)
from oscope.statistics.pairing import Match
from oscope.statistics.shape import group_medians
from oscope.statistics.sides import ROUNDING, Measured

FEWEST_CLUSTERS = 5


@dataclass(frozen=True)
class Result:
    """An estimate of one row, before the correction for several rows."""

    match: Match
    metric: Column
    a: Measured
    b: Measured
    estimate: Estimate
    centre: float
    """A's value that the effect is relative to, of the same kind: of all samples, of pairs or of blocks."""
    logarithmic: bool
    method: str
    step: float
    """Smallest difference that the instructions clock shows, on the estimate's scale; 0 for other metrics."""
    constant: Constant | None
    between: Spread
    """How much runs differ, where that counts."""
    explained: Explained | None = None
    """What the speed of the core explains between separate runs, and the estimate leaves out."""

    @property
    def contradicts(self) -> bool:
        """Whether the typical pair, or the medians of all samples, are equal, or these differ the other way.

        What is claimed, the medians that stand beside it have to show as well.
        """
        return (self.b.median - self.a.median) * self.estimate.effect <= 0

    @property
    def fewest_clusters(self) -> int:
        """How many values, of blocks or boots, the side with fewer has."""
        return min(len(self.a.value), len(self.b.value))

    @property
    def identical(self) -> bool:
        """Whether every sample of both sides is the same value, in several blocks a side."""
        samples = np.concatenate([side.metrics[self.metric.name] for side in (self.match.a, self.match.b)])
        return self.constant is not None and bool(np.nanmin(samples) == np.nanmax(samples))

    def ratio(self, change: float) -> float:
        """Turn a change on the estimate's scale into B over A; NaN where A's value is not clearly above 0."""
        if self.logarithmic:
            return float(np.exp(min(change, 700.0)))
        if change == 0 and self.identical:
            # Also of two zeros, which have no quotient: equal is equal.
            return 1.0
        clear = self.centre > 3 * self.estimate.error
        return float(1 + change / self.centre) if clear else float("nan")

    @property
    def difference(self) -> float:
        """B less A, in the metric's unit."""
        change = self.estimate.effect
        return float(self.centre * np.expm1(min(change, 700.0))) if self.logarithmic else change


def estimate_difference(
    match: Match,
    metric: Column,
    sides: tuple[Measured, Measured, bool],
    earlier: EarlierPoints | None,
    *,
    same_run: bool,
    clock_step: float = 0.0,
) -> tuple[Result, list[str]]:
    """Estimate a row's difference by the method that its replication allows, with its caveats.

    `earlier` is None where the sides are no runs, so that it does not matter how much runs differ.
    `clock_step` is that of the clock in the unit of the values: repetition does not refine it.
    """
    a, b, logarithmic = sides
    caveats, between = [*_caveats(a, b)], between_runs.NONE
    explained: Explained | None = None
    paired = same_run and len(np.intersect1d(a.unit, b.unit)) >= 2
    constant, step, centre = find_constant(a, b, metric, paired=paired), step_of(match, metric), a.centre
    if clock_step and not clocks.counted(metric.unit) and (a.centre or b.centre):
        # Times that are equal by the clock may differ by less than its step.
        constant = None
    if logarithmic and clocks.counted(metric.unit):
        # Multiples: neither the same number more each time nor a single step is in question.
        constant, step = None, 0.0
    if min(len(a.value), len(b.value)) < 2:
        found = effect.single(a.value, b.value)
        method = "one value on a side"
        if earlier is not None and not same_run and np.isfinite(found.error) and _runs_differ(sides, metric):
            scale = scale_of(a.centre, b.centre, logarithmic=logarithmic)
            part_deviation = max(between_runs.part_deviation(side.value / scale) for side in (a, b))
            between = between_runs.spread(earlier.quantile(0.5), part_deviation=part_deviation)
            found = effect.with_runs(found, between.scaled(scale))
    elif paired:
        first, second = _pairs(a, b)
        found = effect.paired(second - first)
        centre = a.centre if logarithmic else float(np.median(first))
        method = f"paired by {replication.UNITS[a.level]}"
    else:
        found, between, explained = _separate(match, metric, sides, earlier)
        centre = a.median
        method = f"unpaired over {replication.PLURAL[a.level]}"
        if explained is not None:
            method += AT_ONE_SPEED
    found = _with_clock(found, match, metric, sides, (constant, step, clock_step))
    if constant is not None and (clocks.counted(metric.unit) or a.level == "boot"):
        caveats.append(ONE_COURSE)
    result = Result(
        match, metric, a, b, found, centre, logarithmic, method, step, constant, between, explained
    )
    return result, caveats


def _with_clock(
    found: Estimate,
    match: Match,
    metric: Column,
    sides: tuple[Measured, Measured, bool],
    steps: tuple[Constant | None, float, float],
) -> Estimate:
    """Add what the clock leaves unknown: its `steps` are a constant's, the counter's and the time's."""
    (a, b, logarithmic), (constant, step, clock_step) = sides, steps
    if not clocks.counted(metric.unit):
        found = effect.with_extra_error(found, counting_error(match, metric, a, b, logarithmic=logarithmic))
        # Half a step a side.
        return effect.with_bias(found, clock_step / (min(a.centre, b.centre) if logarithmic else 1.0))
    if constant is not None:
        return effect.estimate(constant.change, 0.0, found.dof)
    return effect.with_extra_error(found, resolution_error(a, b, step)) if coarse(metric) else found


def _pairs(a: Measured, b: Measured) -> tuple[Floats, Floats]:
    """Values of A and B in each shared unit, in order of time."""
    _, at_a, at_b = np.intersect1d(a.unit, b.unit, return_indices=True)
    order = np.argsort(a.time[at_a], kind="stable")
    return a.value[at_a[order]], b.value[at_b[order]]


def _separate(
    match: Match, metric: Column, sides: tuple[Measured, Measured, bool], earlier: EarlierPoints | None
) -> tuple[Estimate, Spread, Explained | None]:
    """Difference of the medians of separate sides, how much runs differ, and what the core's speed explains.

    `earlier` are the points of earlier runs; None where runs are not what is compared.
    """
    a, b, logarithmic = sides
    scale = scale_of(a.centre, b.centre, logarithmic=logarithmic)
    first, second = (median_of(point, metric, logarithmic) for point in (match.a, match.b))
    between, explained = between_runs.NONE, None
    if earlier is not None and _runs_differ(sides, metric):
        known = earlier.quantile(0.5)
        error = float(np.sqrt((first.error**2 + second.error**2) / 2)) / scale
        part_deviation = max(between_runs.part_deviation(side.value / scale) for side in (a, b))
        usual = error * _usual_error(match, metric, earlier, logarithmic)
        between = between_runs.spread(known, error, part_deviation, usual)
        if logarithmic and earlier.same_setup:
            excess = excess_error(match.a, match.b, earlier.points)
            a_ns, b_ns = core_loads(match.a), core_loads(match.b)
            explained = explain(known, earlier.core_loads(), a_ns, b_ns, excess)
    if explained is not None:
        between, by = replace(explained.spread, within=between.within), explained.change
        second = replace(second, value=second.value - by, low=second.low - by, high=second.high - by)
    return effect.separate(first, second, between.scaled(scale)), between, explained


def scale_of(a: float, b: float, *, logarithmic: bool) -> float:
    """Return what relative deviations are of, on the scale of the two sides' values: the larger one."""
    return 1.0 if logarithmic else max(abs(a), abs(b)) or 1.0


def _runs_differ(sides: tuple[Measured, Measured, bool], metric: Column) -> bool:
    """Say whether runs may differ: no count of instructions, and a side varies by more than rounding does."""
    a, b, logarithmic = sides
    # Logarithms round as numbers near 1 do.
    return not clocks.counted(metric.unit) and any(
        np.ptp(side.value) > ROUNDING * max(float(logarithmic), float(np.abs(side.value).max()))
        for side in (a, b)
    )


def _usual_error(match: Match, metric: Column, earlier: EarlierPoints, logarithmic: bool) -> float:
    """Return the error of earlier runs' medians over that of these two; infinite where it is not known."""
    own = _block_error([match.a, match.b], metric, logarithmic)
    usual = _block_error(earlier.points, metric, logarithmic)
    return float(np.sqrt(np.median(usual) / own.mean())) if len(usual) and own.all() else np.inf


def _block_error(points: Iterable[PointSamples], metric: Column, logarithmic: bool) -> Floats:
    """Return the squared standard error of the mean of each point's blocks, where a point has several."""
    found = []
    for point in points:
        finite = np.isfinite(point.metrics[metric.name])
        values = point.metrics[metric.name][finite]
        medians = group_medians(values, replication.codes(point.block[finite]))
        if len(medians) > 1 and (not logarithmic or medians.min() > 0):
            found.append((np.log(medians) if logarithmic else medians).var(ddof=1) / len(medians))
    return np.array(found)


def median_of(point: PointSamples, metric: Column, logarithmic: bool) -> Median:
    """Return the median with its interval, as `summarise_point` has them but for the clock's step."""
    finite = np.isfinite(point.metrics[metric.name])
    values = point.metrics[metric.name][finite]
    found = replication.clusters(values, replication.codes(point.block[finite]), point.boot[finite])
    low, high = interval.median_interval(interval.binned(values, found), 0) or (-np.inf, np.inf)
    ends = np.array([np.median(values), low, high])
    median, low, high = np.log(ends) if logarithmic else ends
    return Median(float(median), float(low), float(high), max(1, found.count - 1))


def _caveats(a: Measured, b: Measured) -> Iterator[str]:
    if min(len(a.value), len(b.value)) < 2:
        yield f"a side has one {a.level}, which does not show how {replication.PLURAL[a.level]} differ"
    elif min(len(a.value), len(b.value)) < FEWEST_CLUSTERS:
        yield f"fewer than {FEWEST_CLUSTERS} {replication.UNITS[a.level]}s on a side: weak evidence"
    if a.boots != b.boots and 1 in (a.boots, b.boots):
        yield "one side has one boot: how boots differ was not seen on it"

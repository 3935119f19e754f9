"""Comparison of two sides: is there a difference, and does it matter? Answers: yes, no, cannot tell.

- Sides measured in the same blocks of one run are *paired by block*; others are compared unpaired, with and
  without a common drift, and only what both say is said (`effect.envelope`). One value a cluster: the highest
  level that varied; the few that lie far off are drawn in (`sides.steady`), and of 40 pairs or more the
  middle three fifths are taken (`sides.typical`).
- `different` is "yes" if p, corrected by Holm for all metrics and points, is below 0.05; a figure in several
  units is one. Else it is "no" if a difference of the threshold would have been found (with 80 % power) or
  the interval lies within the threshold, else "cannot tell".
- `matters` is "yes" if there is a difference and its whole interval is beyond the threshold, "no" if the
  whole interval is within it, else "cannot tell".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from oscope import clocks, digits
from oscope.errors import UsageError
from oscope.experiment import Level
from oscope.samples import Column, ExperimentResults, Floats, PointSamples
from oscope.statistics import effect
from oscope.statistics.effect import Estimate
from oscope.statistics.exact import ONE_COURSE, Constant, coarse, find_constant, resolution_error, step_of
from oscope.statistics.interrupted import Tallies, undisturbed
from oscope.statistics.machines import label
from oscope.statistics.pairing import Match, interleaved, match_points, refuse_unlike
from oscope.statistics.sides import Measured, joined, measure, steady, typical

Answer = Literal["yes", "no", "cannot tell"]

THRESHOLD = 0.01
ASSUMED_PROCESS_SPREAD = 0.02
"""Relative deviation between processes that is assumed where a side has only one: 2 %, as usual on tuned
machines."""

FEWEST_CLUSTERS = 5

SAME_SHARE = 0.01
"""Two metrics are one figure in two units if they differ, over all clusters, by this share of how they vary.
The frequency of the clock is found anew by each process, to some 1e-5."""

_MATTERS: Mapping[Answer, str] = {
    "yes": "it matters",
    "no": "too small to matter",
    "cannot tell": "whether it matters cannot be told",
}


@dataclass(frozen=True)
class ComparedMetric:
    """One metric at one point, B against A."""

    factors: Mapping[str, Level]
    metric: str
    unit: str
    ratio: float
    """B over A; NaN where A's value is not clearly above 0."""
    difference: float
    """B less A, in `unit`."""
    ci95: tuple[float, float]
    p: float
    p_holm: float
    different: Answer
    matters: Answer
    detectable: float
    """Smallest relative difference that would have been found with 80 % power (0.01 = 1 %); NaN without
    a ratio."""
    n_a: int
    n_b: int
    clusters_a: int
    clusters_b: int
    median_a: float
    """In `unit`."""
    median_b: float
    method: str
    sentence: str


@dataclass(frozen=True)
class Comparison:
    """All compared metrics, and what to keep in mind about them."""

    rows: tuple[ComparedMetric, ...]
    caveats: tuple[str, ...]
    threshold: float
    label_a: str
    label_b: str

    @property
    def text(self) -> tuple[str, ...]:
        """Lines for people: one a row, then the caveats."""
        lines = [f"{_name(row.factors, row.metric)}: {row.sentence}" for row in self.rows]
        return (*lines, *(f"note: {caveat}" for caveat in self.caveats))


@dataclass(frozen=True)
class _Result:
    """An estimate of one row, before the correction for several rows."""

    match: Match
    metric: Column
    a: Measured
    b: Measured
    estimate: Estimate
    centre: float
    """A's value that the effect is relative to; its mean, as the effect is one, unless logarithmic."""
    logarithmic: bool
    method: str
    step: float
    """Smallest difference that the instructions clock shows, on the estimate's scale; 0 for other metrics."""
    constant: Constant | None


def compare_results(
    a: ExperimentResults,
    b: ExperimentResults,
    *,
    threshold: float = THRESHOLD,
    allow: Iterable[str] = (),
    beside: int = 0,
) -> Comparison:
    """Compare two sets of results of one workload, B against A.

    `beside` is how many rows other comparisons have that are judged together with this one: for so many more
    p is corrected, and by so much more is `detectable` larger.

    Raises UsageError where the figures do not mean the same: other workload, version, clock or unit; or
    another machine or kernel, unless `allow` holds "machine" (which both then are) or "kernel"; or where
    there is nothing in common.
    """
    caveats = refuse_unlike(a, b, frozenset(allow))
    matches, missing = match_points(a, b)
    metrics = [column for column in _comparable(a) if column.name in b.metrics]
    # Two experiments of one run are not interleaved; two runs may be.
    paired = interleaved(a, b)
    sides, told = (label(a), label(b)), [*caveats, *missing]
    return _compare(matches, metrics, sides, threshold, told, same_run=paired, beside=beside)


def compare_within(
    results: ExperimentResults, factor: str, a: Level, b: Level, *, threshold: float = THRESHOLD
) -> Comparison:
    """Compare two levels of one factor of a run, paired by block, at each combination of the other factors.

    Raises UsageError for an unknown factor or level.
    """
    levels = {point.factors[factor] for point in results.points if factor in point.factors}
    for level in (a, b):
        if level not in levels:
            known = ", ".join(sorted(map(str, levels))) or "no such factor was varied"
            raise UsageError(
                f"{results.experiment}: no points with {factor}={level}", remedy=f"choose from: {known}"
            )
    if a == b:
        raise UsageError(f"{factor}={a} cannot be compared with itself", remedy="choose two levels")
    matches = []
    for point in results.points:
        if point.factors.get(factor) != a:
            continue
        other = results.counterpart(point, factor, b)
        if other is not None:
            rest = {name: level for name, level in point.factors.items() if name != factor}
            matches.append(Match(rest, point, other))
    labels = (f"{factor}={a}", f"{factor}={b}")
    return _compare(matches, _comparable(results), labels, threshold, [], same_run=True)


def compare_points(
    a: PointSamples, b: PointSamples, metric: Column, *, same_run: bool, threshold: float = THRESHOLD
) -> ComparedMetric:
    """Compare one metric of two points; `same_run`: equal block numbers mean the same block.

    Raises UsageError where either side has no value.
    """
    match = Match(a.factors, a, b)
    return _compare([match], [metric], ("A", "B"), threshold, [], same_run=same_run).rows[0]


def _comparable(results: ExperimentResults) -> list[Column]:
    """Return the metrics of which more or less is better; the others say what was done or found."""
    return [column for column in results.metrics.values() if column.better is not None]


def _compare(
    matches: list[Match],
    metrics: list[Column],
    labels: tuple[str, str],
    threshold: float,
    caveats: list[str],
    *,
    same_run: bool,
    beside: int = 0,
) -> Comparison:
    if not threshold > 0:
        raise UsageError(f"threshold {threshold:g}", remedy="give a share above 0, such as 1%")
    results, notes, tallies = [], dict.fromkeys(caveats), Tallies()
    for match in matches:
        for metric in metrics:
            (a, told_a), (b, told_b) = undisturbed(metric, match.a, match.b)
            sides = measure(a, b, metric)
            if sides is None:
                notes[f"{_name(match.factors, metric.name)}: not compared, a side has no value"] = None
                continue
            result, said = _estimate(match, metric, sides, same_run=same_run)
            results.append(result)
            notes.update(dict.fromkeys(said))
            tallies.add(metric.name, told_a, told_b)
    if not results:
        raise UsageError(
            "nothing to compare", remedy="both sides need values of the same metric at the same point"
        )
    notes.update(dict.fromkeys(tallies.notes))
    test = _tests(results)
    tests = max(test) + 1 + beside
    # Nothing is known of the other rows' p: as large as can be, they are corrected for all the same.
    corrected = effect.holm(
        np.array([*(results[test.index(one)].estimate.p for one in range(max(test) + 1)), *([1.0] * beside)])
    )
    rows = tuple(
        _row(r, max(r.estimate.p, float(corrected[one])), threshold, tests)
        for r, one in zip(results, test, strict=True)
    )
    return Comparison(rows, tuple(notes), threshold, *labels)


def _tests(results: list[_Result]) -> list[int]:
    """Return the number of each row's test, from 0: one and the same for a figure in several units."""
    found: list[int] = []
    for place, row in enumerate(results):
        same = (found[i] for i, other in enumerate(results[:place]) if _same_figure(row, other))
        found.append(next(same, max(found, default=-1) + 1))
    return found


def _same_figure(one: _Result, other: _Result) -> bool:
    """Say whether two metrics of a point tell the same, such as a time, its cycles, and its reciprocal."""
    if one.match is not other.match or not (one.logarithmic and other.logarithmic):
        return False
    if any(len(x.value) != len(y.value) for x, y in ((one.a, other.a), (one.b, other.b))):
        return False
    first, second = (np.concatenate([row.a.value, row.b.value]) for row in (one, other))
    least = SAME_SHARE * float(np.ptp(first))
    return bool(np.ptp(first - second) <= least or np.ptp(first + second) <= least)


def _estimate(
    match: Match, metric: Column, sides: tuple[Measured, Measured, bool], *, same_run: bool
) -> tuple[_Result, list[str]]:
    """Estimate a row's difference by the method that its replication allows, with its caveats."""
    a, b, logarithmic = sides
    alone = [side for side in (a, b) if side.level == "repetition"]
    caveats = [*_caveats(a, b)]
    paired = same_run and len(np.intersect1d(a.unit, b.unit)) >= 2
    constant, step, base = find_constant(a, b, metric, paired=paired), step_of(match, metric), a.value
    if logarithmic and clocks.counted(metric.unit):
        # Multiples: neither the same number more each time nor a single step is in question.
        constant, step = None, 0.0
    if min(len(a.value), len(b.value)) < 2:
        found = effect.single(a.value, b.value)
        method = "one value on a side"
    elif alone:
        found = effect.unpaired(a.value, b.value)
        method = "repetitions of one process"
    elif paired:
        first, second = _pairs(a, b)
        found, base = effect.paired(typical(second - first)), steady(first)
        method = f"paired by {'boot' if a.level == 'boot' else 'block'}"
    else:
        found, base = _unpaired(a, b), steady(a.value)
        method = f"unpaired over {'boots' if a.level == 'boot' else 'processes'}, a common drift allowed for"
    centre = a.centre if logarithmic else float(base.mean())
    if alone:
        spread = ASSUMED_PROCESS_SPREAD * np.sqrt(len(alone)) * (1.0 if logarithmic else abs(centre))
        found = effect.with_extra_error(found, spread)
        method += f", {ASSUMED_PROCESS_SPREAD:.0%} assumed between processes"
    if constant is not None and clocks.counted(metric.unit):
        found = effect.estimate(constant.change, 0.0, found.freedom)
    elif not clocks.counted(metric.unit):
        found = effect.with_extra_error(found, resolution_error(a, b))
    elif coarse(metric):
        found = effect.with_extra_error(found, resolution_error(a, b, step))
    if constant is not None and (clocks.counted(metric.unit) or a.level == "boot"):
        caveats.append(ONE_COURSE)
    return _Result(match, metric, a, b, found, centre, logarithmic, method, step, constant), caveats


def _pairs(a: Measured, b: Measured) -> tuple[Floats, Floats]:
    """Values of A and B in each shared unit, in order of time."""
    _, at_a, at_b = np.intersect1d(a.unit, b.unit, return_indices=True)
    order = np.argsort(a.time[at_a], kind="stable")
    return a.value[at_a[order]], b.value[at_b[order]]


def _unpaired(a: Measured, b: Measured) -> Estimate:
    """Difference between sides that were not interleaved."""
    time_a, time_b = _clock(a, b)
    values = steady(a.value), steady(b.value)
    plain = effect.unpaired(*values)
    return effect.envelope(plain, effect.unpaired_with_trend(*values, joined(time_a), joined(time_b)))


def _clock(a: Measured, b: Measured) -> tuple[Floats, Floats]:
    """Return the times of the clusters, the pause between runs cut to half of the longer run's length.

    The longer the pause, the further a trend has to be extended and the wider the interval gets; beyond that
    length nothing is known of it anyway.
    """
    limit = float(max(np.ptp(a.time), np.ptp(b.time))) / 2
    if min(np.ptp(a.time), np.ptp(b.time)) == 0:
        return np.arange(len(a.value), dtype=float), np.arange(len(b.value), dtype=float)
    pause_b = float(b.time.min() - a.time.max())
    pause_a = float(a.time.min() - b.time.max())
    return a.time - max(0.0, pause_a - limit), b.time - max(0.0, pause_b - limit)


def _caveats(a: Measured, b: Measured) -> Iterator[str]:
    if "repetition" in (a.level, b.level):
        yield (
            "a side has one process, so how processes differ was not seen; a spread of "
            f"{ASSUMED_PROCESS_SPREAD:.0%} was assumed: take 5 blocks or more"
        )
    elif min(len(a.value), len(b.value)) < FEWEST_CLUSTERS:
        units = "boots" if a.level == "boot" else "blocks"
        yield f"fewer than {FEWEST_CLUSTERS} {units} on a side: weak evidence"
    if a.boots != b.boots and 1 in (a.boots, b.boots):
        yield "one side has one boot: how boots differ was not seen on it"


def _row(result: _Result, p_holm: float, threshold: float, tests: int) -> ComparedMetric:
    found = result.estimate
    ratio, low, high = (_ratio(result, e) for e in (found.effect, found.low, found.high))
    reach = max(found.detectable(effect.LEVEL / tests), result.step)
    detectable = _ratio(result, reach) - 1
    inside = max(abs(low - 1), abs(high - 1)) <= threshold
    beyond = low - 1 > threshold or 1 - high > threshold
    different: Answer = "cannot tell"
    if p_holm < effect.LEVEL:
        different = "yes"
    elif inside or detectable <= threshold:
        different = "no"
    matters: Answer = "cannot tell"
    if inside:
        matters = "no"
    elif beyond and different == "yes":
        matters = "yes"
    return ComparedMetric(
        factors=result.match.factors,
        metric=result.metric.name,
        unit=result.metric.unit,
        ratio=ratio,
        difference=_difference(result),
        ci95=(low, high),
        p=found.p,
        p_holm=p_holm,
        different=different,
        matters=matters,
        detectable=detectable,
        n_a=result.a.n,
        n_b=result.b.n,
        clusters_a=len(result.a.value),
        clusters_b=len(result.b.value),
        median_a=result.a.median,
        median_b=result.b.median,
        method=result.method,
        sentence=_sentence(result, different, matters, (ratio, low, high, reach)),
    )


def _difference(result: _Result) -> float:
    change = result.estimate.effect
    return float(result.centre * np.expm1(min(change, 700.0))) if result.logarithmic else change


def _ratio(result: _Result, change: float) -> float:
    """Turn a change on the estimate's scale into B over A; NaN where A's value is not clearly above 0."""
    if result.logarithmic:
        return float(np.exp(min(change, 700.0)))
    clear = result.centre > 3 * result.estimate.error
    return float(1 + change / result.centre) if clear else float("nan")


def _sentence(
    result: _Result, different: Answer, matters: Answer, figures: tuple[float, float, float, float]
) -> str:
    """Say the answers in one sentence.

    The figures: ratio, its interval, and the change that would have been found, on the estimate's scale.
    """
    ratio, low, high, reach = figures
    found, unit = result.estimate, result.metric.unit
    if not np.isfinite(found.error):
        return "cannot tell: one sample a side does not show how samples vary"
    if result.constant is not None and found.effect == 0:
        return f"no difference found: identical in all {result.constant.units}"
    if different != "yes":
        size = digits.format_share(_ratio(result, reach) - 1)
        if np.isnan(ratio):
            size = digits.format_value(reach, None, unit)
        return f"no difference found; one of {size} would have been"
    quality = _quality(ratio, result.metric.better)
    if result.constant is not None and unit == clocks.UNIT:
        amount = digits.format_value(abs(found.effect), None, unit)
        share = "" if np.isnan(ratio) else f" ({digits.format_share(abs(ratio - 1))})"
        direction = "more" if found.effect > 0 else "less"
        told = f"B is {amount}{share} {direction} than A, the same in each of {result.constant.units}"
        return f"{told}{quality}; {_MATTERS[matters]}"
    if np.isnan(ratio):
        change = digits.format_interval(found.effect, found.low, found.high, unit)
        return f"B differs from A by {change}; A is not clearly above 0, so there is no ratio"
    half = (high - low) / 2
    change = digits.format_share(abs(ratio - 1), half)
    limits = " to ".join(digits.format_share(side - 1, half).removesuffix(" %") for side in (low, high))
    direction = "more" if ratio > 1 else "less"
    if unit == clocks.UNIT and not result.logarithmic:
        change = f"{digits.format_value(abs(found.effect), (found.high - found.low) / 2, unit)} ({change})"
    return f"B is {change} {direction} than A (95 % interval {limits} %){quality}; {_MATTERS[matters]}"


def _quality(ratio: float, better: str | None) -> str:
    """Say whether the change is for the better, where that can be said."""
    if better is None or np.isnan(ratio):
        return ""
    return f", {'better' if (ratio < 1) == (better == 'less') else 'worse'}"


def _name(factors: Mapping[str, Level], metric: str) -> str:
    """Metric and the factors of its point, such as `time_ns [call=getppid]`."""
    where = ", ".join(f"{name}={level}" for name, level in factors.items())
    return f"{metric} [{where}]" if where else metric

"""Comparison of two sides: is there a difference, and does it matter? Answers: yes, no, cannot tell.

- Sides measured in the same blocks of one run are *paired by block*; others are *separate* (see `effect`).
- `different` is "yes" if p, corrected as `multiplicity` says, is below 0.05 and the medians of all samples
  differ in the same direction; "no" if the difference is proven to be smaller than the threshold, by two
  one-sided tests at 5 % (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15, 1987), and the
  medians of all samples differ by no more either; else "cannot tell".
- `matters` is "yes" if there is a difference and its whole interval is beyond the threshold, "no" if it is
  proven to be smaller, else "cannot tell".

docs/explanation/statistics.md has the whole model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace

import numpy as np

from oscope.model.errors import NoCommonValueError, UsageError
from oscope.model.factors import Level
from oscope.model.samples import Column, ExperimentResults, PointSamples
from oscope.statistics import carryover, effect, exit_codes, injected
from oscope.statistics.compared import BENJAMINI_HOCHBERG, HOLM, Answer, ComparedMetric, is_beyond
from oscope.statistics.comparison_text import (
    core_speeds,
    interleaved_command,
    sentence,
    separate_runs,
    tail_sentence,
)
from oscope.statistics.earlier import EarlierPoints, EarlierRuns
from oscope.statistics.estimating import Result, estimate_difference
from oscope.statistics.interrupt_filter import Tallies, without_interference
from oscope.statistics.machines import imported, labels
from oscope.statistics.multiplicity import correct, quantity
from oscope.statistics.pairing import Match, interleaved, match_points, refuse_unlike
from oscope.statistics.quantiles import TailDifference, correct_tails, tail_differences
from oscope.statistics.sides import measure

THRESHOLD = 0.01


@dataclass(frozen=True)
class Comparison:
    """All compared metrics, and what to keep in mind about them."""

    rows: tuple[ComparedMetric, ...]
    caveats: tuple[str, ...]
    threshold: float
    label_a: str
    label_b: str
    tails: tuple[TailDifference, ...] = ()
    """Every quantile of the headline's slow tail that was judged, whether it differs or not."""

    @property
    def text(self) -> tuple[str, ...]:
        """Lines for people: one a row, then tails that differ, then the caveats."""
        lines = [f"{_name(row.factors, row.metric)}: {row.sentence}" for row in self.rows]
        tails = [
            f"{_name(tail.factors, tail.metric)}: {tail_sentence(tail)}"
            for tail in self.tails
            if tail.different
        ]
        return (*lines, *tails, *(f"note: {caveat}" for caveat in self.caveats))


ClockStep = Callable[[Match, Column], float]
"""Returns the larger step of the two sides' clocks, in the unit of a metric."""
Known = Callable[[PointSamples, Column], EarlierPoints]
"""Returns what earlier runs have of a metric at a point of A."""


def _steps(a: ExperimentResults, b: ExperimentResults) -> ClockStep:
    return lambda match, metric: max(a.resolution(match.a, metric.name), b.resolution(match.b, metric.name))


def _nothing_known(_: PointSamples, __: Column) -> EarlierPoints:
    return EarlierPoints()


def compare_results(
    a: ExperimentResults,
    b: ExperimentResults,
    *,
    threshold: float = THRESHOLD,
    allow: Iterable[str] = (),
    earlier: Sequence[ExperimentResults] = (),
    beside: int = 0,
) -> Comparison:
    """Compare two sets of results of one workload, B against A.

    `earlier` are runs that tell how much runs of this experiment differ though nothing was changed, in order
    of time; those that must not be compared with A are left out, as are A and B. `beside` is how many tests
    of headlines other comparisons have that are judged together with this one: for so many more p is
    corrected, and by so much more is `detectable` larger.

    Raises UsageError where the figures do not mean the same: other workload, version, clock or unit; or
    another machine or kernel, unless `allow` holds "machine" (which both then are) or "kernel"; or where
    there is nothing in common.
    """
    for side in (a, b):
        if side.points and not side.has_samples:
            why = next((f" ({point.skipped})" for point in side.points if point.skipped), "")
            raise NoCommonValueError(
                f"run {side.run_id} has no samples of {side.experiment}{why}", remedy="name another run"
            )
    caveats = refuse_unlike(a, b, frozenset(allow))
    matches, missing = match_points(a, b)
    metrics = [column for column in _comparable(a) if column.name in b.metrics]
    # Two experiments of one run are not interleaved; two runs may be.
    paired = interleaved(a, b)
    named = {"A": a, "B": b}
    sides, remarks = labels(a, b), [*exit_codes.caveats(named), *injected.caveats(named), *caveats, *missing]
    found = _compare(
        matches,
        metrics,
        sides,
        threshold,
        remarks,
        same_run=paired,
        headline=a.headline,
        steps=_steps(a, b),
        known=EarlierRuns.of(a, b, earlier).points,
        beside=beside,
        command=interleaved_command(a),
    )
    rows, depend = carryover.judge(found.rows, a, b, paired=paired)
    return replace(found, rows=rows, caveats=(*found.caveats, *depend))


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
    metrics = _comparable(results)
    caveats = [*injected.caveats({f"run {results.run_id}": results}), *imported(results, results)]
    return _compare(
        matches,
        metrics,
        labels,
        threshold,
        caveats,
        same_run=True,
        headline=results.headline,
        steps=_steps(results, results),
    )


def compare_pairs(
    results: ExperimentResults,
    pairs: Sequence[tuple[PointSamples, PointSamples]],
    *metrics: str,
    threshold: float = THRESHOLD,
    beside: int = 0,
) -> Comparison:
    """Compare metrics of points of a run with reference points, paired by block, as one family of tests.

    `pairs` are a reference and the point that is compared with it. The rows are in their order, each with the
    factors of its point; a pair without values has none. `beside` is how many more tests the family has
    (`other_pairs`, where the reference is the best of all). Raises UsageError where no pair has a value.
    """
    matches = [Match(other.factors, reference, other) for reference, other in pairs]
    columns, steps = [results.metrics[name] for name in metrics], _steps(results, results)
    return _compare(
        matches, columns, ("A", "B"), threshold, [], same_run=True, headline=None, steps=steps, beside=beside
    )


def other_pairs(pairs: Sized) -> int:
    """Return how many pairs points have beside those with one of them, which the data have chosen."""
    return len(pairs) * (len(pairs) - 1) // 2


def compare_points(
    a: PointSamples, b: PointSamples, metric: Column, *, same_run: bool, threshold: float = THRESHOLD
) -> ComparedMetric:
    """Compare one metric of two points; `same_run`: equal block numbers mean the same block.

    Raises UsageError where either side has no value.
    """
    match = Match(a.factors, a, b)
    sides = ("A", "B")
    return _compare([match], [metric], sides, threshold, [], same_run=same_run, headline=metric.name).rows[0]


def compare_hosts(
    a: ExperimentResults,
    b: ExperimentResults,
    labels: tuple[str, str],
    caveats: Iterable[str],
    *,
    paired: bool,
    threshold: float = THRESHOLD,
) -> Comparison:
    """Compare two sets of hosts, given as results with one sample a host, which is its block (`over_hosts`).

    `paired`: equal blocks are one host. Raises UsageError where there is nothing in common.
    """
    matches, missing = match_points(a, b)
    metrics = [column for column in _comparable(a) if column.name in b.metrics]
    notes = [*caveats, *missing]
    return _compare(
        matches, metrics, labels, threshold, notes, same_run=paired, headline=a.headline, hosts=True
    )


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
    headline: str | None,
    steps: ClockStep = lambda *_: 0.0,
    known: Known = _nothing_known,
    beside: int = 0,
    command: str = "oscope ab",
    hosts: bool = False,
) -> Comparison:
    """Compare matched points; with `hosts` a block is a host, and how much runs differ is part of hosts."""
    if not threshold > 0:
        raise UsageError(f"threshold {threshold:g}", remedy="give a share above 0, such as 1%")
    results, tests, notes, tallies = [], [], dict.fromkeys(caveats), Tallies()
    known_points = []
    without_value: dict[tuple[str, tuple[str, ...]], list[Match]] = {}
    for number, match in enumerate(matches):
        lacking: dict[str, list[str]] = {}
        for metric in metrics:
            (a, tally_a), (b, tally_b) = without_interference(metric, match.a, match.b)
            sides = measure(a, b, metric)
            if sides is None:
                lacking.setdefault(_without_value(a, b, metric.name), []).append(metric.name)
                continue
            if hosts:
                sides = (replace(sides[0], level="host"), replace(sides[1], level="host"), sides[2])
            kept = replace(match, a=a, b=b)
            earlier = None if hosts else known(match.a, metric)
            result, cautions = estimate_difference(
                kept, metric, sides, earlier, same_run=same_run, clock_step=steps(match, metric)
            )
            results.append(result)
            known_points.append(earlier)
            tests.append((number, quantity(metric.name)))
            notes.update(dict.fromkeys(cautions))
            tallies.add(metric.name, tally_a, tally_b)
        for side, names in lacking.items():
            without_value.setdefault((side, tuple(names)), []).append(match)
    notes.update(dict.fromkeys(_not_compared(without_value, len(matches))))
    if not results:
        raise NoCommonValueError(
            "nothing to compare", remedy="both sides need values of the same metric at the same point"
        )
    notes.update(dict.fromkeys(tallies.notes))
    notes.update(dict.fromkeys((*separate_runs(results, command), *core_speeds(results))))
    rows = _rows(results, tests, headline, threshold, beside)
    tails = _tails(results, rows, headline, known_points)
    return Comparison(rows, tuple(notes), threshold, *labels, tails=tails)


def _rows(
    results: Sequence[Result],
    tests: Sequence[tuple[int, str]],
    headline: str | None,
    threshold: float,
    beside: int,
) -> tuple[ComparedMetric, ...]:
    """Judge the results: those of the headline are one family and others another; without one all are."""
    first = [headline is None or quantity(each.metric.name) == quantity(headline) for each in results]
    corrected = correct([result.estimate.p for result in results], tests, first, beside)
    families = {own: len({test for test, of in zip(tests, first, strict=True) if of == own}) for own in first}
    return tuple(
        replace(
            _row(result, float(p), threshold, families[own] + (beside if own else 0)),
            correction=HOLM if own else BENJAMINI_HOCHBERG,
        )
        for result, p, own in zip(results, corrected, first, strict=True)
    )


def _without_value(a: PointSamples, b: PointSamples, metric: str) -> str:
    """Say which side has no value of a metric."""
    lacking = [name for name, side in (("A", a), ("B", b)) if not np.isfinite(side.metrics[metric]).any()]
    return f"{lacking[0]} has no value" if len(lacking) == 1 else "no side has a value"


def _not_compared(
    without_value: Mapping[tuple[str, tuple[str, ...]], Sequence[Match]], points: int
) -> Iterator[str]:
    """Yield a line for all metrics without a value at a point, and one line where it is so at every point."""
    for (side, metrics), matches in without_value.items():
        places: list[Mapping[str, Level]] = [match.factors for match in matches]
        for factors in places if len(places) < points else [{}]:
            yield f"{_name(factors, ', '.join(metrics))}: not compared, {side}"


def _tails(
    results: Sequence[Result],
    rows: Sequence[ComparedMetric],
    headline: str | None,
    known: Sequence[EarlierPoints | None],
) -> tuple[TailDifference, ...]:
    """Judge the slow tail of the headline at every point."""
    return correct_tails(
        [
            tail
            for result, row, earlier in zip(results, rows, known, strict=True)
            if row.metric == headline and earlier is not None
            for tail in tail_differences(result, earlier.quantile, medians_differ=row.different == "yes")
        ]
    )


def _row(result: Result, p_holm: float, threshold: float, tests: int) -> ComparedMetric:
    found = result.estimate
    ratio, low, high = (result.ratio(e) for e in (found.effect, found.low, found.high))
    mde = max(found.detectable(effect.LEVEL / tests), result.step)
    detectable = result.ratio(mde) - 1
    small = (result.ratio(e) for e in found.interval(1 - 2 * effect.LEVEL))
    inside = max(abs(end - 1) for end in small) <= threshold and _shown_inside(result, threshold)
    different: Answer = "cannot tell"
    if p_holm < effect.LEVEL and not result.contradicts:
        different = "yes"
    elif inside:
        different = "no"
    matters: Answer = "cannot tell"
    if inside:
        matters = "no"
    elif is_beyond((low, high), threshold) and different == "yes":
        matters = "yes"
    return ComparedMetric(
        factors=result.match.factors,
        metric=result.metric.name,
        unit=result.metric.unit,
        ratio=ratio,
        difference=result.difference,
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
        sentence=sentence(result, different, matters, (ratio, low, high, mde)),
        tests=tests,
        difference_ci95=(float("nan"),) * 2 if result.logarithmic else (found.low, found.high),
    )


def _shown_inside(result: Result, threshold: float) -> bool:
    """Say whether the medians of all samples, which are shown beside the verdict, agree with a "no"."""
    difference = abs(result.b.median - result.a.median)
    opposite = difference > 0 and result.estimate.p < effect.LEVEL and result.contradicts
    return not opposite and difference <= threshold * abs(result.a.median)


def _name(factors: Mapping[str, Level], metric: str) -> str:
    """Metric and the factors of its point, such as `time_ns [call=getppid]`."""
    where = ", ".join(f"{name}={level}" for name, level in factors.items())
    return f"{metric} [{where}]" if where else metric

"""Carryover: counts of instructions that depend on the points measured before them in the same boot.

A point leaves the kernel in another state than it found it, such as slabs with free objects, and the next one
may execute more or fewer instructions for that (a carryover effect: Jones and Kenward, "Design and Analysis
of Cross-Over Trials", 2014). Boots that measure the same points, equally often and in the same order, repeat
the counts. What a boot measured, and when, is read from the samples: runs of any age are judged alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from oscope.model import clocks, formatting
from oscope.model.factors import Level
from oscope.model.samples import Column, ExperimentResults, PointSamples
from oscope.statistics.interrupt_filter import without_interference
from oscope.statistics.sides import ROUNDING

if TYPE_CHECKING:
    from oscope.statistics.compared import ComparedMetric

Key = frozenset[tuple[str, Level]]
Boot = tuple[tuple[Key, int], ...]
"""The points measured in one boot, in order, each with the number of its samples."""
_MOST_NAMED = 4


@dataclass(frozen=True)
class Range:
    """The smallest and the largest count of boots that measured other points before it."""

    low: float
    high: float

    @property
    def span(self) -> float:
        """How much the points measured before change the count."""
        return self.high - self.low

    @property
    def share(self) -> float:
        """The span over the larger end."""
        return self.span / abs(self.high) if self.high else 0.0

    def text(self, column: Column) -> str:
        """Return it as text, such as `202426 to 212855 instructions`."""
        low, high = (formatting.format_value(end, None, column.unit) for end in (self.low, self.high))
        return f"{low.removesuffix(f' {column.unit}')} to {high}"


def boots(results: ExperimentResults, other: ExperimentResults | None = None) -> dict[int, tuple[Boot, ...]]:
    """Return for each block its boots; by `other` a point has the same key in both results."""
    found: dict[int, dict[int, list[tuple[int, int, Key, int]]]] = {}
    for number, point in enumerate(results.points):
        key = results.key(point, other)
        pairs, inverse = np.unique(np.stack([point.block, point.boot]), axis=1, return_inverse=True)
        inverse = inverse.reshape(-1)
        for index, (block, boot) in enumerate(pairs.T.tolist()):
            own = inverse == index
            turn = (int(point.started_ns[own].min()), number, key, int(own.sum()))
            found.setdefault(block, {}).setdefault(boot, []).append(turn)
    return {block: tuple(map(_in_order, (own[boot] for boot in sorted(own)))) for block, own in found.items()}


def _in_order(turns: list[tuple[int, int, Key, int]]) -> Boot:
    """Return the points of a boot by when they began; equal times leave them as they are."""
    return tuple((key, count) for _, _, key, count in sorted(turns, key=lambda turn: turn[:2]))


def same_order(a: ExperimentResults, b: ExperimentResults) -> bool:
    """Say whether the boots of each block that both have measured the same points, in the same order.

    False where they count no instructions: time goes by between two runs, so that their blocks are no pairs.
    """
    if {a.clock, b.clock} != {"instructions"}:
        return False
    first, second = boots(a, b), boots(b, a)
    common = first.keys() & second.keys()
    return bool(common) and all(first[block] == second[block] for block in common)


def caveats(a: ExperimentResults, b: ExperimentResults) -> list[str]:
    """Return what is to be kept in mind of counts whose boots measured other points before them."""
    if {a.clock, b.clock} != {"instructions"} or same_order(a, b):
        return []
    if not (a.has_samples and b.has_samples):
        return []
    caveat = (
        "A and B did not measure the same points in the same order and equally often, and a count of "
        "instructions can depend on the points measured before it in its boot: give both the same levels "
        "and --reps"
    )
    older = [name for name, side in (("A", a), ("B", b)) if side.settings.get("order") != "fixed"]
    if older:
        verb = "has" if len(older) == 1 else "have"
        caveat += f"; {' and '.join(older)} {verb} an order that was drawn from the seed: measure again"
    return [caveat]


def find(results: ExperimentResults) -> dict[tuple[Key, str], Range]:
    """Return the figures that are known to depend on the points before, by point and metric.

    They are those whose medians differ between boots that measured other points before. None where no
    instructions are counted.
    """
    if results.clock != "instructions":
        return {}
    before: dict[Key, set[tuple[Key, ...]]] = {}
    for boot in itertools.chain.from_iterable(boots(results).values()):
        keys = [key for key, _ in boot]
        for number, key in enumerate(keys):
            before.setdefault(key, set()).add(tuple(keys[:number]))
    found = {}
    for point in results.points:
        key = results.key(point)
        if len(before.get(key, ())) < 2:
            continue
        for column in results.metrics.values():
            moved = _range(point, column)
            if moved is not None:
                found[key, column.name] = moved
    return found


def _range(point: PointSamples, column: Column) -> Range | None:
    """Return between what the boots' medians of a metric lie; None where they are equal."""
    [(kept, _)] = without_interference(column, point)
    finite = np.isfinite(kept.metrics[column.name])
    values, boot = kept.metrics[column.name][finite], kept.boot[finite]
    medians = [float(np.median(values[boot == each])) for each in np.unique(boot)]
    if len(medians) < 2:
        return None
    found = Range(min(medians), max(medians))
    # Of CPU time a step is a thousand instructions: less is none of the points' doing.
    step = clocks.step(column.name, column.unit, float(np.median(kept.iterations)))
    least = step if clocks.step(column.name, column.unit, 1) > 1 else 0.0
    return found if found.span > max(least, ROUNDING * abs(found.high)) else None


def remark(results: ExperimentResults) -> str | None:
    """Return a sentence on the figures that depend on the points before; None where none does."""
    moved = find(results)
    names = {results.key(point): _where(point.factors, results.varied()) for point in results.points}
    texts = [
        (found.share, f"{metric}{names[key]} ({found.text(results.metrics[metric])})")
        for (key, metric), found in moved.items()
    ]
    return _sentence(texts, len(results.points) * len(results.metrics))


def judge(
    rows: Sequence[ComparedMetric], a: ExperimentResults, b: ExperimentResults, *, paired: bool
) -> tuple[tuple[ComparedMetric, ...], list[str]]:
    """Return the rows without differences that the points measured before explain, and caveats.

    `paired`: equal blocks measured the same points before. Where they did not, a difference is none of the
    systems' if the sides are no further apart than those points are known to move the count; or if both sides
    are the same system.
    """
    if {a.clock, b.clock} != {"instructions"}:
        return tuple(rows), []
    moved, same = (find(a), find(b)), _same_system(a, b)
    judged, named = [], []
    for row in rows:
        column = a.metrics[row.metric]
        own = next(point for point in a.points if point.factors == row.factors)
        key = a.key(own, b)
        other = next(point for point in b.points if b.key(point, a) == key)
        ranges = moved[0].get((a.key(own), row.metric)), moved[1].get((b.key(other), row.metric))
        known = [found for found in ranges if found is not None]
        if known:
            widest = max(known, key=lambda found: found.span)
            text = f"{row.metric}{_where(row.factors, row.factors)} ({widest.text(column)})"
            named.append((widest.share, text))
        why = None
        if not paired and row.different == "yes":
            why = _explanation(row, ranges, column, same=same)
        judged.append(row if why is None else _unknown(row, why))
    sentence = _sentence(named, len(rows))
    return tuple(judged), [] if sentence is None else [sentence]


def _explanation(
    row: ComparedMetric, ranges: Sequence[Range | None], column: Column, *, same: bool
) -> str | None:
    """Return why the points measured before may explain the difference; None where they cannot."""
    if same:
        return "both sides are the same system, which measured other points or another order"
    ends = [
        found or Range(middle, middle)
        for found, middle in zip(ranges, (row.median_a, row.median_b), strict=True)
    ]
    apart = max(end.low for end in ends) - min(end.high for end in ends)
    widest = max(ends, key=lambda end: end.span)
    if widest.span == 0 or apart > widest.span:
        return None
    return f"by these alone it is {widest.text(column)}, and the sides measured others before it"


def _unknown(row: ComparedMetric, why: str) -> ComparedMetric:
    return replace(
        row,
        different="cannot tell",
        matters="no" if row.matters == "no" else "cannot tell",
        sentence=f"cannot tell: it depends on the points measured before it in its boot; {why}",
    )


def _same_system(a: ExperimentResults, b: ExperimentResults) -> bool:
    """Say whether both sides are the same guests, measured by the same build of the probe in the same way."""
    guests = a.environment.get("guest"), b.environment.get("guest")
    probes = [(side.environment.get("laboratory") or {}).get("probe_sha256") for side in (a, b)]
    times = [side.settings.get("min_time_ns") for side in (a, b)]
    return (
        guests[0] is not None
        and guests[0] == guests[1]
        and probes[0] is not None
        and probes[0] == probes[1]
        and times[0] == times[1]
    )


def _sentence(named: Sequence[tuple[float, str]], count: int) -> str | None:
    """Return what is known of figures, given with the share by which each differs."""
    if not named:
        return None
    texts = [text for _, text in sorted(named, key=lambda one: -one[0])]
    more = f"; and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return (
        f"{len(texts)} of {count} figures differ between boots that measured other points before them: "
        f"{'; '.join(texts[:_MOST_NAMED])}{more}"
    )


def _where(factors: Mapping[str, Level], names: Collection[str]) -> str:
    """Return the levels of the factors in `names`, such as ` [call=getppid]`; nothing where there is none."""
    where = ", ".join(f"{name}={level}" for name, level in factors.items() if name in names)
    return f" [{where}]" if where else ""

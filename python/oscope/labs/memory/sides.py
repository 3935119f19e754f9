"""Quantities of `memory.access` at two levels of a factor side by side, with the ratio and its doubt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from oscope.figures.words import listed, median
from oscope.labs.curve import derived, has, metric, not_different, ratio_text
from oscope.labs.memory import reference
from oscope.model.document import Table
from oscope.model.factors import Level
from oscope.model.formatting import MISSING, format_count, format_value
from oscope.model.samples import Column, ExperimentResults, Floats, PointSamples
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric, Summary, compare_within

Levels = Mapping[str, Level]


@dataclass(frozen=True)
class Quantity:
    """A figure of a point, from one or several of its metrics."""

    name: str
    unit: str
    """Empty for what is counted."""
    of: Callable[[PointSamples], Floats]
    key: str = ""
    """The metric it is made of, by which the document's figure is found."""
    factor: Callable[[PointSamples], float] = lambda _: 1.0
    """What one unit of that metric is in the unit of this quantity."""

    def summary(self, experiment: ExperimentResults, point: PointSamples) -> Summary | None:
        """Return its summary; None where no sample has it."""
        step = experiment.resolution(point, self.key) if self.key in experiment.metrics else 0.0
        return derived(experiment, point, self.of, resolution=step * self.factor(point))

    def median(self, experiment: ExperimentResults, point: PointSamples) -> float | None:
        """Return the median; None where no sample has it."""
        summary = self.summary(experiment, point)
        return None if summary is None else summary.median

    def text(self, experiment: ExperimentResults, point: PointSamples | None) -> str:
        """Return the median with its interval, or that it is missing."""
        summary = None if point is None else self.summary(experiment, point)
        return MISSING if summary is None else figure(summary, self.unit)


def plain(name: str, key: str, unit: str = "") -> Quantity:
    """Return a metric as it is."""
    return Quantity(name, unit, lambda point: metric(point, key), key)


def each_set(name: str, key: str, unit: str = "", factor: float = 1.0) -> Quantity:
    """Return a metric over the number of sets, times `factor`."""

    def scaled(point: PointSamples) -> float:
        return factor / sets(point)

    return Quantity(name, unit, lambda point: metric(point, key) * scaled(point), key, scaled)


def sets(point: PointSamples) -> int:
    """Return how many sets were walked."""
    return int(point.factors["sets"])


def figure(summary: Summary, unit: str) -> str:
    """Return a median with its interval; what is the same in every sample stands alone."""
    if summary.minimum < summary.maximum:
        return median(summary, unit)
    return number(summary.median, unit)


def number(value: float, unit: str = "") -> str:
    """Return a figure without doubt: whole numbers with all digits, others with four."""
    if value == round(value):
        return " ".join(filter(None, [format_count(value), unit]))
    return format_value(value, None, unit)


def walked(points: Sequence[PointSamples]) -> str:
    """Tell how many sets were walked, in how much memory; the document's beside them."""
    counts = {sets(point) for point in points}
    sizes = {int(point.factors["size"]) for point in points}
    told_sets = listed([number(count) for count in sorted(counts)])
    told_sizes = listed([format_bytes(size) for size in sorted(sizes)])
    if counts == {reference.SETS} and sizes == {reference.SIZE}:
        return f"Here, as in the document, {told_sets} sets are walked in {told_sizes}."
    cited = f"{number(reference.SETS)} in {format_bytes(reference.SIZE)}"
    return f"Here {told_sets} sets are walked in {told_sizes}, in the document {cited}."


TICKS = (
    "User and system time: most kernels find out by ticks of their timer which of the two a process is in, "
    "so that times of a few ticks (of 1 to 10 ms) are rough."
)
TIME = plain("time of a set", "set_ns", "ns")
RESOURCES = (
    each_set("user time of a set", "utime_s", "ns", 1e9),
    each_set("system time of a set", "stime_s", "ns", 1e9),
    plain("minor faults (minflt)", "minflt"),
    plain("major faults (majflt)", "majflt"),
    plain("growth of resident memory (maxrss)", "maxrss_kib", "KiB"),
    plain("blocks read (inblock)", "inblock"),
    plain("blocks written (oublock)", "oublock"),
)


def cite(figures: Mapping[str, Mapping[str, reference.Known]], quantity: Quantity, level: Level) -> str:
    """Return the document's figure of a quantity at a level, its times and events for a set."""
    known = figures.get(str(level), {}).get(quantity.key)
    if known is None:
        return MISSING
    if quantity.key.endswith("_s"):
        return known.text("ns", 1e9 / reference.SETS)
    if quantity.key.startswith(("l1d_", "dtlb_")):
        return known.text("", 1 / reference.SETS)
    return known.text(quantity.unit)


def shown(experiment: ExperimentResults, **levels: Level) -> list[PointSamples]:
    """Return the measured points that have these levels, without a tracer."""
    return [
        point
        for point in experiment.points
        if len(point) and has(point, levels) and point.factors.get("tracer", "none") == "none"
    ]


def first(experiment: ExperimentResults, **levels: Level) -> PointSamples | None:
    """Return the first measured point that has these levels, without a tracer."""
    return next(iter(shown(experiment, **levels)), None)


def compared(
    experiment: ExperimentResults, quantities: Sequence[Quantity], factor: str, ends: tuple[Level, Level]
) -> list[ComparedMetric]:
    """Return how the second level of `factor` compares with the first, paired by block.

    There is a row for each quantity at each combination of the other factors; p is corrected (Holm) for all
    of them.
    """
    points = []
    for point in shown(experiment):
        values = {each.name: each.of(point) for each in quantities}
        known = {name: row for name, row in values.items() if np.isfinite(row).any()}
        if known:
            nothing = np.full(len(point), np.nan)
            points.append(
                replace(point, metrics={each.name: known.get(each.name, nothing) for each in quantities})
            )
    columns = {each.name: Column(each.name, each.unit, each.name, "less") for each in quantities}
    narrow = replace(experiment, points=tuple(points), metrics=columns)
    if not _comparable(narrow, quantities, factor, ends):
        return []
    return list(compare_within(narrow, factor, *ends).rows)


def _comparable(
    narrow: ExperimentResults, quantities: Sequence[Quantity], factor: str, ends: tuple[Level, Level]
) -> bool:
    """Say whether a quantity is known at both levels, everything else being the same."""
    for point in narrow.points:
        other = narrow.point(**{**point.factors, factor: ends[1]})
        if point.factors.get(factor) != ends[0] or other is None:
            continue
        if any(
            np.isfinite(point.metrics[each.name]).any() and np.isfinite(other.metrics[each.name]).any()
            for each in quantities
        ):
            return True
    return False


def row_of(rows: Sequence[ComparedMetric], quantity: Quantity, **levels: Level) -> ComparedMetric | None:
    """Return the comparison of one quantity at these levels of the other factors."""
    for row in rows:
        if row.metric == quantity.name and all(
            row.factors.get(name) == each for name, each in levels.items()
        ):
            return row
    return None


def told(row: ComparedMetric | None) -> str:
    """Return `1.46 (1.45 to 1.47) times`, or what can be said of it."""
    if row is None:
        return "not compared"
    text = f"{ratio_text(row)} times"
    return text if row.different == "yes" else f"{text}, {not_different(row)}"


@dataclass(frozen=True)
class Sides:
    """What a table of two sides shows."""

    factor: str
    ends: tuple[Level, Level]
    words: tuple[str, str]
    quantities: Sequence[Quantity]
    cited: Callable[[Quantity, Level], str] | None = None
    """The document's figure of a quantity at a level, if it has one."""


def table(
    title: str, experiment: ExperimentResults, rows: Sequence[ComparedMetric], sides: Sides, **levels: Level
) -> Table | None:
    """Return the quantities of both sides at these levels of the other factors; None where there are none."""
    points = [first(experiment, **{**levels, sides.factor: end}) for end in sides.ends]
    if all(point is None for point in points):
        return None
    lines = []
    for quantity in sides.quantities:
        found = [None if point is None else quantity.summary(experiment, point) for point in points]
        known = [sides.cited(quantity, end) for end in sides.ends] if sides.cited else []
        if found == [None, None] and not any(each != MISSING for each in known):
            continue
        values = [MISSING if each is None else figure(each, quantity.unit) for each in found]
        line = [quantity.name, *values, *_verdict(found[0], found[1], row_of(rows, quantity, **levels))]
        lines.append([*line, *known])
    columns = ["", *sides.words, f"{sides.words[1]} / {sides.words[0]} (95 %)", "different"]
    columns += [f"document, {word}" for word in sides.words] if sides.cited else []
    note = (
        "Medians with their 95 % intervals; the ratio is paired by block, p corrected (Holm). A count that "
        "is the same in every repetition stands alone, and two such are compared as they are. "
        f"{walked([point for point in points if point is not None])}"
    )
    if any(each.key in ("utime_s", "stime_s") for each in sides.quantities):
        note += f" {TICKS}"
    if sides.cited:
        note += f" {reference.WHERE}"
    return Table(title, columns, lines, frozenset(), note) if lines else None


def _verdict(first: Summary | None, second: Summary | None, row: ComparedMetric | None) -> list[str]:
    """Return the ratio and whether there is a difference."""
    if first is None or second is None or row is None:
        return [MISSING, MISSING]
    if all(each.n > 1 and each.minimum == each.maximum for each in (first, second)):
        # Without any spread a test has nothing to say, and nothing to add.
        ratio = f"{second.median / first.median:.4g}" if first.median else MISSING
        return [ratio, "no" if first.median == second.median else "yes"]
    return [ratio_text(row), row.different]

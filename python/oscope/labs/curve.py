"""The points of an experiment as a curve over the size of a block or buffer, and how two curves differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed, levels, measured
from oscope.figures.tables import row_scale, shared_scale
from oscope.figures.words import counted, with_samples
from oscope.model.document import Figure
from oscope.model.factors import Level
from oscope.model.formatting import MISSING, Scale, bounded_text, format_count
from oscope.model.samples import ExperimentResults, Floats, PointSamples
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric, Summary, compare_points, compare_within, summarise
from oscope.statistics.effect import LEVEL
from oscope.statistics.multiplicity import holm

RATE = "throughput"
RATE_UNIT = "MiB/s"
FACTORS = ("block_size", "buffer")
"""Factors that say how many bytes are moved at a time: a curve runs over the one that its points have."""
NOT_RUN = "{} was not run: `oscope run {}` does it"


@dataclass(frozen=True)
class At:
    """What was measured at one size."""

    size: int
    point: PointSamples
    summary: Summary

    @property
    def name(self) -> str:
        """The size as people write it."""
        return format_bytes(self.size)


Curves = Mapping[str, Sequence[At]]
"""Curves by name."""


def curve(results: Analysed, experiment: ExperimentResults, metric: str, **factors: Level) -> list[At]:
    """Return the points with these levels that have values of `metric`, by rising size.

    Where another factor varies too, the first of its levels is taken; `narrowing` says so.
    """
    found: dict[int, At] = {}
    for point, summary in with_samples(results, experiment, metric):
        size = size_of(point)
        if size is not None and has(point, factors):
            found.setdefault(size, At(size, point, summary))
    return [found[size] for size in sorted(found)]


def size_of(point: PointSamples) -> int | None:
    """Return the size of the point's blocks or buffers; None where it has neither."""
    return next((int(point.factors[name]) for name in FACTORS if name in point.factors), None)


def has(point: PointSamples, factors: Mapping[str, Level]) -> bool:
    """Say whether the point has these levels."""
    return all(point.factors.get(name) == level for name, level in factors.items())


def source(experiment: ExperimentResults, curves: Curves) -> str:
    """Return `32 MiB (disk.peers)`: the size that these curves are of, and the experiment.

    Experiments of a lab measure like things in files of other sizes and beside other points: figures differ.
    """
    sizes = {point.point.factors.get("size") for found in curves.values() for point in found}
    known = [format_bytes(size) for size in sorted(each for each in sizes if isinstance(each, int))]
    return " ".join([*([" and ".join(known)] if known else []), f"({experiment.experiment})"])


def derived(
    experiment: ExperimentResults,
    point: PointSamples,
    value: Callable[[PointSamples], Floats],
    *,
    resolution: float = 0.0,
) -> Summary | None:
    """Summarise what `value` computes for each sample of the point; None where no sample has it.

    `resolution` is the clock's step in the unit of what is computed, as `summarise` takes it.
    """
    if not len(point) or not point.metrics:
        return None
    values = value(point)
    if not np.isfinite(values).any():
        return None
    return summarise(values, point.block, boot=point.boot, seed=experiment.seed, resolution=resolution)


def metric(point: PointSamples, name: str) -> Floats:
    """Return the values of a metric; NaN where the point has none."""
    return point.metrics.get(name, np.full(len(point), np.nan))


def bytes_text(size: float) -> str:
    """Return a number of bytes: `64 KiB` where it is a whole number of KiB, else in B to the last one."""
    whole = int(size)
    return format_bytes(whole) if whole % 1024 == 0 else f"{format_count(whole)} B"


def narrowing(experiment: ExperimentResults, known: Sequence[str]) -> list[str]:
    """Say which of several levels is shown of the factors that are not among the `known` ones."""
    others = [name for name in experiment.varied() if name not in (*known, *FACTORS)]
    first = levels(experiment, experiment.points[0].factors) if experiment.points else {}
    return [
        f"Shown here is {name} = {first[name]}; the tables below have the other levels." for name in others
    ]


def ratios(
    experiment: ExperimentResults, metric: str, factor: str, sides: tuple[Level, Level], **factors: Level
) -> dict[int, ComparedMetric]:
    """Return for each size how the second level of `factor` compares with the first, paired by block.

    p is corrected (Holm) for the sizes.
    """
    points: dict[tuple[int, Level], PointSamples] = {}
    for point in experiment.points:
        size = size_of(point)
        if size is not None and has(point, factors) and len(measured(point, metric)[0]):
            points.setdefault((size, point.factors.get(factor, "")), point)
    kept = tuple(
        replace(each, factors={"size": size, factor: level}) for (size, level), each in points.items()
    )
    if not any((size, sides[0]) in points and (size, sides[1]) in points for size, _ in points):
        return {}
    narrow = replace(experiment, points=kept, metrics={metric: experiment.metrics[metric]})
    rows = compare_within(narrow, factor, *sides).rows
    return {int(row.factors["size"]): row for row in rows}


def ratio_text(row: ComparedMetric | None) -> str:
    """Return `1.52 (1.40 to 1.66)`, or what can be said of it."""
    return MISSING if row is None else bounded_text(row.ratio, *row.ci95)


def not_different(row: ComparedMetric) -> str:
    """Say of a ratio that is no proven difference what it is: `which cannot be told from 1`."""
    if row.different == "no":
        return "which is no difference"
    low, high = row.ci95
    among = " among so many comparisons" if low > 1 or high < 1 else ""
    return f"which cannot be told from 1{among}"


def best(found: Sequence[At], experiment: ExperimentResults, metric: str) -> tuple[At, list[At]]:
    """Return the best point of a curve, and those that cannot be told from it (paired by block, Holm)."""
    column = experiment.metrics[metric]
    sign = -1 if column.better == "more" else 1
    first, *others = sorted(found, key=lambda each: sign * each.summary.median)
    if not others:
        return first, []
    tests = [compare_points(first.point, other.point, column, same_run=True).p for other in others]
    apart = holm(np.array(tests)) < LEVEL
    alike = [other for other, told in zip(others, apart, strict=True) if not told]
    return first, sorted(alike, key=lambda each: each.size)


def cells(summary: Summary | None, scale: Scale) -> list[str]:
    """Return median and interval as two cells of a table whose columns share `scale`."""
    if summary is None:
        return [MISSING, MISSING]
    own = row_scale(scale, summary)
    return [own.text(summary.median), own.span(summary.ci95)]


def unmeasured(experiment: ExperimentResults, **factors: Level) -> str:
    """Tell why points with these levels were skipped or failed, and what would mend it; each reason once."""
    points = [point for point in experiment.points if has(point, factors)]
    told: dict[str, int] = {}
    for point in points:
        if point.skipped is not None:
            reason = f"{point.skipped}: {point.remedy}." if point.remedy else f"{point.skipped}."
        elif len(point) and len(point.failed) == len(point):
            reason = f"every sample failed: {point.failed[0][1]}."
        else:
            continue
        told[reason] = told.get(reason, 0) + 1
    return " ".join(f"{count} of {counted(len(points), 'point')}: {reason}" for reason, count in told.items())


def over_sizes(
    title: str,
    curves: Curves,
    unit: str,
    note: str = "Medians with their 95 % intervals.",
    name: str = "block size",
) -> Figure:
    """Draw curves over the size called `name`, every size at the same distance from the next."""
    sizes = sizes_of(curves)
    lines, axis = lines_over(curves, unit, {size: float(index) for index, size in enumerate(sizes)})
    return plots.lines(title, (size_axis(sizes, name), axis), lines, note)


def sizes_of(curves: Curves) -> list[int]:
    """Return every size of these curves, rising."""
    return sorted({each.size for found in curves.values() for each in found})


def size_axis(sizes: Sequence[int], name: str = "block size") -> dict[str, Any]:
    """Return an axis with every size at the same distance from the next, in the order of `sizes`."""
    texts = [format_bytes(size) for size in sizes]
    ends = [-0.3, len(sizes) - 0.7]
    return plots.axis(name, tickvals=list(range(len(sizes))), ticktext=texts, range=ends)


def lines_over(
    curves: Curves, unit: str, places: Mapping[int, float]
) -> tuple[list[plots.Line], dict[str, Any]]:
    """Return each curve as a line in a colour of its own, and the axis of their values.

    `places` says where a size stands on the other axis.
    """
    summaries = [each.summary for found in curves.values() for each in found]
    scale = shared_scale(summaries, unit)
    lines = [
        plots.Line(name, [(places[each.size], _dot(name, each.summary, scale)) for each in found], colour)
        for colour, (name, found) in enumerate(curves.items())
    ]
    medians = [each.median for each in summaries]
    if min(medians) > 0 and max(medians) / min(medians) > plots.WIDE_RATIO:
        return lines, plots.axis(scale.unit, scale="log")
    return lines, plots.axis(scale.unit, rangemode="tozero")


def _dot(name: str, summary: Summary, scale: Scale) -> plots.Dot:
    interval = summary.ci95 and (summary.ci95[0] / scale.factor, summary.ci95[1] / scale.factor)
    return plots.Dot(name, summary.median / scale.factor, interval, np.zeros(0))

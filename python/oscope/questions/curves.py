"""The points of an experiment as a curve over the size of a block, buffer or file, and what curves show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, TypeVar

from oscope.figures import plots
from oscope.figures.analysed import measured
from oscope.figures.tables import shared_scale
from oscope.model.document import Figure
from oscope.model.factors import Level
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.model.units import MEBIBYTE, format_bytes
from oscope.questions.contrast import SIZES, Contrast, Ends, compared
from oscope.questions.drawing import INTERVALS, RATIOS, median_lines
from oscope.questions.quantity import Quantity
from oscope.questions.run import Point, Run, has
from oscope.questions.table import Column, stat, text
from oscope.statistics import ComparedMetric, Summary, compare_pairs
from oscope.statistics.compare import other_pairs

RATE = "throughput"
RATE_UNIT = "MiB/s"


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


_Measured = TypeVar("_Measured", At, Point)
Curves = Mapping[str, Sequence[At]]
"""Curves by name."""


def curve(run: Run, asked: str | Quantity, **factors: Level) -> list[At]:
    """Return the points with these levels that have values of what is asked, by rising size.

    Where another factor varies too, the first point of each size is taken: narrow the run before.
    """
    found: dict[int, At] = {}
    for point in run.experiment.points:
        size, summary = size_of(point), run.summary(point, asked) if has(point, factors) else None
        if size is not None and summary is not None:
            found.setdefault(size, At(size, point, summary))
    return [found[size] for size in sorted(found)]


def curves_by(
    run: Run, asked: str | Quantity, factor: str, order: Sequence[str] = (), **factors: Level
) -> dict[str, list[At]]:
    """Return the curve of each level of a factor that has values at points with these levels."""
    found = {level: curve(run, asked, **{factor: level}, **factors) for level in run.levels(factor, order)}
    return {level: each for level, each in found.items() if each}


def size_of(point: PointSamples) -> int | None:
    """Return the size of the point's blocks, buffers or files; None where it has none."""
    return next((int(point.factors[name]) for name in SIZES if name in point.factors), None)


def ratios(run: Run, asked: str, factor: str, ends: Ends, **levels: Level) -> dict[int, ComparedMetric]:
    """Return for each size how the second level of `factor` compares with the first (paired, Holm).

    As in a curve, where another factor varies too, the run is to be narrowed before.
    """
    points: dict[tuple[int, Level], PointSamples] = {}
    for point in run.experiment.points:
        size = size_of(point)
        if size is not None and has(point, levels) and len(measured(point, asked)[0]):
            points.setdefault((size, point.factors.get(factor, "")), point)
    kept = tuple(replace(each, factors={"size": key[0], factor: key[1]}) for key, each in points.items())
    rows = compared(replace(run.experiment, points=kept), (asked,), factor, ends)
    return {int(row.factors["size"]): row for row in rows}


def source(experiment: ExperimentResults, curves: Curves) -> str:
    """Return `32 MiB (disk.peers)`: the size that these curves are of, and the experiment.

    Experiments of a lab measure like things in files of other sizes and beside other points: figures differ.
    """
    sizes = {point.point.factors.get("size") for found in curves.values() for point in found}
    known = [format_bytes(size) for size in sorted(each for each in sizes if isinstance(each, int))]
    return " ".join([*([" and ".join(known)] if known else []), f"({experiment.experiment})"])


def best(found: Sequence[At], experiment: ExperimentResults, metric: str) -> tuple[At, list[At]]:
    """Return the best point of a curve, and those not distinguished from it (paired by block, Holm).

    Which one is the best, the data say: p is corrected for the tests of all pairs.
    """
    first, alike = _best(found, [each.point for each in found], experiment, metric)
    return first, sorted(alike, key=lambda each: each.size)


def best_of(points: Sequence[Point]) -> tuple[Point, list[Point]]:
    """Return the same of points of one experiment: the best, and in their order those that are like it."""
    run, metric = points[0].run, points[0].metric
    return _best(points, [each.samples for each in points], run.experiment, metric)


def _best(
    found: Sequence[_Measured], samples: Sequence[PointSamples], experiment: ExperimentResults, metric: str
) -> tuple[_Measured, list[_Measured]]:
    sign = -1 if experiment.metrics[metric].better == "more" else 1
    top = min(range(len(found)), key=lambda index: sign * found[index].summary.median)
    others = [index for index in range(len(found)) if index != top]
    pairs = [(samples[top], samples[index]) for index in others]
    rows = compare_pairs(experiment, pairs, metric, beside=other_pairs(pairs)).rows if pairs else ()
    verdicts = zip(others, rows, strict=True)
    return found[top], [found[index] for index, row in verdicts if row.different != "yes"]


def sizes_of(curves: Curves) -> list[int]:
    """Return every size of these curves, rising."""
    return sorted({each.size for found in curves.values() for each in found})


def lasting(sizes: Sequence[int], holds: Callable[[int], bool]) -> int | None:
    """Return the size from which on `holds` is true of every size; None where it is not of the largest."""
    fails = [size for size in sizes if not holds(size)]
    return min((size for size in sizes if size > max(fails, default=-1)), default=None)


def at(curves: Curves, name: str) -> Callable[[int], Summary | None]:
    """Return what a column shows of a curve at a size."""
    found = {each.size: each.summary for each in curves.get(name, ())}
    return found.get


def size_columns(curves: Curves, unit: str, heading: str = "block size") -> list[Column[int]]:
    """Return the columns of a table over sizes: the size, and median and interval of each curve."""
    return [text(heading, format_bytes), *(stat(name, at(curves, name), unit) for name in curves)]


def over_sizes(
    title: str, curves: Curves, unit: str, note: str = INTERVALS, name: str = "block size"
) -> Figure:
    """Draw curves over the size called `name`, every size at the same distance from the next."""
    sizes = sizes_of(curves)
    lines, axis = lines_over(curves, unit, {size: float(index) for index, size in enumerate(sizes)})
    return plots.lines(title, (size_axis(sizes, name), axis), lines, note)


def to_scale(title: str, curves: Curves, unit: str, name: str = "block size") -> Figure:
    """Draw the same with sizes to scale, in MiB, and say how many of them lie near 0."""
    sizes = sizes_of(curves)
    lines, axis = lines_over(curves, unit, {size: size / MEBIBYTE for size in sizes})
    near = f"{sum(size <= sizes[-1] / 40 for size in sizes)} of {len(sizes)} {name}s"
    note = f"The same figures; to scale, {near} lie within a fortieth of the axis."
    return plots.lines(title, (plots.axis(f"{name} [MiB]", rangemode="tozero"), axis), lines, note)


def several(title: str, curves: Curves, unit: str, name: str = "block size") -> list[Figure]:
    """Draw curves over the size where there is more than one size."""
    return [over_sizes(title, curves, unit, name=name)] if len(sizes_of(curves)) > 1 else []


def size_axis(sizes: Sequence[int], name: str = "block size") -> dict[str, Any]:
    """Return an axis with every size at the same distance from the next, in the order of `sizes`."""
    return even_axis(name, list(map(format_bytes, sizes)))


def even_axis(name: str, texts: Sequence[str]) -> dict[str, Any]:
    """Return an axis on which each text stands at the same distance from the next: at 0, 1, 2 and so on."""
    return plots.axis(name, range=[-0.3, len(texts) - 0.7], tickvals=list(range(len(texts))), ticktext=texts)


def lines_over(
    curves: Curves, unit: str, places: Mapping[int, float]
) -> tuple[list[plots.Line], dict[str, Any]]:
    """Return each curve as a line in a colour of its own, and the axis of their values.

    `places` says where a size stands on the other axis.
    """
    summaries = [each.summary for found in curves.values() for each in found]
    scale = shared_scale(summaries, unit)
    placed = {name: [(places[each.size], each.summary) for each in found] for name, found in curves.items()}
    lines = median_lines(placed, scale.factor)
    medians = [each.median for each in summaries]
    if min(medians) > 0 and max(medians) / min(medians) > plots.WIDE_RATIO:
        return lines, plots.axis(scale.unit, scale="log")
    return lines, plots.axis(scale.unit, rangemode="tozero")


def ratio_lines(
    title: str,
    what: str,
    rows: Sequence[Contrast],
    name: Callable[[Contrast], str],
    axis: str = "buffer",
    note: str = RATIOS,
) -> list[Figure]:
    """Draw ratios over the size, a line for each name; nothing where there is but one size."""
    sizes = sorted({each.size for each in rows})
    if len(sizes) < 2:
        return []
    series: dict[str, list[tuple[float, ComparedMetric]]] = {name(each): [] for each in rows}
    for each in sorted(rows, key=lambda each: each.size):
        if isfinite(each.row.ratio):
            series[name(each)].append((float(sizes.index(each.size)), each.row))
    axes = (size_axis(sizes, axis), plots.axis(what, rangemode="tozero"))
    return [plots.lines(title, axes, median_lines(series), note)]


def best_sizes(curves: Curves, experiment: ExperimentResults, metric: str) -> dict[int, list[str]]:
    """Return the curves of which a size is the best, or is not distinguished from it; none of one size."""
    found: dict[int, list[str]] = {}
    for name, row in curves.items():
        first, alike = best(row, experiment, metric)
        for each in (first, *alike) if len(row) > 1 else ():
            found.setdefault(each.size, []).append(name)
    return found

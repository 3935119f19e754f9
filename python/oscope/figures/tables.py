"""Tables of summaries: one unit a column, digits by each row's spread, the reason where there is no number.

A row may be shorter than the heading: its last cell then runs over the columns that are left. That is how a
point that could not be measured says why in the place of its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from oscope.figures.analysed import Analysed, levels
from oscope.model.document import Table
from oscope.model.formatting import MISSING, Scale, format_count
from oscope.model.samples import Column, ExperimentResults, PointSamples
from oscope.statistics import Summary


def uncertainty(summary: Summary) -> float | None:
    """Return half the width of the median's interval, or the standard deviation where there is none."""
    if summary.ci95 is not None and summary.ci95[1] > summary.ci95[0]:
        return (summary.ci95[1] - summary.ci95[0]) / 2
    return summary.std or None


def shared_scale(summaries: Sequence[Summary], unit: str) -> Scale:
    """Return the unit that the figures of a column or an axis share."""
    return Scale.choose([each.median for each in summaries], [uncertainty(each) for each in summaries], unit)


def row_scale(column: Scale, summary: Summary) -> Scale:
    """Return the column's unit with the decimals that the row's own spread allows."""
    return column.row(summary.median, uncertainty(summary))


def summary_table(results: Analysed, experiment: ExperimentResults, metric: str) -> Table:
    """Return the summary of `metric` at every point of `experiment`."""
    column = experiment.metrics[metric]
    found = [results.summary(experiment, point, metric) for point in experiment.points]
    scale = shared_scale([each for each in found if each is not None], column.shown_unit)
    factors = experiment.varied() or tuple(experiment.points[0].factors if experiment.points else ())
    unit = f" [{scale.unit}]" if scale.unit else ""
    figures = [f"{name}{unit}" for name in ("median", "95 % interval", "mean", "std. dev.", "min", "max")]
    rows = [
        [
            *(levels(experiment, point.factors).get(name, MISSING) for name in factors),
            *_figures(point, metric, each, scale),
        ]
        for point, each in zip(experiment.points, found, strict=True)
    ]
    return Table(
        title=f"{meaning(column)} ({metric})",
        columns=[*factors, "n", "ess", "blocks", *figures],
        rows=rows,
        numeric=frozenset(range(len(factors), len(factors) + 9)),
        note=_fixed(experiment),
    )


def meaning(column: Column) -> str:
    """Return what a metric is in a few words: its description up to the first pause, `99.9 %` being none."""
    return re.split(r"[,;(]|\.(?!\d)", column.doc, maxsplit=1)[0].strip() or column.name


def _figures(point: PointSamples, metric: str, summary: Summary | None, column: Scale) -> list[str]:
    if summary is None:
        return [unmeasured(point, metric)]
    scale = row_scale(column, summary)
    text = scale.text
    counts = [format_count(summary.n), format_count(summary.ess), str(summary.blocks)]
    values = [text(summary.mean), text(summary.std), text(summary.minimum), text(summary.maximum)]
    return [*counts, text(summary.median), scale.span(summary.ci95), *values]


def unmeasured(point: PointSamples, metric: str) -> str:
    """Return why `point` has no value of `metric`, and what to do about it."""
    if point.skipped is not None:
        return f"not measured: {point.skipped}" + (f" – {point.remedy}" if point.remedy else "")
    if len(point) and len(point.failed) == len(point):
        return f"not measured: every sample failed ({point.failed[0][1]})"
    if len(point):
        return f"not measured: this machine gives no {metric} (see “How it was measured”)"
    return "not measured: the run ended before this point"


def _fixed(experiment: ExperimentResults) -> str:
    """Tell the factors that are the same at every point."""
    same = fixed_levels(experiment)
    return f"Everywhere: {', '.join(same)}." if same and experiment.varied() else ""


def fixed_levels(experiment: ExperimentResults) -> list[str]:
    """Return `name = level` of each factor with one level, and where that has a meaning if not everywhere."""
    found = []
    for name in experiment.names:
        if len(experiment.levels(name)) > 1:
            continue
        point = next(point for point in experiment.points if name in point.factors)
        text = f"{name} = {levels(experiment, point.factors)[name]}"
        if any(name not in point.factors for point in experiment.points):
            text += f" (with {' and '.join(map(str, experiment.conditions.get(name, ())))})"
        found.append(text)
    return found

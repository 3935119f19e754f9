"""A quick figure of an experiment, for a notebook or a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oscope.model.errors import OscopeError
from oscope.model.samples import ExperimentResults
from oscope.statistics import summarise_point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_DOTS = 2000
"""Samples drawn per point; more would hide each other."""


def plot_headline(experiment: ExperimentResults) -> Figure:
    """Return a figure with a row per point: samples of the headline metric, median and 95 % interval.

    Raises OscopeError where nothing was measured.
    """
    from oscope.report.shown_figure import ShownFigure  # noqa: PLC0415 - matplotlib, half a second

    metric = experiment.metrics[experiment.headline]
    points = [p for p in experiment.points if np.isfinite(p.metrics[metric.name]).any()]
    if not points:
        raise OscopeError(
            f"{experiment.experiment} has no measured sample to draw", remedy="see why with `oscope show`"
        )
    figure = ShownFigure(figsize=(8, 1.5 + 0.45 * len(points)), layout="constrained")
    axes = figure.add_subplot()
    random = np.random.default_rng(experiment.seed)
    varied = experiment.varied() or tuple(points[0].factors)
    for row, point in enumerate(points):
        values = point.metrics[metric.name]
        shown = random.permutation(values[np.isfinite(values)])[:_MOST_DOTS]
        axes.plot(
            shown, row + random.uniform(-0.3, 0.3, len(shown)), ".", alpha=0.3, markersize=3, color="C0"
        )
        summary = summarise_point(experiment, point, metric.name)
        low, high = summary.ci95 or (summary.median, summary.median)
        axes.plot([low, high], [row, row], "-", color="C1", linewidth=3, solid_capstyle="butt")
        axes.plot(summary.median, row, "|", color="C1", markersize=14)
    labels = [
        " ".join(f"{name}={point.factors[name]}" for name in varied if name in point.factors)
        for point in points
    ]
    axes.set_yticks(range(len(points)), labels)
    axes.invert_yaxis()
    axes.set_xlabel(metric.name if metric.unit == metric.name else f"{metric.name} [{metric.unit}]")
    axes.set_title(f"{experiment.title or experiment.experiment}: samples, median and 95 % interval")
    return figure

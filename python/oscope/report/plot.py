"""The figure of an experiment's headline metric, for a notebook or a prompt: that of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oscope.figures import plots
from oscope.figures.analysed import Analysed, measured
from oscope.figures.experiments import STRIPS, dots_of
from oscope.model.errors import OscopeError
from oscope.model.formatting import Scale
from oscope.model.samples import ExperimentResults
from oscope.report.figures import draw

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_headline(experiment: ExperimentResults) -> Figure:
    """Return a figure with a row per point: samples of the headline metric, median and 95 % interval.

    Figures are in the unit of the metric. Raises OscopeError where nothing was measured.
    """
    from oscope.report.shown_figure import ShownFigure  # noqa: PLC0415 - matplotlib, half a second

    metric = experiment.metrics[experiment.headline]
    points = [point for point in experiment.points if len(measured(point, metric.name)[0])]
    if not points:
        raise OscopeError(
            f"{experiment.experiment} has no measured sample to draw", remedy="see why with `oscope show`"
        )
    varied = experiment.varied() or tuple(points[0].factors)
    names = {
        point: " ".join(f"{name}={point.factors[name]}" for name in varied if name in point.factors)
        for point in points
    }
    scale = Scale(metric.unit, 1.0, 0)
    dots = dots_of(Analysed((experiment,)), experiment, metric.name, names, scale)
    axis = metric.name if metric.unit == metric.name else f"{metric.name} [{metric.unit}]"
    strips = plots.strips(experiment.title or experiment.experiment, axis, dots, STRIPS)
    figure = draw(strips, ShownFigure)
    # A page has the note below its figure; here it says which samples lie outside.
    figure.supxlabel(strips.note, fontsize="small")
    return figure

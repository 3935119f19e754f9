"""One question asked under both clocks: their figures stand side by side and are never compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from oscope.figures.analysed import measured
from oscope.figures.tables import row_scale, uncertainty
from oscope.labs.engine.drawing import STRIPS, strips
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import Column, stat
from oscope.labs.engine.words import cautions, joined, reasons, value
from oscope.model.document import Figure
from oscope.model.factors import Level
from oscope.model.formatting import MISSING, Scale
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.probe.instructions import translate_names
from oscope.statistics import Summary

Row = TypeVar("Row")
APART = (
    "The two clocks do not count the same, and are not compared: one counts executed instructions and "
    "repeats, the other measures time, here that of a guest."
)


@dataclass(frozen=True)
class Side:
    """An experiment under one of the clocks, and its metric for what is asked."""

    run: Run
    metric: str

    @property
    def experiment(self) -> ExperimentResults:
        """Its results."""
        return self.run.experiment

    @property
    def unit(self) -> str:
        """Unit of the metric."""
        return self.experiment.metrics[self.metric].unit

    @property
    def what(self) -> str:
        """What its clock counts or measures."""
        return "Instructions" if self.unit == "instructions" else "Time"

    def point(self, **factors: Level) -> PointSamples | None:
        """Return the point with these levels, if it has values."""
        point = self.experiment.point(**factors)
        return point if point is not None and len(measured(point, self.metric)[0]) else None

    def summary(self, **factors: Level) -> Summary | None:
        """Return the summary of the point with these levels, if it has values."""
        return self.run.summary(self.point(**factors), self.metric)

    def value(self, summary: Summary) -> str:
        """Return a median with its interval and unit, for a headline."""
        return value(summary, self.unit)


def sides(run: Run, *asked: tuple[str, str]) -> list[Side]:
    """Return what was measured of these experiments and metrics; a metric is named as without a guest.

    An experiment that `--clock` had measured by the other clock has the metric under that clock's name.
    """
    found = [(own, metric) for name, metric in asked if (own := run.beside(name)) is not None]
    return [Side(own, name) for own, metric in found if (name := known_name(own.experiment, metric))]


def known_name(experiment: ExperimentResults, metric: str) -> str | None:
    """Return the name under which the experiment has a metric, if it has it."""
    return next((each for each in names(metric) if each in experiment.metrics), None)


def names(metric: str) -> tuple[str, ...]:
    """Return a metric's name under the wall clock, and that under the instructions clock if it is another."""
    return tuple(dict.fromkeys((metric, *translate_names((metric,)))))


def apart(found: Iterable[ExperimentResults]) -> str | None:
    """Say that the clocks are not compared, where both measured."""
    return APART if len({each.clock for each in found}) > 1 else None


def conditions(found: Iterable[ExperimentResults]) -> list[str]:
    """Say of which times those of the wall clock are, and that the clocks are not compared."""
    experiments = list(found)
    said = dict.fromkeys(text for each in experiments for text in cautions(each))
    return [*said, *filter(None, [apart(experiments)])]


def missing(run: Run, *experiments: str) -> str:
    """Say why points could not be measured, and how to fix it."""
    return joined(*(reasons(own.experiment) for name in experiments if (own := run.beside(name))))


def interval(found: Summary, scale: Scale) -> str:
    """Return the interval of a median; a count that is the same in every boot has none."""
    return MISSING if uncertainty(found) is None else scale.span(found.ci95)


def columns(found: Sequence[Side], where: Callable[[Row], dict[str, Level]]) -> list[Column[Row]]:
    """Return median and interval of each side at the point of a row, each side's in one unit."""

    def column(side: Side) -> Column[Row]:
        def at(row: Row) -> Summary | None:
            return side.summary(**where(row))

        def cells(row: Row, shared: Scale) -> list[str]:
            own = row_scale(shared, summary) if (summary := at(row)) else shared
            return [own.text(summary.median), interval(summary, own)] if summary else [MISSING, MISSING]

        return replace(stat("", at, side.unit, scale=side.metric), cells=cells)

    return [column(side) for side in found]


def drawn(title: str, rows: Sequence[tuple[str, Side, PointSamples | None]], note: str = STRIPS) -> Figure:
    """Draw named points of sides of one experiment, each with its samples."""
    known = [
        (name, Point(side.run, point, side.metric, found))
        for name, side, point in rows
        if point is not None and (found := side.run.summary(point, side.metric)) is not None
    ]
    by_point = {id(point): name for name, point in known}
    return strips(title, "", [point for _, point in known], lambda point: by_point[id(point)], note=note)

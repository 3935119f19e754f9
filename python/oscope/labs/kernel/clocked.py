"""One question asked under both clocks: their figures stand side by side and are never compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oscope.figures.analysed import Analysed, measured
from oscope.figures.tables import row_scale, shared_scale, uncertainty
from oscope.labs.engine.drawing import strips
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.words import cautions, reasons, value
from oscope.model.document import Figure
from oscope.model.factors import Level
from oscope.model.formatting import MISSING
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.probe.instructions import translate_names
from oscope.statistics import Summary

APART = (
    "The two clocks do not count the same, and are not compared: one counts executed instructions and "
    "repeats, the other measures time, here that of a guest."
)


@dataclass(frozen=True)
class Side:
    """An experiment under one of the clocks, and its metric for what is asked."""

    experiment: ExperimentResults
    metric: str

    @property
    def unit(self) -> str:
        """Unit of the metric."""
        return self.experiment.metrics[self.metric].unit

    def point(self, **factors: Level) -> PointSamples | None:
        """Return the point with these levels, if it has values."""
        point = self.experiment.point(**factors)
        return point if point is not None and len(measured(point, self.metric)[0]) else None

    def summary(self, results: Analysed, **factors: Level) -> Summary | None:
        """Return the summary of the point with these levels, if it has values."""
        point = self.point(**factors)
        return None if point is None else results.summary(self.experiment, point, self.metric)

    @property
    def what(self) -> str:
        """What its clock counts or measures."""
        return "Instructions" if self.unit == "instructions" else "Time"

    def value(self, summary: Summary) -> str:
        """Return a median with its interval and unit, for a headline."""
        return value(summary, self.unit)

    def drawn(self, results: Analysed, title: str, points: Sequence[tuple[str, PointSamples]]) -> Figure:
        """Draw named points, each with its samples."""
        run = Run(results, self.experiment)
        rows = [
            (name, Point(run, point, self.metric, found))
            for name, point in points
            if (found := run.summary(point, self.metric)) is not None
        ]
        names = {id(point): name for name, point in rows}
        return strips(title, "", [point for _, point in rows], lambda point: names[id(point)])


def sides(results: Analysed, *wanted: tuple[str, str]) -> list[Side]:
    """Return what was measured of these experiments and metrics; a metric is named as without a guest.

    An experiment that `--clock` had measured by the other clock has the metric under that clock's name.
    """
    found = []
    for name, metric in wanted:
        experiment = results.get(name)
        if experiment is None:
            continue
        known = next((each for each in names(metric) if each in experiment.metrics), None)
        if known is not None:
            found.append(Side(experiment, known))
    return found


def names(metric: str) -> tuple[str, ...]:
    """Return a metric's name under the wall clock, and that under the instructions clock if it is another."""
    return tuple(dict.fromkeys((metric, *translate_names((metric,)))))


def apart(experiments: Iterable[ExperimentResults]) -> list[str]:
    """Say that the clocks are not compared, where both measured."""
    return [APART] if len({each.clock for each in experiments}) > 1 else []


def conditions(found: Sequence[Side]) -> list[str]:
    """Say of which times those of the wall clock are, and that the clocks are not compared."""
    said = [text for side in found for text in cautions(side.experiment)]
    return [*dict.fromkeys(said), *apart(side.experiment for side in found)]


def missing(found: Sequence[Side]) -> str:
    """Say why points could not be measured, and how to fix it."""
    return " ".join(filter(None, dict.fromkeys(reasons(side.experiment) for side in found)))


def columns(results: Analysed, found: Sequence[Side], points: Sequence[dict[str, Level]]) -> list[list[str]]:
    """Return for each point the cells median and interval of each side, each side's in one unit."""
    rows: list[list[str]] = [[] for _ in points]
    for side in found:
        summaries = [side.summary(results, **factors) for factors in points]
        known = [each for each in summaries if each is not None]
        scale = shared_scale(known, side.unit) if known else None
        for row, summary in zip(rows, summaries, strict=True):
            if summary is None or scale is None:
                row += [MISSING, MISSING]
                continue
            own = row_scale(scale, summary)
            row += [
                own.text(summary.median),
                MISSING if uncertainty(summary) is None else own.span(summary.ci95),
            ]
    return rows


def headings(results: Analysed, found: Sequence[Side], points: Sequence[dict[str, Level]]) -> list[str]:
    """Return the headings of `columns`."""
    given = []
    for side in found:
        known = [each for factors in points if (each := side.summary(results, **factors)) is not None]
        unit = shared_scale(known, side.unit).unit if known else side.unit
        given += [f"[{unit}]", f"95 % [{unit}]"]
    return given

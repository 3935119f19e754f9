"""One question asked under both clocks: their figures stand side by side and are never compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from oscope.model.factors import Level
from oscope.model.samples import ExperimentResults
from oscope.probe.instructions import translate_names
from oscope.questions.run import Point, Run
from oscope.questions.section_text import cautions

APART = "The clocks are not compared: one counts instructions and repeats, the other measures a guest's time."


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

    def at(self, **factors: Level) -> Point | None:
        """Return the point with these levels, if it has values."""
        return self.run.point(self.metric, **factors)


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
    notes = dict.fromkeys(text for each in experiments for text in cautions(each))
    return [*notes, *filter(None, [apart(experiments)])]

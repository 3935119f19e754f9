"""What a question is put to: an experiment's results, its points, and what was measured there."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from oscope.figures.analysed import Analysed, label, levels, measured
from oscope.model.factors import Level
from oscope.model.formatting import MISSING
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.questions import section_text
from oscope.questions.quantity import Quantity
from oscope.statistics import Summary

UNTRACED = "none"
Made = TypeVar("Made")


def has(point: PointSamples, levels: Mapping[str, Level]) -> bool:
    """Say whether the point has these levels."""
    return all(point.factors.get(name) == level for name, level in levels.items())


def untraced(experiment: ExperimentResults, **levels: Level) -> list[PointSamples]:
    """Return the points with these levels that no tracer watched, measured or not."""
    return [
        point
        for point in experiment.points
        if point.factors.get("tracer", UNTRACED) == UNTRACED and has(point, levels)
    ]


def shown(experiment: ExperimentResults, **levels: Level) -> list[PointSamples]:
    """Return the measured points that have these levels, without a tracer."""
    return [point for point in untraced(experiment, **levels) if len(point)]


def first(experiment: ExperimentResults, **levels: Level) -> PointSamples | None:
    """Return the first measured point that has these levels, without a tracer."""
    return next(iter(shown(experiment, **levels)), None)


def known(experiment: ExperimentResults, metric: str, **levels: Level) -> list[PointSamples]:
    """Return the points with these levels, without a tracer, that have values of `metric`."""
    return [point for point in untraced(experiment, **levels) if len(measured(point, metric)[0])]


def narrowing(experiment: ExperimentResults, named: Iterable[str]) -> list[str]:
    """Say which of several levels is shown of the factors that are not among those `named`."""
    others = [name for name in experiment.varied() if name not in {*named, "tracer"}]
    written = levels(experiment, experiment.points[0].factors) if experiment.points else {}
    return [
        f"Shown here is {name} = {written[name]}; the run has the other levels (`oscope show`)."
        for name in others
    ]


@dataclass(frozen=True, eq=False)
class Point:
    """A point that has values of what is asked."""

    run: Run
    samples: PointSamples
    metric: str
    summary: Summary

    @property
    def factors(self) -> Mapping[str, Level]:
        """The levels of its factors."""
        return self.samples.factors

    @property
    def size(self) -> int:
        """The level of the factor `size`, in bytes; 0 where it has none."""
        return int(self.factors.get("size", 0))

    @property
    def name(self) -> str:
        """The levels that distinguish it from others of the experiment."""
        return self.label(name for name in self.run.experiment.varied() if name != "tracer")

    @property
    def unit(self) -> str:
        """Unit of what is asked."""
        return self.run.experiment.metrics[self.metric].unit

    @property
    def value(self) -> str:
        """The median with its interval, for a headline."""
        return section_text.bracketed(self.summary, self.unit)

    def __getitem__(self, name: str) -> str:
        """Return the level of a factor: `{least[kind]}` in a headline."""
        return self.level(name)

    def label(self, names: Iterable[str]) -> str:
        """Return the levels of these factors, as a person writes them."""
        experiment = self.run.experiment
        return label(experiment, self.samples.factors, names) or experiment.experiment

    def level(self, name: str) -> str:
        """Return the level of a factor, as a person writes it."""
        return levels(self.run.experiment, self.samples.factors).get(name, MISSING)

    def of(self, asked: str | Quantity) -> Summary | None:
        """Return the summary of a metric or another quantity, if it has values."""
        return self.run.summary(self.samples, asked)


@dataclass(frozen=True, eq=False)
class Run:
    """An experiment's results, with the summaries that all sections of a report share."""

    results: Analysed
    experiment: ExperimentResults
    memo: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, results: Analysed, *names: str) -> Run | None:
        """Return the first of these experiments that was run."""
        found = next((each for name in names if (each := results.get(name)) is not None), None)
        return None if found is None else cls(results, found)

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what `make` makes: once, where several parts of an answer need it."""
        if key not in self.memo:
            self.memo[key] = make()
        made: Made = self.memo[key]
        return made

    def only(self, **levels: Level) -> Run:
        """Return the run with the points that have these levels, or no such factor."""
        return self._of(
            ("only", *levels.items()),
            lambda point: all(point.factors.get(name, level) == level for name, level in levels.items()),
        )

    def _of(self, key: Hashable, kept: Callable[[PointSamples], bool]) -> Run:
        """Return the run with the points that are kept."""

        def make() -> Run:
            points = tuple(filter(kept, self.experiment.points))
            return Run(self.results, replace(self.experiment, points=points))

        return self.once(key, make)

    def beside(self, name: str) -> Run | None:
        """Return another experiment of the same results."""
        return Run.of(self.results, name)

    def all(self, *names: str) -> list[Run]:
        """Return those of these experiments that were run."""
        return [found for name in names if (found := self.beside(name)) is not None]

    def narrowed(self, *named: str) -> Run:
        """Return the run at the first measured level of every factor that is not among `named`."""
        others = [name for name in self.experiment.varied() if name not in named]
        levels_of = self.experiment.points[0].factors if others else {}
        levels = {name: levels_of[name] for name in others if name in levels_of}
        return self._of(("narrowed", *named), lambda point: has(point, levels)) if others else self

    def points(self, metric: str, **levels: Level) -> list[Point]:
        """Return the points with these levels, without a tracer, that have values of `metric`."""
        return [
            Point(self, point, metric, summary)
            for point in untraced(self.experiment, **levels)
            if (summary := self.summary(point, metric)) is not None
        ]

    def point(self, metric: str, **levels: Level) -> Point | None:
        """Return the first point with these levels, without a tracer, that has values of `metric`."""
        return next(iter(self.points(metric, **levels)), None)

    def summary(self, point: PointSamples | None, asked: str | Quantity) -> Summary | None:
        """Return the summary of a metric, which the experiment may not have, or of another quantity."""
        if isinstance(asked, Quantity):
            return self.once((point, asked), lambda: asked.summary(self.experiment, point))
        if point is None or asked not in self.experiment.metrics:
            return None
        return self.results.summary(self.experiment, point, asked)

    def at(self, asked: str | Quantity, **levels: Level) -> Summary | None:
        """Return the summary at the first point that has these levels."""
        return self.summary(self.experiment.point(**levels), asked)

    def levels(self, factor: str, order: Sequence[str] = ()) -> list[str]:
        """Return the levels of a factor that were measured, in this order, then in the experiment's."""
        found = dict.fromkeys(str(p.factors[factor]) for p in self.experiment.points if factor in p.factors)
        place = {level: index for index, level in enumerate(order)}
        return sorted(found, key=lambda level: place.get(level, len(place)))


def points_beside(
    results: Analysed, experiment: ExperimentResults, name: str, metric: str, what: str, **levels: Level
) -> tuple[list[Point], list[str]]:
    """Return the points of another experiment of the same machine, or why there is no figure for `what`."""
    run = Run.of(results, name)
    if run is None:
        return [], [section_text.NOT_RUN.format(name, name)]
    if run.experiment.environment.get("machine") != experiment.environment.get("machine"):
        return [], [f"{name} was run on another machine"]
    found = run.points(metric, **levels)
    return found, [] if found else [f"{name} has no figure for {what}"]

"""Tables over the levels of a factor: a row for each combination of the other factors, a column for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from oscope.figures.analysed import levels, paired_difference
from oscope.figures.tables import unmeasured
from oscope.model.factors import Level
from oscope.model.formatting import MISSING
from oscope.model.samples import PointSamples
from oscope.questions.curves import best_of
from oscope.questions.run import Point, Run, untraced
from oscope.questions.table import Column, value
from oscope.statistics import Summary


@dataclass(frozen=True, eq=False)
class PivotRow:
    """The points, without a tracer, that differ in one factor alone."""

    run: Run
    metric: str
    factor: str
    factors: Mapping[str, Level]
    """The levels of the other factors."""
    points: Mapping[Level, PointSamples]
    """By the level of that factor, measured or not."""

    @property
    def measured(self) -> list[Point]:
        """The points that have values, in the experiment's order."""
        found = ((point, self.run.summary(point, self.metric)) for point in self.points.values())
        return [Point(self.run, point, self.metric, summary) for point, summary in found if summary]

    def level(self, name: str) -> str:
        """Return the level of another factor, as a person writes it."""
        return levels(self.run.experiment, self.factors).get(name, MISSING)

    def at(self, level: Level) -> Summary | None:
        """Return what was measured at a level."""
        return self.run.summary(self.points.get(level), self.metric)

    def why(self, level: Level) -> str:
        """Return why there is nothing at a level."""
        point = self.points.get(level)
        return unmeasured(point, self.metric) if point else f"{self.factor}={level} was not run"

    def difference(self, base: Level, other: Level) -> Summary | None:
        """Return what is measured at `other` less that at `base`, paired by block."""
        a, b = self.points.get(base), self.points.get(other)
        return paired_difference(self.run.experiment, a, b, self.metric) if a and b else None

    def best(self, among: Sequence[str]) -> list[str]:
        """Return the best of these levels, then those not distinguished from it (paired by block, Holm).

        Empty where fewer than two of them have values.
        """
        found = [each for each in self.measured if each.factors[self.factor] in among]
        if len(found) < 2:
            return []
        first, alike = best_of(found)
        return [str(each.factors[self.factor]) for each in (first, *alike)]


def pivot(run: Run, metric: str, factor: str, **levels: Level) -> list[PivotRow]:
    """Return the rows that have a point with these levels, in the experiment's order."""
    found: dict[tuple[tuple[str, Level], ...], dict[Level, PointSamples]] = {}
    for point in untraced(run.experiment, **levels):
        if factor in point.factors:
            rest = tuple(
                (name, each) for name, each in point.factors.items() if name not in (factor, "tracer")
            )
            found.setdefault(rest, {}).setdefault(point.factors[factor], point)
    return [PivotRow(run, metric, factor, dict(rest), points) for rest, points in found.items()]


def pivoted(
    names: Mapping[str, str] | Iterable[str], unit: str, heading: str = "{} (95 %)"
) -> list[Column[PivotRow]]:
    """Return a column for each level, under its name: medians with interval and unit in one cell."""
    named = names if isinstance(names, Mapping) else {name: name for name in names}

    def of(level: str) -> Callable[[PivotRow], Summary | None]:
        return lambda row: row.at(level)

    return [value(heading.format(name), of(level), unit) for level, name in named.items()]

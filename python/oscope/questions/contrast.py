"""Two levels of a factor, compared: paired by block, all comparisons of a table one family (Holm)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from oscope.figures.analysed import levels
from oscope.figures.answer_text import counted
from oscope.model.document import Table
from oscope.model.errors import NoCommonValueError
from oscope.model.factors import Level
from oscope.model.formatting import MISSING
from oscope.model.samples import Column, ExperimentResults
from oscope.questions.quantity import Quantity, figure_text, metric
from oscope.questions.run import Point, Run, first, shown
from oscope.questions.section_text import Verdict, ratio_text
from oscope.statistics import ComparedMetric, Summary, compare_pairs
from oscope.statistics.compare import THRESHOLD

Asked = str | Quantity
"""A metric by its name, or what is made of several."""
Ends = tuple[Level, Level]
SIDES_NOTE = (
    "Medians with their 95 % intervals; the ratio is paired by block, p corrected (Holm). A count that is "
    "the same in every repetition stands alone, and two such are compared as they are."
)
SIZES = ("block_size", "buffer", "size")
"""Factors that say how many bytes are moved, the one that a curve runs over first."""


def name_of(asked: Asked) -> str:
    """Return the name under which a comparison has what was asked."""
    return asked if isinstance(asked, str) else asked.name


def _column(experiment: ExperimentResults, asked: Asked) -> Column:
    if isinstance(asked, Quantity):
        return Column(asked.name, asked.unit, asked.name, "less")
    own = experiment.metrics[asked]
    # Of what was done, such as calls, neither more nor less is better; it is compared all the same.
    return replace(own, better=own.better or "less")


def family(
    experiment: ExperimentResults, asked: Sequence[Asked], factor: str, pairs: Sequence[Ends], **levels: Level
) -> dict[Ends, list[ComparedMetric]]:
    """Return how the second level of each pair compares with its first, paired by block, as one family.

    There is a row for each quantity at each combination of the other factors that has it on both sides; p is
    corrected (Holm) for all rows of all pairs. What a table calls different is to be one such family.
    """
    present = [each for each in asked if isinstance(each, Quantity) or each in experiment.metrics]
    columns = {name_of(each): _column(experiment, each) for each in present}
    points = tuple(
        replace(
            point,
            metrics={name_of(a): metric(point, a) if isinstance(a, str) else a.of(point) for a in present},
        )
        for point in shown(experiment, **levels)
    )
    narrow = replace(experiment, points=points, metrics=columns)
    both = [
        # In place of the level stands which pair it is of.
        (point, replace(other, factors={**point.factors, factor: number}))
        for number, (base, level) in enumerate(pairs)
        for point in points
        if point.factors.get(factor) == base
        and level != base
        and (other := narrow.counterpart(point, factor, level)) is not None
    ]
    found: dict[Ends, list[ComparedMetric]] = {each: [] for each in pairs}
    with suppress(NoCommonValueError):
        for row in compare_pairs(narrow, both, *columns).rows:
            rest = dict(row.factors)
            found[pairs[int(rest.pop(factor))]].append(replace(row, factors=rest))
    return found


def compared(
    experiment: ExperimentResults, asked: Sequence[Asked], factor: str, ends: Ends, **levels: Level
) -> list[ComparedMetric]:
    """Return how the second level of `factor` compares with the first: a family of these two alone."""
    return family(experiment, asked, factor, (ends,), **levels)[ends]


def row_of(rows: Sequence[ComparedMetric], asked: Asked, **levels: Level) -> ComparedMetric | None:
    """Return the comparison of one quantity at these levels of the other factors."""
    name = name_of(asked)
    for row in rows:
        if row.metric == name and all(row.factors.get(factor) == level for factor, level in levels.items()):
            return row
    return None


def beside(point: Point, factor: str, base: Level, *others: Level) -> ComparedMetric | None:
    """Return how a point compares with the one that has the level `base` of a factor, all else the same.

    One family (Holm) are all points of its run that have the level `base` beside them: those at `others`, or
    at any level.
    """
    level = point.factors.get(factor, base)
    if level == base:
        return None

    def compare() -> dict[Ends, list[ComparedMetric]]:
        experiment = point.run.experiment
        measured = dict.fromkeys(each.factors[factor] for each in shown(experiment) if factor in each.factors)
        ends = [(base, each) for each in others or measured if each != base]
        return family(experiment, (point.metric,), factor, ends)

    rows = point.run.once(("beside", point.metric, factor, base, others), compare)
    rest = {name: each for name, each in point.factors.items() if name not in (factor, "tracer")}
    return row_of(rows.get((base, level), ()), point.metric, **rest)


@dataclass(frozen=True)
class Sides:
    """Quantities at two levels of a factor, with the ratio and the original report's figures."""

    factor: str
    ends: Ends
    words: tuple[str, str]
    quantities: Sequence[Quantity]
    uncompared: int = 0
    """How many of the last quantities are shown, but not compared."""

    def compared(self, run: Run) -> list[ComparedMetric]:
        """Return how the second level compares with the first, all quantities and places one family."""
        asked = tuple(self.quantities[: len(self.quantities) - self.uncompared])
        return run.once(
            ("sides", self.factor, self.ends, asked),
            lambda: compared(run.experiment, asked, self.factor, self.ends),
        )

    def table(
        self,
        title: str,
        run: Run,
        note: str = "",
        cited: Callable[[Quantity, Level], str] | None = None,
        **levels: Level,
    ) -> Table | None:
        """Return both sides at these levels of the other factors; None where there is nothing to show.

        `cited` gives the original report's figure of a quantity at a level, if it has one.
        """
        points = [first(run.experiment, **{**levels, self.factor: end}) for end in self.ends]
        rows, lines = self.compared(run), []
        for quantity in self.quantities:
            found = [quantity.summary(run.experiment, point) for point in points]
            theirs = [cited(quantity, end) for end in self.ends] if cited else []
            if found == [None, None] and not any(each != MISSING for each in theirs):
                continue
            values = [figure_text(each, quantity.unit) for each in found]
            verdict = judge(found[0], found[1], row_of(rows, quantity, **levels))
            answers = (MISSING, MISSING) if verdict is None else (verdict.ratio, verdict.different)
            lines.append([quantity.name, *values, *answers, *theirs])
        columns = ["", *self.words, f"{self.words[1]} / {self.words[0]} (95 %)", "different"]
        columns += [f"original report, {word}" for word in self.words] if cited else []
        measured = any(point is not None for point in points)
        whole = f"{SIDES_NOTE} {note}".strip()
        return Table(title, columns, lines, frozenset(), whole) if lines and measured else None


def constant(*found: Summary | None) -> bool:
    """Say whether every one is a count that was the same in each of several samples."""
    return all(each is not None and each.n > 1 and each.minimum == each.maximum for each in found)


def judge(
    a: Summary | None, b: Summary | None, row: ComparedMetric | None, *, exact: bool = True
) -> Verdict | None:
    """Return the result for `b` over `a`; None where they were not compared.

    Of `exact` counts those that are the same in every sample are compared as they are.
    """
    if a is None or b is None or row is None:
        return None
    if exact and constant(a, b):
        # Without any spread a test has nothing to say, and nothing to add.
        ratio = b.median / a.median if a.median else float("nan")
        large = "no" if abs(ratio - 1) <= THRESHOLD else "yes"
        written = f"{ratio:.4g}" if a.median else MISSING
        return Verdict(written, "no" if a.median == b.median else "yes", large)
    return Verdict(ratio_text(row), row.different, row.matters)


@dataclass(frozen=True, eq=False)
class Contrast:
    """Two levels of a factor compared at one combination of the other factors."""

    run: Run
    factor: str
    ends: Ends
    row: ComparedMetric

    @property
    def factors(self) -> Mapping[str, Level]:
        """The levels of the other factors."""
        return self.row.factors

    def level(self, name: str) -> str:
        """Return the level of another factor, as a person writes it."""
        return levels(self.run.experiment, self.row.factors).get(name, MISSING)

    @property
    def size(self) -> int:
        """The size of blocks, buffers or files, in bytes."""
        return int(next(self.row.factors[name] for name in SIZES if name in self.row.factors))

    def of(self, asked: Asked, end: Level) -> Summary | None:
        """Return another quantity at one of both levels."""
        return self.run.at(asked, **{**self.row.factors, self.factor: end})


def contrasts(
    run: Run, asked: Asked | Sequence[Asked], factor: str, *pairs: Ends, **levels: Level
) -> list[Contrast]:
    """Return how the second level of each pair compares with its first wherever both were measured.

    p is corrected (Holm) for all quantities, places and pairs.
    """
    several = (asked,) if isinstance(asked, str | Quantity) else asked
    rows = family(run.experiment, several, factor, pairs, **levels)
    return [Contrast(run, factor, ends, row) for ends in pairs for row in rows[ends]]


def apart(rows: Sequence[Contrast]) -> list[Contrast]:
    """Return the proven differences that have a ratio."""
    return [each for each in rows if each.row.different == "yes" and np.isfinite(each.row.ratio)]


def strongest_headline(
    text: Callable[[Contrast], str], equal: str, unknown: str
) -> Callable[[Run, Sequence[Contrast]], str]:
    """Return a headline of the greatest proven ratio; of how many points where all are `equal`, or not."""

    def headline(_: Run, rows: Sequence[Contrast]) -> str:
        if proven := apart(rows):
            return text(max(proven, key=lambda each: abs(np.log(each.row.ratio))))
        none = equal if all(each.row.different == "no" for each in rows) else unknown
        return none.format(counted(len(rows), "point"))

    return headline

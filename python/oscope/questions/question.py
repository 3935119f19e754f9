"""A question as data, and the section that answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from oscope.figures.analysed import Analysed
from oscope.figures.answer_text import counted
from oscope.model.document import Figure, Section, Table
from oscope.model.experiment import Lab
from oscope.model.factors import Level
from oscope.model.samples import Column, PointSamples
from oscope.questions.quantity import Quantity
from oscope.questions.run import Point, Run, narrowing
from oscope.questions.section_text import NOT_RUN, cautions, joined, reasons
from oscope.questions.table import TableOf
from oscope.statistics import compare_pairs
from oscope.statistics.compare import other_pairs

_Row = TypeVar("_Row")

Said = str | Callable[[Run, Sequence[_Row]], str | Iterable[str] | None]
"""A paragraph, or what makes one, or some."""
Shown = TableOf[_Row] | Callable[[Run, Sequence[_Row]], Table | Iterable[Table | None] | None]
Drawing = Callable[[Run, Sequence[_Row]], Figure | Iterable[Figure | None] | None]


@dataclass(frozen=True)
class Question(Generic[_Row]):
    """What is asked of an experiment, and in which form the answer is given."""

    title: str | Callable[[Run], str]
    experiment: str | tuple[str, ...]
    """Of several, the first that was run is asked; the others are at `Run.beside`."""
    rows: Callable[[Run], Sequence[_Row]]
    """What is asked: the rows of the answer. Where there are none, only what is missing is shown."""
    headline: str | tuple[str, str] | Callable[[Run, Sequence[_Row]], str]
    """One sentence with at most two figures; a second text is left out where there is but one point.

    Texts may name `{least}` and `{most}`, the points with the least and the greatest median, with their
    `.name`, `.value` and `[FACTOR]`, and `{count}`, how many there are.
    """
    text: Said[_Row] | tuple[Said[_Row], ...] = ()
    """Details; of these, of tables and of figures there may be one or several."""
    tables: Shown[_Row] | tuple[Shown[_Row], ...] = ()
    figures: Drawing[_Row] | tuple[Drawing[_Row], ...] = ()
    factors: tuple[str, ...] | None = None
    """Factors that the answer names; it says which level is shown of any other. None: it shows all."""
    missing: Callable[[Run], str] | None = None
    """Why something is missing; by default the reasons of points that have no values."""
    asked: Callable[[Run], bool] = lambda _: True
    """Whether the experiment was run in a way that has something to say of this at all."""
    timed: bool = False
    """Whether it says what speaks against the times: an emulated guest, a busy machine."""
    unrun: Callable[[Analysed], str] = lambda _: ""
    """What is missing where the experiment was not run; nothing: the section is left out."""
    about: str = ""
    """What stands before the details, and where nothing was measured as well."""

    def __call__(self, results: Analysed) -> Section | None:
        """Return the section; None where the experiment was not run, or has nothing to say."""
        run = self._run(results)
        if run is None:
            return self._missing(str(self.title), self.unrun(results))
        if not self.asked(run):
            return None
        title = self.title if isinstance(self.title, str) else self.title(run)
        missing, rows = self._why(run), self.rows(run)
        if not rows:
            return self._missing(title, missing)
        return Section(
            title=title,
            answer=self._headline(run, rows),
            text=[
                *filter(None, [self.about]),
                *_made(self.text, run, rows),
                *(narrowing(run.experiment, self.factors) if self.factors is not None else ()),
                *(cautions(run.experiment) if self.timed else ()),
            ],
            tables=[each for each in _made(self.tables, run, rows) if each.rows],
            figures=[each for each in _made(self.figures, run, rows) if each.traces],
            missing=missing,
        )

    def answer(self, results: Analysed) -> str:
        """Return the headline alone, without waiting for the rest; empty where the section has none."""
        run = self._run(results)
        rows = () if run is None or not self.asked(run) else self.rows(run)
        return self._headline(run, rows) if run is not None and rows else ""

    def _run(self, results: Analysed) -> Run | None:
        return Run.of(results, *self._names)

    @property
    def _names(self) -> tuple[str, ...]:
        return (self.experiment,) if isinstance(self.experiment, str) else self.experiment

    def _why(self, run: Run) -> str:
        if self.missing is not None:
            return self.missing(run)
        return joined(*(reasons(each.experiment) for each in run.all(*self._names)))

    def _missing(self, title: str, why: str) -> Section | None:
        return Section(title, "", [*filter(None, [self.about])], [], [], why) if why else None

    def _headline(self, run: Run, rows: Sequence[_Row]) -> str:
        if callable(self.headline):
            return self.headline(run, rows)
        one, more = (self.headline, "") if isinstance(self.headline, str) else self.headline
        points = sorted((row for row in rows if isinstance(row, Point)), key=lambda row: row.summary.median)
        text = one + more if len(points) > 1 else one
        return f"{text.format(least=points[0], most=points[-1], count=len(points))}."


def _made(parts: Any, run: Run, rows: Sequence[Any]) -> Iterator[Any]:
    """Yield what the texts, the tables or the figures of a question are: of each part one, some, or none."""
    for part in parts if isinstance(parts, tuple) else (parts,):
        made = part.of(rows) if isinstance(part, TableOf) else part(run, rows) if callable(part) else part
        several = (made,) if made is None or isinstance(made, str | Table | Figure) else made
        yield from (each for each in several if each is not None)


def or_else(first: Question[Any], **other: Any) -> tuple[Question[Any], Question[Any]]:
    """Return a question, and the one that is asked in its place where it has no rows.

    The other one has the same title, experiments and reasons for what is missing.
    """
    plain = replace(first, text=(), tables=(), figures=())
    return (
        replace(first, asked=lambda run: bool(first.rows(run))),
        replace(plain, asked=lambda run: not first.rows(run), **other),
    )


def extremes(
    first: Callable[[_Row], str],
    other: Callable[[_Row], str],
    by: Callable[[_Row], float] = lambda row: row.summary.median,  # type: ignore[attr-defined]
    of: Callable[[Sequence[_Row]], Sequence[_Row]] = lambda rows: rows,
    alone: Callable[[_Row], str] | None = None,
    measured: Callable[[_Row], tuple[PointSamples, Column]] | None = None,
    at: str = "",
) -> Callable[[Run, Sequence[_Row]], str]:
    """Return a headline of the rows with the least and the greatest figure; of one alone where both are it.

    `of` chooses the rows that are compared; `alone` is the headline of one row, where `first` compares it.
    `measured` gives the samples that a figure is of: each of both rows is compared with all others (paired
    by block; Holm, for all pairs). Where none can be distinguished from the first, the headline gives them
    no order, and ends with `at`: at which levels they are compared.
    """

    def alike(run: Run, one: _Row, others: Sequence[_Row]) -> int:
        """Return how many others cannot be distinguished from a row."""
        if measured is None:
            return 0
        point, column = measured(one)
        pairs = [(point, measured(other)[0]) for other in others]
        own = replace(run.experiment, metrics={column.name: column})
        rows = compare_pairs(own, pairs, column.name, beside=other_pairs(pairs)).rows
        return sum(row.different != "yes" for row in rows)

    def headline(run: Run, rows: Sequence[_Row]) -> str:
        own = sorted(of(rows), key=by)
        low, high = own[0], own[-1]
        if low is high:
            return f"{(alone or first)(low)}."
        like_low = alike(run, low, own[1:])
        if like_low == len(own) - 1:
            others = "the other cannot" if len(own) == 2 else f"none of {len(own) - 1} others can"
            return f"{(alone or first)(low)}; {others} be distinguished from it{at}."
        first_text, other_text = (
            f"{text} (not distinguished from {counted(number, 'other')})" if number else text
            for text, number in ((first(low), like_low), (other(high), alike(run, high, own[:-1])))
        )
        return f"{first_text}{other_text}."

    return headline


def of_point(point: Point) -> tuple[PointSamples, Column]:
    """Return the samples of a point and what is asked of them, for `extremes`."""
    return point.samples, point.run.experiment.metrics[point.metric]


def of_quantity(asked: Quantity) -> Callable[[Point], tuple[PointSamples, Column]]:
    """Return what gives a quantity of a point's samples, for `extremes`."""
    column = Column(asked.name, asked.unit, asked.name, "less")
    return lambda point: (replace(point.samples, metrics={asked.name: asked.of(point.samples)}), column)


def beside_others(name: str, how_to: str, lab: Lab) -> Callable[[Analysed], str]:
    """Say that the experiment was not run, and how to run it, where another one of its lab was."""
    why = f"{NOT_RUN.format(name, name)}. {how_to}"
    return lambda results: why if any(results.get(each.name) for each in lab.experiments) else ""


def points(metric: str, **levels: Level) -> Callable[[Run], list[Point]]:
    """Ask for every point with these levels that has values of `metric`."""
    return lambda run: run.points(metric, **levels)

"""A question as data, and the section that answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from oscope.figures.analysed import Analysed
from oscope.labs.engine.run import Point, Run, narrowing
from oscope.labs.engine.table import TableOf
from oscope.labs.engine.words import cautions, reasons
from oscope.model.document import Figure, Section, Table
from oscope.model.factors import Level

Row = TypeVar("Row")

Said = str | Callable[[Run, Sequence[Row]], Iterable[str]]
"""A paragraph, or what makes some."""
Shown = TableOf[Row] | Callable[[Run, Sequence[Row]], Iterable[Table]]
Drawing = Callable[[Run, Sequence[Row]], Iterable[Figure]]


@dataclass(frozen=True)
class Question(Generic[Row]):
    """What is asked of an experiment, and in which form the answer is given."""

    title: str
    experiment: str | tuple[str, ...]
    """Of several, the first that was run is asked."""
    rows: Callable[[Run], Sequence[Row]]
    """What is asked: the rows of the answer. Where there are none, only what is missing is shown."""
    headline: str | Callable[[Run, Sequence[Row]], str]
    """One sentence with at most two figures.

    A text may name `{least}` and `{most}`, the points with the least and the greatest median, with their
    `.name` and `.value`, and `{count}`, how many there are.
    """
    text: Sequence[Said[Row]] = ()
    tables: Sequence[Shown[Row]] = ()
    figures: Sequence[Drawing[Row]] = ()
    factors: tuple[str, ...] | None = None
    """Factors that the answer names; it says which level is shown of any other. None: it shows all."""
    missing: Callable[[Run], str] = lambda run: reasons(run.experiment)
    asked: Callable[[Run], bool] = lambda _: True
    """Whether the experiment was run in a way that has something to say of this at all."""
    timed: bool = False
    """Whether it says what speaks against the times: an emulated guest, a busy machine."""

    def __call__(self, results: Analysed) -> Section | None:
        """Return the section; None where the experiment was not run, or has nothing to say."""
        run = self._run(results)
        if run is None:
            return None
        missing, rows = self.missing(run), self.rows(run)
        if not rows:
            return Section(self.title, "", missing=missing) if missing else None
        return Section(
            title=self.title,
            answer=self._headline(run, rows),
            text=[
                *(
                    part
                    for said in self.text
                    for part in ([said] if isinstance(said, str) else said(run, rows))
                ),
                *(narrowing(run.experiment, self.factors) if self.factors is not None else ()),
                *(cautions(run.experiment) if self.timed else ()),
            ],
            tables=[
                table
                for shown in self.tables
                for table in ([shown.of(rows)] if isinstance(shown, TableOf) else shown(run, rows))
            ],
            figures=[figure for drawing in self.figures for figure in drawing(run, rows)],
            missing=missing,
        )

    def answer(self, results: Analysed) -> str:
        """Return the headline alone, without waiting for the rest; empty where the section has none."""
        run = self._run(results)
        rows = () if run is None else self.rows(run)
        return self._headline(run, rows) if run is not None and rows else ""

    def _run(self, results: Analysed) -> Run | None:
        """Return what is asked; None where it was not run, or has nothing to say."""
        names = (self.experiment,) if isinstance(self.experiment, str) else self.experiment
        run = Run.of(results, *names)
        return run if run is not None and self.asked(run) else None

    def _headline(self, run: Run, rows: Sequence[Row]) -> str:
        if not isinstance(self.headline, str):
            return self.headline(run, rows)
        points = sorted((row for row in rows if isinstance(row, Point)), key=lambda row: row.summary.median)
        return self.headline.format(least=points[0], most=points[-1], count=len(points))


def points(metric: str, **levels: Level) -> Callable[[Run], list[Point]]:
    """Ask for every point with these levels that has values of `metric`."""
    return lambda run: run.points(metric, **levels)

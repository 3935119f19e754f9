"""fork beside the new call, as in the original report's table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from oscope.figures.tables import uncertainty
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import Column, TableOf, text
from oscope.labs.engine.words import ratio_text
from oscope.labs.kernel import clocked
from oscope.labs.kernel.clocked import Side
from oscope.labs.syscalls import reference
from oscope.model.document import Figure, Table
from oscope.model.factors import Level
from oscope.model.formatting import MISSING, Scale
from oscope.model.samples import PointSamples
from oscope.statistics import ComparedMetric, compare_points

WHERE: dict[str, Level] = {"how": "fork", "resident": 0}
EXPERIMENTS = ("kernel.fork", "kernel.fork-wall")
ENDS = {
    "child": "until the child's first instruction",
    "parent": "until the parent's return",
    "total": "until the child was waited for",
}
ORIGINAL = {"child": reference.FORK_CHILD, "parent": reference.FORK_PARENT}

Sides = Sequence[Side]
"""The metrics of one experiment, in the order of `ENDS`."""


def _measured(run: Run) -> list[Sides]:
    found = (clocked.sides(run, *((name, f"{who}_ns") for who in ENDS)) for name in EXPERIMENTS)
    return [sides for sides in found if sides and sides[0].point(**WHERE)]


def later(child: Side, parent: Side) -> ComparedMetric | None:
    """Return how the child's figure compares with the parent's, of the same forks, paired by boot."""
    point = child.point(**WHERE)
    if point is None or parent.point(**WHERE) is None:
        return None
    column = replace(child.experiment.metrics[child.metric], name="figure")

    def only(metric: str) -> PointSamples:
        return replace(point, metrics={"figure": point.metrics[metric]})

    return compare_points(only(parent.metric), only(child.metric), column, same_run=True)


def _headline(_: Run, measured: Sequence[Sides]) -> str:
    found = [(side, each) for side in measured[0][:2] if (each := side.summary(**WHERE)) is not None]
    child, *parent = (side.value(each) for side, each in found)
    what = "counts" if measured[0][0].unit == "instructions" else "takes"
    text = f"fork {what} {child} until its child's first instruction"
    return f"{text} and {parent[0]} until its parent's return." if parent else f"{text}."


def _first(_: Run, measured: Sequence[Sides]) -> list[str]:
    """Say which of the two comes first."""
    said = []
    for row in (later(sides[0], sides[1]) for sides in measured if len(sides) > 1):
        if row is not None and row.different == "yes":
            first = "parent returns" if row.ratio > 1 else "child runs"
            said.append(f"The {first} first (child over parent {ratio_text(row)}).")
        elif row is not None:
            said.append("Which of the two comes first is not decided.")
    return said


def _table(_: Run, measured: Sequence[Sides]) -> Table:
    def both(sides: Sides) -> Column[str]:
        """Return median and interval of each end, in a unit of its own."""

        def cells(who: str, _: Scale) -> list[str]:
            side = dict(zip(ENDS, sides, strict=False)).get(who)
            found = side.summary(**WHERE) if side else None
            if side is None or found is None:
                return [MISSING, MISSING]
            scale = Scale.of(found.median, uncertainty(found), side.unit)
            return [scale.with_unit(found.median), clocked.interval(found, scale)]

        return Column(("counted" if sides[0].unit == "instructions" else "timed", "95 %"), cells, True)

    table: TableOf[str] = TableOf(
        "fork without resident memory",
        (
            text("", ENDS.__getitem__),
            *map(both, measured),
            *reference.cited(ORIGINAL.get),
        ),
        "Medians; intervals over the boots. The original report's figures are of 10 forks on another "
        "machine, for their shape.",
    )
    return table.of(ENDS)


def _figures(_: Run, measured: Sequence[Sides]) -> list[Figure]:
    """Draw the same point by several metrics, a row each."""
    note = "Faint: single forks. Diamond: median with its 95 % interval."
    return [
        clocked.drawn(
            f"{sides[0].what} of fork",
            [(end, side, side.point(**WHERE)) for end, side in zip(ENDS.values(), sides, strict=False)],
            note,
        )
        for sides in measured
    ]


section = Question(
    title="fork beside the new call",
    experiment=EXPERIMENTS,
    rows=_measured,
    headline=_headline,
    text=(
        _first,
        (
            "Under the instructions clock there is one CPU: whoever runs first delays the other. A guest "
            "under the wall clock has two."
        ),
        lambda _, measured: clocked.conditions(sides[0].experiment for sides in measured),
    ),
    tables=_table,
    figures=_figures,
    missing=lambda run: clocked.missing(run, *EXPERIMENTS),
)

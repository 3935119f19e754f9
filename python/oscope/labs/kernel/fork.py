"""fork beside the new call, as in the original report's table."""

from __future__ import annotations

from dataclasses import replace

from oscope.figures.analysed import Analysed
from oscope.labs.engine.drawing import strips
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.words import ratio_text
from oscope.labs.kernel import clocked
from oscope.labs.kernel.clocked import Side
from oscope.labs.syscalls import reference
from oscope.model.document import Figure, Section, Table
from oscope.model.factors import Level
from oscope.model.formatting import MISSING
from oscope.model.samples import PointSamples
from oscope.statistics import ComparedMetric, compare_points

TITLE = "fork beside the new call"
WHERE: dict[str, Level] = {"how": "fork", "resident": 0}
EXPERIMENTS = ("kernel.fork", "kernel.fork-wall")
ENDS = {
    "child": "until the child's first instruction",
    "parent": "until the parent's return",
    "total": "until the child was waited for",
}
ORIGINAL = {"child": reference.FORK_CHILD, "parent": reference.FORK_PARENT}
NOT_THE_SAME = (
    "Under the instructions clock there is one CPU: whoever runs first delays the other. A guest under the "
    "wall clock has two."
)


def section(results: Analysed) -> Section | None:
    """Answer B2's half of the kernel: what fork costs on the same kernel."""
    found = {
        name: known
        for name in EXPERIMENTS
        if (known := clocked.sides(results, *((name, f"{who}_ns") for who in ENDS)))
    }
    if not found:
        return None
    measured = {name: sides for name, sides in found.items() if sides[0].point(**WHERE)}
    missing = clocked.missing([sides[0] for sides in found.values()])
    if not measured:
        return Section(TITLE, "", missing=missing) if missing else None
    return Section(
        title=TITLE,
        answer=_headline(results, next(iter(measured.values()))),
        text=[
            *(text for sides in measured.values() for text in _first(sides)),
            NOT_THE_SAME,
            *clocked.conditions([sides[0] for sides in measured.values()]),
        ],
        tables=[_table(results, list(measured.values()))],
        figures=[_figure(results, sides) for sides in measured.values()],
        missing=missing,
    )


def later(child: Side, parent: Side) -> ComparedMetric | None:
    """Return how the child's figure compares with the parent's, of the same forks, paired by boot."""
    point = child.point(**WHERE)
    if point is None or parent.point(**WHERE) is None:
        return None
    column = replace(child.experiment.metrics[child.metric], name="figure")

    def only(metric: str) -> PointSamples:
        return replace(point, metrics={"figure": point.metrics[metric]})

    return compare_points(only(parent.metric), only(child.metric), column, same_run=True)


def _headline(results: Analysed, sides: list[Side]) -> str:
    found = [side.summary(results, **WHERE) for side in sides[:2]]
    child, *parent = (side.value(each) for side, each in zip(sides, found, strict=False) if each is not None)
    what = "counts" if sides[0].unit == "instructions" else "takes"
    text = f"fork {what} {child} until its child's first instruction"
    return f"{text} and {parent[0]} until its parent's return." if parent else f"{text}."


def _first(sides: list[Side]) -> list[str]:
    """Say which of the two comes first."""
    row = later(sides[0], sides[1]) if len(sides) > 1 else None
    if row is None:
        return []
    if row.different != "yes":
        return ["Which of the two comes first is not decided."]
    first = "parent returns" if row.ratio > 1 else "child runs"
    return [f"The {first} first (child over parent {ratio_text(row)})."]


def _table(results: Analysed, measured: list[list[Side]]) -> Table:
    rows = []
    for place, (who, end) in enumerate(ENDS.items()):
        own = [side for sides in measured for side in sides[place : place + 1]]
        cells = [cell for side in own for cell in clocked.columns(results, [side], [WHERE])[0]]
        units = [clocked.headings(results, [side], [WHERE])[0].strip("[]") for side in own]
        values = [
            f"{cell} {units[index // 2]}" if index % 2 == 0 else cell for index, cell in enumerate(cells)
        ]
        theirs = ORIGINAL.get(who)
        cited = (theirs.mean, theirs.median, theirs.deviation) if theirs else ()
        rows.append([end, *values, *([f"{value:.2f}" for value in cited] or [MISSING] * 3)])
    columns = [""]
    for sides in measured:
        columns += [f"{'counted' if sides[0].unit == 'instructions' else 'timed'}", "95 %"]
    columns += [f"original: {name} [cycles]" for name in ("mean", "median", "std. dev.")]
    note = (
        "Medians; intervals over the boots. The original report's figures are of 10 forks on another "
        "machine, for their shape."
    )
    return Table("fork without resident memory", columns, rows, frozenset(range(1, len(columns))), note)


def _figure(results: Analysed, sides: list[Side]) -> Figure:
    """Draw the same point by several metrics, a row each."""
    run = Run(results, sides[0].experiment)
    rows = [
        (end, Point(run, point, side.metric, found))
        for end, side in zip(ENDS.values(), sides, strict=False)
        if (point := side.point(**WHERE)) is not None
        and (found := side.summary(results, **WHERE)) is not None
    ]
    names = {id(point): end for end, point in rows}
    note = "Faint: single forks. Diamond: median with its 95 % interval."
    title = f"{sides[0].what} of fork"
    return strips(title, "", [point for _, point in rows], lambda point: names[id(point)], note=note)

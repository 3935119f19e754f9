"""fork beside the new call, as in the document's table."""

from __future__ import annotations

from dataclasses import replace

from oscope.figures import plots
from oscope.figures.analysed import Analysed
from oscope.figures.experiments import dot
from oscope.figures.tables import shared_scale
from oscope.labs.curve import ratio_text
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
DOCUMENT = {"child": reference.FORK_CHILD, "parent": reference.FORK_PARENT}
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
        answer=" ".join(clocked.answered(_answer(results, sides), sides[0]) for sides in measured.values()),
        text=[NOT_THE_SAME, *clocked.apart(sides[0].experiment for sides in measured.values())],
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


def _answer(results: Analysed, sides: list[Side]) -> str:
    by_end = dict(zip(ENDS, sides, strict=False))
    child, parent = by_end["child"], by_end.get("parent")
    told = child.summary(results, **WHERE)
    after = None if parent is None else parent.summary(results, **WHERE)
    if told is None or parent is None or after is None:
        return ""
    row = later(child, parent)
    what = "counts" if child.unit == "instructions" else "takes"
    text = (
        f"fork {what} {child.told(told)} until its child's first instruction and {parent.told(after)} until "
        "its parent's return"
    )
    if row is None:
        return f"{text}."
    if row.different != "yes":
        return f"{text}; which of the two comes first cannot be told."
    first = "parent returns" if row.ratio > 1 else "child runs"
    return f"{text}: the {first} first (child over parent {ratio_text(row)})."


def _table(results: Analysed, measured: list[list[Side]]) -> Table:
    rows = []
    for place, (who, end) in enumerate(ENDS.items()):
        own = [side for sides in measured for side in sides[place : place + 1]]
        cells = [cell for side in own for cell in clocked.columns(results, [side], [WHERE])[0]]
        units = [clocked.headings(results, [side], [WHERE])[0].strip("[]") for side in own]
        values = [
            f"{cell} {units[index // 2]}" if index % 2 == 0 else cell for index, cell in enumerate(cells)
        ]
        theirs = DOCUMENT.get(who)
        cited = (theirs.mean, theirs.median, theirs.deviation) if theirs else ()
        rows.append([end, *values, *([f"{value:.2f}" for value in cited] or [MISSING] * 3)])
    columns = [""]
    for sides in measured:
        columns += [f"{'counted' if sides[0].unit == 'instructions' else 'timed'}", "95 %"]
    columns += [f"document: {name} [cycles]" for name in ("mean", "median", "std. dev.")]
    note = (
        "Medians; intervals over the boots. The document's figures are of 10 forks on another machine, for "
        "their shape."
    )
    return Table("fork without resident memory", columns, rows, frozenset(range(1, len(columns))), note)


def _figure(results: Analysed, sides: list[Side]) -> Figure:
    known = [(end, side) for end, side in zip(ENDS.values(), sides, strict=False) if side.point(**WHERE)]
    scale = shared_scale(
        [each for _, side in known if (each := side.summary(results, **WHERE))], sides[0].unit
    )
    rows = [
        dot(results, side.experiment, (point, side.metric), scale, name=end)
        for end, side in known
        if (point := side.point(**WHERE)) is not None
    ]
    what = "Instructions" if sides[0].unit == "instructions" else "Time"
    note = "Faint: single forks. Diamond: median with its 95 % interval."
    return plots.strips(f"{what} of fork", scale.unit, rows, note)

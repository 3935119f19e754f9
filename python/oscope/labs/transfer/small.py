"""One, five and ten small files an execution, by file and by method, beside the document's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median as middle

from oscope.figures import plots
from oscope.figures.analysed import Analysed, paired_difference
from oscope.figures.tables import shared_scale
from oscope.figures.words import counted, listed, median
from oscope.labs.curve import cells
from oscope.labs.transfer import SMALL, TARGET, reference
from oscope.labs.transfer.points import (
    CALLS,
    COPIED,
    MAPPED,
    Sides,
    against,
    at,
    dots,
    first,
    known,
    missing,
    sizes,
    summary,
    times,
    verdict,
    way,
    ways,
)
from oscope.model.document import Figure, Section, Table
from oscope.model.factors import Level
from oscope.model.formatting import MISSING, format_count, format_value
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics import ComparedMetric

TITLE = "Small files: 1, 5 and 10 an execution"


def section(results: Analysed) -> Section | None:
    """Answer D4 for the transfer through user space."""
    experiment = results.get("transfer.small")
    if experiment is None:
        return None
    if not known(experiment, COPIED.sender):
        gaps = missing(experiment)
        return Section(TITLE, "", missing=gaps) if gaps else None
    return Section(
        title=TITLE,
        answer=" ".join(answer(results, experiment, COPIED, (CALLS, MAPPED))),
        text=[
            (
                "All files of an execution go over one connection, one after the other without a further "
                "round trip. Here the sender connects; in the document it listens, and the receiver connects."
            )
        ],
        tables=tables(results, experiment, COPIED, CALLS),
        figures=[figure(results, experiment, COPIED.sender, "Time of the sender")],
        missing=missing(experiment),
    )


def tables(results: Analysed, experiment: ExperimentResults, sides: Sides, base: str) -> list[Table]:
    """Return the times of single files, of five and ten, and the verdicts on them."""
    single = _single(results, experiment, sides)
    several = _several(results, experiment, sides)
    return [each for each in (single, several, _verdicts(experiment, sides.receiver, base)) if each.rows]


def executions(experiment: ExperimentResults, metric: str) -> list[PointSamples]:
    """Return the points that move several of the document's files."""
    return [
        point
        for point in known(experiment, metric, sizes="document")
        if int(point.factors.get("files", 1)) > 1
    ]


def singles(experiment: ExperimentResults, metric: str) -> list[PointSamples]:
    """Return the points that move one of the document's small files or its larger one."""
    return [
        point
        for point in known(experiment, metric, sizes="equal", files=1)
        if point.factors.get("size") in (*SMALL, TARGET)
    ]


def answer(
    results: Analysed, experiment: ExperimentResults, sides: Sides, names: tuple[str, str]
) -> list[str]:
    """Give the times of one, five and ten files, what a file more costs, and how the methods compare."""
    said = []
    for name in names:
        given = _times(results, experiment, sides.receiver, name)
        if given:
            more = _file_more(experiment, sides.receiver, name)
            said.append(f"By {name} the receiver takes {listed(given)}{more}.")
    rows = [
        row
        for row in against(experiment, (sides.receiver,), *names)
        if row.factors.get("sizes") == "document" or row.factors.get("size") in SMALL
    ]
    return [*said, *_beside(rows, names)]


def _times(results: Analysed, experiment: ExperimentResults, metric: str, name: str) -> list[str]:
    unit = experiment.metrics[metric].unit
    found = []
    one = first(experiment, metric, name, sizes="equal", files=1, size=SMALL[0])
    if one is not None and (each := summary(results, experiment, one, metric)) is not None:
        found.append(f"{median(each, unit)} for one file of {SMALL[0]} B")
    for point in executions(experiment, metric):
        each = summary(results, experiment, point, metric)
        if way(point.factors) == name and each is not None:
            found.append(f"{median(each, unit)} for {point.factors['files']}")
    return found


def _file_more(experiment: ExperimentResults, metric: str, name: str) -> str:
    """Say what each file beyond the fifth adds, where five and ten were measured."""
    here = {
        int(point.factors["files"]): point
        for point in executions(experiment, metric)
        if way(point.factors) == name
    }
    if len(here) < 2:
        return ""
    few, many = min(here), max(here)
    found = paired_difference(experiment, here[few], here[many], metric)
    if found is None or found.ci95 is None or found.ci95[0] <= 0:
        return ", from which no cost of a file more can be told"
    span = many - few
    half = (found.ci95[1] - found.ci95[0]) / 2 / span
    return f"; a file more adds {format_value(found.median / span, half, experiment.metrics[metric].unit)}"


def _beside(rows: Sequence[ComparedMetric], names: tuple[str, str]) -> list[str]:
    """Count the verdicts on small files, and give the one on most files."""
    if not rows:
        return []
    faster = [row for row in rows if row.different == "yes" and row.ratio < 1]
    slower = [row for row in rows if row.different == "yes" and row.ratio > 1]
    same = sum(row.different == "no" for row in rows)
    unknown = len(rows) - len(faster) - len(slower) - same
    parts = [
        f"{what} at {number}"
        for what, number in (
            ("faster", len(faster)),
            ("slower", len(slower)),
            ("no different", same),
            ("not to be told", unknown),
        )
        if number
    ]
    most = max(rows, key=lambda row: int(row.factors.get("files", 1)))
    calls, mapped = names
    own = f"{calls}'s time"
    ending = f"; with {counted(int(most.factors.get('files', 1)), 'file')} it takes {times(most, own)}"
    return [f"Of {counted(len(rows), 'point')}, {mapped} against {calls} is {listed(parts)}{ending}."]


def _single(results: Analysed, experiment: ExperimentResults, sides: Sides) -> Table:
    points = singles(experiment, sides.receiver)
    lines = []
    for size in sizes(points):
        for point in (each for each in points if each.factors["size"] == size):
            lines.append((f"{format_count(size)} B", size, point))
    shown = [point for *_, point in lines]
    scale, rows = _sides(results, experiment, sides, shown)
    body = [
        [text, way(point.factors), *row, _cited(size, point)]
        for (text, size, point), row in zip(lines, rows, strict=True)
    ]
    return Table(
        f"One file an execution ({experiment.experiment})",
        ["file", "method", *_headings(scale), "document's receiver [ms]"],
        body,
        frozenset({2, 3, 5, 7}),
        f"Medians. The document has one execution of each file. {reference.WHERE}",
    )


def _cited(size: int, point: PointSamples) -> str:
    name = _document_name(point)
    if name is None:
        return MISSING
    value = reference.TARGET_FILE[name] if size == TARGET else reference.SMALL_FILES[name][SMALL.index(size)]
    return f"{value:.4f}"


def _document_name(point: PointSamples) -> str | None:
    """Return the document's name of the point's method; None for one that it does not have."""
    name = way(point.factors)
    return next((theirs for theirs, ours in reference.METHODS.items() if name in (theirs, ours)), None)


def _several(results: Analysed, experiment: ExperimentResults, sides: Sides) -> Table:
    points = sorted(executions(experiment, sides.receiver), key=lambda point: int(point.factors["files"]))
    scale, rows = _sides(results, experiment, sides, points)
    body = []
    for point, row in zip(points, rows, strict=True):
        files = int(point.factors["files"])
        moved = summary(results, experiment, point, "bytes")
        name = _document_name(point)
        theirs = reference.EXECUTION.get(files, {}).get(name or "")
        cited = (
            [MISSING, MISSING]
            if theirs is None or name is None
            else [f"{middle(theirs):.4f}", f"{reference.AVERAGE[files][name]:.4f}"]
        )
        size = MISSING if moved is None else format_count(moved.median)
        body.append([str(files), size, way(point.factors), *row, *cited])
    columns = [
        "files",
        "bytes",
        "method",
        *_headings(scale),
        "document's receiver, median [ms]",
        "its printed average [ms]",
    ]
    note = (
        "The document prints 2275 bytes for five files, which are its last five, and 3018 for ten, whose "
        f"sizes sum to {format_count(sum(SMALL))}. {reference.WHERE}"
    )
    title = f"Five and ten files an execution ({experiment.experiment})"
    return Table(title, columns, body, frozenset({0, 1, 3, 4, 6, 8, 9}), note)


def _headings(unit: str) -> list[str]:
    sides = [f"{side} {what} [{unit}]" for side in ("sender", "receiver") for what in ("median", "95 %")]
    return ["n", *sides]


def _sides(
    results: Analysed, experiment: ExperimentResults, sides: Sides, points: Sequence[PointSamples]
) -> tuple[str, list[list[str]]]:
    """Return the unit, and the cells n and times of both sides for each point."""
    found = [
        [summary(results, experiment, point, name) for name in (sides.sender, sides.receiver)]
        for point in points
    ]
    every = [one for pair in found for one in pair if one is not None]
    scale = shared_scale(every, experiment.metrics[sides.receiver].unit)
    rows = [
        [str(next((one.n for one in pair if one), 0)), *(cell for one in pair for cell in cells(one, scale))]
        for pair in found
    ]
    return scale.unit, rows


def _verdicts(experiment: ExperimentResults, metric: str, base: str) -> Table:
    points = [*singles(experiment, metric), *executions(experiment, metric)]
    shown = {_execution(each.factors) for each in points}
    lines = []
    for name in ways(points):
        if name == base:
            continue
        for row in against(experiment, (metric,), base, name):
            files, size = order = _execution(row.factors)
            if order in shown and at([row], metric) is not None:
                place = f"{files} files" if size is None else f"{format_count(size)} B"
                lines.append(((files, size or 0), [place, name, *verdict(row)]))
    lines.sort(key=lambda each: each[0])
    return Table(
        f"Against {base}, the receiver's time",
        ["files", "method", f"time / {base}'s (95 %)", "different", "matters"],
        [line for _, line in lines],
        frozenset(),
        "Paired by block, p corrected (Holm) for all rows of a method.",
    )


def _execution(factors: Mapping[str, Level]) -> tuple[int, int | None]:
    """Return how many files an execution has, and the size of each where all have one."""
    size = factors.get("size") if factors["sizes"] == "equal" else None
    return int(factors["files"]), None if size is None else int(size)


def figure(results: Analysed, experiment: ExperimentResults, metric: str, title: str) -> Figure:
    """Draw the small files and the executions as rows, a colour for each way."""
    small = [point for point in singles(experiment, metric) if int(point.factors["size"]) < TARGET]
    points = [*small, *executions(experiment, metric)]
    series, unit = dots(results, experiment, points, metric, _row)
    note = "Medians with their 95 % intervals."
    return plots.dots(f"{title}, small files", f"time [{unit}]", series, note)


def _row(point: PointSamples) -> str:
    several = point.factors["sizes"] == "document"
    return f"{point.factors['files']} files" if several else f"{point.factors['size']} B"

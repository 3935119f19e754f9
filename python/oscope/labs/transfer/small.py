"""One, five and ten small files an execution, by file and by method, beside the original's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median as middle

from oscope.figures.analysed import paired_difference
from oscope.figures.words import counted, listed, median
from oscope.labs.engine.drawing import dots
from oscope.labs.engine.question import Question, points
from oscope.labs.engine.run import Point, Run, summary_of
from oscope.labs.engine.table import TableOf, count, ratio, stat, text
from oscope.labs.engine.words import judged, value, verdicts
from oscope.labs.transfer import SMALL, TARGET, reference
from oscope.labs.transfer.points import CALLS, COPIED, MAPPED, Sides, against, way, way_dots, ways
from oscope.model.document import Figure, Table
from oscope.model.factors import Level
from oscope.model.formatting import format_count, format_value
from oscope.statistics import ComparedMetric

Names = tuple[str, str]


def executions(run: Run, metric: str) -> list[Point]:
    """Return the points that move several of the original report's files."""
    found = [each for each in run.points(metric, sizes="document") if _files(each) > 1]
    return sorted(found, key=_files)


def singles(run: Run, metric: str) -> list[Point]:
    """Return the points that move one of the original report's small files or its larger one, by size."""
    found = run.points(metric, sizes="equal", files=1)
    return sorted((each for each in found if _size(each) in (*SMALL, TARGET)), key=_size)


def _files(point: Point) -> int:
    return int(point.samples.factors.get("files", 1))


def _size(point: Point) -> int:
    return int(point.samples.factors.get("size", 0))


def _way(point: Point) -> str:
    return way(point.samples.factors)


def headline(run: Run, sides: Sides, names: Names) -> str:
    """Give the time of the most files by each method."""
    several = executions(run, sides.receiver) or singles(run, sides.receiver)
    most = max((_files(each) for each in several), default=1)
    unit = run.experiment.metrics[sides.receiver].unit
    parts = [
        f"{value(each.summary, unit)} by {name}"
        for name in names
        for each in [next((p for p in several if _way(p) == name and _files(p) == most), None)]
        if each is not None
    ]
    return f"{counted(most, 'small file')} an execution take the receiver {listed(parts)}." if parts else ""


def details(run: Run, sides: Sides, names: Names) -> list[str]:
    """Give the times of one, five and ten files, what a file more costs, and how the methods compare."""
    said = []
    for name in names:
        given = _times(run, sides.receiver, name)
        if given:
            said.append(
                f"By {name} the receiver takes {listed(given)}{_file_more(run, sides.receiver, name)}."
            )
    rows = [
        row
        for row in against(run.experiment, (sides.receiver,), *names)
        if row.factors.get("sizes") == "document" or row.factors.get("size") in SMALL
    ]
    if rows:
        most = max(rows, key=lambda row: int(row.factors.get("files", 1)))
        files = counted(int(most.factors.get("files", 1)), "file")
        own = judged(most, f"{names[0]}'s time")
        said.append(
            f"Of {counted(len(rows), 'point')}, {names[1]} against {names[0]} is {verdicts(rows)}; with "
            f"{files} "
            f"it takes {own}."
        )
    return said


def _times(run: Run, metric: str, name: str) -> list[str]:
    unit = run.experiment.metrics[metric].unit
    one = [each for each in singles(run, metric) if _way(each) == name and _size(each) == SMALL[0]]
    own = [each for each in executions(run, metric) if _way(each) == name]
    return [
        *(f"{median(each.summary, unit)} for one file of {SMALL[0]} B" for each in one[:1]),
        *(f"{median(each.summary, unit)} for {_files(each)}" for each in own),
    ]


def _file_more(run: Run, metric: str, name: str) -> str:
    """Say what each file beyond the fifth adds, where five and ten were measured."""
    here = {_files(each): each.samples for each in executions(run, metric) if _way(each) == name}
    if len(here) < 2:
        return ""
    few, many = min(here), max(here)
    found = paired_difference(run.experiment, here[few], here[many], metric)
    if found is None or found.ci95 is None or found.ci95[0] <= 0:
        return ", from which no cost of a file more is found"
    span = many - few
    half = (found.ci95[1] - found.ci95[0]) / 2 / span
    return (
        f"; a file more adds {format_value(found.median / span, half, run.experiment.metrics[metric].unit)}"
    )


def tables(run: Run, sides: Sides, base: str) -> list[Table]:
    """Return the times of single files, of five and ten, and the verdicts on them."""
    name, both = run.experiment.experiment, (("sender", sides.sender), ("receiver", sides.receiver))
    times = [stat(f"{side} {{}}", summary_of(metric), "ns", "median", "95 %") for side, metric in both]
    single: TableOf[Point] = TableOf(
        f"One file an execution ({name})",
        (
            text("file", lambda each: f"{format_count(_size(each))} B"),
            text("method", _way),
            count("n", lambda each: each.summary.n),
            *times,
            text("original report's receiver [ms]", _cited, numeric=True),
        ),
        f"Medians. The original report has one execution of each file. {reference.WHERE}",
    )
    several: TableOf[Point] = TableOf(
        f"Five and ten files an execution ({name})",
        (
            text("files", lambda each: str(_files(each)), numeric=True),
            count("bytes", lambda each: None if (moved := each.of("bytes")) is None else moved.median),
            text("method", _way),
            count("n", lambda each: each.summary.n),
            *times,
            text(
                "original report's receiver, median [ms]",
                lambda each: _cited_execution(each)[0],
                numeric=True,
            ),
            text("its printed average [ms]", lambda each: _cited_execution(each)[1], numeric=True),
        ),
        "The original report prints 2275 bytes for five files, which are its last five, and 3018 for ten, "
        "whose "
        f"sizes sum to {format_count(sum(SMALL))}. {reference.WHERE}",
    )
    found = (
        single.of(singles(run, sides.receiver)),
        several.of(executions(run, sides.receiver)),
        _verdicts(run, sides.receiver, base),
    )
    return [each for each in found if each.rows]


def _cited(point: Point) -> str | None:
    """Return the original report's time of a file by this method."""
    name, size = reference.own_name(_way(point)), _size(point)
    if name is None:
        return None
    own = reference.TARGET_FILE[name] if size == TARGET else reference.SMALL_FILES[name][SMALL.index(size)]
    return f"{own:.4f}"


def _cited_execution(point: Point) -> tuple[str | None, str | None]:
    """Return the median of the original report's times of so many files, and the average that it prints."""
    name, files = reference.own_name(_way(point)), _files(point)
    theirs = reference.EXECUTION.get(files, {}).get(name or "")
    if theirs is None or name is None:
        return None, None
    return f"{middle(theirs):.4f}", f"{reference.AVERAGE[files][name]:.4f}"


def _execution(factors: Mapping[str, Level]) -> tuple[int, int]:
    """Return how many files an execution has, and the size of each where all have one, else 0."""
    return int(factors["files"]), int(factors.get("size", 0)) if factors["sizes"] == "equal" else 0


def _place(row: ComparedMetric) -> str:
    files, size = _execution(row.factors)
    return f"{format_count(size)} B" if size else f"{files} files"


def _verdicts(run: Run, metric: str, base: str) -> Table:
    found = [*singles(run, metric), *executions(run, metric)]
    shown = {_execution(each.samples.factors) for each in found}
    rows = [
        (name, row)
        for name in ways([each.samples for each in found])
        if name != base
        for row in against(run.experiment, (metric,), base, name)
        if _execution(row.factors) in shown
    ]
    table: TableOf[tuple[str, ComparedMetric]] = TableOf(
        f"Against {base}, the receiver's time",
        (
            text("files", lambda row: _place(row[1])),
            text("method", lambda row: row[0]),
            ratio(f"time / {base}'s", lambda row: row[1], "different", "matters"),
        ),
        "Paired by block, p corrected (Holm) for all rows of a method.",
    )
    return table.of(sorted(rows, key=lambda row: _execution(row[1].factors)))


def figure(run: Run, metric: str, title: str) -> list[Figure]:
    """Draw the small files and the executions as rows, a colour for each way."""
    found = [*(each for each in singles(run, metric) if _size(each) < TARGET), *executions(run, metric)]
    rows = way_dots(found, _row)
    return [dots(f"{title}, small files", "time", rows, "ns")]


def _row(point: Point) -> str:
    several = point.samples.factors["sizes"] == "document"
    return f"{_files(point)} files" if several else f"{_size(point)} B"


def _details(run: Run, _: Sequence[Point]) -> list[str]:
    return details(run, COPIED, (CALLS, MAPPED))


section = Question(
    title="Small files: 1, 5 and 10 an execution",
    experiment="transfer.small",
    rows=points(COPIED.sender),
    headline=lambda run, _: headline(run, COPIED, (CALLS, MAPPED)),
    text=(
        _details,
        (
            "All files of an execution go over one connection, one after the other without a further round "
            "trip. "
            "Here the sender connects; in the original report it listens, and the receiver connects."
        ),
    ),
    tables=(lambda run, _: tables(run, COPIED, CALLS),),
    figures=(lambda run, _: figure(run, COPIED.sender, "Time of the sender"),),
    timed=True,
)

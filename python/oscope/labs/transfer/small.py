"""One, five and ten small files an execution, by file and by method, beside the original's."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median as middle

from oscope.figures.analysed import paired_difference
from oscope.figures.words import counted, listed
from oscope.labs.engine.drawing import dots
from oscope.labs.engine.question import Question, points
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import TableOf, count, number, text
from oscope.labs.engine.words import value
from oscope.labs.transfer import SMALL, TARGET, reference
from oscope.labs.transfer.points import (
    CALLS,
    COPIED,
    MAPPED,
    METHOD,
    Sides,
    compared_ways,
    times_of,
    verdict_table,
    way,
    way_dots,
)
from oscope.model.document import Figure, Table
from oscope.model.factors import Level
from oscope.model.formatting import format_count, format_value

Names = tuple[str, str]


def executions(run: Run, metric: str) -> list[Point]:
    """Return the points that move several of the original report's files."""
    found = [each for each in run.points(metric, sizes="document") if _files(each) > 1]
    return sorted(found, key=_files)


def singles(run: Run, metric: str) -> list[Point]:
    """Return the points that move one of the original report's small files or its larger one, by size."""
    found = run.points(metric, sizes="equal", files=1)
    return sorted((each for each in found if each.size in (*SMALL, TARGET)), key=lambda each: each.size)


def _files(point: Point) -> int:
    return int(point.factors.get("files", 1))


def _way(point: Point) -> str:
    return way(point.factors)


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
    what = counted(most, "small file")
    return f"For {what} an execution the receiver takes {listed(parts)}." if parts else ""


def _file_more(run: Run, metric: str, point: Point) -> str | None:
    """Return what each file beyond the fewest adds by this method; None where that is not found to cost."""
    here = {_files(each): each.samples for each in executions(run, metric) if _way(each) == _way(point)}
    span = _files(point) - min(here)
    found = paired_difference(run.experiment, here[min(here)], point.samples, metric) if span else None
    if found is None or found.ci95 is None or found.ci95[0] <= 0:
        return None
    half = (found.ci95[1] - found.ci95[0]) / 2 / span
    return format_value(found.median / span, half, run.experiment.metrics[metric].unit)


def tables(run: Run, sides: Sides, base: str) -> list[Table]:
    """Return the times of single files, of five and ten, and the verdicts on them."""
    name = run.experiment.experiment
    times = times_of(sides, "{side} {part}", "median", "95 %")
    single: TableOf[Point] = TableOf(
        f"One file an execution ({name})",
        (
            text("file", lambda each: f"{format_count(each.size)} B"),
            METHOD,
            count("n", lambda each: each.summary.n),
            *times,
            number("original report's receiver [ms]", _cited, ".4f"),
        ),
        f"Medians. The original report has one execution of each file. {reference.WHERE}",
    )
    several: TableOf[Point] = TableOf(
        f"Five and ten files an execution ({name})",
        (
            number("files", _files, "d"),
            count("bytes", "bytes"),
            METHOD,
            count("n", lambda each: each.summary.n),
            *times,
            text("receiver, a file more", lambda each: _file_more(run, sides.receiver, each)),
            number("original report's receiver, median [ms]", _cited_median, ".4f"),
            number("its printed average [ms]", _cited_average, ".4f"),
        ),
        "The original report prints 2275 bytes for five files, which are its last five, and 3018 for ten, "
        f"whose sizes sum to {format_count(sum(SMALL))}. {reference.WHERE}",
    )
    found = (
        single.of(singles(run, sides.receiver)),
        several.of(executions(run, sides.receiver)),
        _verdicts(run, sides.receiver, base),
    )
    return [each for each in found if each.rows]


def _cited(point: Point) -> float | None:
    """Return the original report's time of a file by this method."""
    name = reference.own_name(_way(point))
    if name is None:
        return None
    if point.size == TARGET:
        return reference.TARGET_FILE[name]
    return reference.SMALL_FILES[name][SMALL.index(point.size)]


def _cited_median(point: Point) -> float | None:
    """Return the median of the original report's times of so many files."""
    theirs = reference.EXECUTION.get(_files(point), {}).get(reference.own_name(_way(point)) or "")
    return None if theirs is None else middle(theirs)


def _cited_average(point: Point) -> float | None:
    """Return the average that it prints."""
    return reference.AVERAGE.get(_files(point), {}).get(reference.own_name(_way(point)) or "")


def _execution(factors: Mapping[str, Level]) -> tuple[int, int]:
    """Return how many files an execution has, and the size of each where all have one, else 0."""
    return int(factors["files"]), int(factors.get("size", 0)) if factors["sizes"] == "equal" else 0


def _place(factors: Mapping[str, Level]) -> str:
    files, size = _execution(factors)
    return f"{format_count(size)} B" if size else f"{files} files"


def _verdicts(run: Run, metric: str, base: str) -> Table:
    found = [*singles(run, metric), *executions(run, metric)]
    shown = {_execution(each.factors) for each in found}
    rows = [each for each in compared_ways(run, metric, base) if _execution(each.row.factors) in shown]
    rows.sort(key=lambda each: _execution(each.row.factors))
    title = f"Against {base}, the receiver's time"
    return verdict_table(title, base, rows, text("files", lambda each: _place(each.row.factors)))


def figure(run: Run, metric: str, title: str) -> Figure:
    """Draw the small files and the executions as rows, a colour for each way."""
    found = [*(each for each in singles(run, metric) if each.size < TARGET), *executions(run, metric)]
    rows = way_dots(found, lambda point: _place(point.factors))
    return dots(f"{title}, small files", "time", rows, "ns")


section = Question(
    title="Small files: 1, 5 and 10 an execution",
    experiment="transfer.small",
    rows=points(COPIED.sender),
    headline=lambda run, _: headline(run, COPIED, (CALLS, MAPPED)),
    text=(
        "All files of an execution follow each other over one connection. Here the sender connects; in "
        "the original report it listens, and the receiver connects."
    ),
    tables=(lambda run, _: tables(run, COPIED, CALLS)),
    figures=(lambda run, _: figure(run, COPIED.sender, "Time of the sender")),
    timed=True,
)

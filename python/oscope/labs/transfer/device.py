"""Through two devices of the kernel that hold the connection: read and write against mmap."""

from __future__ import annotations

from oscope.figures.analysed import Analysed
from oscope.labs.engine.curves import At
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import Column, TableOf, text, value
from oscope.labs.engine.words import NOT_RUN, cautions, reasons
from oscope.labs.transfer import LAB, large, small
from oscope.labs.transfer.points import (
    CONTENT,
    DEVICE,
    METHOD,
    RECEIVER_TIME,
    TIME,
    compared_ways,
    curves,
)
from oscope.model.document import Section, Table
from oscope.model.formatting import format_value
from oscope.model.units import format_bytes

TITLE = "Through devices in the kernel: fcntl against mmap"
NAME = "transfer.device"
METHODS = ("fcntl", "mmap")
HOW_TO = (
    "It needs a guest whose kernel has the modules: `oscope kernel build`, then `oscope run transfer.device`."
)
WHAT = (
    "oscope_sender and oscope_receiver are the original report's master and slave: character devices that "
    "hold a TCP connection in the kernel. The time is the receiver's."
)


def _median(heading: str, name: str) -> Column[Point]:
    def found(point: Point) -> str | None:
        summary = point.of(name)
        return None if summary is None else format_value(summary.median, None, "")

    return text(heading, found, numeric=True)


WORK: TableOf[Point] = TableOf(
    "What the programs do",
    (
        text("size", lambda point: point.level("size")),
        CONTENT,
        METHOD,
        _median("sender's calls", "sender_calls"),
        _median("receiver's calls", "calls"),
        _median("page faults", "minflt"),
    ),
    "Medians, of a whole transfer. Page faults are minor ones of the measured process.",
)
Beside = tuple[At, str, str, str]
"""A size at which a way was measured: with its content, through devices or user space, and its method."""
SIDE_BY_SIDE: TableOf[Beside] = TableOf(
    "Devices and user space side by side",
    (
        text("size", lambda row: format_bytes(row[0].size)),
        text("content", lambda row: row[1]),
        text("through", lambda row: row[2]),
        text("method", lambda row: row[3]),
        value("receiver's time (95 %)", lambda row: row[0].summary, "ns"),
    ),
    "{apart}: the figures stand side by side and are not compared. A digest is checked in the time of user "
    "space.",
)


def section(results: Analysed) -> Section | None:
    """Answer D4, D5 and D7 for the devices; say what is missing where they were not measured."""
    run = Run.of(results, NAME)
    if run is None:
        if not any(results.get(each.name) for each in LAB.experiments):
            return None
        return Section(TITLE, "", text=[WHAT], missing=f"{NOT_RUN.format(NAME, NAME)}. {HOW_TO}")
    missing = reasons(run.experiment)
    if not run.points(TIME):
        return Section(TITLE, "", text=[WHAT], missing=missing or HOW_TO)
    rows = compared_ways(run, TIME, METHODS[0])
    few = bool(small.singles(run, TIME) or small.executions(run, TIME))
    sized = sorted(run.points(TIME, sizes="equal"), key=lambda point: int(point.samples.factors["size"]))
    return Section(
        title=TITLE,
        answer=large.headline(rows, METHODS),
        text=[WHAT, *cautions(run.experiment)],
        tables=[
            large.table_of_times(run, DEVICE, "Through the devices"),
            large.verdicts(rows, METHODS[0], "mmap against fcntl, the receiver's time"),
            *small.tables(run, DEVICE, METHODS[0]),
            WORK.of(sized),
            *_side_by_side(run),
        ],
        figures=[
            *large.figures(run, TIME, "Time of the receiving device"),
            *(small.figure(run, TIME, "Time of the receiving device") if few else []),
        ],
        missing=missing,
    )


def _side_by_side(run: Run) -> list[Table]:
    """Return the devices' receiver times beside those through user space, if both are known."""
    other = Run.of(run.results, "transfer.large")
    if other is None or not other.points(RECEIVER_TIME):
        return []
    rows = [
        (at, content, through, name)
        for content in run.levels("content")
        for through, found in (
            ("device", curves(run, TIME, content=content, sizes="equal")),
            ("user space", curves(other, RECEIVER_TIME, content=content)),
        )
        for name, row in found.items()
        for at in row
    ]
    guest = "guest" in run.experiment.environment
    kernel = "Both were measured on this kernel, each in a run of its own"
    apart = "A guest has its own clock and its own kernel" if guest else kernel
    return [SIDE_BY_SIDE.of(sorted(rows, key=lambda row: row[0].size), apart=apart)]

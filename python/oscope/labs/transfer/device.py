"""Through two devices of the kernel that hold the connection: read and write against mmap."""

from __future__ import annotations

from collections.abc import Sequence

from oscope.figures.analysed import Analysed
from oscope.labs.engine.contrast import Contrast
from oscope.labs.engine.curves import At
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import Column, TableOf, level, text, value, written
from oscope.labs.engine.words import NOT_RUN, reasons
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
from oscope.model.document import Figure, Table
from oscope.model.formatting import format_value

NAME = "transfer.device"
METHODS = ("fcntl", "mmap")
HOW_TO = (
    "It needs a guest whose kernel has the modules: `oscope kernel build`, then `oscope run transfer.device`."
)


def _median(heading: str, name: str) -> Column[Point]:
    return written(heading, name, lambda found: format_value(found, None, ""), numeric=True)


WORK: TableOf[Point] = TableOf(
    "What the programs do",
    (
        level("size"),
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
        text("size", lambda row: row[0].name),
        text("content", lambda row: row[1]),
        text("through", lambda row: row[2]),
        text("method", lambda row: row[3]),
        value("receiver's time (95 %)", lambda row: row[0].summary, "ns"),
    ),
    "{apart}: the figures stand side by side and are not compared. A digest is checked in the time of user "
    "space.",
)


def _verdicts(run: Run) -> list[Contrast]:
    return run.once("verdicts", lambda: compared_ways(run, TIME, METHODS[0]))


def _work(_: Run, points: Sequence[Point]) -> Table:
    sized = [point for point in points if point.level("sizes") == "equal"]
    return WORK.of(sorted(sized, key=lambda point: point.size))


def _side_by_side(run: Run, _: Sequence[Point]) -> Table | None:
    """Return the devices' receiver times beside those through user space, if both are known."""
    other = run.beside("transfer.large")
    if other is None or not other.points(RECEIVER_TIME):
        return None
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
    return SIDE_BY_SIDE.of(sorted(rows, key=lambda row: row[0].size), apart=apart)


def _few(run: Run, _: Sequence[Point]) -> Figure | None:
    some = small.singles(run, TIME) or small.executions(run, TIME)
    return small.figure(run, TIME, "Time of the receiving device") if some else None


def _unrun(results: Analysed) -> str:
    others = any(results.get(each.name) for each in LAB.experiments)
    return f"{NOT_RUN.format(NAME, NAME)}. {HOW_TO}" if others else ""


section = Question(
    title="Through devices in the kernel: fcntl against mmap",
    experiment=NAME,
    rows=lambda run: run.points(TIME),
    headline=lambda run, _: large.headline(_verdicts(run), METHODS),
    about=(
        "oscope_sender and oscope_receiver are the original report's master and slave: character devices "
        "that hold a TCP connection in the kernel. The time is the receiver's."
    ),
    tables=(
        lambda run, _: large.table_of_times(run, DEVICE, "Through the devices"),
        lambda run, _: large.verdicts(_verdicts(run), METHODS[0], "mmap against fcntl, the receiver's time"),
        lambda run, _: small.tables(run, DEVICE, METHODS[0]),
        _work,
        _side_by_side,
    ),
    figures=(lambda run, _: large.figures(run, TIME, "Time of the receiving device"), _few),
    missing=lambda run: reasons(run.experiment) or ("" if run.points(TIME) else HOW_TO),
    timed=True,
    unrun=_unrun,
)

"""Through two devices of the kernel that hold the connection: read and write against mmap."""

from __future__ import annotations

from dataclasses import dataclass

from oscope.figures.analysed import Analysed
from oscope.labs.engine.curves import At
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import TableOf, text, value
from oscope.labs.engine.words import NOT_RUN, cautions, reasons
from oscope.labs.transfer import LAB, large, small
from oscope.labs.transfer.points import DEVICE, RECEIVER_TIME, TIME, against, curves, way
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
    "oscope_sender and oscope_receiver are the original report's master and slave: character devices each of "
    "which holds a TCP connection in the kernel. By fcntl a program reads and writes the device by small "
    "buffers; by mmap it has the device's pages in its address space, and an ioctl sends or receives them. "
    "The "
    "time is the receiver's, as in the original report. `oscope transfer send --device mmap --descriptors` "
    "prints the page descriptors of the mapped pages, and `receive` those of its side."
)


def _each(name: str, point: Point) -> str | None:
    found = point.of(name)
    return None if found is None else format_value(found.median, None, "")


WORK: TableOf[Point] = TableOf(
    "What the programs do",
    (
        text("size", lambda point: point.level("size")),
        text("content", lambda point: str(point.samples.factors.get("content", ""))),
        text("method", lambda point: way(point.samples.factors)),
        text("sender's calls", lambda point: _each("sender_calls", point), numeric=True),
        text("receiver's calls", lambda point: _each("calls", point), numeric=True),
        text("page faults", lambda point: _each("minflt", point), numeric=True),
    ),
    "Medians, of a whole transfer. Page faults are minor ones of the measured process.",
)


@dataclass(frozen=True)
class Beside:
    """A size at which a way was measured, through the devices or through user space."""

    at: At
    content: str
    through: str
    method: str


SIDE_BY_SIDE: TableOf[Beside] = TableOf(
    "Devices and user space side by side",
    (
        text("size", lambda row: format_bytes(row.at.size)),
        text("content", lambda row: row.content),
        text("through", lambda row: row.through),
        text("method", lambda row: row.method),
        value("receiver's time (95 %)", lambda row: row.at.summary, "ns"),
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
    rows = against(run.experiment, (TIME,), *METHODS)
    few = bool(small.singles(run, TIME) or small.executions(run, TIME))
    sized = sorted(run.points(TIME, sizes="equal"), key=lambda point: int(point.samples.factors["size"]))
    return Section(
        title=TITLE,
        answer=large.headline(rows, METHODS),
        text=[
            *large.from_on(run, rows, METHODS, TIME),
            *small.details(run, DEVICE, METHODS),
            WHAT,
            *cautions(run.experiment),
            large.original_says(large.equal(rows), TIME),
        ],
        tables=[
            large.table_of_times(run, DEVICE, "Through the devices"),
            large.verdict_table({METHODS[1]: rows}, METHODS[0], "mmap against fcntl, the receiver's time"),
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
        Beside(at, content, through, name)
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
    return [SIDE_BY_SIDE.of(sorted(rows, key=lambda row: row.at.size), apart=apart)]

"""Through two devices of the kernel that hold the connection: read and write against mmap."""

from __future__ import annotations

from collections.abc import Sequence

from oscope.figures.analysed import Analysed
from oscope.figures.words import median
from oscope.labs.curve import NOT_RUN, derived, metric
from oscope.labs.kernel.clocked import EMULATED, emulated
from oscope.labs.transfer import LAB, large, small
from oscope.labs.transfer.points import (
    COPIED,
    DEVICE,
    RECEIVER_TIME,
    TIME,
    against,
    curves,
    known,
    missing,
    way,
)
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, format_value
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric, Summary

TITLE = "Through devices in the kernel: fcntl against mmap"
NAME = "transfer.device"
METHODS = ("fcntl", "mmap")
HOW_TO = (
    "It needs a guest whose kernel has the modules: `oscope kernel build`, then `oscope run transfer.device`."
)
WHAT = (
    "oscope_sender and oscope_receiver are the document's master and slave: character devices each of which "
    "holds a TCP connection in the kernel. By fcntl a program reads and writes the device by small buffers; "
    "by mmap it has the device's pages in its address space, and an ioctl sends or receives them. The time "
    "is the receiver's, as in the document. `oscope transfer send --device mmap "
    "--descriptors` prints the page descriptors of the mapped pages, and `receive` those of its side."
)


def section(results: Analysed) -> Section | None:
    """Answer D4, D5 and D7 for the devices; say what is missing where they were not measured."""
    experiment = results.get(NAME)
    if experiment is None:
        if not any(results.get(each.name) for each in LAB.experiments):
            return None
        return Section(TITLE, "", text=[WHAT], missing=f"{NOT_RUN.format(NAME, NAME)}. {HOW_TO}")
    if not known(experiment, TIME):
        return Section(TITLE, "", text=[WHAT], missing=missing(experiment) or HOW_TO)
    rows = against(experiment, (TIME,), *METHODS)
    whole = large.answer(experiment, rows, METHODS, TIME)
    return Section(
        title=TITLE,
        answer=" ".join([*whole, *small.answer(results, experiment, DEVICE, METHODS)]),
        text=[WHAT, *_emulated(experiment), large.document_says(_equal(rows), TIME)],
        tables=[
            large.table_of_times(results, experiment, DEVICE, "Through the devices"),
            large.verdicts({METHODS[1]: rows}, METHODS[0], "mmap against fcntl, the receiver's time"),
            *small.tables(results, experiment, DEVICE, METHODS[0]),
            _work(experiment),
            *_side_by_side(results, experiment),
        ],
        figures=[
            *large.figures(results, experiment, TIME, "Time of the receiving device"),
            *_small_figure(results, experiment),
        ],
        missing=missing(experiment),
    )


def _equal(rows: Sequence[ComparedMetric]) -> list[ComparedMetric]:
    return [row for row in rows if row.factors.get("sizes", "equal") == "equal"]


def _small_figure(results: Analysed, experiment: ExperimentResults) -> list[Figure]:
    if not small.singles(experiment, TIME) and not small.executions(experiment, TIME):
        return []
    return [small.figure(results, experiment, TIME, "Time of the receiving device")]


def _emulated(experiment: ExperimentResults) -> list[str]:
    return [f"The guest was emulated: {EMULATED}."] if emulated(experiment) else []


def _work(experiment: ExperimentResults) -> Table:
    """Return system calls and page faults of each method for a MiB."""
    lines = []
    for point in known(experiment, TIME, sizes="equal"):
        cells = [_each(experiment, point, name) for name in ("sender_calls", "calls", "minflt")]
        size = int(point.factors["size"])
        lines.append((size, [str(point.factors.get("content", "")), way(point.factors), *cells]))
    lines.sort(key=lambda each: each[0])
    columns = ["size", "content", "method", "sender's calls", "receiver's calls", "page faults"]
    note = "Medians, of a whole transfer. Page faults are minor ones of the measured process."
    rows = [[format_bytes(size), *line] for size, line in lines]
    return Table("What the programs do", columns, rows, frozenset({3, 4, 5}), note)


def _each(experiment: ExperimentResults, point: PointSamples, name: str) -> str:
    found: Summary | None = derived(experiment, point, lambda each: metric(each, name))
    return MISSING if found is None else format_value(found.median, None, "")


def _side_by_side(results: Analysed, experiment: ExperimentResults) -> list[Table]:
    """Return the devices' receiver times beside those through user space, if both are known."""
    other = results.get("transfer.large")
    if other is None or not known(other, COPIED.receiver):
        return []
    lines = []
    for content in large.contents(experiment):
        device = curves(results, experiment, TIME, content=content, sizes="equal")
        user = curves(results, other, RECEIVER_TIME, content=content)
        for kind, found in (("device", device), ("user space", user)):
            for name, row in found.items():
                for each in row:
                    lines.append((each.size, [content, kind, name, median(each.summary, "ns")]))
    lines.sort(key=lambda each: each[0])
    rows = [[format_bytes(size), *line] for size, line in lines]
    apart = "A guest has its own clock and its own kernel"
    if "guest" not in experiment.environment:
        apart = "Both were measured on this kernel, each in a run of its own"
    note = (
        f"{apart}: the figures stand side by side and are not compared. "
        "A digest is checked in the time of user space."
    )
    columns = ["size", "content", "through", "method", "receiver's time (95 %)"]
    return [Table("Devices and user space side by side", columns, rows, frozenset(), note)]

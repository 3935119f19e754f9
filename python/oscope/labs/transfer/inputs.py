"""The original's second test: its five large inputs in one execution, by user space and by the devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

from oscope.labs.engine.contrast import Contrast
from oscope.labs.engine.drawing import dots
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import TableOf, count, number
from oscope.labs.engine.words import cautions, joined, judged, reasons, times
from oscope.labs.transfer import SIZES, reference
from oscope.labs.transfer.points import (
    CALLS,
    CONTENT,
    COPIED,
    DEVICE,
    MAPPED,
    METHOD,
    SPREAD,
    Sides,
    compared_ways,
    times_of,
    verdict_table,
    way,
    way_dots,
)
from oscope.model.document import Figure, Table
from oscope.model.formatting import format_count

APART = "A guest has its own clock and its own kernel: its figures are not compared with those of user space."


@dataclass(frozen=True)
class Through:
    """One of the two ways between the processes, with the original report's two methods there."""

    experiment: str
    name: str
    sides: Sides
    methods: tuple[str, str]


SPACE = Through("transfer.inputs", "user space", COPIED, (CALLS, MAPPED))
DEVICES = Through("transfer.device-inputs", "the devices", DEVICE, ("fcntl", "mmap"))
KINDS = (SPACE, DEVICES)

Shown = tuple[Through, Run, Sequence[Point]]


def _runs(run: Run) -> list[tuple[Through, Run]]:
    return [(kind, found) for kind in KINDS if (found := run.beside(kind.experiment)) is not None]


def _shown(run: Run) -> list[Shown]:
    return [(kind, each, found) for kind, each in _runs(run) if (found := each.points(kind.sides.receiver))]


def _compared(shown: Shown) -> list[Contrast]:
    kind, run, _ = shown
    return compared_ways(run, kind.sides.receiver, kind.methods[0])


def _headline(_: Run, shown: Sequence[Shown]) -> str:
    pairs = [(each[0], row) for each in shown for row in _compared(each) if row.ends[1] == each[0].methods[1]]
    if not pairs:
        return "The original report's two methods were not both measured."
    kind, found = max(pairs, key=lambda pair: pair[1].level("content") == "random")
    what, row = f"the time of {kind.methods[0]} through {kind.name}", found.row
    ratio_of = f"{times(row)} {what}" if row.different == "yes" else judged(row, what)
    return f"Five large inputs take by {kind.methods[1]} {ratio_of}."


def _times(shown: Shown) -> Table:
    """Return averages and medians of both sides, beside the original report's averages."""
    kind, _, points = shown
    table: TableOf[Point] = TableOf(
        f"Five large inputs through {kind.name}",
        (
            CONTENT,
            METHOD,
            count("bytes", "bytes"),
            count("n", lambda each: each.summary.n),
            *times_of(kind.sides, "{side}, {part}", *SPREAD),
            number("original report's sender, mean [ms]", _cited(reference.SENDER), ".1f"),
            number("its receiver, mean [ms]", _cited(reference.RECEIVER), ".1f"),
        ),
        f"The average of all executions, and the median with its interval. {reference.WHERE}",
    )
    return table.of(points)


def _cited(side: reference.Inputs) -> Callable[[Point], float | None]:
    """Return the average of the original report's ten executions by this method."""

    def average(point: Point) -> float | None:
        name, content = reference.own_name(way(point.factors)), point.level("content")
        values = side.get((name or "", content))
        return None if values is None else mean(values)

    return average


def _verdicts(shown: Shown) -> Table:
    kind = shown[0]
    title = f"Against {kind.methods[0]} through {kind.name}, the receiver's time"
    return verdict_table(title, kind.methods[0], _compared(shown), CONTENT)


def _figure(shown: Shown) -> Figure:
    """Draw the receiver's time of each content, a colour for each way."""
    kind, _, points = shown
    rows = way_dots(points, lambda each: f"{each.level('content')}, {way(each.factors)}")
    return dots(f"Time of the receiver, five large inputs through {kind.name}", "receiver's time", rows, "ns")


section = Question(
    title="Five large inputs in one execution",
    experiment=tuple(kind.experiment for kind in KINDS),
    rows=_shown,
    headline=_headline,
    about=(
        f"1 KiB, 5 KiB, 1 MiB, 10 MiB and 100 MiB, {format_count(sum(SIZES))} bytes, over one connection: "
        "ten executions in the original report, which left out a first one started by hand. Here every one "
        "counts."
    ),
    text=(
        lambda _, shown: APART if any(kind is DEVICES for kind, *_ in shown) else None,
        lambda _, shown: dict.fromkeys(text for _, run, _ in shown for text in cautions(run.experiment)),
    ),
    tables=(lambda _, shown: map(_times, shown), lambda _, shown: map(_verdicts, shown)),
    figures=(lambda _, shown: map(_figure, shown)),
    missing=lambda run: joined(*(reasons(each.experiment) for _, each in _runs(run))),
)

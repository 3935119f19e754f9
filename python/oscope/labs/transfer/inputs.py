"""The original's second test: its five large inputs in one execution, by user space and by the devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from oscope.figures.analysed import Analysed
from oscope.labs.engine.drawing import dots
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import TableOf, count, text
from oscope.labs.engine.words import cautions, judged, reasons, times
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
    Verdict,
    compared_ways,
    content_of,
    times_of,
    verdict_table,
    way,
    way_dots,
)
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import format_count

TITLE = "Five large inputs in one execution"
WHAT = (
    f"1 KiB, 5 KiB, 1 MiB, 10 MiB and 100 MiB, {format_count(sum(SIZES))} bytes, over one connection: ten "
    "executions in the original report, which left out a first one started by hand. Here every one counts."
)
APART = "A guest has its own clock and its own kernel: its figures are not compared with those of user space."


@dataclass(frozen=True)
class Through:
    """One of the two ways between the processes, with the original report's two methods there."""

    experiment: str
    name: str
    sides: Sides
    methods: tuple[str, str]


KINDS = (
    Through("transfer.inputs", "user space", COPIED, (CALLS, MAPPED)),
    Through("transfer.device-inputs", "the devices", DEVICE, ("fcntl", "mmap")),
)


def section(results: Analysed) -> Section | None:
    """Answer D5 and D7 for five files an execution."""
    run = [(kind, found) for kind in KINDS if (found := Run.of(results, kind.experiment)) is not None]
    if not run:
        return None
    missing = " ".join(dict.fromkeys(filter(None, (reasons(each.experiment) for _, each in run))))
    shown = [(kind, each, points) for kind, each in run if (points := each.points(kind.sides.receiver))]
    if not shown:
        return Section(TITLE, "", text=[WHAT], missing=missing)
    compared = [(kind, compared_ways(each, kind.sides.receiver, kind.methods[0])) for kind, each, _ in shown]
    return Section(
        title=TITLE,
        answer=_headline([(kind, row) for kind, rows in compared for row in rows]),
        text=[
            WHAT,
            *([APART] if any(kind is KINDS[1] for kind, *_ in shown) else []),
            *dict.fromkeys(text for _, each, _ in shown for text in cautions(each.experiment)),
        ],
        tables=[
            *(_times(kind, points) for kind, _, points in shown),
            *(
                verdict_table(
                    f"Against {kind.methods[0]} through {kind.name}, the receiver's time",
                    kind.methods[0],
                    rows,
                    text("content", content_of),
                )
                for kind, rows in compared
                if rows
            ),
        ],
        figures=[_figure(kind, points) for kind, _, points in shown],
        missing=missing,
    )


def _headline(rows: Sequence[tuple[Through, Verdict]]) -> str:
    pairs = [(kind, row) for kind, row in rows if row[0] == kind.methods[1]]
    if not pairs:
        return "The original report's two methods were not both measured."
    kind, (_, row) = max(pairs, key=lambda pair: content_of(pair[1]) == "random")
    what = f"the time of {kind.methods[0]} through {kind.name}"
    ratio_of = f"{times(row)} {what}" if row.different == "yes" else judged(row, what)
    return f"Five large inputs take by {kind.methods[1]} {ratio_of}."


def _times(kind: Through, points: Sequence[Point]) -> Table:
    """Return averages and medians of both sides, beside the original report's averages."""
    table: TableOf[Point] = TableOf(
        f"Five large inputs through {kind.name}",
        (
            CONTENT,
            METHOD,
            count("bytes", lambda each: None if (moved := each.of("bytes")) is None else moved.median),
            count("n", lambda each: each.summary.n),
            *times_of(kind.sides, "{side}, {part}", *SPREAD),
            text(
                "original report's sender, mean [ms]",
                lambda each: _cited(each, reference.SENDER),
                numeric=True,
            ),
            text("its receiver, mean [ms]", lambda each: _cited(each, reference.RECEIVER), numeric=True),
        ),
        f"The average of all executions, and the median with its interval. {reference.WHERE}",
    )
    return table.of(points)


def _cited(point: Point, side: reference.Inputs) -> str | None:
    """Return the average of the original report's ten executions by this method."""
    factors = point.samples.factors
    values = side.get((reference.own_name(way(factors)) or "", str(factors.get("content"))))
    return None if values is None else f"{mean(values):.1f}"


def _figure(kind: Through, points: Sequence[Point]) -> Figure:
    """Draw the receiver's time of each content, a colour for each way."""
    rows = way_dots(points, lambda each: f"{each.level('content')}, {way(each.samples.factors)}")
    return dots(f"Time of the receiver, five large inputs through {kind.name}", "receiver's time", rows, "ns")

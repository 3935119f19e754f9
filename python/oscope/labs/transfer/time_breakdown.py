"""Where the time of a transfer goes: system calls, CPU time, switches and what is left, on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oscope.figures import plots
from oscope.labs.engine.contrast import Contrast, judge
from oscope.labs.engine.drawing import bars
from oscope.labs.engine.quantity import Quantity, metric
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import TableOf, share, stat, text, written
from oscope.labs.transfer.points import CALLS, COPIED, GIBIBYTE, MEBIBYTE, compared_ways, way
from oscope.model.document import Figure, Table
from oscope.model.formatting import format_value
from oscope.model.samples import Floats, PointSamples
from oscope.model.units import format_bytes
from oscope.statistics import Summary

CONTENT = "random"
COMPARED = ("cpu_s_per_gib", "receiver_cpu_s_per_gib", "calls", "receiver_calls")
OWN = ("sender", "receiver", "size", "content", "digest", "tracer")
"""Factors that the section names; of any other the first level is shown."""


@dataclass(frozen=True)
class Side:
    """One end of a transfer, and what it does."""

    name: str
    calls: Quantity
    """For a MiB, as are the switches."""
    switches: Quantity
    cpu: Quantity
    """CPU seconds for a GiB."""
    idle: Quantity
    """The least share of this side's time in which none of its threads was on a CPU.

    It may be below 0 where they are at once on several.
    """

    @classmethod
    def of(cls, name: str, prefix: str, time: str) -> Side:
        """Return the side whose metrics begin with `prefix`."""

        def a_mebibyte(what: str) -> Quantity:
            return Quantity(
                what, "", lambda point: metric(point, f"{prefix}{what}") / (metric(point, "bytes") / MEBIBYTE)
            )

        def cpu(point: PointSamples) -> Floats:
            return metric(point, f"{prefix}cpu_s_per_gib")

        def idle(point: PointSamples) -> Floats:
            return 1 - cpu(point) * metric(point, "bytes") / GIBIBYTE / (metric(point, time) / 1e9)

        return cls(
            name,
            a_mebibyte("calls"),
            a_mebibyte("switches"),
            Quantity("CPU", "s", cpu),
            Quantity("idle", "", idle),
        )


SIDES = (Side.of("sender", "", COPIED.sender), Side.of("receiver", "receiver_", COPIED.receiver))


@dataclass(frozen=True)
class Row:
    """What one side does at one point."""

    side: Side
    point: Point

    def of(self, what: str) -> Summary | None:
        """Return what the side does."""
        quantity: Quantity = getattr(self.side, what)
        return self.point.of(quantity)

    @property
    def way(self) -> str:
        """How the file is moved."""
        return way(self.point.factors)

    @property
    def faults(self) -> str | None:
        """The sender's minor faults for a MiB."""
        found = faults_a_mebibyte(self.point.samples) if self.side is SIDES[0] else float("nan")
        return _plain(found) if np.isfinite(found) else None


def _rows(run: Run) -> list[Row]:
    """Return both sides of the points at the largest size with random content and the default digest."""
    points = [
        each
        for each in run.narrowed(*OWN).points("bytes")
        if each.factors.get("content", CONTENT) == CONTENT
        and each.factors.get("digest", "blake3") == "blake3"
    ]
    most = max((each.size for each in points), default=0)
    rows = [Row(side, each) for each in points if each.size == most for side in SIDES]
    return rows if any(row.of("cpu") for row in rows) else []


def _headline(_: Run, rows: Sequence[Row]) -> str:
    """Give the fewest and the most calls of the sender; where they are not known, the least CPU time."""
    sending = [(each.median, row) for row in rows if row.side is SIDES[0] and (each := row.of("calls"))]
    if not sending:
        cpu, row = min(
            ((each.median, row) for row in rows if (each := row.of("cpu"))), key=lambda pair: pair[0]
        )
        return f"Least CPU time has {row.way} at the {row.side.name}: {format_value(cpu, None, 's')} a GiB."
    (few, least), (many, most) = (end(sending, key=lambda pair: pair[0]) for end in (min, max))
    size = format_bytes(least.point.size)
    found = f"At {size} the sender makes {format_value(few, None, '')} system calls a MiB by {least.way}"
    more = "" if least is most else f" and {format_value(many, None, '')} by {most.way}"
    return f"{found}{more}."


def _plain(found: float) -> str:
    return format_value(found, found / 50, "")


TABLE: TableOf[Row] = TableOf(
    "What both sides do",
    (
        text("method", lambda row: row.way),
        text("side", lambda row: row.side.name),
        written("calls a MiB", lambda row: row.of("calls"), _plain, numeric=True),
        written("switches a MiB", lambda row: row.of("switches"), _plain, numeric=True),
        stat("CPU time a GiB", lambda row: row.of("cpu"), "s"),
        share("on no CPU, at least", lambda row: row.of("idle")),
        text("page faults a MiB", lambda row: row.faults, numeric=True),
    ),
    "Medians at {size}, random bytes. Page faults are counted of the sender alone.",
)


def faults_a_mebibyte(point: PointSamples) -> float:
    """Return the sender's minor faults for a MiB; NaN where they were not recorded."""
    faults = point.covariates.get("minor_faults")
    if faults is None:
        return float("nan")
    moved = metric(point, "bytes") * point.iterations / MEBIBYTE
    values = faults / moved
    kept = values[np.isfinite(values)]
    return float(np.median(kept)) if len(kept) else float("nan")


def _verdicts(run: Run, rows: Sequence[Row]) -> Table:
    """Return how each other way compares with read and write; the family is all metrics of a way."""
    size = rows[0].point.size
    found = [
        each
        for each in compared_ways(run.narrowed(*OWN), COMPARED, CALLS)
        if each.size == size and each.level("content") == CONTENT
    ]
    by_way = {row.way: row.point for row in rows}

    def cells(each: Contrast) -> list[str]:
        both = [by_way[str(end)].of(each.row.metric) for end in each.ends]
        verdict = judge(both[0], both[1], each.row)
        given = [] if verdict is None else [verdict.ratio, verdict.different, verdict.matters]
        return [str(each.ends[1]), each.row.metric, *given]

    columns = ["method", "metric", f"over {CALLS}'s (95 %)", "different", "matters"]
    note = (
        f"At {format_bytes(size)}. Paired by block, p corrected (Holm) for all metrics and sizes of a "
        "method; counts that never change are compared as they are."
    )
    rows_of = [cells(each) for each in found]
    return Table("CPU time and calls against read and write", columns, rows_of, frozenset(), note)


def _figure(_: Run, rows: Sequence[Row]) -> Figure:
    names = list(dict.fromkeys(row.way for row in rows))
    series: dict[str, list[Summary | float | None]] = {
        side.name: [{row.way: row.of("cpu") for row in rows if row.side is side}.get(name) for name in names]
        for side in SIDES
    }
    axis = plots.axis("CPU time a GiB [s]", rangemode="tozero")
    note = f"At {format_bytes(rows[0].point.size)}; digests included."
    return bars("CPU time of both sides", axis, names, series, note)


section = Question(
    title="Where the time goes",
    experiment=("transfer.large", "transfer.copy"),
    rows=_rows,
    headline=_headline,
    text=(
        "Over loopback the receiving half of TCP is done in the sender's call and charged to the sender.",
        (
            "On no CPU: 1 - CPU time / time, the least share in which no thread of a side was on a CPU; "
            "below 0 it shows nothing of waiting."
        ),
        (
            "Read and write copy each byte at both ends; mmap pays with page faults for the calls it saves; "
            "sendfile and splice hand pages on, but the digest reads them all the same."
        ),
    ),
    tables=(lambda _, rows: TABLE.of(rows, size=format_bytes(rows[0].point.size)), _verdicts),
    figures=(_figure),
    factors=OWN,
    timed=True,
)

"""Where the time of a transfer goes: system calls, CPU time, switches and what is left, on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import measured
from oscope.labs.engine.contrast import row_of
from oscope.labs.engine.drawing import bars
from oscope.labs.engine.quantity import derived, metric
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run, known, narrowed
from oscope.labs.engine.table import TableOf, share, stat, text
from oscope.labs.engine.words import ratio_text
from oscope.labs.transfer.points import CALLS, COPIED, GIBIBYTE, MEBIBYTE, against, sizes, way
from oscope.model.document import Figure, Table
from oscope.model.formatting import format_value
from oscope.model.samples import ExperimentResults, Floats, PointSamples
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric, Summary
from oscope.statistics.compare import THRESHOLD

CONTENT = "random"
COMPARED = ("cpu_s_per_gib", "receiver_cpu_s_per_gib", "calls", "receiver_calls")
OWN = ("sender", "receiver", "size", "content", "digest", "tracer")
"""Factors that the section names; of any other the first level is shown."""


@dataclass(frozen=True)
class Side:
    """One end of a transfer and the metrics it has."""

    name: str
    prefix: str
    time: str

    def per_mebibyte(self, point: PointSamples, what: str) -> Floats:
        """Return events of this side for a MiB."""
        return metric(point, f"{self.prefix}{what}") / (metric(point, "bytes") / MEBIBYTE)

    def cpu(self, point: PointSamples) -> Floats:
        """Return CPU seconds for a GiB."""
        return metric(point, f"{self.prefix}cpu_s_per_gib")

    def idle(self, point: PointSamples) -> Floats:
        """Return the least share of this side's time in which none of its threads was on a CPU.

        It may be below 0 where they are at once on several.
        """
        cpu_s = self.cpu(point) * metric(point, "bytes") / GIBIBYTE
        return 1 - cpu_s / (metric(point, self.time) / 1e9)


SIDES = (Side("sender", "", COPIED.sender), Side("receiver", "receiver_", COPIED.receiver))


@dataclass(frozen=True)
class Row:
    """What one side does at one point."""

    side: Side
    point: PointSamples
    calls: Summary | None
    switches: Summary | None
    cpu: Summary | None
    idle: Summary | None

    @property
    def way(self) -> str:
        """How the file is moved."""
        return way(self.point.factors)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return int(self.point.factors["size"])

    @property
    def faults(self) -> str | None:
        """The sender's minor faults for a MiB."""
        found = faults_a_mebibyte(self.point) if self.side is SIDES[0] else float("nan")
        return format_value(found, found / 50, "") if np.isfinite(found) else None


def _rows(run: Run) -> list[Row]:
    own = narrowed(run.experiment, *OWN)
    rows = [_row(own, side, point) for point in _largest(own) for side in SIDES]
    return rows if any(row.cpu for row in rows) else []


def _over_calls(run: Run, rows: Sequence[Row]) -> dict[str, list[ComparedMetric]]:
    """Return how each other way compares with read and write."""
    own = narrowed(run.experiment, *OWN)
    names = [name for name in dict.fromkeys(row.way for row in rows) if name != CALLS]
    return {name: against(own, COMPARED, CALLS, name) for name in names}


def _largest(experiment: ExperimentResults) -> list[PointSamples]:
    """Return the points at the largest size with random content and the default digest."""
    points = [
        point
        for point in known(experiment, "bytes")
        if point.factors.get("content", CONTENT) == CONTENT
        and point.factors.get("digest", "blake3") == "blake3"
    ]
    most = max(sizes(points), default=0)
    return [point for point in points if point.factors.get("size") == most]


def _row(experiment: ExperimentResults, side: Side, point: PointSamples) -> Row:
    return Row(
        side,
        point,
        derived(experiment, point, lambda each: side.per_mebibyte(each, "calls")),
        derived(experiment, point, lambda each: side.per_mebibyte(each, "switches")),
        derived(experiment, point, side.cpu),
        derived(experiment, point, side.idle),
    )


def _headline(_: Run, rows: Sequence[Row]) -> str:
    """Give the fewest and the most calls of the sender; where they are not known, the least CPU time."""
    sending = [(row.calls.median, row) for row in rows if row.side is SIDES[0] and row.calls]
    if not sending:
        cpu, row = min(((row.cpu.median, row) for row in rows if row.cpu), key=lambda pair: pair[0])
        return f"Least CPU time has {row.way} at the {row.side.name}: {format_value(cpu, None, 's')} a GiB."
    (few, least), (many, most) = (end(sending, key=lambda pair: pair[0]) for end in (min, max))
    found = (
        f"At {format_bytes(least.size)} the sender makes {format_value(few, None, '')} system calls a MiB by "
    )
    more = "" if least is most else f" and {format_value(many, None, '')} by {most.way}"
    return f"{found}{least.way}{more}."


TABLE: TableOf[Row] = TableOf(
    "What both sides do",
    (
        text("method", lambda row: row.way),
        text("side", lambda row: row.side.name),
        text("calls a MiB", lambda row: _plain(row.calls), numeric=True),
        text("switches a MiB", lambda row: _plain(row.switches), numeric=True),
        stat("CPU time a GiB", lambda row: row.cpu, "s"),
        share("on no CPU, at least", lambda row: None if row.idle is None else row.idle.median),
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


def _plain(summary: Summary | None) -> str | None:
    return None if summary is None else format_value(summary.median, summary.median / 50, "")


def _verdicts(run: Run, rows: Sequence[Row]) -> list[Table]:
    by_way, size, lines = {row.way: row.point for row in rows}, rows[0].size, []
    for name, found in _over_calls(run, rows).items():
        for each in COMPARED:
            row = row_of(found, each, size=size, content=CONTENT)
            if row is not None:
                same = _constant(each, by_way[CALLS], by_way[name])
                lines.append([name, each, *(same or (ratio_text(row), row.different, row.matters))])
    columns = ["method", "metric", f"over {CALLS}'s (95 %)", "different", "matters"]
    note = (
        f"At {format_bytes(size)}. Paired by block, p corrected (Holm) for all metrics and sizes of a "
        "method; counts that never change are compared as they are."
    )
    return [Table("CPU time and calls against read and write", columns, lines, frozenset(), note)]


def _constant(name: str, base: PointSamples, other: PointSamples) -> list[str]:
    """Compare counts as they are that are the same in every repetition; empty where they are not."""
    both = [measured(point, name)[0] for point in (base, other)]
    if any(len(values) < 2 or values.min() < values.max() or not values[0] for values in both):
        return []
    ratio = float(both[1][0] / both[0][0])
    return [f"{ratio:.4g}", "no" if ratio == 1 else "yes", "yes" if abs(ratio - 1) > THRESHOLD else "no"]


def _figure(_: Run, rows: Sequence[Row]) -> list[Figure]:
    names = list(dict.fromkeys(row.way for row in rows))
    series = {
        side.name: [{row.way: row.cpu for row in rows if row.side is side}.get(name) for name in names]
        for side in SIDES
    }
    axis = plots.axis("CPU time a GiB [s]", rangemode="tozero")
    note = f"At {format_bytes(rows[0].size)}; digests included."
    return [bars("CPU time of both sides", axis, names, series, note)]


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
    tables=(lambda _, rows: [TABLE.of(rows, size=format_bytes(rows[0].size))], _verdicts),
    figures=(_figure,),
    factors=OWN,
    timed=True,
)

"""What both sides do: system calls, CPU time and switches, counted and traced."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from oscope import questions as q
from oscope.figures.traced import traced
from oscope.labs.transfer.ways import CALLS, COPIED, TIME, compared_ways, way
from oscope.questions.traced_calls import Call, calls_of
from oscope.questions.traced_faults import fault_count
from oscope.trace.reading import time_in_calls_ns

# ---- counted

CONTENT = "random"
COMPARED = ("cpu_s_per_gib", "receiver_cpu_s_per_gib", "calls", "receiver_calls")
OWN = ("sender", "receiver", "size", "content", "digest", "tracer")
"""Factors that the section names; of any other the first level is shown."""


def _side(prefix: str, time: str) -> dict[str, q.Quantity]:
    """Return what the side does whose metrics begin with `prefix`."""

    def of(what: str) -> q.Values:
        return lambda point: q.metric(point, f"{prefix}{what}")

    def busy(point: q.PointSamples) -> q.Floats:
        return (
            of("cpu_s_per_gib")(point) * q.metric(point, "bytes") / q.GIBIBYTE / (q.metric(point, time) / 1e9)
        )

    return {
        "cpu": q.Quantity("cpu", "s", of("cpu_s_per_gib")),
        "busy": q.Quantity("busy", "", busy),
        **{what: q.a_mebibyte(what, "", of(what)) for what in ("calls", "switches")},
    }


def _faults(point: q.PointSamples) -> q.Floats:
    counted = point.covariates.get("minor_faults")
    return np.full(len(point), np.nan) if counted is None else counted / point.iterations


SENDER, RECEIVER = "sender", "receiver"
SIDES = {
    SENDER: {**_side("", COPIED.sender), "faults": q.a_mebibyte("faults", "", _faults)},
    RECEIVER: _side("receiver_", COPIED.receiver),
}


class Row(NamedTuple):
    """What one side does at one point."""

    side: str
    point: q.Point

    def of(self, what: str) -> q.Summary | None:
        """Return calls, switches and faults for a MiB, CPU seconds for a GiB, or the CPUs that are busy."""
        asked = SIDES[self.side].get(what)
        return None if asked is None else self.point.of(asked)

    def way(self) -> str:
        """Return how the file is moved."""
        return way(self.point.factors)


def _rows(run: q.Run) -> list[Row]:
    """Return both sides of the points at the largest size with random content and the default digest."""
    points = run.narrowed(*OWN).only(content=CONTENT, digest="blake3").points("bytes")
    rows = [Row(side, each) for each in points if each.size == max(e.size for e in points) for side in SIDES]
    return rows if any(row.of("cpu") for row in rows) else []


def _fewest(_: q.Run, rows: Sequence[Row]) -> str:
    """Give the fewest and the most calls of the sender; where they are not known, the least CPU time."""
    sending = [(each.median, row) for row in rows if row.side == SENDER and (each := row.of("calls"))]
    if not sending:
        cpu, row = min(((each.median, row) for row in rows if (each := row.of("cpu"))), key=itemgetter(0))
        return f"Least CPU time has {row.way()} at the {row.side}: {q.format_value(cpu, None, 's')} a GiB."
    ends = [end(sending, key=itemgetter(0)) for end in (min, max)]
    counts = q.listed([f"{q.format_value(n, None, '')} by {row.way()}" for n, row in dict.fromkeys(ends)])
    return f"At {rows[0].point['size']} the sender makes {counts}.".replace(
        " by ", " system calls a MiB by ", 1
    )


TABLE: q.TableOf[Row] = q.TableOf(
    "What both sides do",
    q.text("method", Row.way),
    q.text("side", lambda row: row.side),
    q.written("calls a MiB", lambda row: row.of("calls"), q.rough, numeric=True),
    q.written("switches a MiB", lambda row: row.of("switches"), q.rough, numeric=True),
    q.stat("CPU time a GiB", lambda row: row.of("cpu"), "s"),
    q.number("CPUs busy", lambda row: row.of("busy")),
    q.written("page faults a MiB", lambda row: row.of("faults"), q.rough, numeric=True),
    note="Medians at {size}, random bytes. Page faults are counted of the sender alone.",
)
VERDICTS: q.TableOf[tuple[q.Contrast, q.Verdict | None]] = q.TableOf(
    "CPU time and calls against read and write",
    q.text("method", lambda row: str(row[0].ends[1])),
    q.text("metric", lambda row: row[0].row.metric),
    q.ratio(f"over {CALLS}'s", lambda row: row[1], "different", "matters"),
    note="At {size}. Paired by block, p corrected (Holm) for all metrics, sizes and methods; counts that "
    "never change are compared as they are.",
)


def _verdicts(run: q.Run, rows: Sequence[Row]) -> q.Table:
    """Return how each other way compares with read and write."""
    size, points = rows[0].point.size, {row.way(): row.point for row in rows}
    found = []
    for each in compared_ways(run.narrowed(*OWN), COMPARED, CALLS):
        if each.size == size and each.level("content") == CONTENT:
            base, other = (points[str(end)].of(each.row.metric) for end in each.ends)
            found.append((each, q.judge(base, other, each.row)))
    return VERDICTS.of(found, size=q.format_bytes(size))


def _figure(_: q.Run, rows: Sequence[Row]) -> q.Figure:
    cells = ((row.side, row.way(), row.of("cpu")) for row in rows)
    axis = q.plots.axis("CPU time a GiB [s]", rangemode="tozero")
    note = f"At {q.format_bytes(rows[0].point.size)}; digests included."
    return q.bars("CPU time of both sides", axis, cells, note)


WORK = q.Question(
    title="Where the time goes",
    experiment=("transfer.large", "transfer.copy"),
    rows=_rows,
    headline=_fewest,
    text=(
        "Over loopback the receiving half of TCP is done in the sender's call and charged to the sender.",
        "CPUs busy: CPU time / time, of all threads of a side; below 1 it waits at least part of the time.",
        "mmap pays with page faults for the calls it saves; the digest reads what sendfile hands on.",
    ),
    tables=(lambda _, rows: TABLE.of(rows, size=q.format_bytes(rows[0].point.size)), _verdicts),
    figures=_figure,
    factors=OWN,
    timed=True,
)


# ---- traced

NAME = "transfer.trace"
FUTEX = "futex"
"""In it a thread waits for another of its process: most of it is the digest's, beside the calls that move."""
LEAST_SHARE = 0.005
"""Calls that take less of the time than this are not listed."""


def _points(run: q.Run) -> list[q.Traced]:
    return run.once("traces", lambda: traced(run.experiment, TIME, "calls"))


def _name(point: q.Traced) -> str:
    return way(point.point.factors)


def _a_mebibyte(call: Call) -> float | None:
    """Return how often it is called for a MiB, of all that the traced repetitions moved."""
    moved = float(q.measured(call.where.point, "bytes")[0].sum())
    return q.over(call.data.get("count"), moved / q.MEBIBYTE)


def _longest(_: q.Run, points: Sequence[q.Traced]) -> str:
    found = [each for each in _calls(points) if each.data and each.name != FUTEX]
    most = max(found, key=lambda call: call.share or 0.0, default=None)
    if most is None or not most.share:
        return ""
    part = q.format_share(most.share, 0.01)
    return f"By {_name(most.where)}, {part} of both sides' time is in {most.name}, waiting included."


def _calls(points: Sequence[q.Traced]) -> list[Call]:
    rows = []
    for each in points:
        own = sorted(calls_of(each, each.time_ns), key=lambda call: -(call.share or 0.0))
        rows += [call for call in own if (call.share or 0.0) >= LEAST_SHARE]
        whole = q.over(time_in_calls_ns(each.reading), each.time_ns)
        rows += [Call(each, "all calls", {}, whole)] if whole is not None else []
    return rows


TRACED_CALLS: q.TableOf[Call] = q.TableOf(
    "System calls of both sides, traced",
    q.text("method", lambda call: _name(call.where)),
    q.text("call", lambda call: call.name),
    q.count("calls", lambda call: call.data.get("count")),
    q.number("calls a MiB", _a_mebibyte, ".3g"),
    q.share("of the time", lambda call: call.share),
    q.effect_column(lambda call: call.where),
    note=f"All traced repetitions together; calls below {q.format_share(LEAST_SHARE)} of the time are left "
    f"out. Every thread's calls count, so that all calls can have more than the time. {q.EFFECT}",
)


SWITCHES: q.TableOf[q.Traced] = q.TableOf(
    "Switches and faults of both sides, traced",
    q.text("method", _name),
    *q.scheduling("voluntary", "involuntary", latency="wake-up"),
    q.count("faults", fault_count),
    note="All traced repetitions together; percentiles are known to a power of two.",
)


TRACED = q.Question(
    title="A transfer, traced",
    experiment=NAME,
    rows=_points,
    headline=_longest,
    text=(
        "All threads of both sides are traced. A call that waits is in the call all the while, as in futex.",
        lambda _, points: q.losses(points),
    ),
    tables=(
        lambda _, points: TRACED_CALLS.of(_calls(points)),
        lambda _, points: SWITCHES.of(each for each in points if each.reading.get("switches") is not None),
    ),
    figures=lambda _, points: q.wakeups("Wake-up latency of both sides", points, _name),
    missing=lambda run: q.missing_traces(run.experiment, NAME, _points(run)),
    timed=True,
)

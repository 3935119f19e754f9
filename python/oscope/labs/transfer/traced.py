"""System calls, switches and faults of both sides, traced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oscope.figures.analysed import measured
from oscope.figures.traced import Traced, traced
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, count, share, text
from oscope.labs.engine.traced import effect_column, losses, missing_traces, scheduling, wakeups
from oscope.labs.engine.words import EFFECT
from oscope.labs.transfer.points import MEBIBYTE, TIME, way
from oscope.model.document import Table
from oscope.model.formatting import format_share
from oscope.trace.reading import time_in_calls_ns

NAME = "transfer.trace"
FUTEX = "futex"
"""In it a thread waits for another of its process: most of it is the digest's, beside the calls that move."""
LEAST_SHARE = 0.005
"""Calls that take less of the time than this are not listed."""


def _points(run: Run) -> list[Traced]:
    return run.once("traces", lambda: traced(run.experiment, TIME, "calls"))


def _name(point: Traced) -> str:
    return way(point.point.factors)


def _headline(_: Run, points: Sequence[Traced]) -> str:
    """Name the call with the most time; of futex, most is the digest's thread, beside the calls that move."""
    moving = [call for call in _calls(points) if call.count is not None and call.name != FUTEX and call.share]
    if not moving:
        return ""
    most = max(moving, key=lambda call: call.share)
    part = format_share(most.share, 0.01)
    return f"By {_name(most.where)}, {part} of both sides' time is in {most.name}, waiting included."


@dataclass(frozen=True)
class Call:
    """One call of a way, or all of them."""

    where: Traced
    name: str
    count: int | None
    share: float

    @property
    def a_mebibyte(self) -> str | None:
        """How often it is called for a MiB."""
        moved = _mebibytes(self.where)
        return f"{self.count / moved:.3g}" if self.count is not None and moved else None


def _calls(points: Sequence[Traced]) -> list[Call]:
    rows = []
    for each in points:
        whole, inside = each.reading.get("region_ns") or 0, time_in_calls_ns(each.reading)
        calls = sorted(each.reading["calls"].items(), key=lambda pair: -pair[1].get("time_ns", 0))
        own = [
            Call(each, name, call["count"], call.get("time_ns", 0) / whole if whole else 0.0)
            for name, call in calls
        ]
        rows += [call for call in own if call.share >= LEAST_SHARE]
        rows += [Call(each, "all calls", None, inside / whole)] if inside is not None and whole else []
    return rows


CALLS: TableOf[Call] = TableOf(
    "System calls of both sides, traced",
    (
        text("method", lambda call: _name(call.where)),
        text("call", lambda call: call.name),
        count("calls", lambda call: call.count),
        text("calls a MiB", lambda call: call.a_mebibyte, numeric=True),
        share("of the time", lambda call: call.share),
        effect_column(lambda call: call.where),
    ),
    f"All traced repetitions together; calls below {format_share(LEAST_SHARE)} of the time are left out. "
    f"Every thread's calls count, so that all calls can have more than the time. {EFFECT}",
)
SWITCHES: TableOf[Traced] = TableOf(
    "Switches and faults of both sides, traced",
    (
        text("method", lambda each: _name(each)),
        *scheduling("voluntary", "involuntary", latency="wake-up"),
        count("faults", lambda each: _faults(each)),
    ),
    "All traced repetitions together; percentiles are known to a power of two.",
)


def _faults(each: Traced) -> int | None:
    faults = each.reading.get("faults")
    return None if faults is None else sum(row["count"] for row in faults)


def _mebibytes(each: Traced) -> float:
    """Return how much all traced repetitions moved."""
    return float(measured(each.point, "bytes")[0].sum()) / MEBIBYTE


def _switches(_: Run, points: Sequence[Traced]) -> Table:
    return SWITCHES.of(each for each in points if each.reading.get("switches") is not None)


section = Question(
    title="A transfer, traced",
    experiment=NAME,
    rows=_points,
    headline=_headline,
    text=(
        (
            "Traced are sender and receiver with all their threads. A call that waits is in the call all the "
            "while, as threads that wait for one another (futex), such as the digest's."
        ),
        lambda _, points: losses(points),
    ),
    tables=(lambda _, points: CALLS.of(_calls(points)), _switches),
    figures=lambda _, points: wakeups("Wake-up latency of both sides", points, _name),
    missing=lambda run: missing_traces(run.experiment, NAME, _points(run)),
    timed=True,
)

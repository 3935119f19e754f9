"""System calls, switches and faults of both sides, traced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oscope.figures.analysed import measured
from oscope.figures.traced import Traced, traced
from oscope.figures.words import listed
from oscope.labs.engine import histograms
from oscope.labs.engine.histograms import bin_text
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, count, share, text
from oscope.labs.engine.traced import effect_column, effect_note, losses, missing_traces
from oscope.labs.engine.words import EFFECT
from oscope.labs.transfer.points import MEBIBYTE, TIME, way
from oscope.model.document import Figure, Table
from oscope.model.formatting import format_share
from oscope.trace.reading import quantile, time_in_calls_ns

NAME = "transfer.trace"
FUTEX = "futex"
"""In it a thread waits for another of its process: most of it is the digest's, beside the calls that move."""
LEAST_SHARE = 0.005
"""Calls that take less of the time than this are not listed."""


def _points(run: Run) -> list[Traced]:
    return traced(run.experiment, TIME, "calls")


def _name(point: Traced) -> str:
    return way(point.point.factors)


def _tops(points: Sequence[Traced]) -> list[tuple[float, str, Traced, float]]:
    """Return of each way the call with the most time, its share, and how long threads await one another."""
    found = []
    for each in points:
        timed = {name: call["time_ns"] for name, call in each.reading["calls"].items() if "time_ns" in call}
        whole, between = each.reading.get("region_ns"), timed.pop(FUTEX, 0)
        if timed and whole:
            top = max(timed, key=lambda name: timed[name])
            found.append((timed[top] / whole, top, each, between / whole))
    return found


def _headline(_: Run, points: Sequence[Traced]) -> str:
    tops = _tops(points)
    if not tops:
        return ""
    part, call, each, _between = max(tops, key=lambda top: top[0])
    return f"By {_name(each)}, {format_share(part, 0.01)} of both sides' time is in {call}, waiting included."


def _most(_: Run, points: Sequence[Traced]) -> list[str]:
    tops = _tops(points)
    parts = [f"by {_name(each)} to {call} ({format_share(part, 0.01)})" for part, call, each, _w in tops]
    waited = [f"{format_share(between, 0.01)} by {_name(each)}" for *_top, each, between in tops if between]
    said = [f"Of both sides' time, waiting included, there goes most {listed(parts)}."] if parts else []
    if waited:
        said.append(
            f"Threads of one process, such as that of the digest, wait for one another ({FUTEX}, beside the "
            f"calls of those that move) for {listed(waited)}."
        )
    return said


def _woken(_: Run, points: Sequence[Traced]) -> list[str]:
    parts = []
    for each in points:
        found = quantile(each.reading.get("switches", {}).get("wakeup_ns", []), 0.5)
        if found is not None:
            parts.append(f"{bin_text(found)} by {_name(each)}")
    return [f"The median wake-up takes {listed(parts)}."] if parts else []


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
    "Every "
    f"thread's calls count, so that all calls can have more than the time. {EFFECT}",
)
SWITCHES: TableOf[Traced] = TableOf(
    "Switches and faults of both sides, traced",
    (
        text("method", lambda each: _name(each)),
        count("voluntary", lambda each: each.reading["switches"]["voluntary"]),
        count("involuntary", lambda each: each.reading["switches"]["involuntary"]),
        count("wake-ups", lambda each: each.reading["switches"]["wakeups"]),
        *histograms.columns(lambda each: each.reading["switches"]["wakeup_ns"], "wake-up, median"),
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


def _switches(_: Run, points: Sequence[Traced]) -> list[Table]:
    rows = [each for each in points if each.reading.get("switches") is not None]
    return [SWITCHES.of(rows)] if rows else []


def _figures(_: Run, points: Sequence[Traced]) -> list[Figure]:
    rows = {
        _name(each): each.reading["switches"]["wakeup_ns"]
        for each in points
        if each.reading.get("switches", {}).get("wakeups")
    }
    kept = {name: row for name, row in rows.items() if sum(each for *_, each in row)}
    if not kept:
        return []
    return [
        histograms.figure(
            "Wake-up latency of both sides", "from woken to running [ns]", kept, effect_note(points)
        )
    ]


section = Question(
    title="A transfer, traced",
    experiment=NAME,
    rows=_points,
    headline=_headline,
    text=(
        _most,
        _woken,
        (
            "Traced are the processes that mark their part of a repetition, with all their threads: the "
            "sender "
            "and the receiver. Shares are of the time of both. A call that waits for room, for data or, as "
            "futex, for another thread of its process is in the call all the while."
        ),
        lambda _, points: losses(points),
    ),
    tables=(lambda _, points: [CALLS.of(_calls(points))], _switches),
    figures=(_figures,),
    missing=lambda run: missing_traces(run.experiment, NAME, _points(run)),
    timed=True,
)

"""The distribution of system calls: how many of each, how long they take, and with which errors they end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oscope.figures import plots
from oscope.figures.traced import Traced
from oscope.labs.engine import histograms
from oscope.labs.engine.drawing import bars
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, count, share, text
from oscope.labs.engine.traced import effect_column, effect_note, losses
from oscope.labs.engine.words import EFFECT
from oscope.labs.ipc.points import TRACE, gaps, traces
from oscope.model.document import Figure
from oscope.model.formatting import format_count, format_share, format_value
from oscope.trace.reading import time_in_calls_ns

LEAST_SHARE = 0.001
"""Share of a point's calls or of its time in calls below which a call has no row."""
MOST_LINES = 7
"""Lines a figure can show apart."""


@dataclass(frozen=True)
class Call:
    """One system call at one point."""

    where: Traced
    name: str
    data: dict[str, Any]
    of_time: float | None
    """Share of the point's time in calls."""

    @property
    def channel(self) -> str:
        """The channel of its point."""
        return str(self.where.point.factors.get("channel"))

    @property
    def a_repetition(self) -> str | None:
        """How often it is called in a repetition."""
        reps, count = self.where.reading.get("reps"), self.data["count"]
        return format_value(count / reps, 0.05 * count / reps, "") if reps else None

    @property
    def mean(self) -> str | None:
        """Its mean time."""
        time, count = self.data.get("time_ns"), self.data["count"]
        return None if time is None else format_value(time / count * 1e-9, 0.01 * time / count * 1e-9, "s")


def _rows(run: Run) -> list[Call]:
    return [each for point in traces(run, "calls") for each in _calls(point)]


def _calls(point: Traced) -> list[Call]:
    calls = point.reading["calls"]
    count = sum(call["count"] for call in calls.values())
    time = time_in_calls_ns(point.reading)
    found = []
    for name, call in sorted(calls.items(), key=lambda pair: -pair[1]["count"]):
        of_time = call["time_ns"] / time if time and "time_ns" in call else None
        if count and max(call["count"] / count, of_time or 0.0) >= LEAST_SHARE:
            found.append(Call(point, name, call, of_time))
    return found


def _headline(_: Run, found: Sequence[Call]) -> str:
    most = max(found, key=lambda each: each.of_time or 0.0)
    share = f" takes {format_share(most.of_time)} of the time in calls" if most.of_time else ""
    return f"`{most.name}`{share} at {most.where.name}."


def _errors(call: Call) -> str:
    errors = call.data["errors"].items()
    return ", ".join(f"{name}: {format_count(number)}" for name, number in errors) or "none"


def _bars(_: Run, found: Sequence[Call]) -> list[Figure]:
    """Draw each call's share of the time in calls, a bar a point."""
    points = list({each.where.name: each.where for each in found}.values())
    names = list(dict.fromkeys(each.name for each in found))
    shares = {(each.where.name, each.name): each.of_time for each in found}
    rows = {name: [shares.get((point.name, name)) for point in points] for name in names}
    axis = plots.axis("share of the time in calls [%]", range=[0, 101])
    note = f"Waiting within a call is in it. {effect_note(points)}"
    series = {name: row for name, row in rows.items() if any(row)}
    drawn = bars("Time in calls, by call", axis, [each.name for each in points], series, note, 0.01)
    return [plots.stacked(drawn)]


def _figures(_: Run, found: Sequence[Call]) -> list[Figure]:
    """Draw the times of the calls that take most, a figure a channel."""
    figures = []
    for channel in dict.fromkeys(each.channel for each in found):
        here = [each for each in found if each.channel == channel and each.data.get("times")]
        chosen = sorted(here, key=lambda each: -(each.data["time_ns"]))[:MOST_LINES]
        rows = {f"{each.name} · {each.where.name}": each.data["times"] for each in chosen}
        if rows:
            points = list({each.where.name: each.where for each in chosen}.values())
            left = "" if len(chosen) == len(here) else f"The {MOST_LINES} that take most time. "
            note = left + effect_note(points)
            title = f"Times of single calls, {channel}"
            figures.append(histograms.figure(title, "time in the call [ns]", rows, note))
    return figures


section = Question(
    title="Which calls, and how long they take",
    experiment=TRACE,
    rows=_rows,
    headline=_headline,
    text=(
        "From entry to return, by the kernel's tracepoints: waiting and the tracer's own time are in it.",
        lambda run, _: losses(traces(run, "calls")),
    ),
    tables=(
        TableOf(
            "System calls",
            (
                text("point", lambda call: call.where.name),
                text("call", lambda call: call.name),
                count("calls", lambda call: call.data["count"]),
                text("a repetition", lambda call: call.a_repetition, numeric=True),
                share("of the time in calls", lambda call: call.of_time),
                text("mean", lambda call: call.mean),
                *histograms.columns(lambda call: call.data.get("times")),
                text("errors", _errors),
                effect_column(lambda call: call.where),
            ),
            f"All traced repetitions together; percentiles are known to a power of two. {EFFECT}",
        )
    ),
    figures=(_bars, _figures),
    missing=lambda run: gaps(run, "calls"),
)

"""The distribution of system calls: how many of each, how long they take, and with which errors they end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oscope.figures import plots
from oscope.figures.analysed import Analysed
from oscope.figures.traced import Traced, traced
from oscope.figures.words import listed
from oscope.labs.ipc import histograms
from oscope.labs.ipc.points import TIME
from oscope.labs.ipc.traced import effect_note, losses, untold
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, format_count, format_share, format_value
from oscope.trace.reading import quantile, time_in_calls_ns

TITLE = "Which calls, and how long they take"
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
    of_calls: float
    """Share of the point's calls."""
    of_time: float | None
    """Share of the point's time in calls."""


def section(results: Analysed) -> Section | None:
    """Answer E8."""
    experiment = results.get("ipc.trace")
    if experiment is None:
        return None
    points = traced(experiment, TIME, "calls")
    missing = untold(experiment, "ipc.trace", points)
    found = [each for point in points for each in _calls(point)]
    if not found:
        return Section(TITLE, "", missing=missing)
    return Section(
        title=TITLE,
        answer=" ".join(_answer(found)),
        text=[
            (
                "From entry to return, by the kernel's tracepoints, between the region's marks: the tracer's "
                "own time within a call is in it. Waiting is in it, too. What each call asked for and got is "
                "told in “What read and write return”."
            ),
            *losses(points),
        ],
        tables=[_table(found)],
        figures=[_bars(found), *_figures(found)],
        missing=missing,
    )


def _calls(point: Traced) -> list[Call]:
    calls = point.reading["calls"]
    count = sum(call["count"] for call in calls.values())
    time = time_in_calls_ns(point.reading)
    found = []
    for name, call in sorted(calls.items(), key=lambda pair: -pair[1]["count"]):
        of_time = call["time_ns"] / time if time and "time_ns" in call else None
        if count and max(call["count"] / count, of_time or 0.0) >= LEAST_SHARE:
            found.append(Call(point, name, call, call["count"] / count, of_time))
    return found


def _answer(found: Sequence[Call]) -> list[str]:
    """Say for each channel which call takes most of the time in calls, and how its times spread."""
    told = []
    channels = dict.fromkeys(str(each.where.point.factors.get("channel")) for each in found)
    for channel in channels:
        here = [each for each in found if each.where.point.factors.get("channel") == channel and each.of_time]
        if not here:
            continue
        most = max(here, key=lambda each: each.of_time or 0.0)
        low, high = (quantile(most.data["times"], share) for share in (0.5, 0.99))
        names = listed(list(dict.fromkeys(f"`{each.name}`" for each in here)))
        told.append(
            f"With {channel} there are {names}; the largest share of the time in calls has `{most.name}` at "
            f"{most.where.name}, {format_share(most.of_time)}: a median of {histograms.bin_text(low)}, and "
            f"99 % within {format_value(((high or (0, 0))[1] + 1) * 1e-9, None, 's')}."
        )
    return told


def _errors(data: dict[str, Any]) -> str:
    return ", ".join(f"{name}: {format_count(count)}" for name, count in data["errors"].items()) or "none"


def _table(found: Sequence[Call]) -> Table:
    rows = []
    for each in found:
        reps = each.where.reading.get("reps")
        times = each.data.get("times")
        count, time = each.data["count"], each.data.get("time_ns")
        rows.append(
            [
                each.where.name,
                each.name,
                format_count(count),
                MISSING if not reps else format_value(count / reps, 0.05 * count / reps, ""),
                MISSING if each.of_time is None else format_share(each.of_time, 0.01),
                MISSING
                if time is None
                else format_value(time / count * 1e-9, 0.01 * time / count * 1e-9, "s"),
                *(
                    MISSING if times is None else histograms.bin_text(quantile(times, share))
                    for share in (0.5, 0.99)
                ),
                _errors(each.data),
                each.where.effect_text,
            ]
        )
    columns = [
        "point",
        "call",
        "calls",
        "a repetition",
        "of the time in calls",
        "mean",
        "median",
        "99th percentile",
        "errors",
        "probe effect (95 %)",
    ]
    note = (
        "All traced repetitions together; percentiles are known to a power of two. Probe effect: time traced "
        "over untraced, paired by block."
    )
    return Table("System calls", columns, rows, frozenset({2, 3}), note)


def _bars(found: Sequence[Call]) -> Figure:
    """Draw each call's share of the time in calls, a bar a point."""
    points = list({each.where.name: each.where for each in found}.values())
    names = list(dict.fromkeys(each.name for each in found))
    shares = {(each.where.name, each.name): each.of_time for each in found}
    series = []
    for colour, name in enumerate(names):
        row = [shares.get((point.name, name)) for point in points]
        if any(row):
            series.append(
                plots.Bars(name, [None if one is None else 100 * one for one in row], colour=colour)
            )
    axis = plots.axis("share of the time in calls [%]", range=[0, 101])
    note = f"Waiting within a call is in it. {effect_note(points)}"
    return plots.stacked(
        plots.bars("Time in calls, by call", axis, [each.name for each in points], series, note)
    )


def _figures(found: Sequence[Call]) -> list[Figure]:
    """Draw the times of the calls that take most, a figure a channel."""
    figures = []
    for channel in dict.fromkeys(str(each.where.point.factors.get("channel")) for each in found):
        here = [
            each
            for each in found
            if str(each.where.point.factors.get("channel")) == channel and each.data.get("times")
        ]
        chosen = sorted(here, key=lambda each: -(each.data["time_ns"]))[:MOST_LINES]
        rows = {f"{each.name} · {each.where.name}": each.data["times"] for each in chosen}
        if rows:
            points = list({each.where.name: each.where for each in chosen}.values())
            left = "" if len(chosen) == len(here) else f"The {MOST_LINES} that take most time. "
            note = left + effect_note(points)
            title = f"Times of single calls, {channel}"
            figures.append(histograms.figure(title, "time in the call [ns]", rows, note))
    return figures

"""System calls, switches and faults of both sides, traced."""

from __future__ import annotations

from collections.abc import Sequence

from oscope.figures.analysed import Analysed, measured
from oscope.figures.traced import Traced, traced
from oscope.figures.words import listed
from oscope.labs.engine import histograms
from oscope.labs.engine.histograms import bin_text
from oscope.labs.engine.traced import effect_note, losses, missing_traces
from oscope.labs.transfer.points import MEBIBYTE, TIME, way
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, format_count, format_share
from oscope.trace.reading import quantile, time_in_calls_ns

TITLE = "A transfer, traced"
NAME = "transfer.trace"
FUTEX = "futex"
"""In it a thread waits for another of its process: most of it is the digest's, beside the calls that move."""
LEAST_SHARE = 0.005
"""Calls that take less of the time than this are not listed."""


def section(results: Analysed) -> Section | None:
    """Tell in which calls both sides' time is, and how long it waits for a wake-up."""
    experiment = results.get(NAME)
    if experiment is None:
        return None
    points = traced(experiment, TIME, "calls")
    missing = missing_traces(experiment, NAME, points)
    if not points:
        return Section(TITLE, "", missing=missing) if missing else None
    return Section(
        title=TITLE,
        answer=" ".join([*_most(points), *_woken(points)]),
        text=[
            (
                "Traced are the processes that mark their part of a repetition, with all their threads: the "
                "sender and the receiver. Shares are of the time of both. A call that waits for room, for "
                "data or, as futex, for another thread of its process is in the call all the "
                "while."
            ),
            *losses(points),
        ],
        tables=[_calls(points), *_switches(points)],
        figures=_figures(points),
        missing=missing,
    )


def _name(point: Traced) -> str:
    return way(point.point.factors)


def _most(points: Sequence[Traced]) -> list[str]:
    """Name the call with the most time of each way, and apart from it how long threads await one another."""
    parts, waited = [], []
    for each in points:
        timed = {name: call["time_ns"] for name, call in each.reading["calls"].items() if "time_ns" in call}
        whole = each.reading.get("region_ns")
        between = timed.pop(FUTEX, 0)
        if timed and whole:
            top = max(timed, key=lambda name: timed[name])
            parts.append(f"by {_name(each)} to {top} ({format_share(timed[top] / whole, 0.01)})")
            if between:
                waited.append(f"{format_share(between / whole, 0.01)} by {_name(each)}")
    said = [f"Of both sides' time, waiting included, there goes most {listed(parts)}."] if parts else []
    if waited:
        said.append(
            f"Threads of one process, such as that of the digest, wait for one another ({FUTEX}, beside the "
            f"calls of those that move) for {listed(waited)}."
        )
    return said


def _woken(points: Sequence[Traced]) -> list[str]:
    parts = []
    for each in points:
        found = quantile(each.reading.get("switches", {}).get("wakeup_ns", []), 0.5)
        if found is not None:
            parts.append(f"{bin_text(found)} by {_name(each)}")
    return [f"The median wake-up takes {listed(parts)}."] if parts else []


def _calls(points: Sequence[Traced]) -> Table:
    rows = []
    for each in points:
        whole = each.reading.get("region_ns") or 0
        moved = _mebibytes(each)
        inside = time_in_calls_ns(each.reading)
        for name, call in sorted(each.reading["calls"].items(), key=lambda pair: -pair[1].get("time_ns", 0)):
            share = call.get("time_ns", 0) / whole if whole else 0.0
            if share >= LEAST_SHARE:
                many = MISSING if not moved else f"{call['count'] / moved:.3g}"
                counts = [format_count(call["count"]), many, format_share(share, 0.01)]
                rows.append([_name(each), name, *counts, each.effect_text])
        if inside is not None and whole:
            counts = [MISSING, MISSING, format_share(inside / whole, 0.01)]
            rows.append([_name(each), "all calls", *counts, each.effect_text])
    columns = ["method", "call", "calls", "calls a MiB", "of the time", "probe effect (95 %)"]
    note = (
        f"All traced repetitions together; calls below {format_share(LEAST_SHARE)} of the time are left out. "
        "Every thread's calls count, so that all calls can have more than the time. "
        "Probe effect: time traced over untraced, paired by block."
    )
    return Table("System calls of both sides, traced", columns, rows, frozenset({2, 3}), note)


def _mebibytes(each: Traced) -> float:
    """Return how much all traced repetitions moved."""
    return float(measured(each.point, "bytes")[0].sum()) / MEBIBYTE


def _switches(points: Sequence[Traced]) -> list[Table]:
    rows = []
    for each in points:
        switches, faults = each.reading.get("switches"), each.reading.get("faults")
        if switches is None:
            continue
        counts = [format_count(switches[name]) for name in ("voluntary", "involuntary", "wakeups")]
        bins = [bin_text(quantile(switches["wakeup_ns"], share)) for share in (0.5, 0.99)]
        total = MISSING if faults is None else format_count(sum(row["count"] for row in faults))
        rows.append([_name(each), *counts, *bins, total])
    columns = [
        "method",
        "voluntary",
        "involuntary",
        "wake-ups",
        "wake-up, median",
        "99th percentile",
        "faults",
    ]
    note = "All traced repetitions together; percentiles are known to a power of two."
    return (
        [Table("Switches and faults of both sides, traced", columns, rows, frozenset({1, 2, 3, 6}), note)]
        if rows
        else []
    )


def _figures(points: Sequence[Traced]) -> list[Figure]:
    rows = {
        _name(each): each.reading["switches"]["wakeup_ns"]
        for each in points
        if each.reading.get("switches", {}).get("wakeups")
    }
    kept = {name: row for name, row in rows.items() if sum(count for *_, count in row)}
    if not kept:
        return []
    return [
        histograms.figure(
            "Wake-up latency of both sides", "from woken to running [ns]", kept, effect_note(points)
        )
    ]

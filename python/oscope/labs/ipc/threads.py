"""Threads against processes: whether data moves faster within a process or between two, paired by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed
from oscope.figures.words import counted, listed
from oscope.labs.curve import narrowing, ratio_text, ratios, size_axis, unmeasured
from oscope.labs.ipc.points import BUFFER, KNOWN, RATE, channels, modes, plain
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import format_value
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric

THREADS, PROCESSES = "2thread", "2proc"
TITLE = "Threads or processes"

Ratios = Mapping[str, Mapping[int, ComparedMetric]]
"""By channel, for each buffer size: processes over threads."""


def section(results: Analysed) -> Section | None:
    """Answer E7's second half."""
    whole = results.get("ipc.throughput")
    if whole is None:
        return None
    experiment = plain(whole)
    if not {THREADS, PROCESSES} <= set(modes(experiment)):
        return None
    found = {
        channel: rows
        for channel in channels(experiment)
        if (rows := ratios(experiment, RATE, "mode", (THREADS, PROCESSES), channel=channel))
    }
    missing = unmeasured(whole)
    if not found:
        return Section(TITLE, "", missing=missing) if missing else None
    return Section(
        title=TITLE,
        answer=_answer(found),
        text=[
            (
                "Two threads share an address space, two processes do not: a switch between processes "
                "changes the page tables. Everything else is the same, channel, buffer and check."
            ),
            *narrowing(experiment, KNOWN),
        ],
        tables=[_table(found)],
        figures=[_figure(found)] if len({size for rows in found.values() for size in rows}) > 1 else [],
        missing=missing,
    )


def _answer(found: Ratios) -> str:
    rows = [(channel, size, row) for channel, each in found.items() for size, row in each.items()]
    faster, slower = ([each for each in rows if _apart(each[2], sign)] for sign in (1, -1))
    equal = [each for each in rows if each[2].different == "no"]
    parts = [
        f"{word} at {len(side)}"
        for word, side in (("faster", faster), ("slower", slower), ("no different", equal))
        if side
    ]
    rest = len(rows) - len(faster) - len(slower) - len(equal)
    if rest:
        parts.append(f"at {rest} it cannot be told")
    text = f"Of {counted(len(rows), 'point')}, processes are {listed(parts)}."
    if len(parts) == 1 and rest:
        text = f"At none of {counted(len(rows), 'point')} can threads and processes be told apart."
    for side in (faster, slower):
        if side:
            channel, size, row = max(side, key=lambda each: abs(np.log(each[2].ratio)))
            word = "ahead" if row.ratio > 1 else "behind"
            text += f" They are furthest {word} with {channel} by {format_bytes(size)}: "
            text += f"{ratio_text(row)} times the throughput of threads."
    return text


def _apart(row: ComparedMetric, sign: int) -> bool:
    return row.different == "yes" and (row.ratio - 1) * sign > 0


def _verdict(row: ComparedMetric) -> str:
    if row.different != "yes":
        return "no difference" if row.different == "no" else "cannot tell"
    return f"{'processes' if row.ratio > 1 else 'threads'} faster"


def _table(found: Ratios) -> Table:
    rows = [
        [
            channel,
            format_bytes(size),
            *(format_value(middle, 0.01 * middle, row.unit) for middle in (row.median_a, row.median_b)),
            ratio_text(row),
            _verdict(row),
            row.matters,
        ]
        for channel, each in found.items()
        for size, row in each.items()
    ]
    columns = [
        "channel",
        "buffer",
        "threads",
        "processes",
        "processes / threads (95 %)",
        "verdict",
        "by more than 1 %",
    ]
    note = "Medians; the ratio is paired by block, p corrected (Holm) for the sizes of a channel."
    return Table("Throughput between threads and between processes", columns, rows, frozenset(), note)


def _figure(found: Ratios) -> Figure:
    sizes = sorted({size for rows in found.values() for size in rows})
    lines = [
        plots.Line(channel, _dots(rows, sizes), colour)
        for colour, (channel, rows) in enumerate(found.items())
    ]
    axes = (
        size_axis(sizes, BUFFER),
        plots.axis("throughput of processes / of threads", rangemode="tozero"),
    )
    note = "Ratios with their 95 % intervals; above 1 processes are faster."
    return plots.lines("Throughput of processes over that of threads", axes, lines, note)


def _dots(rows: Mapping[int, ComparedMetric], sizes: Sequence[int]) -> list[tuple[float, plots.Dot]]:
    return [
        (
            float(sizes.index(size)),
            plots.Dot(
                "", row.ratio, row.ci95 if all(isfinite(end) for end in row.ci95) else None, np.zeros(0)
            ),
        )
        for size, row in sorted(rows.items())
        if isfinite(row.ratio)
    ]

"""Threads against processes: whether data moves faster within a process or between two, paired by block."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from oscope.figures.words import counted
from oscope.labs.engine.contrast import Ratios
from oscope.labs.engine.curves import ratio_lines, ratios
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, ratio, text
from oscope.labs.engine.words import times
from oscope.labs.ipc.points import BUFFER, KNOWN, RATE, channels, plain
from oscope.model.formatting import format_value
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric

ENDS = ("2thread", "2proc")

Row = tuple[str, int, ComparedMetric]
"""Channel, buffer size, processes over threads."""


def _by_channel(run: Run) -> dict[str, Ratios]:
    own = plain(run)
    found = {
        channel: ratios(own.experiment, RATE, "mode", ENDS, channel=channel) for channel in channels(own)
    }
    return {channel: rows for channel, rows in found.items() if rows}


def _rows(run: Run) -> list[Row]:
    return [(channel, size, row) for channel, rows in _by_channel(run).items() for size, row in rows.items()]


def _headline(_: Run, rows: Sequence[Row]) -> str:
    apart = [row for row in rows if row[2].different == "yes"]
    points = counted(len(rows), "point")
    if not apart:
        same = all(row[2].different == "no" for row in rows)
        return (
            f"Threads and processes move data equally fast at all of {points}."
            if same
            else f"At none of {points} can threads and processes be distinguished."
        )
    channel, size, row = max(apart, key=lambda each: abs(log(each[2].ratio)))
    where = f"Between processes, {channel} by {format_bytes(size)}"
    return f"{where} reaches {times(row)} the throughput of threads."


def _verdict(row: ComparedMetric) -> str:
    if row.different != "yes":
        return "no difference" if row.different == "no" else "cannot tell"
    return f"{'processes' if row.ratio > 1 else 'threads'} faster"


def _speed(median: float, unit: str) -> str:
    return format_value(median, 0.01 * median, unit)


def _both(run: Run) -> bool:
    return set(ENDS) <= set(plain(run).levels("mode"))


section = Question(
    title="Threads or processes",
    experiment="ipc.throughput",
    rows=_rows,
    headline=_headline,
    text=("A switch between processes changes the page tables; everything else is the same.",),
    tables=(
        TableOf(
            "Throughput between threads and between processes",
            (
                text("channel", lambda row: row[0]),
                text("buffer", lambda row: format_bytes(row[1])),
                text("threads", lambda row: _speed(row[2].median_a, row[2].unit)),
                text("processes", lambda row: _speed(row[2].median_b, row[2].unit)),
                ratio("processes / threads", lambda row: row[2]),
                text("verdict", lambda row: _verdict(row[2])),
                text("by more than 1 %", lambda row: row[2].matters),
            ),
            "Medians; the ratio is paired by block, p corrected (Holm) for the sizes of a channel.",
        ),
    ),
    figures=(
        lambda run, _: ratio_lines(
            "Throughput of processes over that of threads",
            "throughput of processes / of threads",
            _by_channel(run),
            BUFFER,
            "Ratios with their 95 % intervals; above 1 processes are faster.",
        ),
    ),
    factors=KNOWN,
    asked=_both,
)

"""Threads against processes: whether data moves faster within a process or between two, paired by block."""

from __future__ import annotations

from collections.abc import Sequence

from oscope.figures.words import counted
from oscope.labs.engine.contrast import Contrast, contrasts, strongest
from oscope.labs.engine.curves import ratio_lines
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, levels, ratio, text
from oscope.labs.engine.words import times
from oscope.labs.ipc.points import KNOWN, RATE, place, plain
from oscope.model.formatting import format_value
from oscope.statistics import ComparedMetric

ENDS = ("2thread", "2proc")


def _rows(run: Run) -> list[Contrast]:
    found = contrasts(plain(run), RATE, "mode", ENDS, "channel")
    return sorted(found, key=lambda each: place({**each.row.factors, "mode": ENDS[0]})[:2])


def _headline(_: Run, rows: Sequence[Contrast]) -> str:
    most, points = strongest(rows), counted(len(rows), "point")
    if most is not None:
        where = f"Between processes, {most.level('channel')} by {most.level('buffer')}"
        return f"{where} reaches {times(most.row)} the throughput of threads."
    if all(each.row.different == "no" for each in rows):
        return f"Threads and processes move data equally fast at all of {points}."
    return f"At none of {points} can threads and processes be distinguished."


def _verdict(row: ComparedMetric) -> str:
    if row.different != "yes":
        return "no difference" if row.different == "no" else "cannot tell"
    return f"{'processes' if row.ratio > 1 else 'threads'} faster"


def _speed(median: float, unit: str) -> str:
    return format_value(median, 0.01 * median, unit)


section = Question(
    title="Threads or processes",
    experiment="ipc.throughput",
    rows=_rows,
    headline=_headline,
    text=("A switch between processes changes the page tables; everything else is the same."),
    tables=(
        TableOf(
            "Throughput between threads and between processes",
            (
                *levels("channel", "buffer"),
                text("threads", lambda each: _speed(each.row.median_a, each.row.unit)),
                text("processes", lambda each: _speed(each.row.median_b, each.row.unit)),
                ratio("processes / threads", lambda each: each.row),
                text("verdict", lambda each: _verdict(each.row)),
                text("by more than 1 %", lambda each: each.row.matters),
            ),
            "Medians; the ratio is paired by block, p corrected (Holm) for the sizes of a channel.",
        )
    ),
    figures=(
        lambda _, rows: ratio_lines(
            "Throughput of processes over that of threads",
            "throughput of processes / of threads",
            rows,
            lambda each: each.level("channel"),
            note="Ratios with their 95 % intervals; above 1 processes are faster.",
        )
    ),
    factors=KNOWN,
    asked=lambda run: set(ENDS) <= set(plain(run).levels("mode")),
)

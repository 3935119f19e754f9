"""What setting the socket buffers to the buffer size does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oscope.figures.words import counted
from oscope.labs.engine.contrast import Contrast, contrasts, strongest
from oscope.labs.engine.curves import ratio_lines
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import Column, TableOf, levels, ratio, stat, written
from oscope.labs.engine.words import NOT_RUN, bytes_text, reasons, times
from oscope.labs.ipc import SOCKETS
from oscope.labs.ipc.points import MODE_WORDS, RATE, RATE_UNIT, channels, free, place
from oscope.statistics import Summary

ENDS = ("default", "buffer")


def _rows(run: Run) -> list[Contrast]:
    found = contrasts(free(run), RATE, "sockbuf", ENDS, "mode", "channel")
    return sorted(found, key=lambda each: place(each.row.factors)[:2])


def _headline(_: Run, rows: Sequence[Contrast]) -> str:
    most = strongest(rows)
    if most is None:
        return f"With -s no difference was found at {counted(len(rows), 'point')}."
    where = f"{most.level('channel')} by {most.level('buffer')} {MODE_WORDS[most.level('mode')]}"
    return f"With -s, {where} reaches {times(most.row)} the throughput."


def _missing(run: Run) -> str:
    none = "" if _rows(run) else f"{NOT_RUN.format('sockbuf=default,buffer', 'ipc.throughput')}."
    return reasons(run.experiment) or none


def _at(asked: str, end: str) -> Callable[[Contrast], Summary | None]:
    return lambda each: each.of(asked, end)


def _both(end: str, heading: str) -> list[Column[Contrast]]:
    """Return what a channel reaches and holds with one of both settings."""
    return [
        stat(heading, _at(RATE, end), RATE_UNIT, "median"),
        written("capacity", _at("capacity", end), bytes_text),
    ]


section = Question(
    title="Setting the socket buffers",
    experiment="ipc.throughput",
    rows=_rows,
    headline=_headline,
    text=(
        "`sockbuf=buffer` is the original report's `-s`: SO_SNDBUF and SO_RCVBUF are set to the buffer "
        "size, which the kernel doubles and bounds (socket(7))."
    ),
    tables=(
        TableOf(
            "Throughput with and without -s",
            (
                *levels("mode", "channel", "buffer"),
                *_both("default", "default"),
                *_both("buffer", "set"),
                ratio("set / default", lambda each: each.row, "different"),
            ),
            "Medians; the ratio is paired by block, p corrected (Holm) for the sizes of a mode and channel.",
        )
    ),
    figures=(
        lambda _, rows: ratio_lines(
            "What -s does to the throughput",
            "throughput set / default",
            rows,
            lambda each: f"{each.level('channel')}, {each.level('mode')}",
        )
    ),
    missing=_missing,
    asked=lambda run: bool(SOCKETS.intersection(channels(run))),
)

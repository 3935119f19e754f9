"""What setting the socket buffers to the buffer size does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from oscope.figures.words import counted
from oscope.labs.engine.contrast import Ratios
from oscope.labs.engine.curves import ratio_lines, ratios
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, ratio, stat, text
from oscope.labs.engine.words import NOT_RUN, bytes_text, reasons, times
from oscope.labs.ipc import SOCKETS
from oscope.labs.ipc.points import MODE_WORDS, RATE, RATE_UNIT, channels, free, modes
from oscope.model.factors import Level
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric, Summary

ENDS = ("default", "buffer")


@dataclass(frozen=True)
class Row:
    """One channel in a mode at one buffer size."""

    run: Run
    mode: str
    channel: str
    size: int
    over_default: ComparedMetric

    def of(self, metric: str, sockbuf: str) -> Summary | None:
        """Return a metric with the socket buffers as they are, or set."""
        where: dict[str, Level] = {
            "mode": self.mode,
            "channel": self.channel,
            "buffer": self.size,
            "sockbuf": sockbuf,
        }
        return self.run.at(metric, **where)

    def capacity(self, sockbuf: str) -> str | None:
        """Return what the channel holds."""
        found = self.of("capacity", sockbuf)
        return None if found is None else bytes_text(found.median)


def _sockets(run: Run) -> list[str]:
    return [channel for channel in channels(run) if channel in SOCKETS]


def _found(run: Run) -> dict[tuple[str, str], Ratios]:
    own = free(run).experiment
    found = {
        (mode, channel): ratios(own, RATE, "sockbuf", ENDS, mode=mode, channel=channel)
        for mode in modes(run)
        for channel in _sockets(run)
    }
    return {key: rows for key, rows in found.items() if rows}


def _rows(run: Run) -> list[Row]:
    own = free(run)
    return [
        Row(own, mode, channel, size, row)
        for (mode, channel), rows in _found(run).items()
        for size, row in rows.items()
    ]


def _headline(_: Run, rows: Sequence[Row]) -> str:
    apart = [row for row in rows if row.over_default.different == "yes"]
    if not apart:
        return f"With -s no difference was found at {counted(len(rows), 'point')}."
    most = max(apart, key=lambda row: abs(log(row.over_default.ratio)))
    place = f"{most.channel} by {format_bytes(most.size)} {MODE_WORDS[most.mode]}"
    return f"With -s, {place} reaches {times(most.over_default)} the throughput."


def _missing(run: Run) -> str:
    none = "" if _found(run) else f"{NOT_RUN.format('sockbuf=default,buffer', 'ipc.throughput')}."
    return reasons(run.experiment) or none


section = Question(
    title="Setting the socket buffers",
    experiment="ipc.throughput",
    rows=_rows,
    headline=_headline,
    text=(
        (
            "`sockbuf=buffer` is the original report's `-s`: SO_SNDBUF and SO_RCVBUF are set to the buffer "
            "size, which the kernel doubles and bounds (socket(7))."
        ),
    ),
    tables=(
        TableOf(
            "Throughput with and without -s",
            (
                text("mode", lambda row: row.mode),
                text("channel", lambda row: row.channel),
                text("buffer", lambda row: format_bytes(row.size)),
                stat("default", lambda row: row.of(RATE, "default"), RATE_UNIT, "median"),
                text("capacity", lambda row: row.capacity("default")),
                stat("set", lambda row: row.of(RATE, "buffer"), RATE_UNIT, "median"),
                text("capacity", lambda row: row.capacity("buffer")),
                ratio("set / default", lambda row: row.over_default, "different"),
            ),
            "Medians; the ratio is paired by block, p corrected (Holm) for the sizes of a mode and channel.",
        ),
    ),
    figures=(
        lambda run, _: ratio_lines(
            "What -s does to the throughput",
            "throughput set / default",
            {f"{channel}, {mode}": rows for (mode, channel), rows in _found(run).items()},
            "buffer",
        ),
    ),
    missing=_missing,
    asked=lambda run: bool(_sockets(run)),
)

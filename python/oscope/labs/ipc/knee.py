"""Where a larger buffer stops helping, and what changes there: what the channel holds, calls and switches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import measured
from oscope.labs.engine.curves import At, several
from oscope.labs.engine.quantity import derived
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, ratio, text
from oscope.labs.engine.words import bytes_text
from oscope.labs.ipc.points import (
    BUFFER,
    KNOWN,
    MODE_WORDS,
    RATE,
    calls_per_mebibyte,
    curves,
    free,
    modes,
    switches_per_mebibyte,
)
from oscope.model.document import Figure, Table
from oscope.model.formatting import MISSING, format_share, format_value
from oscope.model.samples import ExperimentResults
from oscope.statistics import ComparedMetric, Summary, compare_points
from oscope.statistics.effect import LEVEL
from oscope.statistics.multiplicity import holm

HELPS = 1.05
"""A larger buffer helps if it is faster by more than this factor, and found to be faster."""
FEWEST = 3
"""Sizes that a curve needs to have a knee."""


@dataclass(frozen=True)
class Knee:
    """The smallest buffer size that no larger one beats, by the medians."""

    mode: str
    channel: str
    sockbuf: str
    first: At
    """The smallest size measured."""
    low: At
    """The smallest size that no larger one is found to beat: at it the knee may be as well."""
    at: At
    last: At
    """The largest size measured."""
    gain: ComparedMetric | None
    """Throughput at the knee over that at the smallest size."""
    after: ComparedMetric | None
    """Throughput at the largest size over that at the knee."""
    capacity: float | None
    """What the channel holds at the knee, in bytes."""
    calls: tuple[Summary | None, Summary | None, Summary | None]
    """For a MiB, at the smallest size, the knee and the largest size."""
    switches: tuple[Summary | None, Summary | None, Summary | None]

    @property
    def name(self) -> str:
        """The configuration in words."""
        return f"{self.channel}{' with -s' if self.sockbuf == 'buffer' else ''} {MODE_WORDS[self.mode]}"

    @property
    def place(self) -> str:
        """Where it is: a size, or the sizes between which it is not known."""
        return self.at.name if self.low is self.at else f"{self.low.name} to {self.at.name}"


def _rows(run: Run) -> list[Knee]:
    own = free(run)
    return [
        _knee(own.experiment, (mode, channel, sockbuf), row)
        for sockbuf in ("default", "buffer")
        for mode in modes(own)
        for channel, row in curves(own, RATE, mode=mode, sockbuf=sockbuf).items()
        if len(row) >= FEWEST
    ]


def _knee(experiment: ExperimentResults, which: tuple[str, str, str], row: Sequence[At]) -> Knee:
    low, at = knee(experiment, row)
    first, last = row[0], row[-1]
    capacity = measured(at.point, "capacity")[0]
    places = (first, at, last)
    calls = [derived(experiment, each.point, calls_per_mebibyte) for each in places]
    switches = [derived(experiment, each.point, switches_per_mebibyte) for each in places]
    return Knee(
        *which,
        first=first,
        low=low,
        at=at,
        last=last,
        gain=_ratio(experiment, first, at),
        after=_ratio(experiment, at, last),
        capacity=float(np.median(capacity)) if len(capacity) else None,
        calls=(calls[0], calls[1], calls[2]),
        switches=(switches[0], switches[1], switches[2]),
    )


def knee(experiment: ExperimentResults, row: Sequence[At]) -> tuple[At, At]:
    """Return the smallest sizes of a rising curve that no larger one beats by more than `HELPS`.

    First the one that none is found to beat (paired by block, Holm), then that by the medians.
    """
    low = None
    for index, each in enumerate(row):
        rows = [
            compare_points(each.point, other.point, experiment.metrics[RATE], same_run=True)
            for other in row[index + 1 :]
        ]
        better = np.array([found.ratio > HELPS for found in rows], dtype=bool)
        found_better = better & (holm(np.array([found.p for found in rows])) < LEVEL)
        if low is None and not found_better.any():
            low = each
        if low is not None and not better.any():
            return low, each
    return row[-1], row[-1]


def _ratio(experiment: ExperimentResults, a: At, b: At) -> ComparedMetric | None:
    return None if a is b else compare_points(a.point, b.point, experiment.metrics[RATE], same_run=True)


def _headline(_: Run, found: Sequence[Knee]) -> str:
    """Say where the knee is between processes, of a pipe where it was measured."""
    plain = [each for each in found if each.channel in ("pipe", "local") and each.sockbuf == "default"]
    each = max(plain or found, key=lambda one: (one.mode == "2proc", one.channel == "pipe"))
    where = "at no size measured" if each.low is each.last else f"at {each.place}"
    holds = "" if each.capacity is None else f"; it holds {bytes_text(each.capacity)}"
    return f"For a {each.name}, a larger buffer stops helping {where}{holds}."


def _falling(row: Sequence[Summary | None]) -> str:
    return " → ".join(_number(one) for one in row)


def _number(one: Summary | None) -> str:
    return MISSING if one is None else format_value(one.median, max(abs(one.median) * 0.03, 0.01), "")


TABLE: TableOf[Knee] = TableOf(
    "Knees",
    (
        text("mode", lambda each: each.mode),
        text("channel", lambda each: each.channel),
        text("socket buffers", lambda each: "set" if each.sockbuf == "buffer" else "default"),
        text("knee", lambda each: each.place),
        text("capacity", lambda each: None if each.capacity is None else bytes_text(each.capacity)),
        text("knee / capacity", lambda each: _over_capacity(each), numeric=True),
        ratio("knee / smallest", lambda each: each.gain),
        ratio("largest / knee", lambda each: each.after),
        text("calls a MiB", lambda each: _falling(each.calls)),
        text("switches a MiB", lambda each: _falling(each.switches)),
    ),
    "Calls and switches at the smallest size, the knee and the largest. Sizes from {low} to {high}; a knee "
    "at the largest means that none was found.",
)


def _over_capacity(each: Knee) -> str | None:
    return f"{each.at.size / each.capacity:.2g}" if each.capacity else None


def _table(_: Run, found: Sequence[Knee]) -> list[Table]:
    every = [at for each in found for at in (each.first, each.last)]
    low, high = (end(every, key=lambda one: one.size).name for end in (min, max))
    return [TABLE.of(found, low=low, high=high)]


def _figure(_: Run, found: Sequence[Knee]) -> list[Figure]:
    """Draw each knee over the channel's capacity."""
    dots = [
        plots.Dot(each.name, each.at.size / each.capacity, None, np.zeros(0))
        for each in found
        if each.capacity
    ]
    note = "At 1, no buffer larger than what the channel holds helps. Knees stand at measured sizes."
    return [plots.dots("The knee over what the channel holds", "knee / capacity", {"knee": dots}, note)]


def _calls(run: Run, _: Sequence[Knee]) -> list[Figure]:
    """Draw the calls for a MiB over the buffer size, a figure a mode."""
    own, figures = free(run), []
    for mode in modes(own):
        found = {
            channel: [
                replace(each, summary=calls)
                for each in row
                if (calls := derived(own.experiment, each.point, calls_per_mebibyte)) is not None
            ]
            for channel, row in curves(own, RATE, mode=mode, sockbuf="default").items()
        }
        lines = {channel: row for channel, row in found.items() if row}
        figures += several(f"Writes and reads for a MiB, {MODE_WORDS[mode]}", lines, "calls/MiB", BUFFER)
    return figures


section = Question(
    title="Where a larger buffer stops helping",
    experiment="ipc.throughput",
    rows=_rows,
    headline=_headline,
    text=(
        (
            "The knee is the smallest buffer size that no larger one beats by more than "
            f"{format_share(HELPS - 1, 0.1)}; of two sizes, medians and test (Holm) differ. The capacity is "
            "what the channel holds before a writer blocks, measured."
        ),
    ),
    tables=(_table,),
    figures=(_figure, _calls),
    factors=KNOWN,
)

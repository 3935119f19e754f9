"""Where a larger buffer stops helping, and what changes there: what the channel holds, calls and switches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oscope import questions as q
from oscope.labs.ipc import throughput as ipc
from oscope.labs.ipc.throughput import CALLS, KNOWN, MODE_WORDS, RATE, SWITCHES, curves, free, modes
from oscope.questions.curve_shapes import Knee, knee, ratio_of

HELPS = 1.05
"""A larger buffer helps if it is faster by more than this factor, and found to be faster."""
FEWEST = 3
"""Sizes that a curve needs to have a knee."""


class Row(NamedTuple):
    """The knee of one channel in one mode."""

    run: q.Run
    mode: str
    channel: str
    sockbuf: str
    knee: Knee

    @property
    def name(self) -> str:
        """The configuration in words."""
        return f"{self.channel}{' with -s' if self.sockbuf == 'buffer' else ''} {MODE_WORDS[self.mode]}"

    @property
    def capacity(self) -> float | None:
        """What the channel holds at the knee, in bytes."""
        return ipc.capacity(self.knee.at.point)

    def over(self, a: q.At, b: q.At) -> q.ComparedMetric | None:
        """Return the throughput at one size over that at another."""
        return None if a is b else ratio_of(self.run.experiment, RATE, a, b)

    def falling(self, asked: q.Quantity) -> str:
        """Return a quantity at the smallest size, the knee and the largest size."""
        ends = (self.knee.first, self.knee.at, self.knee.last)
        found = (self.run.summary(each.point, asked) for each in ends)
        medians = [float("nan") if each is None else each.median for each in found]
        return " → ".join(q.format_value(n, max(abs(n) * 0.03, 0.01), "") for n in medians)


def _rows(run: q.Run) -> list[Row]:
    own = free(run)
    return [
        Row(own, mode, channel, sockbuf, knee(own.experiment, row, RATE, HELPS))
        for sockbuf in ("default", "buffer")
        for mode in modes(own)
        for channel, row in curves(own, RATE, mode=mode, sockbuf=sockbuf).items()
        if len(row) >= FEWEST
    ]


def _headline(_: q.Run, found: Sequence[Row]) -> str:
    plain = [each for each in found if each.channel in ("pipe", "local") and each.sockbuf == "default"]
    each = max(plain or found, key=lambda one: (one.mode == "2proc", one.channel == "pipe"))
    where = "at no size measured" if each.knee.low is each.knee.last else f"at {each.knee.place}"
    holds = "" if each.capacity is None else f"; it holds {q.bytes_text(each.capacity)}"
    return f"For a {each.name}, a larger buffer stops helping {where}{holds}."


TABLE: q.TableOf[Row] = q.TableOf(
    "Knees",
    q.text("mode", lambda each: each.mode),
    q.text("channel", lambda each: each.channel),
    q.text("socket buffers", lambda each: "set" if each.sockbuf == "buffer" else "default"),
    q.text("knee", lambda each: each.knee.place),
    q.written("capacity", lambda each: each.capacity, q.bytes_text),
    q.number("knee / capacity", lambda each: q.over(each.knee.at.size, each.capacity), ".2g"),
    q.ratio("knee / smallest", lambda each: each.over(each.knee.first, each.knee.at)),
    q.ratio("largest / knee", lambda each: each.over(each.knee.at, each.knee.last)),
    q.text("calls a MiB", lambda each: each.falling(CALLS)),
    q.text("switches a MiB", lambda each: each.falling(SWITCHES)),
    note="Calls and switches at the smallest size, the knee and the largest. Sizes from {low} to {high}; a "
    "knee at the largest means that none was found.",
)


def _table(_: q.Run, found: Sequence[Row]) -> q.Table:
    ends = (min(each.knee.first.size for each in found), max(each.knee.last.size for each in found))
    low, high = map(q.format_bytes, ends)
    return TABLE.of(found, low=low, high=high)


def _figure(_: q.Run, found: Sequence[Row]) -> q.Figure:
    known = ((each.name, q.over(each.knee.at.size, each.capacity)) for each in found)
    dots = [q.plots.Dot(name, ratio) for name, ratio in known if ratio]
    note = "At 1, no buffer larger than what the channel holds helps. Knees stand at measured sizes."
    return q.plots.dots("The knee over what the channel holds", "knee / capacity", {"knee": dots}, note)


section = q.Question(
    title="Where a larger buffer stops helping",
    experiment="ipc.throughput",
    rows=_rows,
    headline=_headline,
    text=(
        "The knee is the smallest buffer size that no larger one beats by more than "
        f"{q.format_share(HELPS - 1, 0.1)}; of two sizes, medians and test (Holm) differ. The capacity is "
        "what the channel holds before a writer blocks, measured."
    ),
    tables=_table,
    figures=(
        _figure,
        lambda run, _: ipc.over_buffers(
            "Writes and reads for a MiB", free(run).only(sockbuf="default"), CALLS, "calls/MiB"
        ),
    ),
    factors=KNOWN,
)

"""The model of where the time of a read goes, from the lab's own primitives; nothing in it is fitted.

For a MiB, read in blocks of b bytes:

    measured = calls * c + calls * (f - c) + 1 MiB / m + rest on the CPU + waiting

`calls` are the read calls made for it. `c` is the cost of one `read` that has next to nothing to do
(`syscall.cost`, 1 byte of /dev/zero), `f` that of one that finds its byte in a file in memory
(`syscall.throughput`), `m` the speed at which memory is copied (`memory.bandwidth`, by the window nearest to
b). Waiting, for the device or for a CPU, is the time not on one. The rest is what is left of the CPU's time:
block layer, read-ahead, page cache; it comes out below zero where the model takes too much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, log
from typing import NamedTuple

from oscope import questions as q
from oscope.statistics.bounded import Bounded

CALLING, FINDING, COPYING, REST, WAITING = NAMES = (
    "system calls",
    "the file’s part of the calls",
    "copying",
    "other work on the CPU",
    "waiting for device or CPU",
)


class Cost(NamedTuple):
    """The cost of one call."""

    seconds: Bounded
    words: str


@dataclass(frozen=True)
class Primitives:
    """What the model is made of, and what of it is missing."""

    call: Cost | None
    """One `read` with next to nothing to do."""
    file_call: Cost | None
    """One `read` of a byte of a file in memory."""
    copies: Sequence[tuple[int, Bounded, str]]
    """Window in bytes, seconds to copy a MiB, and that speed in words."""
    missing: Sequence[str]

    def copying(self, block_size: int) -> Bounded | None:
        """Return the seconds to copy a MiB into a window as near to `block_size` as was measured."""
        if not self.copies:
            return None
        return min(self.copies, key=lambda each: abs(log(each[0] / block_size)))[1]


@dataclass(frozen=True)
class Parts:
    """Where the time of a MiB goes at one block size, in seconds; None: the primitive is missing."""

    at: q.At
    measured: q.Summary
    on_cpu: q.Summary
    waiting: q.Summary
    calls: float
    """Read calls for a MiB."""
    calling: Bounded | None
    """calls * c"""
    asking: Bounded | None
    """calls * f: calling, and finding the bytes in the file."""
    copying: Bounded | None

    @property
    def named(self) -> dict[str, Bounded | None]:
        """Return each part by its name; None where a primitive is missing."""
        rest = Bounded.of(self.on_cpu)
        for part in (self.asking or self.calling, self.copying):
            rest = rest if part is None else rest - part
        # Where what a call costs by itself is not known, the whole call is the file's part.
        finding = self.asking - self.calling if self.asking and self.calling else self.asking
        return {
            CALLING: self.calling,
            FINDING: finding,
            COPYING: self.copying,
            REST: rest,
            WAITING: Bounded.of(self.waiting),
        }

    @property
    def plain(self) -> Bounded | None:
        """Return calls * c + copying."""
        return self.calling + self.copying if self.calling and self.copying else None

    @property
    def predicted(self) -> Bounded | None:
        """Return calls * f + copying."""
        return self.asking + self.copying if self.asking and self.copying else None


def primitives(results: q.Analysed, read: q.ExperimentResults) -> Primitives:
    """Return the costs that the model takes from the other experiments, if they are of the same machine."""
    missing: list[str] = []

    def points(name: str, metric: str, what: str, **levels: q.Level) -> list[q.Point]:
        found, why = q.points_beside(results, read, name, metric, what, **levels)
        missing.extend(why)
        return found

    calls = points("syscall.cost", "time_ns", "read", call="read")
    loop_first = sorted(calls, key=lambda point: point.factors.get("style") != "loop")
    file_calls = points("syscall.throughput", "calls_per_s", "read", call="read")
    copies = points("memory.bandwidth", q.RATE, "copying with one thread", operation="copy", threads=1)
    # A window of 0 stands for one as large as the buffer.
    windows = {int(each.factors.get("window") or each.factors["size"]): each for each in reversed(copies)}
    return Primitives(
        call=next(map(_call, loop_first), None),
        file_call=next(map(_file_call, file_calls), None),
        copies=[_copy(window, windows[window].summary) for window in sorted(windows)],
        missing=missing,
    )


def _call(point: q.Point) -> Cost:
    words = f"{q.median(point.summary, 'ns')} (syscall.cost, style={point.factors.get('style')})"
    return Cost(Bounded.of(point.summary).times(1e-9), words)


def _file_call(point: q.Point) -> Cost:
    seconds = Bounded.of(point.summary).inverse()
    low, high = (end * 1e9 if isfinite(end) else None for end in (seconds.low, seconds.high))
    return Cost(seconds, f"{q.format_interval(seconds.value * 1e9, low, high, 'ns')} (syscall.throughput)")


def _copy(window: int, summary: q.Summary) -> tuple[int, Bounded, str]:
    words = f"{q.median(summary, 'MiB/s')} into a window of {q.format_bytes(window)}"
    return window, Bounded.of(summary).inverse(), words


MEASURED = q.a_mebibyte("measured", "s", lambda point: q.metric(point, "time_s"))
ON_CPU = q.a_mebibyte("on the CPU", "s", lambda point: q.metric(point, "cpu_s"))
ELSEWHERE = q.a_mebibyte("waiting", "s", lambda point: q.metric(point, "time_s") - q.metric(point, "cpu_s"))
CALLS = q.a_mebibyte("calls", "", lambda point: q.metric(point, "calls"))


def parts(run: q.Run, known: Primitives, cache: str) -> list[Parts]:
    """Return where the time goes at each block size, of `read` by one thread."""
    found, own = [], run.only(engine="read", threads=1).narrowed("cache", "block_size")
    for at in q.curve(own, q.RATE, engine="read", cache=cache, threads=1):
        measured, on_cpu, waiting, calls = (
            run.summary(at.point, each) for each in (MEASURED, ON_CPU, ELSEWHERE, CALLS)
        )
        if measured is None or on_cpu is None or waiting is None or calls is None:
            # A machine that does not give one of them.
            continue
        found.append(
            Parts(
                *(at, measured, on_cpu, waiting, calls.median),
                calling=known.call and known.call.seconds.times(calls.median),
                asking=known.file_call and known.file_call.seconds.times(calls.median),
                copying=known.copying(at.size),
            )
        )
    return found


def per_mebibyte(seconds: float) -> str:
    """Return a time for a MiB, to three digits or so."""
    return q.format_value(seconds, abs(seconds) / 100, "s")

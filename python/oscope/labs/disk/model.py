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

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, log, nan

import numpy as np

from oscope.labs import engine as q

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Bounded:
    """A figure with bounds; NaN where they, or the figure itself, are not known."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, summary: q.Summary, factor: float = 1.0) -> Bounded:
        """Return a median with its interval, times a positive `factor`."""
        low, high = summary.ci95 or (nan, nan)
        return cls(summary.median * factor, low * factor, high * factor)

    def __add__(self, other: Bounded) -> Bounded:
        return Bounded(self.value + other.value, self.low + other.low, self.high + other.high)

    def __sub__(self, other: Bounded) -> Bounded:
        return Bounded(self.value - other.value, self.low - other.high, self.high - other.low)

    def times(self, factor: float) -> Bounded:
        """Return the figure times a positive number."""
        return Bounded(self.value * factor, self.low * factor, self.high * factor)

    def inverse(self) -> Bounded:
        """Return one over a positive figure; without bounds where they do not keep it from 0."""
        if not self.low > 0:
            return Bounded(1 / self.value, nan, nan)
        return Bounded(1 / self.value, 1 / self.high, 1 / self.low)

    def over(self, other: Bounded) -> Bounded:
        """Return the quotient of two positive figures; without bounds where the divisor's reach 0."""
        inverse = other.inverse()
        return Bounded(self.value * inverse.value, self.low * inverse.low, self.high * inverse.high)


@dataclass(frozen=True)
class Cost:
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
    copies: tuple[tuple[int, Bounded, str], ...]
    """Window in bytes, seconds to copy a MiB, and that speed in words."""
    missing: tuple[str, ...]

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
    def finding(self) -> Bounded | None:
        """Return what a file adds to its calls: calls * (f - c)."""
        return None if self.calling is None or self.asking is None else self.asking - self.calling

    @property
    def rest(self) -> Bounded:
        """Return the time on the CPU that no primitive accounts for."""
        found = Bounded.of(self.on_cpu)
        for part in (self.calling if self.asking is None else self.asking, self.copying):
            found = found - part if part is not None else found
        return found

    @property
    def plain(self) -> Bounded | None:
        """Return calls * c + copying."""
        return None if self.calling is None or self.copying is None else self.calling + self.copying

    @property
    def predicted(self) -> Bounded | None:
        """Return calls * f + copying."""
        return None if self.asking is None or self.copying is None else self.asking + self.copying

    def explained(self, part: Bounded | None) -> Bounded | None:
        """Return a prediction over the measured time."""
        return None if part is None else part.over(Bounded.of(self.measured))


def primitives(results: q.Analysed, read: q.ExperimentResults) -> Primitives:
    """Return the costs that the model takes from the other experiments, if they are of the same machine."""
    missing: list[str] = []
    cost, throughput, bandwidth = (
        _beside(results, read, name, missing)
        for name in ("syscall.cost", "syscall.throughput", "memory.bandwidth")
    )
    return Primitives(
        call=None if cost is None else _call(results, cost, missing),
        file_call=None if throughput is None else _file_call(results, throughput, missing),
        copies=() if bandwidth is None else _copies(results, bandwidth, missing),
        missing=tuple(missing),
    )


def _beside(
    results: q.Analysed, read: q.ExperimentResults, name: str, missing: list[str]
) -> q.ExperimentResults | None:
    found = results.get(name)
    if found is None:
        missing.append(q.NOT_RUN.format(name, name))
    elif found.environment.get("machine") != read.environment.get("machine"):
        missing.append(f"{name} was run on another machine")
        return None
    return found


def _call(results: q.Analysed, cost: q.ExperimentResults, missing: list[str]) -> Cost | None:
    point = cost.point(call="read", style="loop") or cost.point(call="read")
    summary = results.summary(cost, point, "time_ns") if point is not None else None
    if point is None or summary is None:
        missing.append("syscall.cost has no figure for read")
        return None
    style = point.factors.get("style")
    return Cost(Bounded.of(summary, 1e-9), f"{q.median(summary, 'ns')} (syscall.cost, style={style})")


def _file_call(results: q.Analysed, throughput: q.ExperimentResults, missing: list[str]) -> Cost | None:
    point = throughput.point(call="read")
    summary = results.summary(throughput, point, "calls_per_s") if point is not None else None
    if summary is None:
        missing.append("syscall.throughput has no figure for read")
        return None
    seconds = Bounded.of(summary).inverse()
    low, high = (end * 1e9 if isfinite(end) else None for end in (seconds.low, seconds.high))
    words = q.format_interval(seconds.value * 1e9, low, high, "ns")
    return Cost(seconds, f"{words} (syscall.throughput)")


def _copies(
    results: q.Analysed, bandwidth: q.ExperimentResults, missing: list[str]
) -> tuple[tuple[int, Bounded, str], ...]:
    found: dict[int, tuple[int, Bounded, str]] = {}
    for point in bandwidth.points:
        summary = results.summary(bandwidth, point, q.RATE)
        if summary is None or point.factors.get("operation") != "copy" or point.factors.get("threads") != 1:
            continue
        # A window of 0 stands for one as large as the buffer.
        window = int(point.factors.get("window") or point.factors["size"])
        words = f"{q.median(summary, 'MiB/s')} into a window of {q.format_bytes(window)}"
        found.setdefault(window, (window, Bounded.of(summary).inverse(), words))
    if not found:
        missing.append("memory.bandwidth has no figure for copying with one thread")
    return tuple(found[window] for window in sorted(found))


def parts(results: q.Analysed, read: q.ExperimentResults, known: Primitives, cache: str) -> list[Parts]:
    """Return where the time goes at each block size, of `read` by one thread."""
    return [
        _parts(read, at, known)
        for at in q.curve(q.Run(results, read), q.RATE, engine="read", cache=cache, threads=1)
    ]


def _parts(read: q.ExperimentResults, at: q.At, known: Primitives) -> Parts:
    point = at.point
    calls = float(np.median(_values(point, lambda column: column("calls") / column("bytes"))[0])) * MEBIBYTE
    return Parts(
        at=at,
        measured=_summary(read, point, lambda column: column("time_s")),
        on_cpu=_summary(read, point, lambda column: column("cpu_s")),
        waiting=_summary(read, point, lambda column: column("time_s") - column("cpu_s")),
        calls=calls,
        calling=None if known.call is None else known.call.seconds.times(calls),
        asking=None if known.file_call is None else known.file_call.seconds.times(calls),
        copying=known.copying(at.size),
    )


Column = Callable[[str], q.Floats]


def _values(
    point: q.PointSamples, formula: Callable[[Column], q.Floats]
) -> tuple[q.Floats, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return the finite values of a formula over a point's metrics, and which samples they are of."""
    values = formula(lambda name: point.metrics[name])
    keep = np.isfinite(values)
    return values[keep], keep


def _summary(
    read: q.ExperimentResults, point: q.PointSamples, formula: Callable[[Column], q.Floats]
) -> q.Summary:
    """Summarise seconds for a MiB."""
    values, keep = _values(point, lambda column: formula(column) / column("bytes") * MEBIBYTE)
    return q.summarise(values, point.block[keep], boot=point.boot[keep], seed=read.seed)


def per_mebibyte(seconds: float) -> str:
    """Return a time for a MiB, to three digits or so."""
    return q.format_value(seconds, abs(seconds) / 100, "s")

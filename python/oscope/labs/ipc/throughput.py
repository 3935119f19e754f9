"""What several answers take from `ipc.throughput`: some of its points, and values from several metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from oscope import questions as q
from oscope.figures.traced import traced
from oscope.labs.ipc import CHANNELS, MODES

RATE, RATE_UNIT, TIME = "throughput", "MiB/s", "time_s"
TRACE, MOVED = "ipc.trace", ("ipc.throughput", "ipc.trace")
MODE_WORDS = {"1thread": "in one thread", "2thread": "between threads", "2proc": "between processes"}
KNOWN = ("channel", "mode", "sockbuf", "total", "buffer")
"""Factors that every answer names or that do not change what it says."""
NAMES = ("channel", "mode", "buffer")


def free(run: q.Run) -> q.Run:
    """Return the untraced points whose sides were not placed."""
    return run.only(placement="free", tracer=q.UNTRACED)


def plain(run: q.Run) -> q.Run:
    """Return the untraced points for which neither socket buffers nor places were set."""
    return run.only(sockbuf="default", placement="free", tracer=q.UNTRACED)


def channels(run: q.Run) -> list[str]:
    """Return the channels measured, in the order of the lab."""
    return run.levels("channel", CHANNELS)


def modes(run: q.Run) -> list[str]:
    """Return the modes measured, in the order of the lab."""
    return run.levels("mode", MODES)


def place(factors: Mapping[str, q.Level]) -> tuple[int, int, int]:
    """Return the place of a point in the lab's order: by mode, channel and size of the buffer."""
    known = (MODES.index(str(factors["mode"])), CHANNELS.index(str(factors["channel"])))
    return (*known, int(factors["buffer"]))


def curves(run: q.Run, asked: str | q.Quantity, **factors: q.Level) -> dict[str, list[q.At]]:
    """Return the curve of each channel that has values at points with these levels."""
    return q.curves_by(run, asked, "channel", CHANNELS, **factors)


def over_buffers(title: str, run: q.Run, asked: q.Asked, unit: str, without: str = "") -> Iterator[q.Figure]:
    """Draw a quantity over the buffer size, a figure for each mode but `without`, a line for each channel."""
    for mode in modes(run):
        if mode != without:
            own = curves(run, asked, mode=mode)
            yield from q.several(f"{title}, {MODE_WORDS[mode]}", own, unit, "buffer")


def traces(run: q.Run, kind: str) -> list[q.Traced]:
    """Return the points of `ipc.trace` whose traces hold `kind`, in the results of this run."""
    other = run.beside(TRACE)
    return run.once(("traces", kind), lambda: traced(other.experiment, TIME, kind) if other else [])


def gaps(run: q.Run, kind: str) -> str:
    """Say why such traces are missing, and how to fix it."""
    other = run.beside(TRACE)
    return q.missing_traces(other.experiment if other else None, TRACE, traces(run, kind))


def both_sides(point: q.PointSamples, *names: str) -> q.Floats:
    """Return the sum of `sender_NAME` and `receiver_NAME` over `names`; in one thread the sender is both."""
    ends = ("sender",) if point.factors.get("mode") == "1thread" else ("sender", "receiver")
    parts = [q.metric(point, f"{side}_{name}") for side in ends for name in names]
    return np.asarray(np.sum(parts, axis=0), dtype=float)


def capacity(point: q.PointSamples) -> float | None:
    """Return the median of what the channel holds, in bytes."""
    found = q.measured(point, "capacity")[0]
    return float(np.median(found)) if len(found) else None


def sides(point: q.PointSamples) -> int:
    """Return how many threads move the data."""
    return 1 if point.factors.get("mode") == "1thread" else 2


def time_of_all(point: q.PointSamples) -> q.Floats:
    """Return the time of all threads that move the data."""
    return q.metric(point, TIME) * sides(point)


def _a_second(kind: str, unit: str, of: q.Values) -> q.Quantity:
    return q.Quantity(kind, unit, lambda point: of(point) / q.metric(point, TIME))


CPU = q.a_mebibyte("CPU time of a MiB", "s", lambda point: q.metric(point, "cpu_s"))
"""Of both sides."""
CALLS = q.a_mebibyte("calls a MiB", "", lambda point: q.metric(point, "writes") + q.metric(point, "reads"))
SWITCHES = q.a_mebibyte("switches a MiB", "", lambda point: both_sides(point, "voluntary", "involuntary"))
BUSY = _a_second("CPUs busy", "", lambda point: q.metric(point, "cpu_s"))
VOLUNTARY = _a_second("voluntary", "switches/s", lambda point: both_sides(point, "voluntary"))
INVOLUNTARY = _a_second("involuntary", "switches/s", lambda point: both_sides(point, "involuntary"))

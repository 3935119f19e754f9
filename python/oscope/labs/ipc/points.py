"""What several answers take from `ipc.throughput`: some of its points, and values from several metrics."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oscope.figures.traced import Traced, traced
from oscope.labs.engine.curves import At, curves_by, several
from oscope.labs.engine.quantity import Quantity, metric
from oscope.labs.engine.run import UNTRACED, Run
from oscope.labs.engine.traced import missing_traces
from oscope.labs.ipc import CHANNELS, MODES
from oscope.model.document import Figure
from oscope.model.factors import Level
from oscope.model.samples import Floats, PointSamples

MEBIBYTE = 1 << 20
RATE, RATE_UNIT, TIME = "throughput", "MiB/s", "time_s"
TRACE, MOVED = "ipc.trace", ("ipc.throughput", "ipc.trace")
MODE_WORDS = {"1thread": "in one thread", "2thread": "between threads", "2proc": "between processes"}
KNOWN = ("channel", "mode", "sockbuf", "total", "buffer")
"""Factors that every answer names or that do not change what it says."""
NAMES = ("channel", "mode", "buffer")


def free(run: Run) -> Run:
    """Return the untraced points whose sides were not placed."""
    return run.only(placement="free", tracer=UNTRACED)


def plain(run: Run) -> Run:
    """Return the untraced points for which neither socket buffers nor places were set."""
    return run.only(sockbuf="default", placement="free", tracer=UNTRACED)


def channels(run: Run) -> list[str]:
    """Return the channels measured, in the order of the lab."""
    return run.levels("channel", CHANNELS)


def modes(run: Run) -> list[str]:
    """Return the modes measured, in the order of the lab."""
    return run.levels("mode", MODES)


def place(factors: Mapping[str, Level]) -> tuple[int, int, int]:
    """Return the place of a point in the lab's order: by mode, channel and size of the buffer."""
    known = (MODES.index(str(factors["mode"])), CHANNELS.index(str(factors["channel"])))
    return (*known, int(factors["buffer"]))


def curves(run: Run, asked: str | Quantity, **factors: Level) -> dict[str, list[At]]:
    """Return the curve of each channel that has values at points with these levels."""
    return curves_by(run, asked, "channel", CHANNELS, **factors)


def over_buffers(title: str, run: Run, asked: str | Quantity, unit: str, without: str = "") -> list[Figure]:
    """Draw a quantity over the buffer size, a figure for each mode but `without`, a line for each channel."""
    return [
        figure
        for mode in modes(run)
        if mode != without
        for figure in several(f"{title}, {MODE_WORDS[mode]}", curves(run, asked, mode=mode), unit, "buffer")
    ]


def traces(run: Run, kind: str) -> list[Traced]:
    """Return the points of `ipc.trace` whose traces hold `kind`, in the results of this run."""
    other = run.beside(TRACE)
    return run.once(("traces", kind), lambda: traced(other.experiment, TIME, kind) if other else [])


def gaps(run: Run, kind: str) -> str:
    """Say why such traces are missing, and how to fix it."""
    other = run.beside(TRACE)
    return missing_traces(other.experiment if other else None, TRACE, traces(run, kind))


def both_sides(point: PointSamples, *names: str) -> Floats:
    """Return the sum of `sender_NAME` and `receiver_NAME` over `names`; in one thread the sender is both."""
    ends = ("sender",) if point.factors.get("mode") == "1thread" else ("sender", "receiver")
    parts = [metric(point, f"{side}_{name}") for side in ends for name in names]
    return np.asarray(np.sum(parts, axis=0), dtype=float)


def sides(point: PointSamples) -> int:
    """Return how many threads move the data."""
    return 1 if point.factors.get("mode") == "1thread" else 2


def _mebibytes(point: PointSamples) -> Floats:
    return metric(point, "bytes") / MEBIBYTE


CPU = Quantity("CPU time of a MiB", "s", lambda point: metric(point, "cpu_s") / _mebibytes(point))
"""Of both sides."""
BUSY = Quantity("CPUs busy", "", lambda point: metric(point, "cpu_s") / metric(point, TIME))
CALLS = Quantity(
    "calls a MiB", "", lambda point: (metric(point, "writes") + metric(point, "reads")) / _mebibytes(point)
)
SWITCHES = Quantity(
    "switches a MiB", "", lambda point: both_sides(point, "voluntary", "involuntary") / _mebibytes(point)
)


def _a_second(kind: str) -> Quantity:
    return Quantity(kind, "switches/s", lambda point: both_sides(point, kind) / metric(point, TIME))


VOLUNTARY, INVOLUNTARY = _a_second("voluntary"), _a_second("involuntary")

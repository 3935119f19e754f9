"""What several answers take from `ipc.throughput`: some of its points, and values from several metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from oscope.labs.engine.curves import At, curves_by
from oscope.labs.engine.quantity import metric
from oscope.labs.engine.run import UNTRACED, Run, only
from oscope.labs.ipc import CHANNELS, COMPARED, MODES
from oscope.model.factors import Level
from oscope.model.samples import Floats, PointSamples

MEBIBYTE = 1 << 20
BUFFER = "buffer"
RATE, RATE_UNIT, TIME = "throughput", "MiB/s", "time_s"
PLAIN: Mapping[str, Level] = {"sockbuf": "default", "placement": "free"}
"""Levels of a point that nothing was set for."""
MODE_WORDS = {"1thread": "in one thread", "2thread": "between threads", "2proc": "between processes"}
KNOWN = ("channel", "mode", "sockbuf", "total", "buffer")
"""Factors that every answer names or that do not change what it says."""


def free(run: Run) -> Run:
    """Return the untraced points whose sides were not placed."""
    return Run(run.results, only(run.experiment, placement="free", tracer=UNTRACED))


def plain(run: Run) -> Run:
    """Return the untraced points for which neither socket buffers nor places were set."""
    return Run(run.results, only(run.experiment, **PLAIN, tracer=UNTRACED))


def channels(run: Run) -> list[str]:
    """Return the channels measured, in the order of the lab."""
    return run.levels("channel", CHANNELS)


def modes(run: Run) -> list[str]:
    """Return the modes measured, in the order of the lab."""
    return run.levels("mode", MODES)


def curves(run: Run, metric: str, **factors: Level) -> dict[str, list[At]]:
    """Return the curve of each channel that has values at points with these levels."""
    return curves_by(run, metric, "channel", CHANNELS, **factors)


def both_sides(point: PointSamples, *names: str) -> Floats:
    """Return the sum of `sender_NAME` and `receiver_NAME` over `names`; in one thread the sender is both."""
    sides = ("sender",) if point.factors.get("mode") == "1thread" else ("sender", "receiver")
    parts = [metric(point, f"{side}_{name}") for side in sides for name in names]
    return np.asarray(np.sum(parts, axis=0), dtype=float)


def sides(point: PointSamples) -> int:
    """Return how many threads move the data."""
    return 1 if point.factors.get("mode") == "1thread" else 2


def mebibytes(point: PointSamples) -> Floats:
    """Return how much was moved in each sample, in MiB."""
    return metric(point, "bytes") / MEBIBYTE


def switches(point: PointSamples) -> Floats:
    """Return the context switches of both sides in each sample."""
    return both_sides(point, "voluntary", "involuntary")


def cpu_per_mebibyte(point: PointSamples) -> Floats:
    """Return the CPU time of both sides for a MiB, in s."""
    return metric(point, "cpu_s") / mebibytes(point)


def cpus_busy(point: PointSamples) -> Floats:
    """Return CPU time over elapsed time."""
    return metric(point, "cpu_s") / metric(point, TIME)


def calls_per_mebibyte(point: PointSamples) -> Floats:
    """Return writes and reads for a MiB."""
    return (metric(point, "writes") + metric(point, "reads")) / mebibytes(point)


def switches_per_mebibyte(point: PointSamples) -> Floats:
    """Return context switches of both sides for a MiB."""
    return switches(point) / mebibytes(point)


def shown_sizes(found: Sequence[At]) -> list[At]:
    """Return the points of a curve that a table shows: at the lab's compared sizes, else at both ends."""
    chosen = [each for each in found if each.size in COMPARED]
    return chosen or [each for each in found if each.size in (found[0].size, found[-1].size)]

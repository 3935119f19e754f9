"""Commands that waited for a CPU: their times are also those of other processes."""

from __future__ import annotations

import numpy as np

from oscope.model.formatting import format_share
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.trace.factor import UNTRACED, tracer_of

OF_THE_WALL = ("time_ns", "net_ns")
"""The metrics that are a command's wall time."""
MOST_WAITING = 0.1
"""Share of a command's time that it may wait for a CPU without a word."""


def waiting_note(experiment: ExperimentResults, instead: str = "--metric cpu_ns judges") -> str | None:
    """Say for how much of their time the commands of a bench waited for a CPU; None where it was little.

    `instead` says what has the CPU time that they used themselves.
    """
    if experiment.headline not in OF_THE_WALL:
        return None
    untraced = [point for point in experiment.points if tracer_of(point.factors) == UNTRACED]
    most = max(map(_waiting, untraced), default=0.0)
    if most <= MOST_WAITING:
        return None
    text = f"other processes used the CPUs: commands did not run for up to {format_share(most)} of their time"
    return f"{text}; {instead} what they use themselves"


def _waiting(point: PointSamples) -> float:
    """Return which share of its time a command waited for a CPU; 0 where it waited for something else, too.

    One that is taken off its CPU at least as often as it gives it up is not on one because others are. Only
    commands have all of these metrics.
    """
    time_ns, cpu_ns, involuntary, voluntary = (
        _median(point, name) for name in ("time_ns", "cpu_ns", "involuntary_switches", "voluntary_switches")
    )
    if not time_ns or cpu_ns is None or not involuntary or involuntary < (voluntary or 0.0):
        return 0.0
    return max(0.0, 1 - cpu_ns / time_ns)


def _median(point: PointSamples, metric: str) -> float | None:
    values = point.metrics.get(metric, np.zeros(0))
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else None

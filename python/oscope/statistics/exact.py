"""Comparisons in which nothing varies: what the instructions clock gives, and what other clocks hardly do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oscope.model import clocks
from oscope.model.samples import Column, Floats
from oscope.statistics.pairing import Match
from oscope.statistics.replication import UNITS
from oscope.statistics.sides import ROUNDING, Measured

ONE_COURSE = (
    "where a difference is the same each time, the boots repeat one course of events: it is exact for these "
    "kernels and this order, and no evidence on other states"
)
"""Equal boots are one observation of the world, however many they are."""


WHOLE = frozenset({"1", "B", "calls", "count"})
"""Units of metrics that count: two values that differ by 100 may be exact all the same."""

ENOUGH = 6
"""Values that their range is a 95 % interval of the median of: 2 / 2**6 < 5 %."""


@dataclass(frozen=True)
class Constant:
    """A difference that was the same in every boot or block."""

    change: float
    """B less A, on the scale of the values."""
    units: str
    """What it was the same in, such as `5 boots a side`."""


def find_constant(a: Measured, b: Measured, metric: Column, *, paired: bool) -> Constant | None:
    """Return the difference if it was the same each time; None where it varied, or was seen but once.

    Only what the instructions clock counts may differ by a constant: two times do by the step of their clock,
    and no more is known of them; nor do counts by a coarser step than an instruction (`coarse`).
    """
    if min(len(a.value), len(b.value)) < 2 or coarse(metric):
        return None
    words = f"{UNITS[a.level]}s"
    change = 0.0 if _equal(np.array([a.value[0], b.value[0]])) else float(b.value[0] - a.value[0])
    if _equal(a.value) and _equal(b.value) and (change == 0 or clocks.counted(metric.unit)):
        counts = dict.fromkeys((len(a.value), len(b.value)))
        return Constant(change, f"{' and '.join(map(str, counts))} {words} a side")
    if not paired or metric.unit != clocks.UNIT:
        return None
    _, at_a, at_b = np.intersect1d(a.unit, b.unit, return_indices=True)
    differences = b.value[at_b] - a.value[at_a]
    if np.ptp(differences) > ROUNDING * np.abs(a.value).max():
        return None
    change = float(np.median(differences))
    return Constant(0.0 if abs(change) <= ROUNDING * abs(a.value[0]) else change, f"{len(at_a)} {words}")


def _equal(values: Floats) -> bool:
    """Say whether values are equal but for what dividing counts by iterations rounds away."""
    return bool(np.ptp(values) <= ROUNDING * np.abs(values).max())


def coarse(metric: Column) -> bool:
    """Say whether a metric counts instructions by a step of more than one, so that equal is not the same."""
    return clocks.step(metric.name, metric.unit, 1) > 1


def step_of(match: Match, metric: Column) -> float:
    """Return what one instruction more changes, on the scale of the values; 0 for other clocks' metrics.

    Of a count it is that of the side with fewer iterations; of a rate, a share of the shorter repetition.
    """
    sides = (match.a, match.b)
    if metric.unit.endswith(clocks.PER):
        return 1 / max(1.0, min(float(np.nanmedian(side.raw - side.correction)) for side in sides))
    iterations = min(float(np.median(side.iterations)) for side in sides)
    return clocks.step(metric.name, metric.unit, iterations)


def counting_error(match: Match, metric: Column, a: Measured, b: Measured, *, logarithmic: bool) -> float:
    """Return `resolution_error` where both sides may count whole things, of which one is the step.

    There is none where each side has one value in enough units: the interval of its median is that value.
    """
    both = np.concatenate([side.metrics[metric.name] for side in (match.a, match.b)])
    values = both[np.isfinite(both)]
    if metric.unit not in WHOLE or np.any(values != np.round(values)):
        return resolution_error(a, b)
    if min(len(a.value), len(b.value)) >= ENOUGH and _equal(a.value) and _equal(b.value):
        return 0.0
    # Of logarithms the step is that at the smallest value.
    return resolution_error(a, b, float(np.log1p(1 / values.min())) if logarithmic else 1.0)


def resolution_error(a: Measured, b: Measured, step: float = 0.0) -> float:
    """Return the standard error that comes from values being multiples of a step: step / sqrt(12) a value.

    A step that is not known is taken to be the smallest difference between two values.
    """
    step = step or float(min(np.diff(np.unique(np.concatenate([a.value, b.value]))), default=0.0))
    return float(step * np.sqrt((1 / len(a.value) + 1 / len(b.value)) / 12))

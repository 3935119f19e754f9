"""What separate runs differ by because the core ran at another speed.

A core's frequency, and what a neighbour on the same core takes away, differ from run to run. The probe times
4096 loads from the core's first cache before each repetition (`core_loads_ns`): each takes a fixed number of
the core's cycles, so that their time is that of a cycle. Where earlier runs of the same point show that the
medians follow this time, the part of a difference that it explains is taken off: a control variate, by a
regression of logarithms (Lavenberg and Welch, "A perspective on the use of control variables", Management
Science 27, 1981). That it helps is judged by leaving out each earlier run in turn, never by the two runs that
are compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from oscope.model.samples import Floats, PointSamples
from oscope.statistics import replication
from oscope.statistics.between_runs import ASSUMED_RUNS, NEWEST, Spread
from oscope.statistics.shape import group_medians

CORE_LOADS = "core_loads_ns"
AT_ONE_SPEED = ", at one speed of the core"
"""Ends the method of a comparison from which the part of the core's speed was taken off."""
FEWEST = ASSUMED_RUNS + 1
"""Earlier runs from which on the regression is tried: with fewer, how much runs differ is itself assumed."""
WORTH = 0.8
"""Share of the deviation between runs that has to remain at most, else the medians are taken as they are."""
REACH = 8.0
"""Robust deviations of earlier runs' loads that those of two runs may differ by, and no more than any two of
them: a single run with other settings must not stretch what is explained."""
NORMAL = 1.4826
"""Deviation of a normal distribution over its median absolute deviation."""
LEAST_KEPT = 0.1
"""Share of a run's residual that the fit leaves at least: else the run decides on the slope by itself."""
MEDIAN_OVER_MEAN = float(np.sqrt(np.pi / 2))
"""Standard error of a normal sample's median over that of its mean."""
STEEPEST = 2.0
"""Work slows down as the core does, or less (slope 1), give or take what the fit is uncertain by."""


@dataclass(frozen=True)
class Explained:
    """What the speed of the core explains of the logarithm of B over A, and what remains."""

    change: float
    """Logarithm of B over A that is explained."""
    slower: float
    """By which share the loads took longer in B than in A."""
    spread: Spread
    """How much runs differ beyond."""
    without: float
    """Relative deviation between runs where nothing is taken off."""


def core_loads(point: PointSamples) -> float:
    """Return the median time of the loads before the repetitions of a point, in ns; NaN where not taken."""
    found = point.covariates.get(CORE_LOADS)
    return float("nan") if found is None or not np.isfinite(found).any() else float(np.nanmedian(found))


def excess_error(a: PointSamples, b: PointSamples, earlier: Iterable[PointSamples]) -> float:
    """Return the relative standard error of the loads' medians of A and B beyond that of `earlier` points.

    What earlier runs know their loads by is in their residuals already; a run with fewer blocks knows less.
    """
    usual = [error**2 for each in earlier if np.isfinite(error := _loads_error(each))]
    own = (_loads_error(a) ** 2 + _loads_error(b) ** 2) / 2
    return float(np.sqrt(max(0.0, own - float(np.median(usual))))) if usual else float("inf")


def _loads_error(point: PointSamples) -> float:
    """Relative standard error of the median of the loads, by the medians of the blocks; infinite for one."""
    found = point.covariates.get(CORE_LOADS)
    known = np.isfinite(found) if found is not None else np.zeros(0, dtype=bool)
    if found is None or not known.any():
        return float("inf")
    medians = group_medians(found[known], replication.codes(point.block[known]))
    if len(medians) < 2 or not (median := float(np.median(medians))):
        return float("inf")
    return float(MEDIAN_OVER_MEAN * medians.std(ddof=1) / np.sqrt(len(medians)) / median)


def explain(medians: Floats, loads: Floats, a: float, b: float, error: float = 0.0) -> Explained | None:
    """Return what the loads explain between two runs whose loads took `a` and `b` ns; None where nothing.

    `medians` of a metric and `loads` are those of earlier runs, in order of time, NaN where there is none.
    `error` is the relative standard error of `a` and `b` beyond that of `loads` (see `excess_error`).
    Loads are not used that differ by more than those of earlier runs do: then something was changed
    that acts on the core's speed, and that is what is compared.
    """
    known = np.isfinite(medians) & np.isfinite(loads) & (medians > 0) & (loads > 0)
    if known.sum() < FEWEST or not (np.isfinite([a, b, error]).all() and min(a, b) > 0):
        return None
    y, x = np.log(medians[known][-NEWEST:]), np.log(loads[known][-NEWEST:])
    count, step = len(y), float(np.log(b / a))
    usual = REACH * NORMAL * float(np.median(np.abs(x - np.median(x))))
    if abs(step) > min(float(np.ptp(x)), usual):
        return None
    x, y = x - x.mean(), y - y.mean()
    power = float(x @ x)
    kept = 1 - 1 / count - x**2 / power if power else np.zeros(count)
    # A run that decides on the slope by itself shows nothing.
    if kept.min() < LEAST_KEPT:
        return None
    slope = float(x @ y) / power
    rest = y - slope * x
    # Residuals of the fit, and of the mean, without the run itself.
    left_out = rest / kept
    plain = y * count / (count - 1)
    if abs(slope) > STEEPEST or not np.linalg.norm(left_out) < WORTH * np.linalg.norm(plain):
        return None
    variance = float(rest @ rest) / (count - 2)
    # The slope's own error: of the difference of two runs, half of it is each one's.
    deviation = np.sqrt(variance * (1 + step**2 / (2 * power)) + (slope * error) ** 2)
    without = float(np.sqrt(float(y @ y) / (count - 1)))
    return Explained(slope * step, float(np.expm1(step)), Spread(float(deviation), count - 2, count), without)

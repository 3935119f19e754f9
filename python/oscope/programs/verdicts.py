"""How a compared command differs from the first, in a sentence."""

from __future__ import annotations

from math import isfinite

import numpy as np

from oscope.model.formatting import format_share
from oscope.statistics import ComparedMetric
from oscope.statistics.compared import LARGEST_RATIO

TIMES = ("time_ns", "net_ns", "cpu_ns", "user_ns", "system_ns")
LARGE = 2.0
"""From this ratio on, a difference is written as a multiple."""
ENOUGH = 10
"""Runs that are advised where there were too few."""


def verdict(row: ComparedMetric, first: str, name: str, threshold: float) -> str:
    """Say in a sentence how the command `name` differs from `first`."""
    what = "" if row.metric in ("time_ns", "net_ns") else f" in {row.metric}"
    if row.different == "yes":
        if not isfinite(row.ratio):
            return f"{name} differs from {first}{what}: by {row.difference:g} {row.unit}"
        return f"{name} {_difference(row)} {first}{what}"
    if row.different == "no":
        return f"{name} and {first} do not differ{what} by more than {format_share(threshold)}"
    if not row.detectable <= LARGEST_RATIO:
        advice = f": take {ENOUGH} runs or more of each (--reps)" if min(row.n_a, row.n_b) < ENOUGH else ""
        return f"cannot tell whether {name} differs from {first}{what}{advice}"
    found = "would have been found" if row.detectable < LARGE else "could have been missed"
    size = format_share(row.detectable)
    return f"cannot tell whether {name} differs from {first}{what}: a difference of {size} {found}"


def _difference(row: ComparedMetric) -> str:
    """Return `is 1.83 % [1.6, 2.1] faster than`, or the like for a multiple or another metric."""
    low, high = row.ci95
    timed = row.metric in TIMES
    if timed and row.ratio <= 1 / LARGE and low > 0:
        return f"is {_times(1 / row.ratio, 1 / high, 1 / low)} times as fast as"
    if row.ratio >= LARGE:
        verb, how = ("takes", "long") if timed else ("uses", "much")
        return f"{verb} {_times(row.ratio, low, high)} times as {how} as"
    less = row.ratio < 1
    ends = sorted(100 * (1 - end if less else end - 1) for end in (low, high))
    size = _percent(100 * abs(row.ratio - 1), *ends)
    if timed:
        return f"is {size} {'faster' if less else 'slower'} than"
    return f"uses {size} {'less' if less else 'more'} than"


def _percent(value: float, low: float, high: float) -> str:
    decimals = _decimals(high - low)
    return f"{value:.{decimals}f} % [{low:.{decimals}f}, {high:.{decimals}f}]"


def _times(value: float, low: float, high: float) -> str:
    decimals = _decimals(high - low)
    return f"{value:.{decimals}f} [{low:.{decimals}f}, {high:.{decimals}f}]"


def _decimals(width: float) -> int:
    """Return the decimals that an interval so wide allows: two digits of it."""
    if not isfinite(width) or width <= 0:
        return 2
    return int(min(max(1 - np.floor(np.log10(width)), 0), 4))

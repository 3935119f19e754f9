"""When a point is precise enough: the rule by which `--precision` ends its measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oscope.model.samples import ExperimentResults
from oscope.statistics.summary import summarise_point

MINIMUM_BLOCKS = 10
"""No point ends earlier: looked at again and again, an interval over few processes is soon narrow by luck."""

IN_A_ROW = 4
"""Looks, one after each block, that must all be precise enough."""


@dataclass(frozen=True)
class Look:
    """What the samples up to a block say of the headline metric."""

    blocks: int
    """Blocks that gave values."""
    half_width: float | None
    """Half the width of the median's 95 % interval over the median; None where there is none."""


def look(results: ExperimentResults, number: int, last_block: int) -> Look:
    """Look at the point `number`.

    Only blocks up to `last_block` count: a resumed run has later ones already, and shall decide as the
    unbroken one did.
    """
    whole = results.points[number]
    point = whole.only((whole.block <= last_block) & np.isfinite(whole.metrics[results.headline]))
    found = summarise_point(results, point, results.headline)
    return Look(len(np.unique(point.block)), found.relative_half_width)


def reached(looks: Sequence[Look], precision: float) -> bool:
    """Say whether the last looks all were precise enough.

    An interval that is looked at again and again is narrow by luck once in a while, and then misses the truth
    more often than it says. What this rule leaves of that is measured by `benchmarks/null_precision.py`.
    """
    if len(looks) < IN_A_ROW or looks[-1].blocks < MINIMUM_BLOCKS:
        return False
    return all(found.half_width is not None and found.half_width <= precision for found in looks[-IN_A_ROW:])

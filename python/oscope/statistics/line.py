"""A straight line through the medians of several points, fitted in each block by least squares.

Blocks are independent of each other, and so are their lines: start and slope are summarised over the blocks.
Nothing is assumed of how the values of one block vary around its line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oscope.model.samples import Floats
from oscope.statistics.summary import Summary, summarise


@dataclass(frozen=True)
class Line:
    """The lines of all blocks. Start and slope may be below zero."""

    start: Summary
    """The value at 0, in the unit of the values; one a block."""
    slope: Summary
    """In the unit of the values over that of `x`; one a block."""
    x: Floats
    centre: Floats
    """The median over the blocks at each `x`."""

    @property
    def furthest(self) -> float:
        """How far the line lies from the medians at the worst `x`, as a share of the median there."""
        off = np.abs(self.start.median + self.slope.median * self.x - self.centre) / self.centre
        return float(off.max())


def fit_line(
    x: Sequence[float], medians: Sequence[Mapping[int, float]], *, relative: bool = False, seed: int = 0
) -> Line | None:
    """Fit a line in each block that has all points; None with fewer than two points, or no such block.

    `medians` has each point's median in each block. With `relative` residuals are shares of the values, which
    are above zero: where these grow by orders of magnitude, absolute ones would leave the start to the noise
    of the largest.
    """
    shared = sorted(set.intersection(*map(set, medians))) if len(medians) > 1 else []
    if not shared:
        return None
    places = np.array(x, dtype=float)
    values = np.array([[each[block] for each in medians] for block in shared])
    lines = np.array([np.polyfit(places, row, 1, w=1 / row if relative else None) for row in values])
    slope, start = (summarise(lines[:, column], shared, seed=seed, kind="difference") for column in (0, 1))
    return Line(start, slope, places, np.median(values, axis=0))

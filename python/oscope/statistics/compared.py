"""One metric of two sides, compared: the row that every comparison is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import Literal

from oscope.model.factors import Level
from oscope.statistics.core_clock import AT_ONE_SPEED

Answer = Literal["yes", "no", "cannot tell"]
HOLM = "Holm"
BENJAMINI_HOCHBERG = "Benjamini and Hochberg"

LARGEST_RATIO = 100
"""Beyond it a ratio or a change says no more than that the samples do not allow one."""
ROUNDING = 1e-9
"""Share of a ratio up to which two of them count as equal."""
ANOTHER_CHANGE = 0.1
"""Share of a change by which that of the medians may differ from it without a word."""
FINEST_RATIO = 0.001
"""Half an interval below which a ratio gets no more digits: four after the point."""


def is_beyond(ends: tuple[float, float], threshold: float) -> bool:
    """Say whether a whole interval of B over A lies beyond a threshold, such as 0.01, on one side of 1."""
    low, high = ends
    return low - 1 > threshold or 1 - high > threshold


def ratio_step(ci95: tuple[float, float]) -> float:
    """Return the last digit that a ratio with this interval is written to: the second of half its width."""
    half = max(min(ci95[1] - ci95[0], 1.0) / 2, FINEST_RATIO)
    return float(10.0 ** (floor(log10(half)) - 1))


@dataclass(frozen=True)
class ComparedMetric:
    """One metric at one point, B against A."""

    factors: Mapping[str, Level]
    metric: str
    unit: str
    ratio: float
    """B over A; NaN where A's value is not clearly above 0."""
    difference: float
    """B less A, in `unit`."""
    ci95: tuple[float, float]
    p: float
    p_holm: float
    """p, corrected for the tests of its family (see `multiplicity`)."""
    different: Answer
    matters: Answer
    detectable: float
    """Smallest relative difference that would have been found with 80 % power (0.01 = 1 %); NaN without
    a ratio."""
    n_a: int
    n_b: int
    clusters_a: int
    clusters_b: int
    median_a: float
    """In `unit`."""
    median_b: float
    method: str
    sentence: str
    tests: int = 1
    """How many tests `p_holm` is corrected for."""
    correction: str = HOLM
    """Whose correction that is."""
    difference_ci95: tuple[float, float] = (float("nan"), float("nan"))
    """95 % interval of `difference`, in `unit`, of what has no ratio; else NaN: see `ci95`."""

    @property
    def is_of_single_blocks(self) -> bool:
        """Whether each side is one block or reading, which shows neither an interval nor an mde."""
        return self.clusters_a == self.clusters_b == 1

    @property
    def at_one_speed(self) -> bool:
        """Whether the ratio is another than that of the medians: without what the core's speed explains."""
        return self.method.endswith(AT_ONE_SPEED)

    @property
    def ratio_of_medians(self) -> float:
        """B's median over A's; NaN where A's is not above 0."""
        return self.median_b / self.median_a if self.median_a > 0 else float("nan")

    @property
    def is_unlike_medians(self) -> bool:
        """Whether the ratio of the medians seems to contradict `ratio`, which `at_one_speed` does not say.

        It lies outside the interval, or the change that is claimed is another one by more than a tenth, or
        the medians change in the other direction, as far as the digits show it.
        """
        low, high = self.ci95
        of_medians = self.ratio_of_medians
        if self.at_one_speed or not isfinite(self.ratio) or not isfinite(of_medians):
            return False
        apart = abs(of_medians - self.ratio)
        another = self.different == "yes" and apart > ANOTHER_CHANGE * abs(self.ratio - 1)
        step = ratio_step(self.ci95)
        opposite = round((of_medians - 1) / step) * round((self.ratio - 1) / step) < 0
        # Of what repeats exactly, the interval is a point.
        outside = not low <= of_medians <= high and apart > ROUNDING * abs(self.ratio)
        return another or opposite or outside

"""One metric of two sides, compared: the row that every comparison is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from oscope.model.factors import Level
from oscope.statistics.core_clock import AT_ONE_SPEED

Answer = Literal["yes", "no", "cannot tell"]
HOLM = "Holm"
BENJAMINI_HOCHBERG = "Benjamini and Hochberg"


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

    @property
    def at_one_speed(self) -> bool:
        """Whether the ratio is another than that of the medians: without what the core's speed explains."""
        return self.method.endswith(AT_ONE_SPEED)

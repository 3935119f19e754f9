"""A share of cases, and its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

import scipy

from oscope.model.formatting import MISSING


@dataclass(frozen=True)
class Rate:
    """So many of so many cases, with a 95 % interval of the share (Wilson, JASA 22, 1927)."""

    count: int
    of: int

    @property
    def share(self) -> float:
        """0 to 1; NaN of none."""
        return self.count / self.of if self.of else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """Its ends; 0 to 1 where there was no case."""
        if not self.of:
            return 0.0, 1.0
        found = scipy.stats.binomtest(self.count, self.of).proportion_ci(method="wilson")
        return float(found.low), float(found.high)

    @property
    def percent(self) -> str:
        """Return `4.0 % (2.6 to 6.1)`."""
        if not self.of:
            return MISSING
        low, high = self.interval
        return f"{100 * self.share:.1f} % ({100 * low:.1f} to {100 * high:.1f})"

    def __str__(self) -> str:
        """Return `4.0 % (2.6 to 6.1) of 500`."""
        return f"{self.percent} of {self.of}" if self.of else MISSING

"""What a method reports about a pair of measurements."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MethodVerdict:
    """What a method says of a pair, B against A."""

    different: bool
    ratio: float
    low: float = float("nan")
    """Ends of the 95 % interval of the ratio; NaN where the method has none."""
    high: float = float("nan")

    def holds(self, truth: float) -> bool:
        """Say whether the interval holds `truth`."""
        return self.low <= truth <= self.high

    def finds(self, truth: float) -> bool:
        """Say whether it reports a difference, in the right direction."""
        return self.different and (self.ratio - 1) * (truth - 1) > 0

    def inverted(self) -> MethodVerdict:
        """Return the verdict on the reciprocals: on rates, where this one is on times."""
        ratio, low, high = (
            1 / value if value else float("inf") for value in (self.ratio, self.high, self.low)
        )
        return MethodVerdict(self.different, ratio, low, high)

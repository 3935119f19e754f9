"""Arithmetic of figures with bounds: interval arithmetic (Moore, Interval Analysis, 1966).

The bounds of a result are the least and the greatest value that those of its parts allow, whatever these have
to do with each other. Where the parts have 95 % intervals, all of two parts hold together with at least 90 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

from oscope.statistics.summary import Summary


@dataclass(frozen=True)
class Bounded:
    """A figure of any unit with bounds in the same; NaN where they, or the figure itself, are not known."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, summary: Summary) -> Bounded:
        """Return a median with its interval."""
        return cls(summary.median, *(summary.ci95 or (nan, nan)))

    def __add__(self, other: Bounded) -> Bounded:
        return Bounded(self.value + other.value, self.low + other.low, self.high + other.high)

    def __sub__(self, other: Bounded) -> Bounded:
        return Bounded(self.value - other.value, self.low - other.high, self.high - other.low)

    def times(self, factor: float) -> Bounded:
        """Return the figure times a positive number."""
        return Bounded(self.value * factor, self.low * factor, self.high * factor)

    def inverse(self) -> Bounded:
        """Return one over a positive figure; without bounds where they do not keep it from 0."""
        if not self.low > 0:
            return Bounded(1 / self.value, nan, nan)
        return Bounded(1 / self.value, 1 / self.high, 1 / self.low)

    def over(self, other: Bounded) -> Bounded:
        """Return the quotient of two positive figures; without bounds where the divisor's reach 0."""
        inverse = other.inverse()
        return Bounded(self.value * inverse.value, self.low * inverse.low, self.high * inverse.high)

"""Factors, their levels, and when they have a meaning. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Level = str | int | float | bool
Factors = Mapping[str, Level]
Profile = Literal["quick", "full"]


@dataclass(frozen=True)
class Condition:
    """What another parameter has to be for one to have a meaning."""

    parameter: str
    levels: tuple[Level, ...]
    within: bool = True
    """Whether it has to be one of `levels`, or none of them."""

    def holds(self, factors: Factors, defaults: Factors) -> bool:
        """Say whether it holds at a point; a parameter that is no factor has its default there."""
        level = factors.get(self.parameter, defaults.get(self.parameter))
        return level is None or (level in self.levels) == self.within

    def __str__(self) -> str:
        """Return it as it is asked for: `sizes=equal`."""
        levels = ",".join("''" if level == "" else str(level) for level in self.levels)
        return f"{self.parameter}{'=' if self.within else ' other than '}{levels}"


def as_typed(level: Level) -> str:
    """Return a level as `--set` takes it."""
    return str(level).lower() if isinstance(level, bool) else str(level)


Conditions = Mapping[str, tuple[Condition, ...]]
"""Of each parameter that does not always have a meaning: what has to hold."""


def meaningful(factors: Factors, conditions: Conditions, defaults: Factors) -> dict[str, Level]:
    """Return the factors of a point without those that have no meaning there."""
    return {
        name: level
        for name, level in factors.items()
        if all(condition.holds(factors, defaults) for condition in conditions.get(name, ()))
    }

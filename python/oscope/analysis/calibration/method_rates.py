"""The methods side by side: false positives, power, and what a difference found costs in measuring time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from oscope.analysis.calibration import trials
from oscope.analysis.calibration.methods import METHODS, WITH_INTERVALS
from oscope.analysis.calibration.trials import Trial
from oscope.statistics.rate import Rate

LEVEL = 0.05
"""Share of false positives that a method may have."""


@dataclass(frozen=True)
class MethodRates:
    """How often a method is wrong, and how often right, over some trials."""

    method: str
    false_positives: Rate
    """Of pairs of equal sides."""
    coverage: Rate | None
    """Of pairs with a known difference; None where the method has no interval."""
    power: Mapping[float, Rate]
    """By effect: pairs in which it was found, in the right direction."""
    pair_seconds: Mapping[float, float]
    """By effect: mean time that both sides of a pair took, preparations included."""

    @property
    def exceeds_level(self) -> bool:
        """Whether false positives are above 5 % beyond chance: their whole 95 % interval is."""
        return self.false_positives.of > 0 and self.false_positives.interval[0] > LEVEL

    def seconds_per_find(self, effect: float) -> float | None:
        """Return the seconds of measuring per difference found: the time of a pair over the power.

        None where that means nothing or is not known: the method exceeds 5 % of false positives, no pair of
        equal sides shows that it does not, or it found no difference.
        """
        rate = self.power[effect]
        if self.exceeds_level or not (self.false_positives.of and rate.count):
            return None
        return self.pair_seconds[effect] / rate.share


def method_rates(found: Sequence[Trial]) -> list[MethodRates]:
    """Return the rates of each method, in the order of `METHODS`.

    A method is judged by the trials that have its verdict; one that none has, as in records of earlier
    versions, is left out.
    """
    effects = trials.effects(found)
    return [
        _rates(method, own, effects)
        for method in METHODS
        if (own := [trial for trial in found if method in trial.verdicts])
    ]


def _rates(method: str, own: Sequence[Trial], effects: Sequence[float]) -> MethodRates:
    return MethodRates(
        method,
        trials.false_alarms(own, method),
        trials.coverage(own, method) if method in WITH_INTERVALS else None,
        {effect: trials.found(own, effect, method) for effect in effects},
        {effect: _pair_seconds(trial for trial in own if trial.effect == effect) for effect in effects},
    )


def _pair_seconds(own: Iterable[Trial]) -> float:
    each = [2 * trial.seconds for trial in own]
    return sum(each) / len(each) if each else float("nan")

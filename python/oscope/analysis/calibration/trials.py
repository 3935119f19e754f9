"""The trials of a calibration, and what they come to: false positives, coverage, power."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from oscope.analysis.calibration.methods import OSCOPE, MethodVerdict
from oscope.model.errors import UsageError
from oscope.statistics.rate import Rate

SCHEMA = "oscope.calibration/1"


@dataclass(frozen=True)
class Observed:
    """What a pair shows of how well a difference can be known: what certificates are made of."""

    median: float
    """Of side A, in the metric's unit."""
    pairs: int
    """Blocks that both sides have; 0 where they were not interleaved."""
    pair_s: float
    """Seconds from one pair of blocks to the next."""
    pair_error: float
    """Relative standard error of the interleaved difference, times the square root of the pairs."""
    block_error: float
    """Relative standard error of side A's median, times the square root of its blocks."""


@dataclass(frozen=True)
class Trial:
    """One pair: its truth, and the verdicts on it."""

    subject: str
    metric: str
    way: str
    effect: float
    """By which share an iteration of side B was slowed down; 0 of equal sides."""
    truth: float
    """B over A, of the metric."""
    detectable: float
    seconds: float
    """That each side took, preparations included."""
    verdicts: Mapping[str, MethodVerdict]
    """By the method's name."""
    observed: Observed | None = None
    """None in calibrations of earlier versions, and where a side has too few blocks to show it."""


def false_alarms(trials: Iterable[Trial], method: str = OSCOPE) -> Rate:
    """Return of how many pairs of equal sides a method said that they differ."""
    return _rate(trials, method, lambda t: not t.effect, lambda verdict, _: verdict.different)


def coverage(trials: Iterable[Trial], method: str = OSCOPE) -> Rate:
    """Return of how many pairs whose difference is known a method's 95 % interval holds it."""
    return _rate(trials, method, lambda t: t.effect > 0, lambda verdict, truth: verdict.holds(truth))


def found(trials: Iterable[Trial], effect: float, method: str = OSCOPE) -> Rate:
    """Return in how many pairs with this effect a method reported it, in the right direction."""
    return _rate(trials, method, lambda t: t.effect == effect, lambda verdict, truth: verdict.finds(truth))


def _rate(
    trials: Iterable[Trial],
    method: str,
    belongs: Callable[[Trial], bool],
    counts: Callable[[MethodVerdict, float], bool],
) -> Rate:
    own = [trial for trial in trials if belongs(trial)]
    return Rate(sum(counts(trial.verdicts[method], trial.truth) for trial in own), len(own))


def effects(trials: Iterable[Trial]) -> tuple[float, ...]:
    """Return the effects that were injected, the smallest first."""
    return tuple(sorted({trial.effect for trial in trials} - {0.0}))


def detectable(trials: Iterable[Trial]) -> float:
    """Return the smallest relative difference that Oscope says it would have found, the median of pairs."""
    own = [trial.detectable for trial in trials if np.isfinite(trial.detectable)]
    return float(np.median(own)) if own else float("nan")


def by_subject(trials: Sequence[Trial]) -> dict[tuple[str, str], list[Trial]]:
    """Return the trials of each subject and way, in the order in which they first came."""
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.subject, trial.way), []).append(trial)
    return groups


def to_object(trials: Iterable[Trial]) -> list[dict[str, Any]]:
    """Return the trials as JSON objects. NaN becomes null when they are written."""
    return [asdict(trial) for trial in trials]


def from_object(data: Iterable[Mapping[str, Any]]) -> tuple[Trial, ...]:
    """Read what `to_object` returned, written and read again. Raises UsageError where it is not that."""
    try:
        return tuple(
            Trial(
                **{
                    **each,
                    "detectable": _number(each["detectable"]),
                    "verdicts": {name: _verdict(one) for name, one in each["verdicts"].items()},
                    "observed": Observed(**each["observed"]) if each.get("observed") else None,
                }
            )
            for each in data
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"the calibration is malformed ({error!r})", remedy="calibrate anew: oscope calibrate"
        ) from error


def _verdict(data: Mapping[str, Any]) -> MethodVerdict:
    return MethodVerdict(data["different"], *(_number(data[name]) for name in ("ratio", "low", "high")))


def _number(value: float | None) -> float:
    return float("nan") if value is None else value

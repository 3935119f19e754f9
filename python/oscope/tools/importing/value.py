"""What a file of another tool holds, as values: series of samples, and what the file lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oscope.probe.catalogue import Metric

BENCHMARK = "benchmark"
"""The factor whose levels are the names that the tool gives its measurements."""
NO_BLOCKS = "randomized blocks"
NO_ENVIRONMENT = "a record of the machine"
ONE_PROCESS = "more than one process"
ONLY_MEANS = "single readings (it has only means)"
TIME_NS = Metric("time_ns", "ns", "less", "Time of one iteration, as the tool gives it.")


class WrongFileError(Exception):
    """The file is not what its format demands; the text says where."""


@dataclass(frozen=True)
class Reading:
    """One sample."""

    metrics: Mapping[str, float | None]
    iterations: int = 1
    block: int = 0
    failed: str | None = None


@dataclass(frozen=True)
class Series:
    """The samples of one measurement of the tool."""

    name: str
    readings: Sequence[Reading]


@dataclass(frozen=True)
class Imported:
    """What one file holds."""

    tool: str
    metrics: tuple[Metric, ...]
    """The headline first."""
    series: tuple[Series, ...]
    lacks: tuple[str, ...]
    about: str = ""
    """What the tool says of its version or of the time; empty: nothing."""
    notes: tuple[str, ...] = field(default=())


def number(value: Any, where: str) -> float:
    """Return `value`, which is a number; WrongFileError that says `where` it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongFileError(f"{where} is no number: {str(value)[:40]!r}")
    return float(value)


def member(data: Any, name: str, kind: type, where: str) -> Any:
    """Return `data[name]`, which is a `kind`; WrongFileError that says what is missing."""
    if not isinstance(data, dict) or not isinstance(data.get(name), kind):
        raise WrongFileError(f"{where} lacks {name!r}")
    return data[name]


def distinct(names: Iterable[str]) -> list[str]:
    """Return the names with ` (2)`, ` (3)` after those that were there before."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found

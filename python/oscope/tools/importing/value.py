"""What a file of another tool holds, as values: series of samples, and what the file lacks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from oscope.model.factors import Level
from oscope.probe.catalogue import Metric, Parameter

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
    levels: Mapping[str, Level] = field(default_factory=dict)
    """Of the factors beside the name, where the tool gives any, such as a size."""


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
    parameters: tuple[Parameter, ...] = ()
    """The factors that `Series.levels` names."""


def number(value: Any, where: str) -> float:
    """Return `value`, which is a finite number; WrongFileError that says `where` it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise WrongFileError(f"{where} is no number: {str(value)[:40]!r}")
    return float(value)


def amount(value: Any, where: str) -> float:
    """Return `value`, a number of zero or more, as times and rates are; WrongFileError otherwise."""
    found = number(value, where)
    if found < 0:
        raise WrongFileError(f"{where} is negative: {found:g}")
    return found


def member(data: Any, name: str, kind: type, where: str) -> Any:
    """Return `data[name]`, which is a `kind`; WrongFileError that says what is missing."""
    if not isinstance(data, dict) or not isinstance(data.get(name), kind):
        raise WrongFileError(f"{where} lacks {name!r}")
    return data[name]


def merged(found: Iterable[Series]) -> tuple[Series, ...]:
    """Return the series, those of one name and equal levels as one: what comes again is a further sample.

    Each has blocks of its own, since the tool measured it at another time, in other processes.
    """
    series: dict[Any, Series] = {}
    for each in found:
        key = (each.name, tuple(sorted(each.levels.items())))
        before = series.get(key)
        if before is None:
            series[key] = each
            continue
        first = 1 + max((reading.block for reading in before.readings), default=-1)
        later = [replace(reading, block=first + reading.block) for reading in each.readings]
        series[key] = replace(before, readings=[*before.readings, *later])
    return tuple(series.values())


def with_levels(
    found: Sequence[tuple[Series, Mapping[str, Any]]],
) -> tuple[tuple[Series, ...], tuple[Parameter, ...]]:
    """Return the series, distinguished by the options that they were measured with, and the factors.

    Options that differ between series of one name become levels. Series of one name and equal options are
    samples of one point.
    """
    names: dict[str, list[Mapping[str, Any]]] = {}
    for series, options in found:
        names.setdefault(series.name, []).append(options)
    varied = {
        option
        for those in names.values()
        for option in {key: None for each in those for key in each}
        if len({str(each.get(option, "")) for each in those}) > 1
    }
    placed = [
        replace(series, levels={option: str(options.get(option, "")) for option in sorted(varied)})
        if len(names[series.name]) > 1
        else series
        for series, options in found
    ]
    parameters = tuple(
        Parameter(option, "choice", "", doc="An option that the tool records.") for option in sorted(varied)
    )
    return merged(placed), parameters

"""The probe's description: workloads, parameters and metrics, and the checks that follow from them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from oscope.model import units
from oscope.model.errors import OscopeError, ProbeError, UsageError
from oscope.model.factors import Condition, Conditions, Factors, Level
from oscope.model.factors import meaningful as without_meaningless
from oscope.model.program import Program
from oscope.probe.locate import ask, find_probe

SCHEMA = "oscope.probe/1"
QUANTITIES = ("time", "cpu_time", "user_time", "system_time", "waiting_time", "cycles", "amount")
"""What a metric can be of, as a description names it."""
_MOST_PATTERN_NUMBER = 2**32 - 1
"""The largest N in a level such as `nr:N`."""
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True)
class Parameter:
    """A parameter of a workload, with all that is needed to check a level."""

    name: str
    type: str
    """choice, integer, bytes, duration (seconds), boolean, path or arguments (a list of texts: no level)."""
    default: Level
    choices: tuple[str, ...] = ()
    pattern: str | None = None
    """A further form that a choice may take, such as `nr:N` (N: a whole number)."""
    numbers: tuple[tuple[int, int], ...] = ()
    """First and last of each range that N may be in; none where the description has no such field."""
    minimum: float | None = None
    maximum: float | None = None
    unit: str | None = None
    doc: str = ""
    applies: tuple[Condition, ...] = ()
    """Where it has a meaning: all hold. Elsewhere it is neither shown nor varied."""


@dataclass(frozen=True)
class Metric:
    """One figure that each repetition gives."""

    name: str
    unit: str
    better: str | None
    """less or more; None where neither is, since it says what was done or found."""
    doc: str = ""
    """The text, as the program that describes it wrote or composed it."""
    quantity: str | None = None
    """One of `QUANTITIES`; under the instructions clock also instructions. None where the description has no
    fields (an older probe, a program of the user's own)."""
    what: str | None = None
    """A noun phrase. Of a time: whose it is (`the transfer`). Of an amount: of what (`bytes received`)."""
    per: str | None = None
    """What one value is for (`iteration`, `second`); None: the repetition."""
    note: str | None = None
    """Whole sentences: what the value includes."""
    null_when: str | None = None
    """In which case there is no value, such as `without a counter`; None where the description has no such
    field."""

    @classmethod
    def from_object(cls, data: Mapping[str, Any]) -> Metric:
        """Read a metric as `describe` prints it; KeyError where it is malformed."""
        fields = (data.get(name) for name in ("quantity", "what", "per", "note", "null_when"))
        return cls(data["name"], data["unit"], data["better"], data["doc"], *fields)


@dataclass(frozen=True)
class Covariate:
    """A circumstance recorded with each repetition."""

    name: str
    unit: str
    doc: str = ""


@dataclass(frozen=True)
class Workload:
    """A thing the probe can measure."""

    name: str
    version: int
    """Version of the meaning: results of different versions are never compared."""
    purpose: str
    timing_model: str
    parameters: tuple[Parameter, ...]
    metrics: tuple[Metric, ...]
    needs: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    """Those that it may run, with which a guest is to be furnished."""
    alone: Mapping[str, tuple[Level, ...]] | None = None
    """The levels at which nothing of the workload itself takes the measured thread's CPU or wakes it; a
    factor that is not named may have any. None: it is never alone."""

    def is_alone(self, factors: Mapping[str, Level]) -> bool:
        """Say whether a wait for a CPU is others' doing at this point."""
        if self.alone is None:
            return False
        defaults = self.defaults
        return all(factors.get(name, defaults.get(name)) in levels for name, levels in self.alone.items())

    @property
    def defaults(self) -> dict[str, Level]:
        """The level of each parameter that is no factor."""
        return {parameter.name: parameter.default for parameter in self.parameters}

    @property
    def conditions(self) -> Conditions:
        """Where each parameter that does not always have a meaning has one."""
        return {parameter.name: parameter.applies for parameter in self.parameters if parameter.applies}

    def meaningful(self, factors: Factors) -> dict[str, Level]:
        """Return the factors of a point without those that have no meaning there."""
        return without_meaningless(factors, self.conditions, self.defaults)

    def parameter(self, name: str) -> Parameter | None:
        """Return the parameter called `name`, or None."""
        return next((p for p in self.parameters if p.name == name), None)

    def to_object(self) -> dict[str, Any]:
        """Return a JSON object from which `from_object` makes an equal workload."""
        return asdict(self)

    @classmethod
    def from_object(cls, data: Mapping[str, Any]) -> Workload:
        """Read a workload as `describe` prints it; KeyError or TypeError where it is malformed."""
        return cls(
            name=data["name"],
            version=int(data["version"]),
            purpose=data["purpose"],
            timing_model=data["timing_model"],
            parameters=tuple(_parameter(p) for p in data["parameters"]),
            metrics=tuple(map(Metric.from_object, data["metrics"])),
            needs=tuple(data["needs"]),
            # Runs that were stored by an earlier Oscope do not tell.
            programs=tuple(data.get("programs", ())),
            alone=_alone(data.get("alone")),
        )


@dataclass(frozen=True)
class Catalogue:
    """Everything that one build of the probe can measure."""

    workloads: Mapping[str, Workload]
    covariates: tuple[Covariate, ...]
    probe: Mapping[str, Any]
    """Version and commit of the probe."""
    programs: Mapping[Program, Catalogue] = field(default_factory=dict)
    """What the user's own programs describe, each that is measured."""

    def workload(self, name: str, program: Program | None = None) -> Workload:
        """Return the workload called `name`; UsageError with the nearest name where there is none.

        `program` is the user's own that measures it, one of `programs`; None: the probe.
        """
        workloads = self.workloads if program is None else self.programs[program].workloads
        found = workloads.get(name)
        if found is None:
            who = "the probe" if program is None else program.name
            raise UsageError(f"{who} has no workload {name!r}", remedy=nearest(name, workloads))
        return found

    def all_covariates(self) -> tuple[Covariate, ...]:
        """Return the probe's covariates, then those that only the user's own programs have."""
        found: dict[str, Covariate] = {}
        for described in (self, *self.programs.values()):
            for covariate in described.covariates:
                found.setdefault(covariate.name, covariate)
        return tuple(found.values())


def _alone(data: Mapping[str, Any] | None) -> dict[str, tuple[Level, ...]] | None:
    return None if data is None else {name: tuple(levels) for name, levels in data.items()}


def read_conditions(data: Iterable[Mapping[str, Any]]) -> tuple[Condition, ...]:
    """Read the conditions under which a parameter has a meaning; KeyError or TypeError where malformed."""
    return tuple(Condition(c["parameter"], tuple(c["levels"]), bool(c["within"])) for c in data)


def _parameter(data: Mapping[str, Any]) -> Parameter:
    return Parameter(
        name=data["name"],
        type=data["type"],
        default=data["default"],
        choices=tuple(data.get("choices") or ()),
        pattern=data.get("pattern"),
        numbers=tuple((int(first), int(last)) for first, last in data.get("numbers") or ()),
        minimum=data.get("minimum"),
        maximum=data.get("maximum"),
        unit=data.get("unit"),
        doc=data["doc"],
        # Optional: runs that were stored by an earlier Oscope do not tell.
        applies=read_conditions(data.get("applies") or ()),
    )


def parse(data: Mapping[str, Any]) -> Catalogue:
    """Read the object that `oscope-probe describe` prints; ProbeError where it is not one."""
    if data.get("schema") != SCHEMA:
        raise ProbeError(
            f"the probe speaks {data.get('schema')!r}, this laboratory {SCHEMA!r}",
            remedy="install both from one build",
        )
    try:
        workloads = [Workload.from_object(w) for w in data["workloads"]]
        covariates = tuple(Covariate(c["name"], c["unit"], c["doc"]) for c in data["covariates"])
        return Catalogue({w.name: w for w in workloads}, covariates, data["probe"])
    except (KeyError, TypeError, ValueError) as error:
        raise ProbeError(
            f"the probe's description is malformed ({error!r})", remedy="install probe and laboratory anew"
        ) from error


def load(path: Path | None = None) -> Catalogue:
    """Ask the probe at `path` (by default where `find_probe` finds it) to describe itself; once a process."""
    return _load(path or find_probe())


@lru_cache(maxsize=8)
def _load(path: Path) -> Catalogue:
    return parse(ask(path, "describe"))


def nearest(name: str, names: Mapping[str, Any] | tuple[str, ...] | list[str]) -> str:
    """Return a remedy for an unknown name: the nearest one, or all of them."""
    close = get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"there is {', '.join(names)}"


def check_level(parameter: Parameter, level: Level) -> Level:
    """Return `level` (a value, or a text as typed) as the wire carries it, once it is known to be allowed.

    Bytes become whole numbers, durations seconds, paths absolute. Raises UsageError that names the parameter,
    the level and what is allowed.
    """
    try:
        value = _CONVERT[parameter.type](parameter, level)
    except UsageError as error:
        raise UsageError(f"{parameter.name}={level}: {error.message}", remedy=error.remedy) from None
    except KeyError:
        raise OscopeError(
            f"the probe's parameter {parameter.name} has an unknown type {parameter.type!r}"
        ) from None
    if isinstance(value, int | float) and not isinstance(value, bool):
        _check_range(parameter, value)
    return value


def format_level(parameter: Parameter | None, level: Level) -> str:
    """Write a level for people, with its unit: `64 MiB`, `10 s`, `yes`, `getppid`; no path as `none`."""
    if isinstance(level, bool):
        return "yes" if level else "no"
    if parameter is not None and isinstance(level, int | float):
        if parameter.type == "bytes":
            return units.format_bytes(int(level))
        if parameter.type == "duration":
            return units.format_duration(level)
        if parameter.unit:
            return f"{level} {parameter.unit}"
    return str(level) or "none"


def _choice(parameter: Parameter, level: Level) -> str:
    text = str(level)
    if text in parameter.choices:
        return text
    if parameter.pattern is not None:
        form = re.escape(parameter.pattern).replace("N", r"(0|[1-9][0-9]{0,9})")
        found = re.fullmatch(form, text)
        if found is not None and int(found[1]) <= _MOST_PATTERN_NUMBER:
            _check_number(parameter, int(found[1]))
            return text
    allowed = (*parameter.choices, *([parameter.pattern] if parameter.pattern else []))
    close = get_close_matches(text, parameter.choices, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise UsageError("not a level of this factor", remedy=f"{hint}there is {', '.join(allowed)}")


def _check_number(parameter: Parameter, number: int) -> None:
    """Raise UsageError where the probe would refuse the number of a level such as `nr:N`."""
    ranges = parameter.numbers
    if ranges and not any(first <= number <= last for first, last in ranges):
        named = ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in ranges)
        raise UsageError("this number is refused", remedy=f"N in {parameter.pattern} may be {named}")


def _integer(_: Parameter, level: Level) -> int:
    if isinstance(level, bool):
        raise UsageError("not a whole number")
    try:
        value = int(level) if isinstance(level, int | str) else None
    except ValueError:
        value = None
    if value is None:
        raise UsageError("not a whole number")
    return value


def _bytes(_: Parameter, level: Level) -> int:
    if isinstance(level, bool):
        raise UsageError("not a size")
    return level if isinstance(level, int) else units.parse_bytes(str(level))


def _duration(_: Parameter, level: Level) -> float:
    if isinstance(level, bool):
        raise UsageError("not a duration")
    seconds = float(level) if isinstance(level, int | float) else units.parse_duration(level)
    if not math.isfinite(seconds):
        raise UsageError("not a duration", remedy="write it like 500ms, 10s, 2m or 1h")
    return seconds


def _boolean(_: Parameter, level: Level) -> bool:
    text = str(level).lower()
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise UsageError("neither true nor false", remedy="write true or false")


def _path(_: Parameter, level: Level) -> str:
    if not isinstance(level, str) or "\0" in level:
        raise UsageError("not a path", remedy="write it like /var/tmp/data")
    try:
        level.encode()
    except UnicodeEncodeError:
        raise UsageError("not a path in UTF-8", remedy="rename the file") from None
    # The run may be resumed from another folder.
    return str(Path(level).absolute()) if level else ""


def _arguments(_: Parameter, level: Level) -> str:
    del level
    raise UsageError("a list of arguments is no level of a factor", remedy="use oscope bench")


_CONVERT: dict[str, Callable[[Parameter, Level], Level]] = {
    "choice": _choice,
    "integer": _integer,
    "bytes": _bytes,
    "duration": _duration,
    "boolean": _boolean,
    "path": _path,
    "arguments": _arguments,
}


def _check_range(parameter: Parameter, value: float) -> None:
    low, high = parameter.minimum, parameter.maximum
    # Written so that NaN is refused as well.
    if (low is None or value >= low) and (high is None or value <= high):
        return
    bounds = " to ".join("any" if b is None else format_level(parameter, _whole(b)) for b in (low, high))
    raise UsageError(
        f"{parameter.name}={format_level(parameter, value)} is out of range", remedy=f"allowed is {bounds}"
    )


def bounded_below(parameter: Parameter, least: Mapping[str, int]) -> Parameter:
    """Return `parameter` with the lowest level that `least` has for it, if it has one."""
    return replace(parameter, minimum=least[parameter.name]) if parameter.name in least else parameter


def _whole(bound: float) -> float:
    return int(bound) if float(bound).is_integer() else bound

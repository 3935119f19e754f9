"""Programs of the user's own that measure workloads: how they are found, and what they describe."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from oscope.model.errors import OscopeError, ProbeError, UsageError
from oscope.model.program import PATIENCE_S, Program
from oscope.probe.catalogue import QUANTITIES, SCHEMA, Catalogue, Workload, check_level, parse
from oscope.probe.child import Child

DOCUMENT = "docs/own-workloads.md"
NOT_ASKED = "This is a workload program"
"""What a kit prints where its arguments are neither describe nor run alone."""
START_REMEDY = "build it; a script needs a #! line that names its interpreter"
DESCRIBE_LIMIT_S = 20.0
_MOST_DESCRIPTION = 16 * 2**20
_TYPES = ("choice", "integer", "bytes", "duration", "boolean", "path")
_PYTHON_TYPES = {str: "a text", int: "a whole number", list: "an array", dict: "an object"}
_MOST_NAME = 200
"""Characters of a name that the store keeps."""


def find_program(
    written: str | Sequence[str], folder: Path, *, patience_s: float = PATIENCE_S, name: str | None = None
) -> Program:
    """Return the program that `written` names: a file, a command with its arguments, or a list of these.

    A text that is no file is split into words as a shell would, but no shell sees it. Relative files are
    looked for in `folder`, names without a slash on the PATH. Raises UsageError where there is no such
    program.
    """
    words = _words(written, folder)
    shown = name or (written if isinstance(written, str) else shlex.join(written))
    first = words[0]
    if "/" in first or (folder / first).is_file():
        path = folder / Path(first).expanduser()
        if not path.is_file():
            raise UsageError(f"the workload program {shown} is not there: no file {path}", remedy="build it")
        if not os.access(path, os.X_OK):
            raise UsageError(f"{path} is not executable", remedy=f"chmod +x {shlex.quote(str(path))}")
        found = str(path.absolute())
    else:
        on_path = shutil.which(first)
        if on_path is None:
            raise UsageError(
                f"the workload program {shown} is not there: {first} is neither in {folder} nor on the PATH",
                remedy="write the path of the program, such as ./mybench",
            )
        found = str(Path(on_path).absolute())
    return Program(shown, (found, *words[1:]), str(folder.absolute()), patience_s)


def _words(written: str | Sequence[str], folder: Path) -> list[str]:
    if not isinstance(written, str):
        words = list(written)
    elif (folder / written).is_file():
        # A path with spaces in it is one word.
        words = [written]
    else:
        try:
            words = shlex.split(written)
        except ValueError as error:
            raise UsageError(f"{written}: {error}", remedy="close the quotation") from None
    if not words or not words[0]:
        raise UsageError("a workload program has no name", remedy="write the path of the program")
    if any("\0" in word for word in words):
        raise UsageError("the name of a workload program has a NUL in it", remedy="write its path")
    return words


def with_programs(catalogue: Catalogue, programs: Iterable[Program | None]) -> Catalogue:
    """Return `catalogue` with what each of `programs` describes; raises what `describe` raises."""
    own = {program: describe(program) for program in programs if program is not None}
    return replace(catalogue, programs=own) if own else catalogue


@lru_cache(maxsize=64)
def describe(program: Program) -> Catalogue:
    """Ask `program` to describe itself, once a process.

    Raises ProbeError, in one line with the fix, where it does not, or says what cannot be.
    """
    who = f"{program.name} describe"
    answer = _ask(program)
    try:
        data = orjson.loads(answer)
    except orjson.JSONDecodeError as error:
        what = f"printed no JSON ({error if answer.strip() else 'it printed nothing'})"
        remedy = f"print one JSON object on standard output, and all else on standard error: see {DOCUMENT}"
        raise ProbeError(f"{who} {what}", remedy=remedy) from error
    try:
        found = parse(_completed(data))
        _check(found)
    except (_WrongError, OscopeError) as error:
        fix = error.remedy if isinstance(error, OscopeError) else None
        text = error.message if isinstance(error, OscopeError) else str(error)
        raise ProbeError(f"{who}: {text}", remedy=fix or f"{DOCUMENT} has the form") from None
    return found


class _WrongError(Exception):
    """Part of a description is not what it has to be."""


def _ask(program: Program) -> bytes:
    """Return all that `PROGRAM describe` prints. Raises ProbeError."""
    asked = _Asked(program)
    end = time.monotonic() + DESCRIBE_LIMIT_S
    lines: list[bytes] = []
    length, ended = 0, False
    try:
        while not ended:
            more, ended = asked.lines(max(end - time.monotonic(), 0.0))
            lines += more
            length += sum(map(len, more))
            if length > _MOST_DESCRIPTION:
                asked.give_up("printed more than 16 MiB")
            if time.monotonic() > end:
                asked.give_up(f"did not end within {DESCRIBE_LIMIT_S:g} s")
        status = asked.wait()
        words = asked.last_words()
    finally:
        asked.kill()
    if status:
        raise ProbeError(f"{asked.subject} ended with status {status}{words}", remedy=_remedy(program, words))
    return b"\n".join([*lines, asked.rest])


def _remedy(program: Program, words: str) -> str:
    """Return how to fix that `program` does not describe itself; `words` are its last ones."""
    if "No module named 'oscope'" in words:
        return f"name the Python that has Oscope in its first line: #!{sys.executable}"
    if NOT_ASKED in words and program.command[1:]:
        return f"leave out its arguments ({shlex.join(program.command[1:])}), or have the program take them"
    if ", line " in words:
        return f"correct that; {program.name} describe prints the whole traceback"
    return f"answer describe as in {DOCUMENT}"


class _Asked(Child):
    """A program that describes itself and ends."""

    start_remedy = START_REMEDY

    def __init__(self, program: Program) -> None:
        """Start it. Raises ProbeError."""
        self.subject = f"{program.name} describe"
        super().__init__([*program.command, "describe"], stdin=subprocess.DEVNULL, folder=program.folder)

    def remedy_for(self, what: str) -> str:
        """Return what a program has to do when asked to describe itself."""
        del what
        return f"with the argument describe it has to print one JSON object and end: see {DOCUMENT}"

    @property
    def rest(self) -> bytes:
        """What it printed after its last line end."""
        return self._unread["stdout"]


def _completed(data: Any) -> dict[str, Any]:
    """Return a description with all that may be left out; _WrongError that names the part that may not."""
    _want(data, "the description", dict)
    if data.get("schema") != SCHEMA:
        raise _WrongError(f'"schema" is {data.get("schema")!r} and has to be {SCHEMA!r}')
    workloads = _part(data, "workloads", "the description", list)
    if not workloads:
        raise _WrongError('"workloads" is empty')
    return {
        "schema": SCHEMA,
        "probe": {"version": None, "commit": None} | _part(data, "probe", "the description", dict, {}),
        "workloads": [_workload(each, f"workload {n}") for n, each in enumerate(workloads, 1)],
        "covariates": [
            {
                "name": _name(each, f"covariate {n}"),
                "unit": _part(each, "unit", f"covariate {n}", str, ""),
                "doc": _part(each, "doc", f"covariate {n}", str, ""),
            }
            for n, each in enumerate(_part(data, "covariates", "the description", list, []), 1)
        ],
    }


def _workload(data: Any, where: str) -> dict[str, Any]:
    name = _name(data, where)
    metrics = _part(data, "metrics", name, list)
    if not metrics:
        raise _WrongError(f'{name}: "metrics" is empty')
    return {
        "name": name,
        "version": _part(data, "version", name, int, 1),
        "purpose": _part(data, "purpose", name, str, ""),
        "timing_model": _part(data, "timing_model", name, str, ""),
        "parameters": [
            _parameter(each, f"{name}, parameter {n}")
            for n, each in enumerate(_part(data, "parameters", name, list, []), 1)
        ],
        "metrics": [_metric(each, f"{name}, metric {n}") for n, each in enumerate(metrics, 1)],
        "needs": [],
        "programs": [],
        "alone": _alone(data, name),
    }


def _alone(data: Mapping[str, Any], where: str) -> dict[str, Any] | None:
    levels = data.get("alone")
    if levels is None:
        return None
    _want(levels, f'{where}: "alone"', dict)
    for each in levels.values():
        _want(each, f'{where}: "alone"', list)
    return dict(levels)


def _metric(data: Any, where: str) -> dict[str, Any]:
    name = _name(data, where)
    better = data.get("better")
    if better not in ("less", "more", None):
        raise _WrongError(f'{where} ({name}): "better" is {better!r} and has to be "less", "more" or null')
    quantity = data.get("quantity")
    if quantity is not None and quantity not in QUANTITIES:
        known = ", ".join(QUANTITIES)
        raise _WrongError(f'{where} ({name}): "quantity" is {quantity!r} and has to be one of {known}')
    parts = ("what", "per", "note", "null_when")
    for part in parts:
        if data.get(part) is not None:
            _want(data[part], f'{where} ({name}): "{part}"', str)
    return {
        "name": name,
        "unit": _part(data, "unit", f"{where} ({name})", str),
        "better": better,
        "doc": _part(data, "doc", f"{where} ({name})", str, ""),
        "quantity": quantity,
        **{part: data.get(part) for part in parts},
    }


def _parameter(data: Any, where: str) -> dict[str, Any]:
    name = _name(data, where)
    where = f"{where} ({name})"
    kind = _part(data, "type", where, str)
    if kind not in _TYPES:
        raise _WrongError(f'{where}: "type" is {kind!r} and has to be one of {", ".join(_TYPES)}')
    if "default" not in data:
        raise _WrongError(f'{where} lacks "default"')
    choices = data.get("choices") or []
    _want(choices, f'{where}: "choices"', list)
    for each in choices:
        _want(each, f"{where}: a choice", str)
    for bound in ("minimum", "maximum"):
        value = data.get(bound)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise _WrongError(f'{where}: "{bound}" is no number')
    return {
        "name": name,
        "type": kind,
        "default": data["default"],
        "choices": choices,
        "minimum": data.get("minimum"),
        "maximum": data.get("maximum"),
        "unit": data.get("unit"),
        "doc": _part(data, "doc", where, str, ""),
        "applies": data.get("applies") or [],
    }


def _name(data: Any, where: str) -> str:
    _want(data, where, dict)
    name: str = _part(data, "name", where, str)
    if not name or len(name) > _MOST_NAME or any(c.isspace() or c in "=,\0" for c in name):
        raise _WrongError(
            f"{where}: the name {name[:40]!r} is empty, too long, or has a blank, = or comma in it"
        )
    return name


def _part(data: Mapping[str, Any], name: str, where: str, kind: type, *default: Any) -> Any:
    """Return `data[name]`, which is a `kind`; without a `default`, it has to be there."""
    _want(data, where, dict)
    if data.get(name) is None and default:
        return default[0]
    if name not in data:
        raise _WrongError(f'{where} lacks "{name}"')
    _want(data[name], f'{where}: "{name}"', kind)
    return data[name]


def _want(value: Any, where: str, kind: type) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _WrongError(f"{where} is not {_PYTHON_TYPES[kind]}")


def _check(found: Catalogue) -> None:
    """Raise _WrongError or UsageError where a description contradicts itself."""
    for workload in found.workloads.values():
        for what, names in (
            ("metric", [each.name for each in workload.metrics]),
            ("parameter", [each.name for each in workload.parameters]),
        ):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise _WrongError(f"{workload.name} has the {what} {twice} twice")
        _check_defaults(workload)


def _check_defaults(workload: Workload) -> None:
    for parameter in workload.parameters:
        if parameter.name == "tracer":
            raise _WrongError(
                f"{workload.name}: a parameter cannot be called tracer, which Oscope sets itself"
            )
        try:
            check_level(parameter, parameter.default)
        except UsageError as error:
            raise _WrongError(f"{workload.name}: the default {error.message}") from None

"""Workloads of the user's own: the experiments of a program, and those of a project's `oscope.toml`."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oscope.model.errors import UsageError
from oscope.model.experiment import Design, Experiment, Lab
from oscope.model.factors import Level
from oscope.model.program import PATIENCE_S, Program
from oscope.model.units import parse_duration
from oscope.probe.catalogue import nearest
from oscope.probe.own_program import DOCUMENT, describe, find_program

FILE = "oscope.toml"
NAME = "own"
"""Of the lab that has them, where the file gives it no other."""
REPS, BLOCKS = 30, 10
"""Samples of a point and fresh processes that they are spread over, where the file does not say."""
_MOST_TOML = 2**20
_QUICK = "not in the survey: it is a workload of your own"


@dataclass(frozen=True)
class Declared:
    """An experiment as `oscope.toml` declares it; its program describes parameters and metrics."""

    name: str
    workload: str
    title: str | None = None
    question: str = ""
    factors: Mapping[str, tuple[Level, ...]] | None = None
    metrics: tuple[str, ...] = ()
    reps: int = REPS
    blocks: int = BLOCKS
    min_time_ns: int = 1_000_000


@dataclass(frozen=True)
class Project:
    """What an `oscope.toml` declares, checked but for what only the programs can tell."""

    file: Path
    name: str
    title: str
    commands: Mapping[str, tuple[str | Sequence[str], float]]
    """Of each workload: how to start the program that measures it, and how long that may be silent."""
    experiments: tuple[Declared, ...]

    def program(self, workload: str) -> Program:
        """Return the program that measures `workload`. Raises UsageError where it is not there."""
        command, patience_s = self.commands[workload]
        return find_program(command, self.file.parent, patience_s=patience_s)

    def experiment(self, declared: Declared) -> Experiment:
        """Return an experiment, with what its program describes. Raises OscopeError where that is missing."""
        try:
            return _experiment(declared, self.program(declared.workload))
        except UsageError as error:
            raise UsageError(f"{self.file}: {declared.name}: {error.message}", remedy=error.remedy) from None

    def lab(self, names: Sequence[str]) -> Lab:
        """Return those of its experiments that `names` name, itself or all, as a lab.

        A workload that is named itself is one of its defaults, also where experiments over it are declared.
        The programs of others are not started. Raises OscopeError where a program is missing.
        """
        chosen = [each for each in self.experiments if each.name in names or self.name in names]
        chosen += _defaults(names, self.commands, chosen)
        return _lab(self.name, self.title, tuple(map(self.experiment, chosen)))


def of_program(
    written: str,
    project: Project | None = None,
    taken: Collection[str] = (),
    names: Collection[str] = (),
) -> Lab:
    """Return the experiments of the workloads that the program `written` describes, as a lab.

    Those are the experiments of `project` over these workloads, and for each other workload one of its
    defaults: a single point, and every factor may be set; so it is for a workload that `names` has. None may
    have a name of `taken`. Raises OscopeError where there is no such program, or it does not describe itself.
    """
    program = find_program(written, Path.cwd())
    workloads = describe(program).workloads
    for name in workloads:
        if name in taken:
            raise UsageError(
                f"{written}: the workload {name} has a name of Oscope's own", remedy="give it another name"
            )
    declared = [each for each in (project.experiments if project else ()) if each.workload in workloads]
    covered = {each.workload for each in declared}
    declared += [Declared(name, name) for name in workloads if name not in covered]
    declared += _defaults(names, workloads, declared)
    experiments = tuple(_experiment(each, program) for each in declared)
    return _lab(NAME, f"Workloads of {program.name}", experiments)


def _defaults(
    names: Collection[str], workloads: Collection[str], declared: Collection[Declared]
) -> list[Declared]:
    """Return the workloads of `names` at their defaults, but those that an experiment is called after."""
    known = {each.name for each in declared}
    return [Declared(name, name) for name in dict.fromkeys(names) if name in workloads and name not in known]


def find_project(folder: Path) -> Path | None:
    """Return the `oscope.toml` of `folder` or the nearest folder above it; None where there is none."""
    for each in (folder, *folder.parents):
        file = each / FILE
        if file.is_file():
            return file
    return None


def load_project(file: Path, taken: Collection[str] = ()) -> Project:
    """Read `file`; no name of it may be one of `taken`.

    Raises UsageError in one line, which names the file, the part and the fix. So it does for a file of
    another user: it names programs, and they would run with the rights of this one.
    """
    try:
        _check_owner(file)
        with file.open("rb") as opened:
            data = tomllib.loads(opened.read(_MOST_TOML).decode())
        return _project(file, data, taken)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{file}: {error}", remedy=f"see {DOCUMENT}") from None
    except UsageError as error:
        raise UsageError(f"{file}: {error.message}", remedy=error.remedy or f"see {DOCUMENT}") from None


def _check_owner(file: Path) -> None:
    """Raise UsageError where another user could have written the file."""
    allowed = {0, os.geteuid()}
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdigit():
        allowed.add(int(os.environ["SUDO_UID"]))
    status = file.stat()
    if status.st_uid not in allowed:
        raise UsageError(
            f"it belongs to another user ({status.st_uid}), whose programs are not run",
            remedy="copy the project, or name the program with --workload",
        )
    if status.st_mode & 0o002:
        raise UsageError("any user can write it, and it names programs to run", remedy=f"chmod o-w {file}")


def _project(file: Path, data: Mapping[str, Any], taken: Collection[str]) -> Project:
    title = f"Workloads of {file.parent.name}"
    given = _table(data, "at the top", name=NAME, title=title, workloads={}, experiments={})
    commands = {key: _command(key, each) for key, each in given["workloads"].items()}
    declared = [_declared(key, each, commands) for key, each in given["experiments"].items()]
    covered = {each.workload for each in declared}
    declared += [Declared(each, each) for each in commands if each not in covered]
    if not declared:
        raise UsageError("it has neither [workloads] nor [experiments]", remedy=f"see {DOCUMENT}")
    for each in (given["name"], *(one.name for one in declared)):
        if each in taken:
            raise UsageError(f"{each} is a name of Oscope's own", remedy="choose another name")
    return Project(file, given["name"], given["title"], commands, tuple(declared))


def _command(name: str, value: object) -> tuple[str | Sequence[str], float]:
    """Return the command of a workload, and its patience in s."""
    patience: object = None
    if isinstance(value, dict):
        given = _table(value, f"[workloads.{name}]", name, command=None, patience=None)
        value, patience = given["command"], given["patience"]
    seconds = PATIENCE_S
    if patience is not None:
        seconds = parse_duration(patience) if isinstance(patience, str) else 0.0
    if seconds < 1:
        raise UsageError(
            f"[workloads.{name}] patience is {patience!r}",
            remedy='write a duration of a second or more, like "10m"',
        )
    if isinstance(value, str) and value:
        return value, seconds
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        return tuple(value), seconds
    raise UsageError(
        f"[workloads] {name}: no command", remedy=f'write {name} = "./program" or ["./program", "argument"]'
    )


def _declared(name: str, data: object, commands: Mapping[str, Any]) -> Declared:
    where = f'[experiments."{name}"]'
    if not isinstance(data, dict):
        raise UsageError(f"{where} is no table", remedy=f"see {DOCUMENT}")
    texts = {"workload": name, "title": name, "question": ""}
    numbers = {"reps": REPS, "blocks": BLOCKS}
    given = _table(data, where, name, **texts, **numbers, factors={}, metrics=[], min_time=None)
    if given["workload"] not in commands:
        raise UsageError(
            f"{where}: the workload {given['workload']!r} has no program",
            remedy=f'add it to [workloads]: "{given["workload"]}" = "./program"',
        )
    if not all(isinstance(each, str) for each in given["metrics"]):
        raise UsageError(f"{where}: metrics are names", remedy='write metrics = ["time_ns"]')
    for number in numbers:
        if given[number] < 1:
            raise UsageError(f"{where}: {number} = {given[number]} measures nothing", remedy="give 1 or more")
    least = given["min_time"]
    return Declared(
        name=name,
        factors={key: _levels(each, f"{where} {key}") for key, each in given["factors"].items()},
        metrics=tuple(given["metrics"]),
        min_time_ns=Declared.min_time_ns if least is None else round(1e9 * parse_duration(str(least))),
        **{key: given[key] for key in (*texts, *numbers)},
    )


def _levels(value: object, where: str) -> tuple[Level, ...]:
    levels = value if isinstance(value, list) else [value]
    if not levels:
        raise UsageError(f"{where}: there is no level", remedy='write ["a", "b"]')
    if not all(isinstance(each, str | int | float | bool) for each in levels):
        raise UsageError(f"{where}: levels are texts, numbers or booleans", remedy='write ["a", "b"]')
    return tuple(levels)


def _table(
    data: Mapping[str, Any], where: str, unquoted: str | None = None, **defaults: Any
) -> dict[str, Any]:
    """Return the values of a table, each of the type of its default; of any type where that is None.

    `unquoted` is the table's own name, where a key that is not known may be the rest of that.
    """
    words = {str: "a text", dict: "a table", list: "an array", int: "a whole number"}
    for name, value in data.items():
        if name not in defaults:
            remedy = f"there is {', '.join(defaults)}"
            if unquoted is not None:
                remedy += f'; a name with a dot stands in quotation marks: "{unquoted}.{name}"'
            raise UsageError(f"{where}: there is no key {name!r}", remedy=remedy)
        kind = type(defaults[name])
        if kind in words and type(value) is not kind:
            raise UsageError(f"{where} {name} is not {words[kind]}", remedy=f"see {DOCUMENT}")
    return {**defaults, **data}


def _experiment(declared: Declared, program: Program) -> Experiment:
    """Return a declared experiment, measured by `program`. Raises OscopeError."""
    workloads = describe(program).workloads
    workload = workloads.get(declared.workload)
    if workload is None:
        raise UsageError(
            f"{program.name} describes no workload {declared.workload!r}",
            remedy=nearest(declared.workload, workloads),
        )
    metrics = declared.metrics or tuple(metric.name for metric in workload.metrics[:1])
    # A title or heading, which other words may follow.
    purpose = workload.purpose.removesuffix(".")
    return Experiment(
        name=declared.name,
        workload=declared.workload,
        title=declared.title or purpose or declared.name,
        question=declared.question or purpose,
        full=Design(declared.factors or {}, declared.reps, declared.blocks, declared.min_time_ns),
        quick=None,
        quick_share=_QUICK,
        metrics=metrics,
        program=program,
    )


def _lab(name: str, title: str, experiments: tuple[Experiment, ...]) -> Lab:
    return Lab(name=name, title=title, document="", experiments=experiments, sections=lambda _: [])

"""The labs in which a command looks up names: those of Oscope, and workloads of the user's own."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from oscope.model.errors import UsageError
from oscope.model.labs import Labs, nearest_name

if TYPE_CHECKING:
    from oscope.probe.own_project import Project


def find_project(ours: Labs) -> Project | None:
    """Return the project of the nearest `oscope.toml`, in this folder or above it; None where there is none.

    Its names differ from `ours`. Raises UsageError where the file is wrong.
    """
    from oscope.probe import own_project  # noqa: PLC0415 - start-up: most runs name nothing of a project

    file = own_project.find_project(Path.cwd())
    return None if file is None else own_project.load_project(file, ours.names)


def with_own(ours: Labs, names: Sequence[str], program: str | None = None) -> tuple[Labs, Sequence[str]]:
    """Return the labs in which `names` are found, workloads of the user's own among them, and the names.

    `program` is the workload program as it was written: then its experiments are known, and without names all
    of them are meant. Without one, names that are not `ours` are looked for in the project's `oscope.toml`,
    of which nothing is read or run where all names are ours.

    Raises UsageError where a name is unknown (the nearest is given), or what was written is wrong; ProbeError
    where a program does not describe itself.
    """
    if program is not None:
        return _of_program(ours, names, program)
    others = [name for name in names if name not in ours.names]
    if not others:
        return ours, names
    project = find_project(ours)
    known = (
        {project.name, *(each.name for each in project.experiments), *project.commands} if project else set()
    )
    for name in others:
        if name not in known:
            where = f", nor in {project.file}" if project else ""
            remedy = _nearest_or_own(name, ours.names | known)
            raise UsageError(f"there is no experiment {name!r}{where}", remedy=remedy)
    return Labs((*ours.all, project.lab(others))) if project else ours, names


def _of_program(ours: Labs, names: Sequence[str], program: str) -> tuple[Labs, Sequence[str]]:
    from oscope.probe import own_project  # noqa: PLC0415 - start-up

    added = own_project.of_program(program, find_project(ours), ours.names, names)
    found = Labs((*ours.all, added))
    for name in names:
        if name not in found.names:
            own = f"{program} has {', '.join(each.name for each in added.experiments)}"
            raise UsageError(f"there is no experiment {name!r}", remedy=nearest_name(name, found.names, own))
    return found, names or (added.name,)


def _nearest_or_own(name: str, known: Iterable[str]) -> str:
    """Return a remedy that names the nearest of `known`, and how to name a program where none is near."""
    remedy = nearest_name(name, known)
    if difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.75):
        return remedy
    return f"{remedy}{' ' if remedy.endswith('?') else '; '}a workload of your own needs --workload PROGRAM"

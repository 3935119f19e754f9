"""The labs: which experiments and inspections there are, after which document. Importing this is cheap."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oscope.labs import disk, fs, ipc, kernel, memory, syscalls, tools, transfer, trust
from oscope.model.errors import UsageError
from oscope.model.experiment import Experiment, Inspection, Lab

if TYPE_CHECKING:
    from oscope.probe.own_project import Project

LABS: tuple[Lab, ...] = (
    syscalls.LAB,
    memory.LAB,
    disk.LAB,
    ipc.LAB,
    transfer.LAB,
    kernel.LAB,
    fs.LAB,
    tools.LAB,
    trust.LAB,
)
"""Every lab, in the order in which lists and reports show them."""


@dataclass(frozen=True)
class Labs:
    """The labs in which names are looked up."""

    all: tuple[Lab, ...]

    @property
    def names(self) -> frozenset[str]:
        """Names of the labs, their experiments and their inspections."""
        return frozenset(
            (*(each.name for each in self.all), *(p.name for each in self.all for p in each.parts))
        )

    def lab(self, name: str) -> Lab:
        """Return the lab called `name`. Raises UsageError, with the nearest name, where there is none."""
        known = {each.name: each for each in self.all}
        if name in known:
            return known[name]
        raise UsageError(f"there is no lab {name!r}", remedy=nearest_name(name, known))

    def experiment(self, name: str) -> Experiment:
        """Return the experiment called `name`. Raises UsageError as `named` does."""
        found = self.named(name)
        if isinstance(found, Inspection):
            raise UsageError(f"{name} is an inspection and has no samples", remedy=f"oscope run {name}")
        return found

    def inspection(self, name: str) -> Inspection:
        """Return the inspection called `name`. Raises UsageError as `named` does."""
        found = self.named(name)
        if isinstance(found, Experiment):
            raise UsageError(f"{name} is an experiment and no inspection", remedy=f"oscope run {name}")
        return found

    def named(self, name: str) -> Experiment | Inspection:
        """Return the experiment or inspection called `name`.

        Raises UsageError, which gives the nearest name, of a lab too, where there is none.
        """
        known = {each.name: each for one in self.all for each in one.parts}
        if name in known:
            return known[name]
        raise UsageError(f"there is no experiment {name!r}", remedy=nearest_name(name, self.names))


def built_in() -> Labs:
    """Return the labs of Oscope itself."""
    return Labs(LABS)


def lab(name: str) -> Lab:
    """Return the built-in lab called `name`; see `Labs.lab`."""
    return built_in().lab(name)


def experiment(name: str) -> Experiment:
    """Return the built-in experiment called `name`; see `Labs.experiment`."""
    return built_in().experiment(name)


def inspection(name: str) -> Inspection:
    """Return the built-in inspection called `name`; see `Labs.inspection`."""
    return built_in().inspection(name)


def named(name: str) -> Experiment | Inspection:
    """Return the built-in experiment or inspection called `name`; see `Labs.named`."""
    return built_in().named(name)


def find_project() -> Project | None:
    """Return the project of the nearest `oscope.toml`, in this folder or above it; None where there is none.

    Raises UsageError where the file is wrong.
    """
    from oscope.probe import own_project  # noqa: PLC0415 - start-up: most runs name nothing of a project

    file = own_project.find_project(Path.cwd())
    return None if file is None else own_project.load_project(file, built_in().names)


def with_own(names: Sequence[str], program: str | None = None) -> tuple[Labs, Sequence[str]]:
    """Return the labs in which `names` are found, workloads of the user's own among them, and the names.

    `program` is the workload program as it was written: then its experiments are known, and without names all
    of them are meant. Without one, names that are not built in are looked for in the project's `oscope.toml`,
    of which nothing is read or run where all names are built in.

    Raises UsageError where a name is unknown (the nearest is given), or what was written is wrong; ProbeError
    where a program does not describe itself.
    """
    ours = built_in()
    built_in_names = ours.names
    if program is not None:
        from oscope.probe import own_project  # noqa: PLC0415 - start-up

        added = own_project.of_program(program, find_project(), built_in_names, names)
        found = Labs((*LABS, added))
        for name in names:
            if name not in found.names:
                own = f"{program} has {', '.join(each.name for each in added.experiments)}"
                raise UsageError(
                    f"there is no experiment {name!r}", remedy=nearest_name(name, found.names, own)
                )
        return found, names or (added.name,)
    wanted = [name for name in names if name not in built_in_names]
    if not wanted:
        return ours, names
    project = find_project()
    known = (
        {project.name, *(each.name for each in project.experiments), *project.commands} if project else set()
    )
    for name in wanted:
        if name not in known:
            where = f", nor in {project.file}" if project else ""
            remedy = _nearest_or_own(name, built_in_names | known)
            raise UsageError(f"there is no experiment {name!r}{where}", remedy=remedy)
    return Labs((*LABS, project.lab(wanted)) if project else LABS), names


def _nearest_or_own(name: str, known: Iterable[str]) -> str:
    """Return a remedy that names the nearest of `known`, and how to name a program where none is near."""
    remedy = nearest_name(name, known)
    if difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.75):
        return remedy
    return f"{remedy}{' ' if remedy.endswith('?') else '; '}a workload of your own needs --workload PROGRAM"


def nearest_name(name: str, known: Iterable[str], others: str | None = None) -> str:
    """Return a remedy: the nearest of `known`; where none is near, `others`, or the labs among them."""
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    if near:
        return f"did you mean {near[0]!r}?"
    if others is not None:
        return others
    # The name of an experiment has a dot.
    return f"the labs are {', '.join(each for each in names if '.' not in each)} (see oscope list)"

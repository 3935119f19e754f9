"""The labs: which experiments and inspections there are, after which document. Importing this is cheap."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from oscope.labs import disk, fs, ipc, kernel, memory, syscalls, tools, transfer, trust
from oscope.model.errors import UsageError
from oscope.model.experiment import Experiment, Inspection, Lab

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


def lab(name: str) -> Lab:
    """Return the lab called `name`.

    Raises:
        UsageError: there is none; the nearest name is given.

    """
    for candidate in LABS:
        if candidate.name == name:
            return candidate
    raise UsageError(f"there is no lab {name!r}", remedy=_nearest(name, [each.name for each in LABS]))


def experiment(name: str) -> Experiment:
    """Return the experiment called `name`.

    Raises:
        UsageError: there is none; the nearest name of an experiment, an inspection or a lab is given.

    """
    found = named(name)
    if isinstance(found, Inspection):
        raise UsageError(f"{name} is an inspection and has no samples", remedy=f"oscope run {name}")
    return found


def inspection(name: str) -> Inspection:
    """Return the inspection called `name`.

    Raises:
        UsageError: there is none; the nearest name of an experiment, an inspection or a lab is given.

    """
    found = named(name)
    if isinstance(found, Experiment):
        raise UsageError(f"{name} is an experiment and no inspection", remedy=f"oscope run {name}")
    return found


def named(name: str) -> Experiment | Inspection:
    """Return the experiment or inspection called `name`.

    Raises:
        UsageError: there is none; the nearest name of an experiment, an inspection or a lab is given.

    """
    known = {each.name: each for one in LABS for each in one.parts}
    if name in known:
        return known[name]
    names = [*known, *(each.name for each in LABS)]
    raise UsageError(f"there is no experiment {name!r}", remedy=_nearest(name, names))


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return a remedy that names the nearest of `known`, or all of them where none is near."""
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)} (see `oscope list`)"

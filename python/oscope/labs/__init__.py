"""The labs: which experiments and inspections there are, after which document. Importing this is cheap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oscope.labs import disk, fs, ipc, kernel, memory, syscalls, tools, transfer, trust
from oscope.model.experiment import Experiment, Inspection, Lab
from oscope.model.labs import Labs
from oscope.probe import own_labs

if TYPE_CHECKING:
    from oscope.probe.own_project import Project


def experiment(name: str) -> Experiment:
    """Return the built-in experiment called `name`; see `Labs.experiment`."""
    return built_in().experiment(name)


LABS: tuple[Lab, ...] = (
    *(each.LAB for each in (syscalls, memory, disk, ipc, transfer, kernel, fs, tools)),
    trust.lab(experiment),
)
"""Every lab, in the order in which lists and reports show them."""


def built_in() -> Labs:
    """Return the labs of Oscope itself."""
    return Labs(LABS)


def lab(name: str) -> Lab:
    """Return the built-in lab called `name`; see `Labs.lab`."""
    return built_in().lab(name)


def inspection(name: str) -> Inspection:
    """Return the built-in inspection called `name`; see `Labs.inspection`."""
    return built_in().inspection(name)


def named(name: str) -> Experiment | Inspection:
    """Return the built-in experiment or inspection called `name`; see `Labs.named`."""
    return built_in().named(name)


def find_project() -> Project | None:
    """Return the project of the nearest `oscope.toml`; see `own_labs.find_project`."""
    return own_labs.find_project(built_in())


def with_own(names: Sequence[str], program: str | None = None) -> tuple[Labs, Sequence[str]]:
    """Return the labs in which `names` are found, and the names; see `own_labs.with_own`."""
    return own_labs.with_own(built_in(), names, program)

"""Where the experiments of a run are measured: on its machine, in guests, by the user's own programs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from oscope.model.guest import Guest
from oscope.model.program import Program
from oscope.planning.plan import Plan, PlannedExperiment
from oscope.targets.affinity import Affinity
from oscope.targets.guest.target import GuestTarget
from oscope.targets.own import OwnProgram
from oscope.targets.target import Machine, Target


class Targets:
    """The targets of a run, each made once."""

    def __init__(
        self, path: Path, affinity: Affinity, machine: Machine, environment: Mapping[str, Any]
    ) -> None:
        """`path` is the probe; `environment` is what it reports of the `machine`, which is not a guest."""
        self._path = path
        self._affinity = affinity
        self._machine = machine
        self._environment = environment
        self._guests: dict[tuple[Guest, tuple[str, ...]], Target] = {}
        self._own: dict[Program, Target] = {}

    def of(self, experiment: PlannedExperiment) -> Target:
        """Return where `experiment` is measured. Raises OscopeError where it cannot be measured there."""
        guest, program = experiment.guest, experiment.program
        if program is not None:
            if program not in self._own:
                self._own[program] = OwnProgram(program, self._affinity, self._environment)
            return self._own[program]
        if guest is None:
            return self._machine
        key = (guest, experiment.workload.programs)
        if key not in self._guests:
            self._guests[key] = guest_target(
                *key, self._path, self._affinity, self._environment.get("machine")
            )
        return self._guests[key]

    def check(self, plan: Plan) -> None:
        """Raise OscopeError where a place of the plan cannot be made, before anything is measured."""
        for experiment in plan.experiments:
            self.of(experiment)


def guest_target(
    guest: Guest, programs: Collection[str], probe: Path, affinity: Affinity, machine: object
) -> Target:
    """Return where `guest` with `programs` is booted on this `machine`; OscopeError where it cannot be."""
    return GuestTarget(guest, programs, probe, affinity, machine)

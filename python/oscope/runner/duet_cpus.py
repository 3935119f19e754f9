"""On which two CPUs a duet is measured (see `oscope.runner.duet`), and which experiments can be."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from pathlib import Path

from oscope.model.errors import UsageError
from oscope.planning.plan import PlannedExperiment, counts_instructions
from oscope.targets.affinity import Affinity
from oscope.trace.factor import UNTRACED, tracer_of

Cpus = tuple[int, int]
"""Those of the two sides."""

FEWEST_CPUS = 3
"""One for each side, and one for the laboratory."""
_TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


class DuetAffinity(Affinity):
    """While entered, the laboratory's threads keep off both CPUs on which the sides are measured."""

    def __init__(self, cpus: Cpus | None = None) -> None:
        """Choose the CPUs, or take `cpus`, even where they leave none to the laboratory.

        Raises UsageError where there are too few, or where `cpus` are not two that are allowed.
        """
        super().__init__()
        if cpus is None:
            cpus = choose(self._allowed, {cpu: _siblings(cpu) for cpu in self._allowed})
        elif len({*cpus} & self._allowed) != 2:
            raise UsageError(
                f"a duet on CPUs {cpus[0]} and {cpus[1]}",
                remedy=f"name two of {', '.join(map(str, sorted(self._allowed)))}",
            )
        self.cpus: Cpus = cpus
        # Experiments of the same run that are no duet are measured on the highest CPU.
        free = self._allowed - {*cpus}
        self._apart = free - {max(self._allowed)} or free or self._allowed

    @property
    def note(self) -> str | None:
        """What to know of the CPUs; None where there is nothing."""
        if self.cpus[1] not in _siblings(self.cpus[0]):
            return None
        return (
            f"CPUs {self.cpus[0]} and {self.cpus[1]} share a core, so that the sides slow each other down; "
            "no others are free"
        )


def is_possible() -> bool:
    """Say whether this process may use enough CPUs for a duet."""
    try:
        DuetAffinity()
    except UsageError:
        return False
    return True


def choose(allowed: Collection[int], siblings: Mapping[int, Collection[int]]) -> Cpus:
    """Return two of the CPUs: on two cores if there are two, and so that a third core is left if there is.

    `siblings` are the CPUs of each one's core, itself among them. Raises UsageError where there are fewer
    than `FEWEST_CPUS`.
    """
    if len(allowed) < FEWEST_CPUS:
        raise UsageError(
            f"duet needs {FEWEST_CPUS} CPUs, two for the sides and one for the laboratory: this process may "
            f"use {len(allowed)}",
            remedy="use --way interleaved",
        )

    def drawbacks(pair: Cpus) -> tuple[bool, bool, int, int]:
        first, second = pair
        cores = {*siblings[first], *siblings[second]}
        return second in siblings[first], cores >= {*allowed}, -first, -second

    return min(itertools.combinations(sorted(allowed, reverse=True), 2), key=drawbacks)


def why_not(experiment: PlannedExperiment) -> str | None:
    """Return why an experiment cannot be measured as a duet; None where it can."""
    if experiment.guest is not None:
        return "it is measured in guests"
    if counts_instructions(experiment):
        return "it counts instructions"
    if any(tracer_of(point) != UNTRACED for point in experiment.points):
        return "it is traced"
    if not all(experiment.workload.is_alone(point) for point in experiment.points):
        return f"{experiment.workload.name} uses other threads, processes or devices besides its own CPU"
    return None


def _siblings(cpu: int) -> frozenset[int]:
    """Return the CPUs that share a core with `cpu`, itself among them."""
    try:
        text = Path(_TOPOLOGY.format(cpu)).read_text().strip()
        ends = [part.partition("-") for part in text.split(",")]
        found = {each for first, _, last in ends for each in range(int(first), int(last or first) + 1)}
    except (OSError, ValueError):
        found = set()
    return frozenset({cpu, *found})

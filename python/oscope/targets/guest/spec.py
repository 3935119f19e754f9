"""Turns what was asked for, by `--on` or by an experiment itself, into the guests that a plan holds."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from oscope.model.clocks import Clock
from oscope.model.errors import OscopeError, UsageError
from oscope.model.experiment import Experiment, GuestSpec
from oscope.model.factors import Profile
from oscope.model.guest import CPUS, MEMORY_BYTES, Guest
from oscope.model.host import Host
from oscope.model.units import GIBIBYTE, format_bytes
from oscope.targets import kernel
from oscope.targets.target import LOCAL
from oscope.trace.factor import TRACER

GUEST = "guest"
SSH = "ssh"


@dataclass(frozen=True)
class Where:
    """Where to measure, as asked for."""

    on: str | None = None
    """`local`, `guest`, `guest:KERNEL`, `ssh:HOST`; None: where each experiment says."""
    clock: Clock | None = None
    """None: `wall`, or what the experiment says."""
    cpus: int | None = None
    memory_bytes: int | None = None

    def check(self) -> None:
        """Raise UsageError where the parts contradict each other."""
        place = (self.on or GUEST).partition(":")[0]
        if place not in (LOCAL, GUEST, SSH) or (self.on or "").startswith(f"{LOCAL}:"):
            raise UsageError(
                f"--on {self.on}: there is no such place",
                remedy="give local, guest, guest:KERNEL or ssh:HOST",
            )
        host = self.host
        if (self.on or "").startswith(f"{GUEST}:") and not (self.on or "").partition(":")[2]:
            raise UsageError(f"--on {self.on} names no kernel", remedy="give guest, or guest:KERNEL")
        if self.on == LOCAL or host is not None:
            given = {"--clock": self.clock, "--cpus": self.cpus, "--memory": self.memory_bytes}
            for option, value in given.items():
                if value is not None:
                    raise UsageError(
                        f"{option} is of a guest", remedy=f"leave out {option}, or add --on guest"
                    )

    @property
    def host(self) -> Host | None:
        """The other host that is meant, if one is. Raises UsageError where it cannot be one."""
        place, _, address = (self.on or "").partition(":")
        if place != SSH:
            return None
        if not address:
            raise UsageError(f"--on {self.on} names no host", remedy="give ssh:HOST, as HOST is for ssh")
        return Host(address, address)


@dataclass(frozen=True)
class Placed:
    """The experiments that can be measured, the guests of those measured in one, and what is left out."""

    experiments: tuple[Experiment, ...]
    guests: Mapping[str, Guest]
    left_out: tuple[str, ...]


def place(
    experiments: Sequence[Experiment], named: Collection[str], where: Where, profile: Profile
) -> Placed:
    """Find a guest for each experiment that is to be measured in one.

    One that cannot be measured there, such as for want of a kernel, is left out, unless it is one of those
    `named` or none is left: then what it wants is raised. Raises UsageError for what `where` has and no
    experiment a use for.
    """
    where.check()
    if not experiments and where.on not in (None, LOCAL):
        raise UsageError("inspections are made on this machine", remedy=f"leave out --on {where.on}")
    guests: dict[str, Guest] = {}
    chosen: list[Experiment] = []
    left_out: list[str] = []
    for number, experiment in enumerate(experiments, 1):
        try:
            guest = _guest(experiment, where, profile)
        except OscopeError as error:
            if experiment.name in named or (number == len(experiments) and not chosen):
                raise
            left_out.append(f"{experiment.name} is left out: {error}")
            continue
        chosen.append(experiment)
        if guest is not None:
            guests[experiment.name] = guest
    if where.on is None and not guests:
        replace(where, on=LOCAL).check()
    return Placed(tuple(chosen), guests, tuple(left_out))


def resolve(text: str | None) -> str:
    """Return how a plan names the kernel that `text` means: its id, or the path of another's image."""
    found = kernel.find(text)
    return str(found.image) if found.folder is None else found.id


def room(memory_bytes: int | None) -> int:
    """Return the memory of a guest: as asked for, or what it has by itself.

    Raises UsageError where this machine has less.
    """
    all_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if memory_bytes is not None and memory_bytes > all_bytes:
        here = f"this machine has {all_bytes / GIBIBYTE:.1f} GiB"
        raise UsageError(
            f"a guest with {format_bytes(memory_bytes)} of memory: {here}",
            remedy=f"give less by --memory, such as {MEMORY_BYTES // GIBIBYTE}G",
        )
    return MEMORY_BYTES if memory_bytes is None else memory_bytes


def _guest(experiment: Experiment, where: Where, profile: Profile) -> Guest | None:
    requested = experiment.guest
    if where.host is not None and requested is not None:
        raise OscopeError(
            f"{experiment.name} is measured in a guest, and guests are booted on this machine",
            remedy="leave out --on",
        )
    if where.on == LOCAL or where.host is not None or (where.on is None and requested is None):
        return None
    if TRACER.name in experiment.design(profile).factors:
        raise UsageError(
            f"{experiment.name}: a tracer of this machine sees nothing of a guest",
            remedy="measure it with --on local",
        )
    text = (where.on or "").partition(":")[2] or (requested.kernel if requested else None)
    clock = where.clock or (requested.clock if requested else "wall")
    return make_guest(resolve(text), clock, where, requested)


def make_guest(kernel: str, clock: Clock, where: Where, requested: GuestSpec | None) -> Guest:
    """Return the guest with what `where` asks for, else an experiment, else the defaults.

    An experiment wants CPUs for its own clock: there may be others by another. Raises UsageError for a guest
    that cannot be.
    """
    cpus, memory = where.cpus, where.memory_bytes
    if cpus is None and requested is not None and requested.clock == clock:
        cpus = requested.cpus
    if memory is None and requested is not None:
        memory = requested.memory_bytes
    return Guest(
        kernel,
        clock,
        CPUS[clock] if cpus is None else cpus,
        room(memory),
    )

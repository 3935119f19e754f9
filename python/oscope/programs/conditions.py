"""Where and how commands are measured: on this machine or in a guest, with a tracer or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oscope.model.errors import UsageError
from oscope.model.guest import Guest
from oscope.planning.plan import check_traced
from oscope.probe.locate import find_probe
from oscope.probe.process import Probe
from oscope.programs.command import DEVICES, CommandContext
from oscope.targets.affinity import Affinity
from oscope.targets.guest.spec import Where, make_guest, resolve
from oscope.targets.guest.target import GuestTarget
from oscope.targets.target import LOCAL, Local

_ELF = b"\x7fELF"
_PROGRAMS = ("reference", "shell", "setup", "prepare", "cleanup")
"""Parameters of command.run that are a program, by its path, and its arguments."""


@dataclass(frozen=True)
class Conditions:
    """Where commands are measured, and under which tracer besides none."""

    where: Where = field(default_factory=Where)
    tracer: str | None = None
    """A level of the factor `tracer`; None: they are not traced."""

    def check(self, precision: float | None, *, revisions: bool = False, bisect: bool = False) -> None:
        """Raise UsageError where they contradict each other, `precision`, or a bench of revisions."""
        if self.tracer is not None:
            check_traced(precision)
            if bisect:
                raise UsageError(
                    "--bisect and --trace contradict each other, since the search needs untraced figures",
                    remedy="leave out --trace, or trace two revisions without --bisect",
                )
        if revisions and self.where.on not in (None, LOCAL):
            raise UsageError(
                f"--git and --on {self.where.on} contradict each other, since worktrees are here alone",
                remedy="leave out --on, or name built programs: oscope bench --on guest -- OLD --vs NEW",
            )
        if revisions:
            self.guest()

    def guest(self) -> Guest | None:
        """Return the guest asked for; None: this machine. Raises OscopeError where there is none."""
        self.where.check()
        if self.where.on in (None, LOCAL):
            Where(LOCAL, self.where.clock, self.where.cpus, self.where.memory_bytes).check()
            return None
        if self.where.host is not None:
            raise UsageError(
                f"--on {self.where.on}: commands are measured here or in a guest",
                remedy="run oscope bench on that host, or give --on guest",
            )
        if self.tracer is not None:
            raise UsageError(
                "a tracer of this machine sees nothing of a guest", remedy="leave out --trace, or --on"
            )
        text = (self.where.on or "").partition(":")[2] or None
        return make_guest(resolve(text), "wall", self.where, None)


def check_for_guest(context: CommandContext) -> None:
    """Raise UsageError for what names a file or folder of this machine, which a guest does not have."""
    named = (
        ("--cwd", context.folder),
        ("--input", context.input),
        ("--output", context.output),
        *(("--cold", name) for name in context.cold),
    )
    for option, name in named:
        if name is not None and name not in DEVICES:
            raise UsageError(
                f"{option} {name}: a guest has no files of this machine but the programs",
                remedy=f"leave out {option}, or measure with --on local",
            )


def for_guest(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a guest's probe is asked with: there is no folder of this machine."""
    return {name: value for name, value in params.items() if name != "folder"}


def programs_of(params: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the absolute paths of the programs that a guest needs; UsageError for a script."""
    found: dict[str, None] = {}
    for each in params:
        found[each["program"]] = None
        found |= {each[name][0]: None for name in _PROGRAMS if each.get(name)}
    for path in found:
        with Path(path).open("rb") as file:
            if file.read(len(_ELF)) != _ELF:
                raise UsageError(
                    f"{path} is a script: a guest has programs of this machine, and none of its other files",
                    remedy="measure a script with --on local",
                )
    return tuple(found)


def starter(guest: Guest | None, programs: tuple[str, ...]) -> Callable[[Affinity], Probe]:
    """Return what starts the probe there that tries the commands."""

    def start(affinity: Affinity) -> Probe:
        if guest is None:
            return Local(find_probe(), affinity).start()
        return GuestTarget(guest, programs, find_probe(), affinity, None).start()

    return start

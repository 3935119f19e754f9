"""Settings of the machine that steady measurements, held for as long as a block lasts: a lease.

The probe sets, reads again and restores (`oscope-probe tune`): when its input ends, which it does with this
process however it ends, and by `oscope-probe restore` where the probe itself was killed.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oscope.model.errors import UsageError
from oscope.probe.child import Child
from oscope.probe.locate import ask, find_probe

STEADY = "steady"
"""Stands for all settings of this machine that steady measurements without changing what is measured."""
_LIMIT_S = 60.0
_VERB = "tune"


@dataclass(frozen=True)
class Tunable:
    """A setting, as this machine has it."""

    name: str
    doc: str
    choices: tuple[str, ...]
    """Values that it may have; empty where the machine has none, or for a list of CPUs."""
    steady: str | None
    places: int
    """Files of the kernel that make it up, such as one a CPU; 0 where this machine does not have it."""
    now: Mapping[str, int]
    """Value -> in how many places it is so now."""


@dataclass(frozen=True)
class Held:
    """One place that a lease has set, or had to leave."""

    name: str
    path: str
    before: str
    now: str | None
    left: str | None
    """Why it stays as it was; None where it was set."""


def tunables() -> list[Tunable]:
    """Return every setting that can be tuned, those that this machine does not have among them."""
    return [
        Tunable(
            one["name"], one["doc"], tuple(one["choices"]), one["steady"], one["places"], dict(one["now"])
        )
        for one in ask(find_probe(), _VERB)["settings"]
    ]


def parse(texts: Sequence[str]) -> dict[str, str]:
    """Return name -> value of `NAME=VALUE` texts; `steady` stands for what this machine has of it.

    Raises UsageError for what is of another form, or unknown, or where nothing here would be steadier.
    """
    settings: dict[str, str] = {}
    known = {one.name: one for one in tunables()}
    for text in texts:
        name, _, value = text.partition("=")
        if text == STEADY:
            found = {one.name: one.steady for one in known.values() if one.steady and one.places}
            if not found:
                raise UsageError(
                    "nothing of this machine can be set steadier",
                    remedy="see oscope tune for what it has; a hypervisor often hides the CPUs' frequency",
                )
            settings.update(found)
        elif name not in known or not value:
            raise UsageError(
                f"{text!r} is no setting with its value",
                remedy=f"write NAME=VALUE or {STEADY}; there is {', '.join(known)}",
            )
        elif settings.setdefault(name, value) != value:
            raise UsageError(f"{name} is given twice", remedy="give it once")
        elif known[name].choices and value not in known[name].choices:
            raise UsageError(
                f"{name}={value}: no such value", remedy=f"choose from: {', '.join(known[name].choices)}"
            )
        elif not known[name].places:
            raise UsageError(
                f"this machine has no setting for {name}", remedy="leave it out: see oscope tune"
            )
    return settings


@contextlib.contextmanager
def tuned(settings: Mapping[str, str]) -> Iterator[list[Held]]:
    """Hold settings for the length of a block, and put them back as they were.

    Raises OscopeError where one cannot be set; then none stays set.
    """
    if not settings:
        yield []
        return
    lease = Lease(settings)
    try:
        yield lease.held
    finally:
        lease.end()


class Lease(Child):
    """The probe's verb that holds settings until its input ends."""

    subject = "what holds the settings"
    goodbye_limit_s = _LIMIT_S

    def __init__(self, settings: Mapping[str, str]) -> None:
        """Have them held. Raises OscopeError with the reason where one cannot be; then none stays set."""
        words = (f"{name}={value}" for name, value in settings.items())
        super().__init__([find_probe(), _VERB, *words], stdin=subprocess.PIPE)
        try:
            lines, ended = self.lines(_LIMIT_S)
            if ended:
                self.fail()
            self.held = [_held(one) for one in json.loads(lines[0])["held"]]
        except BaseException:
            self.kill()
            raise

    def end(self) -> None:
        """Have them restored; OscopeError where that failed: a later command tries again."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self.wait() != 0:
            self.fail()
        self.kill()


def _held(entry: Mapping[str, Any]) -> Held:
    return Held(entry["name"], entry["path"], entry["before"], entry.get("now"), entry.get("left"))

"""Reports what measures the experiments of a run, where that is not the usual probe on the machine itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from oscope.model.errors import UsageError
from oscope.planning.plan import PlannedExperiment
from oscope.runner.run_events import Events, ProcessBegan, RecordedEvent

_ALIKE = ("kernel", "accelerator", "cpu_model", "kernel_options", "qemu")
"""Of a guest's record: what has to be the same in all boots of an experiment."""


class Announcements:
    """What was reported of guests and of programs of the user's own, by experiment."""

    def __init__(self) -> None:
        self._guests: dict[str, Mapping[str, Any]] = {}
        """The environment of the first guest."""
        self._programs: dict[str, str] = {}
        """SHA-256 of the first program."""
        self._announced: set[str] = set()
        """Experiments whose program was reported since the run began or resumed."""

    def restore(self, events: Mapping[str, list[Any]]) -> None:
        """Remember what a run has that is resumed: its events, by kind."""
        self._guests = {
            each["experiment"]: each["environment"] for each in events["boot"] if "environment" in each
        }
        for each in events["program"]:
            self._programs.setdefault(each["experiment"], each["environment"]["program"]["sha256"])

    def of_process(self, experiment: PlannedExperiment, environment: Mapping[str, Any]) -> Events:
        """Report a process that was started for `experiment`: the guest, or the program, and that it began.

        Raises UsageError where the guest is not like the experiment's first.
        """
        if experiment.guest is not None:
            yield self._boot(experiment.name, environment)
        if experiment.program is not None and experiment.name not in self._announced:
            self._announced.add(experiment.name)
            yield from self._program(experiment.name, environment)
        yield ProcessBegan(environment)

    def _boot(self, name: str, environment: Mapping[str, Any]) -> RecordedEvent:
        """Report of the first guest what it is, of others which boot."""
        data: dict[str, Any] = {"experiment": name, "boot_id": environment.get("boot_id")}
        if name not in self._guests:
            self._guests[name] = environment
            data["environment"] = dict(environment)
        _check_alike(name, self._guests[name], environment)
        return RecordedEvent("boot", data)

    def _program(self, name: str, environment: Mapping[str, Any]) -> Iterator[RecordedEvent]:
        """Report the program with its clock, and where a resumed run has another build."""
        yield RecordedEvent(
            "program",
            {"experiment": name, "environment": {each: environment[each] for each in ("clock", "program")}},
        )
        program = environment["program"]
        if self._programs.setdefault(name, program["sha256"]) != program["sha256"]:
            build = f"another build of {program['name']}"
            yield RecordedEvent(
                "note", f"{name}: resumed with {build}: its samples may differ for that alone"
            )


def _check_alike(experiment: str, former: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise UsageError where two guests of an experiment are of different make, as after a host's restart."""
    for part in _ALIKE:
        before, after = (each["guest"][part] for each in (former, now))
        if before != after:
            raise UsageError(
                f"{experiment}: the run was begun in guests with another {part} ({before}, now {after})",
                remedy="begin a new run",
            )

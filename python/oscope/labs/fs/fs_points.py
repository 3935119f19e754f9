"""The points of an experiment by file system, operation and delay, and how two systems compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oscope import questions as q
from oscope.labs.fs import LOCAL, OPERATIONS, OSCOPE, SYSTEMS

OWN = ("system", "operation", "delay", "tracer")
"""Factors that the lab names; of any other the first level is shown."""
NAMES: Mapping[str, str] = {"local": "local", "oscope": "oscope-fs", "sshfs": "sshfs", "nfs": "NFS"}
COUNTED = (
    "Counted in a guest whose one CPU executes an instruction a nanosecond, and waiting counts one a "
    "nanosecond too: it repeats, and shows neither caches nor client and server at work at once."
)
WORDS: Mapping[str, str] = {
    "read-first": "a big file is opened, read and closed for the first time",
    "read-again": "the same once more",
    "read-random": "1000 random reads of 4 KiB in a big file that is open and was read once",
    "change-block": "4 KiB in the middle of a big file are changed, opening and closing it included",
    "append": "4 KiB are appended to a big file, opening and closing it included",
    "create": "small files are made in a new folder",
    "read-small": "small files are opened, read and closed for the first time",
    "list": "a folder of small files is listed with their attributes",
    "git-status": "git status in a repository of small files",
    "unpack": "a tar archive of small files is unpacked",
}


@dataclass(frozen=True, eq=False)
class Shown:
    """An experiment as far as the lab shows it: no tracer, one level of every factor that is not its own."""

    run: q.Run
    """Its points that have times."""
    notes: Sequence[str]
    """Which levels these are, and what speaks against the times."""

    @classmethod
    def of(cls, run: q.Run) -> Shown:
        """Return what is shown of an experiment."""

        def make() -> Shown:
            plain = replace(run.experiment, points=tuple(q.untraced(run.experiment)))
            counted = [COUNTED] if plain.clock == "instructions" else []
            notes = [*q.narrowing(plain, OWN), *counted, *q.cautions(plain)]
            own = q.Run(run.results, plain).narrowed(*OWN).experiment
            timed = replace(own, points=tuple(q.known(own, own.headline)))
            return cls(q.Run(run.results, timed), notes)

        return run.once("shown", make)

    @property
    def experiment(self) -> q.ExperimentResults:
        """Its results."""
        return self.run.experiment

    @property
    def time(self) -> str:
        """Name of the time: by the instructions clock a count, in which waiting is one a nanosecond."""
        return self.experiment.headline

    @property
    def unit(self) -> str:
        """Unit of the time."""
        return self.experiment.metrics[self.time].unit

    @property
    def systems(self) -> list[str]:
        """File systems that have times, in the lab's order."""
        return self.run.levels("system", SYSTEMS)

    @property
    def operations(self) -> list[str]:
        """Operations that have times, in the lab's order."""
        return self.run.levels("operation", OPERATIONS)

    @property
    def far(self) -> list[str]:
        """Those that are reached over a line."""
        return [name for name in self.systems if name != LOCAL]

    @property
    def delays(self) -> list[float]:
        """Delays at which there are times, rising, in seconds one way."""
        return sorted({delay_of(point.factors) for point in self.experiment.points})

    @property
    def rows(self) -> list[q.PivotRow]:
        """All file systems at each operation and delay, in the lab's order."""
        found = q.pivot(self.run, self.time, "system")
        order = self.operations.index
        return sorted(found, key=lambda row: (order(row.level("operation")), delay_of(row.factors)))

    def point(self, system: str, operation: str, delay: float) -> q.PointSamples | None:
        """Return the point, if it has times."""
        return self.experiment.point(system=system, operation=operation, delay=delay)

    def times(self) -> list[q.Column[q.PivotRow]]:
        """Return the columns of the times, one for each system."""
        return q.pivoted({system: NAMES[system] for system in self.systems}, self.unit)

    def against(self, *bases: str) -> list[q.Contrast]:
        """Return the time of oscope-fs over that of each base at each operation and delay (paired, Holm)."""
        rows = q.contrasts(self.run, self.time, "system", *((base, OSCOPE) for base in bases))
        return sorted(rows, key=lambda row: (OPERATIONS.index(row.level("operation")), delay_of(row.factors)))


def notes(run: q.Run, _: object) -> Sequence[str]:
    """Return what stands under every answer: levels shown, and what speaks against the times."""
    return Shown.of(run).notes


def delay_of(factors: Mapping[str, q.Level]) -> float:
    """Return how late each packet is, in seconds one way."""
    return float(factors.get("delay", 0.0))


def delay_text(delay: float) -> str:
    """Return `10 ms each way`, or that there is no delay."""
    return f"{q.format_duration(delay)} each way" if delay else "no delay"


OPERATION: q.Column[Any] = q.level("operation")
DELAY: q.Column[Any] = q.text("delay, one way", lambda row: q.format_duration(delay_of(row.factors)))

"""The machine itself, with a program of the user's own in the place of the probe."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from oscope.model.program import PATIENCE_S, Program
from oscope.probe.own_program import describe
from oscope.probe.process import Probe
from oscope.probe.wire import Sample
from oscope.probe.workload_process import CLOCK, WorkloadProcess
from oscope.targets.affinity import Affinity


class OwnProgram:
    """Where a workload of the user's own is measured: here, by its program."""

    traceable = True

    def __init__(self, program: Program, affinity: Affinity, machine: Mapping[str, Any]) -> None:
        """`machine` is what the probe says of this machine. Raises ProbeError where `program` cannot be."""
        self.name = program.name
        self.program = program
        self.slowness = program.patience_s / PATIENCE_S
        self._affinity = affinity
        self._machine = machine
        self._described = describe(program)
        self._metrics = {
            workload.name: frozenset(metric.name for metric in workload.metrics)
            for workload in self._described.workloads.values()
        }

    def start(self, begun: Callable[[Probe], None] | None = None) -> Probe:
        """Start the program and wait for its greeting; `begun` is given it before that. Raises ProbeError."""
        with self._affinity.starting():
            return WorkloadProcess(self.program, self._metrics, begun=begun)

    def environment(self, probe: Probe) -> Mapping[str, Any]:
        """Return what the probe says of this machine, with the program's clock and what the program is."""
        clock = probe.hello.environment.get("clock")
        return {
            **self._machine,
            "clock": dict(clock) if isinstance(clock, dict) else dict(CLOCK),
            "program": {
                "name": self.program.name,
                "sha256": digest(self.program),
                "version": self._described.probe.get("version"),
                "commit": self._described.probe.get("commit"),
            },
        }

    def translate(self, sample: Sample, workload: str) -> Sample:
        """Return `sample` as it is."""
        del workload
        return sample


@lru_cache(maxsize=64)
def digest(program: Program) -> str:
    """Return the SHA-256 of the files that the program's command names: the program's, and its scripts'."""
    whole = hashlib.sha256()
    for word in program.command:
        path = Path(program.folder, word)
        if path.is_file():
            with path.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()

"""Where an experiment is measured: what starts its probes and what their figures mean there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from oscope.probe.locate import ask
from oscope.probe.process import Probe
from oscope.probe.wire import Sample
from oscope.targets.affinity import Affinity

LOCAL = "local"


class Target(Protocol):
    """A machine, real or emulated, that probes are started on."""

    name: str
    """For people: `local`, or which guest."""
    traceable: bool
    """Whether a tracer of this machine can watch the probe there."""
    slowness: float
    """By how much longer a probe may be silent there than on a real machine."""

    def start(self, begun: Callable[[Probe], None] | None = None) -> Probe:
        """Start a probe and wait for its greeting; `begun` is given it before that. Raises ProbeError."""

    def environment(self, probe: Probe) -> Mapping[str, Any]:
        """Return what is to be recorded of where `probe` runs, its clock and its boot among it."""

    def translate(self, sample: Sample, workload: str) -> Sample:
        """Return `sample`, which the probe's `workload` gave, with the metrics that a plan has for it."""


class Machine(Target, Protocol):
    """A real machine, whose probes renew themselves: this one, or another host."""

    def begin_renewal(self, probe: Probe, program: Path | None = None) -> None:
        """Begin to put a fresh process in the probe's place. Raises ProbeError.

        It executes `program`; None: the same again.
        """

    def survey(self) -> Mapping[str, Any]:
        """Return all the probe can tell of the machine now, clock offsets included. Raises ProbeError."""

    def close(self) -> None:
        """Release what is held of the machine, such as a connection."""


class Local:
    """The machine that the laboratory runs on."""

    name = LOCAL
    traceable = True
    slowness = 1.0

    def __init__(self, path: Path, affinity: Affinity) -> None:
        """Probes are those at `path`, started on all CPUs that this process was allowed."""
        self._path = path
        self._affinity = affinity

    def start(self, begun: Callable[[Probe], None] | None = None) -> Probe:
        """Start a probe and wait for its greeting; `begun` is given it before that. Raises ProbeError."""
        with self._affinity.starting():
            return Probe([self._path, "run"], begun=begun)

    def begin_renewal(self, probe: Probe, program: Path | None = None) -> None:
        """Begin to put a fresh process in the probe's place, on all CPUs again. Raises ProbeError.

        It executes `program`; None: the same again.
        """
        self._affinity.release(probe.pid)
        probe.begin_renewal(program)

    def survey(self) -> Mapping[str, Any]:
        """Return all the probe can tell of this machine now, clock offsets included. Raises ProbeError."""
        with self._affinity.starting():
            return ask(self._path, "environment")

    def close(self) -> None:
        """Nothing is held."""

    def environment(self, probe: Probe) -> Mapping[str, Any]:
        """Return what the probe says of this machine."""
        return probe.hello.environment

    def translate(self, sample: Sample, workload: str) -> Sample:
        """Return `sample` as it is: its metrics are the workload's own."""
        del workload
        return sample

"""The probe processes of a run, one at a time: each is started, renewed, handed over, and ended."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oscope.model.errors import ProbeError
from oscope.planning.plan import PlannedExperiment
from oscope.probe.process import Probe
from oscope.runner.announcements import Announcements
from oscope.runner.run_events import Events, ProcessBegan, RunEvent, note
from oscope.runner.stop_request import StopRequest
from oscope.targets.affinity import Affinity
from oscope.targets.target import Local, Machine, Target

_MOST_NUMBERS = 2**30


@dataclass(frozen=True)
class Held:
    """The process of a chain between two passes, which another chain may resume."""

    probe: Probe | None
    renewing: bool
    """Whether a fresh process is taking its place."""
    program: Path
    """What it executes, or will."""


class ProcessChain:
    """A chain of probe processes, on one machine or in guests."""

    def __init__(
        self,
        path: Path,
        affinity: Affinity,
        machine: Machine | None = None,
        stop: StopRequest | None = None,
    ) -> None:
        """Start the first process, whose greeting shows where the run takes place. Raises ProbeError.

        `machine` is what is not measured in guests; None: this one. `stop` ends what measures.
        """
        self.path = path
        self.stop = stop or StopRequest()
        self.local: Machine = machine or Local(path, affinity)
        self.target: Target = self.local
        self.successor = path
        """The program of the process that takes the next fresh one's place (see `hand_over`)."""
        self._program = path
        self._renewing = False
        """Whether a fresh process is taking the place of the one that measured the last pass."""
        self._renewed = False
        """Whether one has, and was not yet reported."""
        self._may_renew = True
        """Whether no process has failed to put a fresh one in its place so far."""
        # Numbered from anywhere: another laboratory's probes pass the same marks, and a tracer knows requests
        # by their numbers.
        self.request = secrets.randbelow(_MOST_NUMBERS)
        """Number of the last request."""
        probe = self.local.start()
        self._probe: Probe | None = None
        self._measure_with(probe)
        self.environment = self.local.environment(probe)

    def move_to(self, target: Target) -> bool:
        """Start the next processes at `target`; say whether the last ones were elsewhere."""
        if target is self.target:
            return False
        self.end()
        self.target = target
        return True

    def survey(self) -> Mapping[str, Any]:
        """Return all the probe can tell of the machine now, clock offsets included. Raises ProbeError."""
        # The clock that the samples are read with is that of the process which takes them.
        return {**self.local.survey(), "clock": self.environment["clock"]}

    def process(
        self, experiment: PlannedExperiment, announcements: Announcements
    ) -> Generator[RunEvent, None, Probe]:
        """Return the process that measures next, which is started where there is none. Raises ProbeError."""
        yield from self.go_on(self.finish_renewal())
        if self._probe is not None and self._renewed:
            yield ProcessBegan(self.target.environment(self._probe))
        self._renewed = False
        if self._probe is None:
            self._program = self.path
            try:
                # A request to end reaches a probe that has not greeted yet, such as a guest that boots.
                probe = self.target.start(self._measure_with)
            except BaseException:
                self._measure_with(None)
                raise
            self._measure_with(probe)
            if not self.target.traceable:
                # No tracer has to tell its requests from others', and a boot shall repeat the last in all.
                self.request = 0
            yield from announcements.of_process(experiment, self.target.environment(probe))
            return probe
        return self._probe

    def finish_renewal(self) -> ProbeError | None:
        """Wait for the fresh process; return why there is none. Yields no event: any thread may call it."""
        probe, renewing = self._probe, self._renewing
        self._renewing = False
        if probe is None or not renewing:
            return None
        try:
            probe.finish_renewal()
        except ProbeError as error:
            return error
        self._renewed = True
        return None

    def go_on(self, error: ProbeError | None) -> Events:
        """Where a process could not be renewed, start each block's from scratch from now on."""
        if error is None:
            return
        if self.stop.asked:
            raise error
        self.kill()
        self._may_renew = False
        yield note(f"the probe cannot renew its process, so each block starts one from scratch: {error}")

    def retire(self, *, traced: bool) -> Events:
        """Have what measured a pass give back all it has, so that the next one gets a fresh process.

        Memory layout and the like differ from process to process, and shall vary within a run. Physical pages
        go to whichever process needs some next, of any side: a side that kept its own for the length of a run
        would differ from an equal one. A tracer watches processes by their numbers, and shall see a new one
        begin; a guest is booted anew.
        """
        probe = self._probe
        # A pass of which nothing was missing, as of a resumed run, has used no process.
        if probe is None or self._renewing:
            return
        if traced or not self._renews(probe):
            self.end()
            return
        other = self.successor if self.successor != self._program else None
        self._program = self.successor
        try:
            self.local.begin_renewal(probe, other)
        except ProbeError as error:
            if self.stop.asked:
                self.kill()
            else:
                yield from self.go_on(error)
        else:
            self._renewing = True

    def _renews(self, probe: Probe) -> bool:
        return probe.hello.renews and self._may_renew and self.target is self.local

    def can_hand_over(self, programs: Collection[Path]) -> bool:
        """Say whether its process can measure for a chain of any of these programs in the next block."""
        probe = self._probe
        if probe is None or not self._renews(probe):
            return False
        return {*programs} == {self.path} or probe.hello.renews_into

    def hand_over(self) -> Held:
        """Let go of the process, for another chain to resume."""
        held = Held(self._probe, self._renewing, self._program)
        self._renewing = False
        self._measure_with(None)
        return held

    def go_on_with(self, held: Held) -> None:
        """Measure with the process that another chain has let go of."""
        self._renewing, self._program = held.renewing, held.program
        self._measure_with(held.probe)

    def _measure_with(self, probe: Probe | None) -> None:
        self._probe = probe
        self.stop.watch(probe)

    def end(self) -> None:
        """Let the process under way end, if there is one."""
        if self._probe is not None:
            self._probe.close()
            self._measure_with(None)
        self._renewing = False

    def is_out_of_reach(self) -> bool:
        """Say whether the place of the process under way was lost, and not the process alone."""
        return self._probe is not None and self._probe.is_out_of_reach()

    def kill(self) -> None:
        """End the process under way at once."""
        if self._probe is not None:
            self._probe.kill()
            self._measure_with(None)

"""Takes the points' turns: has a probe measure each, traced or not, keeps the samples, survives its death."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oscope.model.errors import OscopeError, ProbeError, UsageError
from oscope.model.guest import Guest
from oscope.model.interruption import Interruption, raise_interrupt
from oscope.planning.plan import PlannedExperiment, counts_instructions
from oscope.planning.schedule import Pass
from oscope.probe.locate import ask
from oscope.probe.process import Probe, Request
from oscope.probe.wire import Done, Event, Note, Refusal, Sample
from oscope.runner.attachment import Attachment
from oscope.runner.progress import Listener, Progress
from oscope.runner.recorder import PointState, Recorder
from oscope.targets.affinity import Placement
from oscope.targets.target import Local, Place
from oscope.trace.factor import TRACER, UNTRACED, tracer_of
from oscope.trace.tracer import TraceUnavailable

PATIENCE_S = 60.0
"""How long a probe may prepare a point without a word, beyond the time that the point itself asks for."""
_MOST_DEATHS = 2
_MOST_NUMBERS = 2**30
_MOST_FAILURES = 2
_MOST_FAILED_BOOTS = 3
"""In a row: the guest is taken for one that does not boot, and each try may take a minute."""


@dataclass(frozen=True)
class Held:
    """The process of a runner between two passes, which another runner may go on with."""

    probe: Probe | None
    renewing: bool
    """Whether a fresh process is taking its place."""
    program: Path
    """What it executes, or will."""


class PointRunner:
    """A chain of probe processes, one at a time, and the run that they measure for."""

    def __init__(
        self, path: Path, placement: Placement, make_place: Callable[[Guest, Collection[str]], Place]
    ) -> None:
        """Start the first process, whose greeting tells where the run takes place. Raises ProbeError.

        `make_place` makes the place of the guests that have the programs of those names.
        """
        self.path = path
        self._placement = placement
        self._make_place = make_place
        self._local = Local(path, placement)
        self._guests: dict[tuple[Guest, tuple[str, ...]], Place] = {}
        self._place: Place = self._local
        self._probe: Probe | None = None
        self._renewing = False
        """Whether a fresh process is taking the place of the one that measured the last pass."""
        self._may_renew = True
        """Whether no process has failed to put a fresh one in its place so far."""
        self._program = path
        self.successor = path
        """The program of the process that takes the next fresh one's place (see `hand_over`)."""
        # Numbered from anywhere: another laboratory's probes pass the same marks, and a tracer knows requests
        # by their numbers.
        self._requests = secrets.randbelow(_MOST_NUMBERS)
        self._failed_boots = 0
        self._attachment = Attachment(path)
        self.failures: list[str] = []
        """What went wrong, a line each."""
        self.interrupted = False
        self.make_inject: Callable[[], Mapping[str, object] | None] = lambda: None
        """Returns what the next request injects into its measured region."""
        self.cpu: int | None = None
        """The CPU that requests are pinned to; None: the one that the probe takes."""
        self.recorder: Recorder
        self.listener: Listener
        self._probe = self._local.start()
        self.environment = self._local.environment(self._probe)

    def place_of(self, experiment: PlannedExperiment) -> Place:
        """Return where `experiment` is measured. Raises OscopeError where there can be no such guest."""
        guest = experiment.guest
        if guest is None:
            return self._local
        key = (guest, experiment.workload.programs)
        if key not in self._guests:
            self._guests[key] = self._make_place(*key)
        return self._guests[key]

    def begin(self, recorder: Recorder, listener: Listener) -> None:
        """Measure for `recorder` from now on."""
        self.recorder = recorder
        self.listener = listener
        recorder.begin_process(self.environment)

    def take(
        self,
        one: Pass,
        experiment: PlannedExperiment,
        stop: Callable[[], bool],
        late: Callable[[], bool],
    ) -> bool:
        """Take the turns of a pass that miss samples; return False where it was ended early.

        What was disturbed is measured again after all other turns, and in the same process: so the machine
        has had some time to calm down. Not if it is `late` by then.
        """
        self._move_to(self.place_of(experiment))
        for turn in one.turns:
            point = self.recorder.points[experiment.name][turn.point]
            if not point.missing(one.block):
                continue
            if self.interrupted or stop():
                return False
            if self._attach(one, point):
                self._take_turn(point, one.block)
        self._take_again(one, experiment, late)
        # Without a number of blocks, none knows how much room a tracer needs.
        if not self._attachment.lasts or experiment.blocks is None:
            self._detach()
        self.retire_process()
        return not self.interrupted

    def _take_again(self, one: Pass, experiment: PlannedExperiment, late: Callable[[], bool]) -> None:
        for turn in one.turns:
            point = self.recorder.points[experiment.name][turn.point]
            if self.interrupted or late():
                return
            if self.recorder.order_again(point, one.block) and self._attach(one, point):
                self._take_turn(point, one.block)

    def _move_to(self, place: Place) -> None:
        if place is not self._place:
            self.end_process()
            self._place = place
            self._failed_boots = 0

    def _attach(self, one: Pass, point: PointState) -> bool:
        """Have the tracer of the pass watch the process that takes it; False where it cannot."""
        if self._attachment.level != one.tracer:
            self._detach()
        if self._attachment.tracing or one.tracer == UNTRACED:
            return not self.interrupted
        room = len(point.experiment.points) * (point.experiment.blocks or 1)
        try:
            pid = self._process(point.experiment).pid
            if self.interrupted:
                return False
            # Attaching takes seconds, and nothing is traced yet that would be lost.
            with Interruption(raise_interrupt):
                self._attachment.attach(one.tracer, pid, room)
        except KeyboardInterrupt:
            self.interrupt()
        except TraceUnavailable as error:
            for other in self.recorder.points[point.experiment.name]:
                if tracer_of(other.factors) == one.tracer and not other.skipped:
                    self._skip(other, error.message, error.remedy)
        except ProbeError:
            if not self.interrupted:
                raise
        except OscopeError as error:
            self._fail(point, one.block, error)
        else:
            # A signal may have come meanwhile.
            return not self.interrupted
        return False

    def _detach(self) -> None:
        """Detach the tracer, if there is one, and store what it found."""
        try:
            found = self._attachment.detach()
        except OscopeError as error:
            self.failures.append(f"what was traced is lost: {error}")
            self.note(self.failures[-1])
            return
        for point, reading, warning in found:
            if reading is not None:
                self.recorder.add_event("trace", reading, point)
            if warning is not None:
                self.note(warning, point)

    def survey(self) -> Mapping[str, Any]:
        """Return all the probe can tell of this machine now, clock offsets included. Raises ProbeError."""
        with self._placement.starting():
            found = ask(self.path, "environment")
        # The clock that the samples are read with is that of the process which takes them.
        return {**found, "clock": self.environment["clock"]}

    def end_process(self) -> None:
        """Let the process under way end, if there is one."""
        if self._probe is not None:
            self._probe.close()
            self._probe = None
        self._renewing = False

    def end(self) -> None:
        """End the process and the tracer under way, and keep what the tracer found."""
        self._detach()
        self.end_process()

    def interrupt(self) -> None:
        """Begin no further turn, and have the probe give up what it does; safe in a signal handler."""
        self.interrupted = True
        if self._probe is not None:
            self._probe.terminate()

    def kill(self) -> None:
        """End the process and the tracer under way at once."""
        self._attachment.kill()
        self._kill_process()

    def _kill_process(self) -> None:
        if self._probe is not None:
            self._probe.kill()
            self._probe = None

    def note(self, text: str, point: PointState | None = None) -> None:
        """Store and tell a note, once."""
        if point is not None:
            if text in point.notes:
                return
            point.notes.add(text)
        self.recorder.add_event("note", text, point)
        self.listener.note(text if point is None else f"{point.label}: {text}")

    def _process(self, experiment: PlannedExperiment) -> Probe:
        if (error := self._finish_renewal()) is not None:
            self._stop_renewing(error)
        if self._probe is None:
            self._program = self.path
            try:
                self._probe = self._place.start(self._hold)
            except BaseException:
                self._probe = None
                raise
            if not self._place.traceable:
                # No tracer has to tell its requests from others', and a boot shall repeat the last in all.
                self._requests = 0
            environment = self._place.environment(self._probe)
            if experiment.guest is not None:
                self.recorder.add_boot(experiment, environment)
            self.recorder.begin_process(environment)
            if self.interrupted:
                self._probe.terminate()
        return self._probe

    def retire_process(self) -> None:
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
        can = probe.hello.renews and self._may_renew and self._place is self._local
        if not can or self._attachment.tracing:
            self.end_process()
            return
        other = self.successor if self.successor != self._program else None
        self._program = self.successor
        try:
            self._local.begin_renewal(probe, other)
        except ProbeError as error:
            if self.interrupted:
                self._kill_process()
            else:
                self._stop_renewing(error)
        else:
            self._renewing = True

    def can_hand_over(self, programs: Collection[Path]) -> bool:
        """Say whether its process can measure for a runner of any of these programs in the next block."""
        probe = self._probe
        if probe is None or self._place is not self._local or self._attachment.tracing:
            return False
        return (
            self._may_renew and probe.hello.renews and ({*programs} == {self.path} or probe.hello.renews_into)
        )

    def hand_over(self) -> Held:
        """Let go of the process, for another runner to go on with."""
        held = Held(self._probe, self._renewing, self._program)
        self._probe, self._renewing = None, False
        return held

    def go_on_with(self, held: Held) -> None:
        """Measure with the process that another runner has let go of."""
        self._probe, self._renewing, self._program = held.probe, held.renewing, held.program

    def _stop_renewing(self, error: ProbeError) -> None:
        if self.interrupted:
            raise error
        self._kill_process()
        self._may_renew = False
        self.note(f"the probe cannot renew its process, so each block starts one from scratch: {error}")

    def _finish_renewal(self) -> ProbeError | None:
        """Wait for the fresh process; return why there is none. Nothing is stored: any thread may do it."""
        probe, renewing = self._probe, self._renewing
        self._renewing = False
        if probe is None or not renewing:
            return None
        try:
            probe.finish_renewal()
        except ProbeError as error:
            return error
        self.recorder.begin_process(self._place.environment(probe))
        return None

    def _hold(self, probe: Probe) -> None:
        """Have a signal end a probe that has not greeted yet, such as a guest that boots."""
        self._probe = probe
        if self.interrupted:
            probe.terminate()

    def _begin_process(self, point: PointState, block: int) -> Probe | None:
        """Return the process that takes a turn; None where a guest does not boot, which another may.

        Raises ProbeError where no process starts on this machine itself.
        """
        experiment = point.experiment
        try:
            probe = self._process(experiment)
        except ProbeError as error:
            if self.interrupted:
                return None
            if experiment.guest is None:
                raise
            self._lose(point, block, error)
            self._failed_boots += 1
            if self._failed_boots >= _MOST_FAILED_BOOTS and not self.interrupted:
                for other in self.recorder.points[experiment.name]:
                    if not other.skipped:
                        self._skip(other, f"{self._failed_boots} boots in a row failed, last: {error}", None)
            return None
        self._failed_boots = 0
        return probe

    def _take_turn(self, point: PointState, block: int) -> None:
        probe = self._begin_process(point, block)
        if probe is None:
            return
        request = self._next_request(point, point.missing(block))
        self._tell_progress(point, block)
        answers = probe.run(request, silence_limit_s=self._patience_s(point, request))
        try:
            if self._attachment.tracing:
                # Believed only once it is known that the tracer was there to the end.
                self._take_traced(point, block, list(answers))
            else:
                for events in answers:
                    self._store(point, block, events)
        except ProbeError as error:
            self._lose(point, block, error)

    def _next_request(self, point: PointState, reps: int) -> Request:
        self._requests += 1
        return Request(
            id=self._requests,
            workload=point.experiment.workload.name,
            params={name: level for name, level in point.factors.items() if name != TRACER.name},
            reps=reps,
            # Where instructions are counted the probe decides alike each time, and boots do the same.
            iterations=None if counts_instructions(point.experiment) else point.iterations,
            min_time_ns=point.experiment.min_time_ns,
            cpu=self.cpu,
            inject=self.make_inject(),
        )

    def _patience_s(self, point: PointState, request: Request) -> float:
        return self._place.slowness * _silence_limit_s(point, request)

    def _take_traced(self, point: PointState, block: int, answers: list[tuple[Event, ...]]) -> None:
        lost = self._attachment.lost()
        if lost is not None:
            for earlier in lost:
                self.note("what was traced of it before the tracer died is lost", earlier)
            self._fail(point, block, OscopeError("the tracer died while it watched", remedy="run it again"))
            return
        events = [event for together in answers for event in together]
        samples = [event for event in events if isinstance(event, Sample)]
        whole = not any(sample.failed for sample in samples) and any(
            isinstance(event, Done) and not event.interrupted for event in events
        )
        if samples and whole:
            self._attachment.expect(self._requests, point, {"block": block, "reps": len(samples)})
        elif samples:
            self.note("what was traced in a turn that was not finished is left out", point)
        for together in answers:
            self._store(point, block, together)

    def _store(self, point: PointState, block: int, events: tuple[Event, ...]) -> None:
        workload = point.experiment.workload.name
        samples = [self._place.translate(event, workload) for event in events if isinstance(event, Sample)]
        if samples:
            self.recorder.add_samples(point, block, samples)
            self._tell_progress(point, block)
        for event in events:
            if isinstance(event, Note):
                self.note(event.text, point)
            elif isinstance(event, Refusal):
                self._refuse(point, block, event)
            elif isinstance(event, Done) and not event.interrupted:
                self._keep_iterations(point, event.iterations)

    def _keep_iterations(self, point: PointState, iterations: int | None) -> None:
        """Have every block run the same loop, so that its overhead is the same in each."""
        if point.iterations is None and iterations is not None:
            point.iterations = iterations
            self.recorder.add_event("iterations", iterations, point)

    def _refuse(self, point: PointState, block: int, refusal: Refusal) -> None:
        if refusal.kind == "request":
            raise UsageError(f"{point.label}: {refusal.message}", remedy=refusal.remedy)
        if refusal.kind == "unavailable":
            self._skip(point, refusal.message, refusal.remedy)
            return
        self._fail(point, block, refusal)

    def _fail(self, point: PointState, block: int, why: Refusal | OscopeError) -> None:
        """Give up a point's turn, and the point if it fails again and again."""
        point.failures += 1
        text = f"{why.message}: {why.remedy}" if why.remedy else why.message
        self._close_block(point, block, "failure", text)
        if point.failures >= _MOST_FAILURES:
            self._skip(point, f"it failed {point.failures} times, last: {why.message}", why.remedy)

    def _lose(self, point: PointState, block: int, error: ProbeError) -> None:
        """Note that the probe was lost over a point; another process goes on with the others."""
        self._kill_process()
        if not self._attachment.lasts:
            self._attachment.kill()
        if self.interrupted:
            return
        point.deaths += 1
        self._close_block(point, block, "death", str(error))
        if point.deaths >= _MOST_DEATHS:
            # Of a guest, the error names the file that has all that its console said.
            alone = f"`oscope-probe run` with {point.experiment.workload.name} alone shows what it says"
            remedy = alone if point.experiment.guest is None else "see what its console said"
            self._skip(point, f"{point.deaths} probes were lost over it, last: {error}", remedy)

    def _close_block(self, point: PointState, block: int, kind: str, text: str) -> None:
        """Give up the block's missing samples: tried again later, they would be out of the block's order."""
        point.closed.add(block)
        self.recorder.add_event(kind, {"block": block, "text": text}, point)
        self.failures.append(f"{point.label}: {text}")
        self.listener.note(self.failures[-1])

    def _skip(self, point: PointState, reason: str, remedy: str | None) -> None:
        point.skipped = True
        self.recorder.add_event("skipped", {"reason": reason, "remedy": remedy}, point)
        self.listener.note(f"{point.label} is skipped: {reason}")

    def _tell_progress(self, point: PointState, block: int) -> None:
        experiment = point.experiment
        self.listener.progress(
            Progress(
                finished=self.recorder.finished,
                total=self.recorder.total,
                experiment=experiment.name,
                point=point.factors,
                block=block,
                blocks=experiment.blocks,
            )
        )


def _silence_limit_s(point: PointState, request: Request) -> float:
    """Return how long the probe may be silent: time to calibrate, warm up and repeat, and more."""
    durations = sum(
        float(point.factors.get(parameter.name, parameter.default))
        for parameter in point.experiment.workload.parameters
        if parameter.type == "duration"
    )
    # There the probe keeps what it has to say to the end of the request: writing it would be counted.
    together = request.reps if counts_instructions(point.experiment) else 1
    return PATIENCE_S + 8 * together * (durations + request.min_time_ns / 1e9)

"""Takes the turns of points: has a probe measure each, traced or not, and yields what happens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from oscope.model.errors import BrokenProtocolError, ProbeError
from oscope.model.guest import Guest
from oscope.model.program import Program
from oscope.planning.plan import PlannedExperiment, counts_instructions
from oscope.planning.schedule import Pass
from oscope.probe.process import Probe, Request
from oscope.probe.wire import Done, Event, Note, Refusal, Sample
from oscope.runner import losses
from oscope.runner.events import Happened, RunEvent, TurnBegan
from oscope.runner.pass_tracing import PassTracing, note_once
from oscope.runner.point_state import PointState
from oscope.runner.process_chain import ProcessChain
from oscope.runner.run_state import RunState
from oscope.targets.affinity import Placement
from oscope.targets.own import OwnProgram
from oscope.targets.target import Machine, Place

PATIENCE_S = 60.0
"""How long a probe may prepare a point without a word, beyond the time that the point itself asks for."""
_MOST_FAILED_BOOTS = 3
"""In a row: the guest is taken for one that does not boot, and each try may take a minute."""

Taken = Generator[RunEvent, None, bool]
"""What happens in a pass; its value is False where it was ended early."""


class PointRunner:
    """One side of a run: its processes, its tracer, and where its points stand."""

    def __init__(
        self,
        path: Path,
        placement: Placement,
        make_place: Callable[[Guest, Collection[str]], Place],
        machine: Machine | None = None,
    ) -> None:
        """Start the first process, whose greeting shows where the run takes place. Raises ProbeError.

        `make_place` makes the place of the guests that have the programs of those names. `machine` is where
        else is measured; None: here.
        """
        self.path = path
        self.chain = ProcessChain(path, placement, machine)
        self.tracing = PassTracing(path, self.chain)
        self._placement = placement
        self._make_place = make_place
        self._guests: dict[tuple[Guest, tuple[str, ...]], Place] = {}
        self._own: dict[Program, Place] = {}
        self._failed_boots = 0
        self.make_inject: Callable[[], Mapping[str, object] | None] = lambda: None
        """Returns what the next request injects into its measured region."""
        self.cpu: int | None = None
        """The CPU that requests are pinned to; None: the one that the probe takes."""
        self.state: RunState
        """Where the run stands, which is there before anything is measured."""

    @property
    def interrupted(self) -> bool:
        """Whether a signal asked to end."""
        return self.chain.interrupted

    def place_of(self, experiment: PlannedExperiment) -> Place:
        """Return where `experiment` is measured. Raises OscopeError where it cannot be measured there."""
        guest, program = experiment.guest, experiment.program
        if program is not None:
            if program not in self._own:
                self._own[program] = OwnProgram(program, self._placement, self.chain.environment)
            return self._own[program]
        if guest is None:
            return self.chain.local
        key = (guest, experiment.workload.programs)
        if key not in self._guests:
            self._guests[key] = self._make_place(*key)
        return self._guests[key]

    def take(
        self,
        one: Pass,
        experiment: PlannedExperiment,
        stop: Callable[[], bool],
        late: Callable[[], bool],
    ) -> Taken:
        """Take the turns of a pass that miss samples.

        Points are repeated after interference, after all other turns and in the same process: so the machine
        has had some time to calm down. Not if it is `late` by then.
        """
        points = self.state.points[experiment.name]
        self.move_to(self.place_of(experiment))
        for turn in one.turns:
            point = points[turn.point]
            if not point.missing(one.block):
                continue
            if self.interrupted or stop():
                return False
            if (yield from self.tracing.attach(one, point, points)):
                yield from self._take_turn(point, one.block)
        yield from self._take_again(one, points, late)
        yield from self.tracing.end_pass(experiment.blocks)
        yield from self.chain.retire(traced=self.tracing.active)
        return not self.interrupted

    def _take_again(
        self, one: Pass, points: Sequence[PointState], late: Callable[[], bool]
    ) -> Iterator[RunEvent]:
        for turn in one.turns:
            point = points[turn.point]
            if self.interrupted or late():
                return
            if (order := self.state.interference.order(point, one.block)) is not None:
                yield order
                if (yield from self.tracing.attach(one, point, points)):
                    yield from self._take_turn(point, one.block)

    def begin(self, state: RunState) -> None:
        """Measure for the run that stands at `state`."""
        self.state, self.chain.announcements = state, state.announcements

    def move_to(self, place: Place) -> None:
        """Measure at `place` from now on."""
        if self.chain.move_to(place):
            self._failed_boots = 0

    def begin_process(self, point: PointState, block: int) -> Generator[RunEvent, None, Probe | None]:
        """Return the process that takes a turn; None where a guest does not boot, which another may.

        Raises ProbeError where no process starts on this machine itself.
        """
        experiment = point.experiment
        try:
            probe = yield from self.chain.process(experiment)
        except ProbeError as error:
            if self.interrupted:
                return None
            if experiment.guest is None:
                raise
            yield from self.lose(point, block, error)
            self._failed_boots += 1
            if self._failed_boots >= _MOST_FAILED_BOOTS and not self.interrupted:
                for other in self.state.points[experiment.name]:
                    if not other.skipped:
                        why = f"{self._failed_boots} boots in a row failed, last: {error}"
                        yield losses.skip(other, why, None)
            return None
        self._failed_boots = 0
        return probe

    def _take_turn(self, point: PointState, block: int) -> Iterator[RunEvent]:
        probe = yield from self.begin_process(point, block)
        if probe is None:
            return
        request = self.next_request(point, point.missing(block))
        yield TurnBegan(point, block)
        answers = probe.run(request, silence_limit_s=self.patience_s(point, request))
        try:
            if self.tracing.active:
                heard = list(answers)
                if (yield from self.tracing.watch(point, block, request.id, heard)):
                    yield from self.keep(point, block, heard)
            else:
                for events in answers:
                    yield from self.keep(point, block, [events])
        except ProbeError as error:
            yield from self.lose(point, block, error)

    def next_request(self, point: PointState, reps: int) -> Request:
        """Return the request for so many samples more of a point."""
        self.chain.request += 1
        return Request(
            id=self.chain.request,
            workload=point.experiment.workload.name,
            params=point.params,
            reps=reps,
            # Where instructions are counted the probe decides alike each time, and boots do the same.
            iterations=None if counts_instructions(point.experiment) else point.iterations,
            min_time_ns=point.experiment.min_time_ns,
            cpu=self.cpu,
            inject=self.make_inject(),
        )

    def patience_s(self, point: PointState, request: Request) -> float:
        """Return how long the probe may be silent over a request where it runs."""
        return self.chain.place.slowness * _silence_limit_s(point, request)

    def keep(self, point: PointState, block: int, answers: Sequence[tuple[Event, ...]]) -> Iterator[RunEvent]:
        """Yield what the probe's answers come to."""
        workload = point.experiment.workload.name
        for events in answers:
            samples = [
                self.chain.place.translate(event, workload) for event in events if isinstance(event, Sample)
            ]
            if samples:
                yield self.state.samples_taken(point, block, samples)
            for event in events:
                if isinstance(event, Note):
                    yield from note_once(event.text, point)
                # A program that was ended over the signal fails; the resumed run asks again.
                elif isinstance(event, Refusal) and not self.interrupted:
                    yield from losses.refuse(point, block, event)
                elif isinstance(event, Done) and not event.interrupted:
                    yield from keep_iterations(point, event.iterations)

    def lose(self, point: PointState, block: int, error: ProbeError) -> Iterator[RunEvent]:
        """Give up the process that was lost over a point; BrokenProtocolError is raised again.

        So is what was lost with a host: the point is not to blame, and a resumed run completes its block.
        """
        lost_host = not self.interrupted and self.chain.is_out_of_reach()
        self.chain.kill()
        self.tracing.lose_process()
        if lost_host:
            raise error
        if isinstance(error, BrokenProtocolError) and not self.interrupted:
            raise BrokenProtocolError(f"{point.label}: {error.message}", remedy=error.remedy)
        if not self.interrupted:
            yield from losses.lose(point, block, error)

    def end(self) -> Iterator[RunEvent]:
        """End the process and the tracer under way, and keep what the tracer found."""
        yield from self.tracing.detach()
        self.chain.end()

    def survey(self) -> Mapping[str, Any]:
        """Return all the probe can tell of the machine now, clock offsets included. Raises ProbeError."""
        found = self.chain.local.survey()
        # The clock that the samples are read with is that of the process which takes them.
        return {**found, "clock": self.chain.environment["clock"]}

    def interrupt(self) -> None:
        """Begin no further turn, and have the probe give up what it does; safe in a signal handler."""
        self.chain.interrupt()

    def kill(self) -> None:
        """End the process and the tracer under way at once."""
        self.tracing.kill()
        self.chain.kill()


def keep_iterations(point: PointState, iterations: int | None) -> Iterator[RunEvent]:
    """Have every block run the same loop, so that its overhead is the same in each."""
    if point.iterations is None and iterations is not None:
        yield Happened("iterations", iterations, point)


def _silence_limit_s(point: PointState, request: Request) -> float:
    """Return how long the probe may be silent: time to calibrate, warm up and repeat, and more."""
    durations = sum(
        float(point.factors.get(parameter.name, parameter.default))
        for parameter in point.experiment.workload.parameters
        if parameter.type == "duration"
    )
    if point.experiment.params:
        # The factors are no parameters of the workload: the limit of a repetition is among what it is asked.
        durations += float(point.params.get("timeout", 0.0))
    # There the probe keeps what it has to say to the end of the request: writing it would be counted.
    together = request.reps if counts_instructions(point.experiment) else 1
    return PATIENCE_S + 8 * together * (durations + request.min_time_ns / 1e9)

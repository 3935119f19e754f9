"""Takes the turns of points: has a probe measure each, traced or not, and yields what happens."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from oscope.model.errors import BrokenProtocolError, ProbeError
from oscope.planning.plan import PlannedExperiment
from oscope.planning.schedule import Pass
from oscope.probe.process import Probe, Request
from oscope.probe.wire import Event
from oscope.runner import losses
from oscope.runner.answers import events_of
from oscope.runner.injection.run_injection import RequestInjection
from oscope.runner.pass_tracing import PassTracing
from oscope.runner.point_request import make_request, silence_limit_s
from oscope.runner.point_state import PointState
from oscope.runner.process_chain import ProcessChain
from oscope.runner.run_events import Events, RunEvent, TurnBegan
from oscope.runner.run_state import RunState
from oscope.runner.stopping import NEVER, Deadline
from oscope.runner.targets import Targets
from oscope.targets.target import Target
from oscope.trace.factor import UNTRACED

_MOST_FAILED_BOOTS = 3
"""In a row: the guest is taken for one that does not boot, and each try may take a minute."""

Taken = Generator[RunEvent, None, bool]
"""What happens in a pass; its value is False where it was ended early."""


class PointRunner:
    """One side of a run: its processes, its tracer, and where its points stand."""

    def __init__(
        self, chain: ProcessChain, targets: Targets, state: RunState, requests: RequestInjection | None = None
    ) -> None:
        """Measure for the run that stands at `state`; `requests` is injected into the measured regions."""
        self.chain = chain
        self.state = state
        self.tracing = PassTracing(chain.path)
        self._targets = targets
        self._requests = requests
        self._failed_boots = 0
        self.cpu: int | None = None
        """The CPU that requests are pinned to; None: the one that the probe takes."""

    @property
    def interrupted(self) -> bool:
        """Whether the run is to end."""
        return self.chain.stop.asked

    def take(
        self,
        one: Pass,
        experiment: PlannedExperiment,
        *,
        repeat_until: Deadline = NEVER,
        begin_until: Deadline = NEVER,
    ) -> Taken:
        """Take the turns of a pass that miss samples, those that begin before `begin_until`.

        Points are repeated after interference, after all other turns and in the same process: so the machine
        has had some time to calm down. None is from `repeat_until` on.
        """
        points = self.state.points[experiment.name]
        self.move_to(self._targets.of(experiment))
        for turn in one.turns:
            point = points[turn.point]
            if not point.missing(one.block):
                continue
            if self.interrupted or begin_until.passed:
                return False
            yield from self._take_turn(one, point, points)
        for turn in one.turns:
            if self.interrupted or repeat_until.passed:
                break
            point = points[turn.point]
            if (order := self.state.interference.order(point, one.block)) is not None:
                yield order
                yield from self._take_turn(one, point, points)
        yield from self.tracing.end_pass(experiment.blocks)
        yield from self.chain.retire(traced=self.tracing.active)
        return not self.interrupted

    def move_to(self, target: Target) -> None:
        """Measure at `target` from now on."""
        if self.chain.move_to(target):
            self._failed_boots = 0

    def _process(self, experiment: PlannedExperiment) -> Generator[RunEvent, None, Probe]:
        return self.chain.process(experiment, self.state.announcements)

    def begin_process(self, point: PointState, block: int) -> Generator[RunEvent, None, Probe | None]:
        """Return the process that takes a turn; None where a guest does not boot, which another may.

        Raises ProbeError where no process starts on this machine itself.
        """
        experiment = point.experiment
        try:
            probe = yield from self._process(experiment)
        except ProbeError as error:
            if self.interrupted:
                return None
            if experiment.guest is None:
                raise
            yield from self.lose(point, block, error)
            self._failed_boots += 1
            if self._failed_boots >= _MOST_FAILED_BOOTS and not self.interrupted:
                why = f"{self._failed_boots} boots in a row failed, last: {error}"
                yield from losses.skip_all(self.state.points[experiment.name], why, None)
            return None
        self._failed_boots = 0
        return probe

    def _take_turn(self, one: Pass, point: PointState, points: Sequence[PointState]) -> Events:
        """Take a point's turn, under the tracer of the pass."""
        yield from self.tracing.begin_pass(one)
        if one.tracer != UNTRACED and not (yield from self._attach(one, point, points)):
            return
        # A signal may have come meanwhile.
        if self.interrupted:
            return
        block = one.block
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

    def _attach(
        self, one: Pass, point: PointState, points: Sequence[PointState]
    ) -> Generator[RunEvent, None, bool]:
        """Have the tracer of the pass watch the process that takes it; False where it does not."""
        if self.tracing.active:
            return True
        try:
            probe = yield from self._process(point.experiment)
            if self.interrupted:
                return False
            return (yield from self.tracing.attach(one, point, points, probe.pid))
        except KeyboardInterrupt:
            self.chain.stop.interrupt()
        except ProbeError:
            if not self.interrupted:
                raise
        return False

    def next_request(self, point: PointState, reps: int) -> Request:
        """Return the request for so many samples more of a point."""
        self.chain.request += 1
        inject = None if self._requests is None else self._requests.next()
        return make_request(self.chain.request, point, reps, self.cpu, inject)

    def patience_s(self, point: PointState, request: Request) -> float:
        """Return how long the probe may be silent over a request where it runs."""
        return self.chain.target.slowness * silence_limit_s(point, request)

    def keep(self, point: PointState, block: int, answers: Sequence[tuple[Event, ...]]) -> Events:
        """Yield what the probe's answers come to."""
        return events_of(answers, point, block, self.state, self.chain.target, self.chain.stop)

    def lose(self, point: PointState, block: int, error: ProbeError) -> Events:
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

    def end(self) -> Events:
        """End the process and the tracer under way, and keep what the tracer found."""
        yield from self.tracing.detach()
        self.chain.end()

    def kill(self) -> None:
        """End the process and the tracer under way at once."""
        self.tracing.kill()
        self.chain.kill()

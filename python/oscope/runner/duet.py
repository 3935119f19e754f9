"""Measures two sides at the same time, each pinned to a CPU of its own, so that interference hits both alike.

Duet benchmarking: Bulej, Horký, Tůma, Farquet, Prokopec, "Duet Benchmarking: Improving Measurement Accuracy
in the Cloud", ICPE 2020. A block of a duet has two halves, each by fresh processes on both sides. In the
second half the sides swap their CPUs, so that what the CPUs differ by cancels within the block. Which side
begins on which CPU is drawn from the seed. A block's value is the median of its samples on both CPUs, as of
any block: docs/explanation/statistics-checks.md has what other pairings gave.

A second thread listens to one of the sides. It talks to that side's probe only: whatever is stored or
decided is so by the main thread, after both sides have answered. So nothing is written while they measure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TypeVar

import numpy as np

from oscope.model.errors import ProbeError, UsageError
from oscope.planning.plan import Plan, PlannedExperiment
from oscope.planning.schedule import Pass
from oscope.probe.process import Probe, Request
from oscope.probe.wire import Done, Event, Note, Refusal
from oscope.runner import losses
from oscope.runner.answers import keep_iterations
from oscope.runner.duet_cpus import Cpus, why_not
from oscope.runner.point_runner import PointRunner
from oscope.runner.point_state import PointState
from oscope.runner.run_events import Events, RunEvent, TurnBegan
from oscope.runner.side import Side, SideEvents, Taken, is_interrupted
from oscope.runner.stop_request import StopRequest

_Answer = TypeVar("_Answer")


def check_duet(plans: Sequence[Plan], names: Collection[str]) -> None:
    """Raise UsageError where the experiments of these names cannot be measured as a duet."""
    if names and len(plans) != 2:
        raise UsageError(f"a duet of {len(plans)} sides", remedy="two sides are measured at the same time")
    for experiment in plans[0].experiments:
        if experiment.name not in names:
            continue
        if (reason := why_not(experiment)) is not None:
            raise UsageError(f"{experiment.name} is no duet: {reason}", remedy="use --way interleaved")
        if min(experiment.block_reps(block) for block in range(experiment.blocks or 1)) < 2:
            raise UsageError(
                f"{experiment.name}: a block of a duet has samples on either CPU",
                remedy="plan 2 samples or more in each block",
            )


def doubled(plan: Plan, names: Collection[str]) -> Plan:
    """Return `plan` with twice the samples for these experiments: as many in each half as in a block before.

    So a block takes as long as an interleaved one of both sides.
    """
    experiments = tuple(
        replace(each, reps=2 * each.reps) if each.name in names else each for each in plan.experiments
    )
    return replace(plan, experiments=experiments)


Answers = tuple[list[tuple[Event, ...]], ProbeError | None]
"""All answers to a request, and why there are no more."""


@dataclass(frozen=True)
class _PendingRequest:
    """A request that a side's probe is to answer."""

    probe: Probe
    request: Request
    silence_limit_s: float

    def fetch(self) -> Answers:
        """Send the request, and return all answers, and why there are no more. Any thread may do it."""
        answers: list[tuple[Event, ...]] = []
        try:
            answers.extend(self.probe.run(self.request, silence_limit_s=self.silence_limit_s))
        except ProbeError as error:
            return answers, error
        return answers, None


class Duet:
    """Two sides on their CPUs; a context manager, to be left before the sides are killed."""

    def __init__(self, stops: Sequence[StopRequest], cpus: Cpus) -> None:
        """Pin the sides to alternating `cpus`; `stops` end what each of them does."""
        self._stops = tuple(stops)
        self._cpus = cpus
        self._other = ThreadPoolExecutor(1, thread_name_prefix="duet")

    def __enter__(self) -> Duet:
        """Return the duet itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the second thread, which ends with its probe's answer."""
        self._other.shutdown()

    def take(
        self,
        sides: Sequence[Side],
        one: Pass,
        experiments: Sequence[PlannedExperiment],
        source: Sequence[int],
    ) -> Taken:
        """Take a pass on both sides, in both halves; return False where it was ended early.

        `source` seeds the draw of the CPUs.
        """
        first = int(np.random.default_rng(list(source)).integers(2))
        try:
            for half in (0, 1):
                if not (yield from self._take_half(sides, one, experiments, half, swapped=first != half)):
                    return False
            return True
        finally:
            for side in sides:
                side.runner.cpu = None

    def _take_half(
        self,
        sides: Sequence[Side],
        one: Pass,
        experiments: Sequence[PlannedExperiment],
        half: int,
        *,
        swapped: bool,
    ) -> Taken:
        cpus = self._cpus[::-1] if swapped else self._cpus
        for side, cpu in zip(sides, cpus, strict=True):
            side.runner.cpu = cpu
        for turn in one.turns:
            points = [
                side.runner.state.points[experiment.name][turn.point]
                for side, experiment in zip(sides, experiments, strict=True)
            ]
            yield from self._take_turn(sides, points, one.block, half)
            if is_interrupted(sides):
                return False
        for side in sides:
            yield from _end_half(side)
        return True

    def _take_turn(
        self, sides: Sequence[Side], points: Sequence[PointState], block: int, half: int
    ) -> SideEvents:
        """Take a turn on both sides at once, or on none: a sample without its partner is useless."""
        if points[0].iterations is None and points[0].missing(block) and not is_interrupted(sides):
            yield from _find_iterations(sides[0], points[0], block)
        for side, point, other in zip(sides, points, reversed(points), strict=True):
            yield from side.numbered(_take_over(point, other))
        rest = points[0].experiment.block_reps(block) // 2
        reps = [point.missing(block) - (0 if half else rest) for point in points]
        if is_interrupted(sides) or min(reps) <= 0 or points[0].iterations is None:
            return
        chains = [side.runner.chain for side in sides]
        renewed = self._both(chains[0].finish_renewal, chains[1].finish_renewal)
        for side, error in zip(sides, renewed, strict=True):
            if not side.runner.interrupted:
                yield from side.numbered(side.runner.chain.go_on(error))
        if is_interrupted(sides):
            return
        pending = []
        for side, point, count in zip(sides, points, reps, strict=True):
            pending.append((yield from side.numbered(_ask(side.runner, point, block, count))))
        first, second = pending
        if first is None or second is None or is_interrupted(sides):
            return
        for side, point, fetched in zip(sides, points, self._both(first.fetch, second.fetch), strict=True):
            yield from side.numbered(_keep(side.runner, point, block, fetched))

    def _both(self, first: Callable[[], _Answer], second: Callable[[], _Answer]) -> tuple[_Answer, _Answer]:
        """Do the second in the other thread, at the same time as the first in this one."""
        later = self._other.submit(second)
        try:
            return first(), later.result()
        except BaseException:
            # The other thread ends once its probe does.
            for stop in self._stops:
                stop.interrupt()
            raise


def _ask(
    runner: PointRunner, point: PointState, block: int, reps: int
) -> Generator[RunEvent, None, _PendingRequest | None]:
    """Return the request for the next samples of a point; None where no process can take it."""
    runner.move_to(runner.chain.local)
    probe = yield from runner.begin_process(point, block)
    if probe is None:
        return None
    request = runner.next_request(point, reps)
    yield TurnBegan(point, block)
    return _PendingRequest(probe, request, runner.patience_s(point, request))


def _keep(runner: PointRunner, point: PointState, block: int, fetched: Answers) -> Events:
    """Yield what a request gave."""
    answers, error = fetched
    yield from runner.keep(point, block, answers)
    if error is not None:
        yield from runner.lose(point, block, error)


def _find_iterations(side: Side, point: PointState, block: int) -> SideEvents:
    """Have the probe decide on the loop count of a point, by a sample that is not kept."""
    pending = yield from side.numbered(_ask(side.runner, point, block, 1))
    if pending is None:
        return
    answers, error = pending.fetch()
    kept = [event for events in answers for event in events if isinstance(event, Note | Refusal | Done)]
    yield from side.numbered(_keep(side.runner, point, block, ([tuple(kept)], error)))
    yield from _end_half(side)


def _take_over(point: PointState, other: PointState) -> Events:
    """Run the loop as often as the other side does, and leave out a point that it had to."""
    yield from keep_iterations(point, other.iterations)
    if other.skipped and not point.skipped:
        yield losses.skip(point, "the other side of the duet could not be measured", None)


def _end_half(side: Side) -> SideEvents:
    """Have a fresh process take what comes next."""
    yield from side.numbered(side.runner.chain.retire(traced=False))

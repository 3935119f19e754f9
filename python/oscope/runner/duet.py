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

from collections.abc import Callable, Collection, Sequence
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
from oscope.runner.active_run import ActiveRun
from oscope.runner.duet_cpus import Cpus, why_not
from oscope.runner.events import TurnBegan
from oscope.runner.point_runner import PointRunner, keep_iterations
from oscope.runner.point_state import PointState

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


Heard = tuple[list[tuple[Event, ...]], ProbeError | None]
"""All answers to a request, and why there are no more."""


@dataclass(frozen=True)
class _Asked:
    """A request that a side's probe is to answer."""

    probe: Probe
    request: Request
    silence_limit_s: float

    def hear(self) -> Heard:
        """Send the request, and return all answers, and why there are no more. Any thread may do it."""
        heard: list[tuple[Event, ...]] = []
        try:
            heard.extend(self.probe.run(self.request, silence_limit_s=self.silence_limit_s))
        except ProbeError as error:
            return heard, error
        return heard, None


class Duet:
    """Two sides on their CPUs; a context manager, to be left before the sides are killed."""

    def __init__(self, runners: Sequence[PointRunner], cpus: Cpus) -> None:
        """Pin the sides, which `runners` measure, to alternating `cpus`."""
        self._runners = tuple(runners)
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
        sides: Sequence[ActiveRun],
        one: Pass,
        experiments: Sequence[PlannedExperiment],
        source: Sequence[int],
    ) -> bool:
        """Take a pass on both sides, in both halves; return False where it was ended early.

        `source` seeds the draw of the CPUs.
        """
        first = int(np.random.default_rng(list(source)).integers(2))
        try:
            return all(
                self._take_half(sides, one, experiments, half, swapped=first != half) for half in (0, 1)
            )
        finally:
            for side in sides:
                side.runner.cpu = None

    def _take_half(
        self,
        sides: Sequence[ActiveRun],
        one: Pass,
        experiments: Sequence[PlannedExperiment],
        half: int,
        *,
        swapped: bool,
    ) -> bool:
        cpus = self._cpus[::-1] if swapped else self._cpus
        for side, cpu in zip(sides, cpus, strict=True):
            side.runner.cpu = cpu
        for turn in one.turns:
            points = [
                side.state.points[experiment.name][turn.point]
                for side, experiment in zip(sides, experiments, strict=True)
            ]
            self._take_turn(sides, points, one.block, half)
            if _interrupted(sides):
                return False
        for side in sides:
            _end_half(side)
        return True

    def _take_turn(
        self, sides: Sequence[ActiveRun], points: Sequence[PointState], block: int, half: int
    ) -> None:
        """Take a turn on both sides at once, or on none: a sample without its partner is useless."""
        if points[0].iterations is None and points[0].missing(block) and not _interrupted(sides):
            _find_iterations(sides[0], points[0], block)
        for side, point, other in zip(sides, points, reversed(points), strict=True):
            _take_over(side, point, other)
        rest = points[0].experiment.block_reps(block) // 2
        reps = [point.missing(block) - (0 if half else rest) for point in points]
        if _interrupted(sides) or min(reps) <= 0 or points[0].iterations is None:
            return
        chains = [side.runner.chain for side in sides]
        renewed = self._both(chains[0].finish_renewal, chains[1].finish_renewal)
        for side, error in zip(sides, renewed, strict=True):
            if not side.runner.interrupted:
                side.store(side.runner.chain.go_on(error))
        if _interrupted(sides):
            return
        asked = [_ask(side, point, block, n) for side, point, n in zip(sides, points, reps, strict=True)]
        first, second = asked
        if first is None or second is None or _interrupted(sides):
            return
        for side, point, heard in zip(sides, points, self._both(first.hear, second.hear), strict=True):
            _keep(side, point, block, heard)

    def _both(self, first: Callable[[], _Answer], second: Callable[[], _Answer]) -> tuple[_Answer, _Answer]:
        """Do the second in the other thread, at the same time as the first in this one."""
        later = self._other.submit(second)
        try:
            return first(), later.result()
        except BaseException:
            # The other thread ends once its probe does.
            for runner in self._runners:
                runner.interrupt()
            raise


def _interrupted(sides: Sequence[ActiveRun]) -> bool:
    return any(side.runner.interrupted for side in sides)


def _ask(side: ActiveRun, point: PointState, block: int, reps: int) -> _Asked | None:
    """Return the request for the next samples of a point; None where no process can take it."""
    runner = side.runner
    runner.move_to(runner.chain.local)
    probe = side.carry_out(runner.begin_process(point, block))
    if probe is None:
        return None
    request = runner.next_request(point, reps)
    side.append(TurnBegan(point, block))
    return _Asked(probe, request, runner.patience_s(point, request))


def _keep(side: ActiveRun, point: PointState, block: int, heard: Heard) -> None:
    """Store what a request gave."""
    answers, error = heard
    side.store(side.runner.keep(point, block, answers))
    if error is not None:
        side.store(side.runner.lose(point, block, error))


def _find_iterations(side: ActiveRun, point: PointState, block: int) -> None:
    """Have the probe decide on the loop count of a point, by a sample that is not kept."""
    asked = _ask(side, point, block, 1)
    if asked is None:
        return
    answers, error = asked.hear()
    kept = [event for events in answers for event in events if isinstance(event, Note | Refusal | Done)]
    _keep(side, point, block, ([tuple(kept)], error))
    _end_half(side)


def _take_over(side: ActiveRun, point: PointState, other: PointState) -> None:
    """Run the loop as often as the other side does, and leave out a point that it had to."""
    side.store(keep_iterations(point, other.iterations))
    if other.skipped and not point.skipped:
        side.store([losses.skip(point, "the other side of the duet could not be measured", None)])


def _end_half(side: ActiveRun) -> None:
    """Have a fresh process take what comes next."""
    side.store(side.runner.chain.retire(traced=False))

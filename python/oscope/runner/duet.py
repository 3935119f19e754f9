"""Measures two sides at the same time, each pinned to a CPU of its own, so that interference hits both alike.

Duet benchmarking: Bulej, Horký, Tůma, Farquet, Prokopec, "Duet Benchmarking: Improving Measurement Accuracy
in the Cloud", ICPE 2020. A block of a duet has two halves, each by fresh processes on both sides. In the
second half the sides swap their CPUs, so that what the CPUs differ by cancels within the block. Which side
begins on which CPU is drawn from the seed. A block's value is the median of its samples on both CPUs, as of
any block: docs/comparison.md has what other pairings gave.

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
from oscope.runner.duet_cpus import Cpus, why_not
from oscope.runner.point_runner import PointRunner
from oscope.runner.recorder import PointState

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


@dataclass(frozen=True)
class _Asked:
    """A request that a side's probe is to answer."""

    probe: Probe
    request: Request
    silence_limit_s: float

    def hear(self) -> tuple[list[tuple[Event, ...]], ProbeError | None]:
        """Send the request, and return all answers, and why there are no more. Any thread may do it."""
        heard: list[tuple[Event, ...]] = []
        try:
            heard.extend(self.probe.run(self.request, silence_limit_s=self.silence_limit_s))
        except ProbeError as error:
            return heard, error
        return heard, None


class DuetSide(PointRunner):
    """One of the two sides: takes turns like any other, or answers at the same time as the other one."""

    def renew(self) -> ProbeError | None:
        """Wait for the process that takes a used one's place; return why there is none, on any thread."""
        return self._finish_renewal()

    def take_renewed(self, error: ProbeError | None) -> None:
        """Go on with the renewed process, or without renewing from now on."""
        if error is not None and not self.interrupted:
            self._stop_renewing(error)

    def ask(self, point: PointState, block: int, reps: int) -> _Asked | None:
        """Return the request for the next samples of a point; None where no process can take it."""
        self._move_to(self._local)
        probe = self._begin_process(point, block)
        if probe is None:
            return None
        request = self._next_request(point, reps)
        self._tell_progress(point, block)
        return _Asked(probe, request, self._patience_s(point, request))

    def keep(
        self, point: PointState, block: int, heard: tuple[list[tuple[Event, ...]], ProbeError | None]
    ) -> None:
        """Store what a request gave."""
        answers, error = heard
        for events in answers:
            self._store(point, block, events)
        if error is not None:
            self._lose(point, block, error)

    def find_iterations(self, point: PointState, block: int) -> None:
        """Have the probe decide on the loop count of a point, by a sample that is not kept."""
        asked = self.ask(point, block, 1)
        if asked is None:
            return
        answers, error = asked.hear()
        kept = [event for events in answers for event in events if isinstance(event, Note | Refusal | Done)]
        self.keep(point, block, ([tuple(kept)], error))
        self.end_half()

    def take_over(self, point: PointState, other: PointState) -> None:
        """Run the loop as often as the other side does, and leave out a point that it had to."""
        if point.iterations is None and other.iterations is not None:
            self._keep_iterations(point, other.iterations)
        if other.skipped and not point.skipped:
            self._skip(point, "the other side of the duet could not be measured", None)

    def end_half(self) -> None:
        """Have a fresh process take what comes next."""
        self.retire_process()


class Duet:
    """The two sides of a duet on their CPUs; a context manager, to be left before the sides are killed."""

    def __init__(self, sides: Sequence[DuetSide], cpus: Cpus) -> None:
        """Measure by two `sides`, which are pinned to `cpus` in turns."""
        self._sides = tuple(sides)
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

    def take(self, one: Pass, experiments: Sequence[PlannedExperiment], source: Sequence[int]) -> bool:
        """Take a pass on both sides, in both halves; return False where it was ended early.

        `source` seeds the draw of the CPUs.
        """
        first = int(np.random.default_rng(list(source)).integers(2))
        try:
            return all(self._take_half(one, experiments, half, swapped=first != half) for half in (0, 1))
        finally:
            for side in self._sides:
                side.cpu = None

    def _take_half(
        self, one: Pass, experiments: Sequence[PlannedExperiment], half: int, *, swapped: bool
    ) -> bool:
        cpus = self._cpus[::-1] if swapped else self._cpus
        for side, cpu in zip(self._sides, cpus, strict=True):
            side.cpu = cpu
        for turn in one.turns:
            points = [
                side.recorder.points[experiment.name][turn.point]
                for side, experiment in zip(self._sides, experiments, strict=True)
            ]
            self._take_turn(points, one.block, half)
            if self._interrupted():
                return False
        for side in self._sides:
            side.end_half()
        return True

    def _interrupted(self) -> bool:
        return any(side.interrupted for side in self._sides)

    def _take_turn(self, points: Sequence[PointState], block: int, half: int) -> None:
        """Take a turn on both sides at once, or on none: a sample without its partner is worth nothing."""
        if points[0].iterations is None and points[0].missing(block) and not self._interrupted():
            self._sides[0].find_iterations(points[0], block)
        for side, point, other in zip(self._sides, points, reversed(points), strict=True):
            side.take_over(point, other)
        rest = points[0].experiment.block_reps(block) // 2
        reps = [point.missing(block) - (0 if half else rest) for point in points]
        if self._interrupted() or min(reps) <= 0 or points[0].iterations is None:
            return
        renewed = self._both(self._sides[0].renew, self._sides[1].renew)
        for side, error in zip(self._sides, renewed, strict=True):
            side.take_renewed(error)
        if self._interrupted():
            return
        asked = [side.ask(point, block, n) for side, point, n in zip(self._sides, points, reps, strict=True)]
        first, second = asked
        if first is None or second is None or self._interrupted():
            return
        for side, point, heard in zip(self._sides, points, self._both(first.hear, second.hear), strict=True):
            side.keep(point, block, heard)

    def _both(self, first: Callable[[], _Answer], second: Callable[[], _Answer]) -> tuple[_Answer, _Answer]:
        """Do the second in the other thread, at the same time as the first in this one."""
        later = self._other.submit(second)
        try:
            return first(), later.result()
        except BaseException:
            # The other thread ends once its probe does.
            for side in self._sides:
                side.interrupt()
            raise

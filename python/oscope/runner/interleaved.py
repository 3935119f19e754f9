"""Carries out several plans of the same measurements at once, so that drift hits all of them alike.

Each is a run of its own. Their blocks are interleaved, in an order that the seed decides anew for each block;
those of a duet are measured at the same time, on two CPUs (`oscope.runner.duet`). By the wall clock every
side runs the iterations that the first to measure a point decided on; by the instructions clock each probe
decides alike. So the sides differ in nothing but where they are measured.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from oscope.model.errors import UsageError
from oscope.model.interruption import Interruption
from oscope.planning.plan import Plan, PlannedExperiment, counts_instructions
from oscope.planning.schedule import Pass, passes
from oscope.probe.locate import find_probe
from oscope.runner.active_run import ActiveRun
from oscope.runner.duet import Duet, check_duet
from oscope.runner.duet_cpus import Cpus, DuetPlacement
from oscope.runner.events import Happened
from oscope.runner.exchange import Exchange
from oscope.runner.execution import Outcome, begin, check_places, finish, make_runner, recording_failure
from oscope.runner.injection.during import Disturbing
from oscope.runner.point_runner import PointRunner, keep_iterations
from oscope.runner.progress import Listener, Progress, Silence
from oscope.storage.store import Store
from oscope.targets.affinity import Placement


def execute_interleaved(
    plans: Sequence[Plan],
    store: Store,
    listener: Listener | None = None,
    *,
    builds: Sequence[Path] | None = None,
    duet: Collection[str] = (),
    cpus: Cpus | None = None,
) -> tuple[Outcome, ...]:
    """Measure what `plans` ask for into `store`, a run each, their blocks interleaved; return how each ended.

    The plans are alike but for the guests of their experiments, and for delays that are injected into their
    measured regions. `builds` are the probes that measure them; None: the usual one for all. `duet` names
    the experiments that both of two sides measure at the same time, on `cpus`; None: the two that suit best
    and leave one to the laboratory. A budget holds for all sides together, and ends them after a block that
    all have measured. The first SIGINT or SIGTERM ends all runs early, with everything measured kept.

    Raises UsageError where the plans are not alike, or where there can be no duet, and what
    `oscope.runner.execution.execute` raises.
    """
    _check_alike(plans)
    check_duet(plans, duet)
    paths = [find_probe()] * len(plans) if builds is None else builds
    with ExitStack() as stack:
        seats = DuetPlacement(cpus) if duet else None
        placement = stack.enter_context(seats or Placement())
        runners: list[PointRunner] = []
        for plan, path in zip(plans, paths, strict=True):
            runners.append(make_runner(placement, path))
            stack.callback(runners[-1].kill)
            check_places(plan, runners[-1])
        both = None if seats is None else stack.enter_context(Duet(runners, seats.cpus))
        stack.enter_context(Interruption(lambda: _interrupt(runners)))
        shown = _Together(listener or Silence(), plans)
        sides: list[ActiveRun] = []
        with ExitStack() as begun:
            for number, (plan, runner) in enumerate(zip(plans, runners, strict=True)):
                side = stack.enter_context(begin(plan, store, runner, shown.of(number)))
                # From now on there is a run that an error, such as of the next side's begin, has to end.
                begun.enter_context(recording_failure(side))
                begun.enter_context(Disturbing(plan.injection, placement).of(side))
                sides.append(side)
            _mark(sides, seats, duet)
            budget_s, count = plans[0].budget_s, len(plans[0].experiments)
            end = None if budget_s is None else time.monotonic() + budget_s
            for number in range(count):
                # Each with an equal share of what is left.
                now = time.monotonic()
                deadline = float("inf") if end is None else now + (end - now) / (count - number)
                own = [plan.experiments[number] for plan in plans]
                _measure(own, plans, sides, deadline, both if own[0].name in duet else None)
        outcomes = [finish(side) for side in sides]
    return tuple(
        replace(each, stopped=runner.interrupted) for each, runner in zip(outcomes, runners, strict=True)
    )


def _mark(sides: Sequence[ActiveRun], seats: DuetPlacement | None, duet: Collection[str]) -> None:
    """Record how the runs belong together."""
    names = [side.recorder.run_id for side in sides]
    for side in sides:
        side.append(Happened("interleaved", names))
        if seats is not None:
            side.append(Happened("duet", {"cpus": list(seats.cpus), "experiments": sorted(duet)}))
            if seats.note is not None:
                side.note(seats.note)


def _interrupt(runners: Sequence[PointRunner]) -> None:
    for runner in runners:
        runner.interrupt()


def _check_alike(plans: Sequence[Plan]) -> None:
    first = plans[0]
    for plan in plans:
        if (plan.seed, plan.precision, plan.budget_s) != (first.seed, None, first.budget_s):
            raise UsageError(
                "interleaved sides have one seed and one budget, and no precision", remedy="give --reps"
            )
        if plan.again != first.again:
            raise UsageError(
                "interleaved sides are measured alike",
                remedy="repeat after interference on all sides or none",
            )
        if plan.injection is not None and plan.injection["causes"]:
            raise UsageError(
                "what disturbs the machine disturbs all interleaved sides", remedy="inject a delay"
            )
        if [(e.name, e.points, e.blocks) for e in plan.experiments] != [
            (e.name, e.points, e.blocks) for e in first.experiments
        ]:
            raise UsageError("interleaved sides have the same points", remedy="plan them alike")


def _measure(
    experiments: Sequence[PlannedExperiment],
    plans: Sequence[Plan],
    sides: Sequence[ActiveRun],
    deadline: float,
    duet: Duet | None,
) -> None:
    """Measure all blocks of an experiment on all sides, or those begun before the deadline."""
    blocks = experiments[0].blocks
    exchange = Exchange([side.runner for side in sides])
    for block in itertools.count() if blocks is None else range(blocks):
        if block and time.monotonic() >= deadline:
            break
        together = zip(
            *(passes(plan, each, [block]) for plan, each in zip(plans, experiments, strict=True)), strict=True
        )
        if duet is None:
            exchange.draw([plans[0].seed, block])
        # The first that is interrupted is the last.
        if not all(
            duet.take(sides, ones[0], experiments, [plans[0].seed, block, number])
            if duet is not None
            else _take_in_turns(ones, experiments, sides, [plans[0].seed, block, number])
            for number, ones in enumerate(together)
        ):
            break
        exchange.carry_out()
    for side in sides:
        side.store(side.runner.end())


def _take_in_turns(
    ones: Sequence[Pass],
    experiments: Sequence[PlannedExperiment],
    sides: Sequence[ActiveRun],
    source: Sequence[int],
) -> bool:
    order = np.random.default_rng(source).permutation(len(sides))
    return all(_take(ones[side], experiments[side], sides, side) for side in map(int, order))


def _take(one: Pass, experiment: PlannedExperiment, sides: Sequence[ActiveRun], number: int) -> bool:
    """Take a pass on one side, and by the wall clock have the others run as many iterations as it did."""
    side = sides[number]
    going_on = side.carry_out(side.runner.take(one, experiment, lambda: False, lambda: False))
    # Where instructions are counted no turn asks for a number of iterations: see `PointRunner`.
    for other in () if counts_instructions(experiment) else sides:
        points = (each.state.points[experiment.name] for each in (side, other))
        for mine, theirs in zip(*points, strict=True):
            other.store(keep_iterations(theirs, mine.iterations))
    return going_on and not any(each.runner.interrupted for each in sides)


class _Together:
    """Reports all sides to one listener as if they were one run."""

    def __init__(self, listener: Listener, plans: Sequence[Plan]) -> None:
        self._listener = listener
        self._plan = plans[0]
        self._finished = [0] * len(plans)
        self._totals = [plan.total for plan in plans]

    def of(self, number: int) -> Listener:
        """Return the listener of one side."""
        return _Side(self, number)

    def begin(self, number: int, run_id: str) -> None:
        """Hear of the run of a side; the first one's name stands for all."""
        if number == 0:
            self._listener.begin(run_id, self._plan)

    def progress(self, number: int, progress: Progress) -> None:
        """Hear how far a side is."""
        self._finished[number] = progress.finished
        # It grows by what is repeated.
        self._totals[number] = progress.total or self._totals[number]
        self._listener.progress(
            Progress(
                finished=sum(self._finished),
                # None where a budget ends it.
                total=None if None in self._totals else sum(filter(None, self._totals)),
                experiment=progress.experiment,
                point=progress.point,
                block=progress.block,
                blocks=progress.blocks,
            )
        )

    def note(self, text: str) -> None:
        """Hear what a person should know."""
        self._listener.note(text)


class _Side:
    """The listener of one side."""

    def __init__(self, together: _Together, number: int) -> None:
        self._together = together
        self._number = number

    def begin(self, run_id: str, plan: Plan) -> None:
        """Pass it on, with the number of the side."""
        del plan
        self._together.begin(self._number, run_id)

    def progress(self, progress: Progress) -> None:
        """Pass it on, with the number of the side."""
        self._together.progress(self._number, progress)

    def inspecting(self, name: str) -> None:
        """Nothing is inspected side by side."""

    def note(self, text: str) -> None:
        """Pass it on."""
        self._together.note(text)

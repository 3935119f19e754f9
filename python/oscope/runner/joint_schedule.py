"""Several sides, from plans of the same measurements to one stream of events, so that drift hits all alike.

Their blocks are interleaved, in an order that the seed decides anew for each block; those of a duet are
measured at the same time, on two CPUs (`oscope.runner.duet`). By the wall clock every side runs the
iterations that the first to measure a point decided on; by the instructions clock each probe decides alike.
So the sides differ in nothing but where they are measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from oscope.planning.plan import Plan, PlannedExperiment, counts_instructions
from oscope.planning.schedule import Pass, passes
from oscope.runner.answers import keep_iterations
from oscope.runner.duet import Duet
from oscope.runner.exchange import Exchange
from oscope.runner.point_runner import PointRunner
from oscope.runner.run_events import Events, ProcessBegan, RunEvent
from oscope.runner.side import Side, SideEvent, SideEvents, Taken, is_interrupted
from oscope.runner.stopping import Budget, Deadline


def run_together(
    plans: Sequence[Plan],
    runners: Sequence[PointRunner],
    *,
    openings: Sequence[Iterable[RunEvent]],
    duet: Duet | None = None,
    names: Collection[str] = (),
) -> Iterator[SideEvent]:
    """Measure all sides; yield what happens to each. `openings` are events that come first, of each side.

    Experiments of these `names` are measured by `duet`. A budget holds for all sides together, and ends them
    after a block that all have measured.
    """
    sides = [Side(number, runner) for number, runner in enumerate(runners)]
    for side, opening in zip(sides, openings, strict=True):
        yield from side.numbered(_opening(side.runner, opening))
    budget, count = Budget(plans[0].budget_s), len(plans[0].experiments)
    for number in range(count):
        own = [plan.experiments[number] for plan in plans]
        deadline = budget.share(plans[0].experiments[number:])
        yield from _measure(own, plans, sides, deadline, duet if own[0].name in names else None)


def _opening(runner: PointRunner, opening: Iterable[RunEvent]) -> Events:
    yield ProcessBegan(runner.chain.environment)
    yield from opening


def _measure(
    experiments: Sequence[PlannedExperiment],
    plans: Sequence[Plan],
    sides: Sequence[Side],
    deadline: Deadline,
    duet: Duet | None,
) -> SideEvents:
    """Measure all blocks of an experiment on all sides, or those begun before the deadline."""
    blocks = experiments[0].blocks
    exchange = Exchange([side.runner for side in sides])
    for block in itertools.count() if blocks is None else range(blocks):
        if block and deadline.passed:
            break
        if duet is None:
            exchange.draw([plans[0].seed, block])
        # The first that is interrupted is the last.
        if not (yield from _measure_block(experiments, plans, sides, block, duet)):
            break
        exchange.carry_out()
    for side in sides:
        yield from side.numbered(side.runner.end())


def _measure_block(
    experiments: Sequence[PlannedExperiment],
    plans: Sequence[Plan],
    sides: Sequence[Side],
    block: int,
    duet: Duet | None,
) -> Taken:
    together = zip(
        *(passes(plan, each, [block]) for plan, each in zip(plans, experiments, strict=True)), strict=True
    )
    for number, ones in enumerate(together):
        source = [plans[0].seed, block, number]
        if duet is not None:
            going_on = yield from duet.take(sides, ones[0], experiments, source)
        else:
            going_on = yield from _take_in_turns(ones, experiments, sides, source)
        if not going_on:
            return False
    return True


def _take_in_turns(
    ones: Sequence[Pass],
    experiments: Sequence[PlannedExperiment],
    sides: Sequence[Side],
    source: Sequence[int],
) -> Taken:
    """Take a pass on all sides, in an order drawn by `source`."""
    for number in map(int, np.random.default_rng(source).permutation(len(sides))):
        if not (yield from _take(ones[number], experiments[number], sides, sides[number])):
            return False
    return True


def _take(one: Pass, experiment: PlannedExperiment, sides: Sequence[Side], side: Side) -> Taken:
    """Take a pass on one side, and by the wall clock have the others run as many iterations as it did."""
    going_on = yield from side.numbered(side.runner.take(one, experiment))
    # Where instructions are counted no turn asks for a number of iterations: see `PointRunner`.
    for other in () if counts_instructions(experiment) else sides:
        points = (each.runner.state.points[experiment.name] for each in (side, other))
        for mine, theirs in zip(*points, strict=True):
            yield from other.numbered(keep_iterations(theirs, mine.iterations))
    return going_on and not is_interrupted(sides)

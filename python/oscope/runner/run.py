"""A run, from a plan to a stream of events: all blocks, or as many as a budget or a precision asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from oscope.model.experiment import Inspection
from oscope.model.samples import ExperimentResults
from oscope.planning.plan import Plan, PlannedExperiment
from oscope.planning.schedule import WHOLE, Share, passes
from oscope.runner.inspections import inspect_all
from oscope.runner.pauses import Pauses
from oscope.runner.point_runner import PointRunner
from oscope.runner.run_events import Events, ProcessBegan, RunEvent, note, seen
from oscope.runner.stopping import Budget, Deadline, PrecisionRule


def run(
    plan: Plan,
    runner: PointRunner,
    *,
    opening: Iterable[RunEvent] = (),
    find_inspection: Callable[[str], Inspection],
    known: Mapping[str, ExperimentResults],
    share: Share = WHOLE,
) -> Iterator[RunEvent]:
    """Measure what the runner's run misses of the `share` of `plan`; yield what happens.

    `opening` are events that come first. `find_inspection` returns an inspection by its name. `known` is what
    the run has of each experiment whose precision decides; a plan without a precision needs none.
    """
    return runner.state.advance(_run(plan, runner, opening, find_inspection, known, share))


def _run(
    plan: Plan,
    runner: PointRunner,
    opening: Iterable[RunEvent],
    find_inspection: Callable[[str], Inspection],
    known: Mapping[str, ExperimentResults],
    share: Share,
) -> Events:
    yield ProcessBegan(runner.chain.environment)
    yield from opening
    budget = Budget(plan.budget_s)
    yield from inspect_all(plan, runner.state.inspected, runner.chain.stop, budget, find_inspection)
    for index, experiment in enumerate(plan.experiments):
        if runner.interrupted:
            return
        if budget.spent:
            yield note(f"{experiment.name}: {budget} ran out before its turn")
            continue
        deadline = budget.share(plan.experiments[index:])
        if plan.precision is None:
            yield from _measure_blocks(plan, experiment, runner, budget, deadline, share)
        else:
            rule = PrecisionRule(plan, runner.state.points[experiment.name], known[experiment.name])
            yield from _measure_to_precision(plan, experiment, runner, budget, deadline, rule)
        yield from runner.end()


def _measure_blocks(
    plan: Plan,
    experiment: PlannedExperiment,
    runner: PointRunner,
    budget: Budget,
    deadline: Deadline,
    share: Share,
) -> Events:
    """Measure all blocks of `share`, or those begun before the deadline: none is left half done for it.

    They are spread over the plan's time, or follow each other if they take longer.
    """
    blocks = share.blocks(experiment.blocks or 0)
    begun: set[int] = set()
    pauses = Pauses(blocks, (plan.spread_s or 0.0) / len(plan.experiments))
    points = runner.state.points[experiment.name]
    for one in passes(plan, experiment, range(blocks)):
        if one.block not in begun and begun and deadline.passed:
            continue
        # What a resumed run has already takes no time.
        if one.block not in begun and any(point.missing(one.block) for point in points):
            pauses.wait(runner.chain.stop, deadline)
        begun.add(one.block)
        if not (yield from runner.take(one, experiment, repeat_until=deadline)):
            return
    if len(begun) < blocks:
        yield note(f"{experiment.name}: {budget} ran out after {len(begun)} of {blocks} blocks")


def _measure_to_precision(
    plan: Plan,
    experiment: PlannedExperiment,
    runner: PointRunner,
    budget: Budget,
    deadline: Deadline,
    rule: PrecisionRule,
) -> Events:
    """Measure blocks of the points that are not yet precise enough, until all are or the deadline passes."""
    block = 0
    going_on = True
    while going_on and (unfinished := rule.unfinished()):
        for one in passes(plan, experiment, [block]):
            rest = replace(one, turns=tuple(turn for turn in one.turns if turn.point in unfinished))
            taking = runner.take(rest, experiment, repeat_until=deadline, begin_until=deadline)
            going_on = yield from seen(taking, rule.see)
            if not going_on:
                break
        rule.look(unfinished, block)
        block += 1
    if not runner.interrupted:
        yield from rule.notes(budget)

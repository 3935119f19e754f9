"""Carries out several plans of the same measurements at once (`oscope.runner.joint_schedule`), a run each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from oscope.model.errors import UsageError
from oscope.model.interruption import Interruption
from oscope.planning.plan import Plan
from oscope.probe.locate import find_probe
from oscope.runner.active_run import ActiveRun
from oscope.runner.duet import Duet, check_duet
from oscope.runner.duet_cpus import Cpus, DuetAffinity
from oscope.runner.execution import Outcome, begin, finish, recording_end
from oscope.runner.injection.run_injection import RunInjection
from oscope.runner.joint_listener import JointListener
from oscope.runner.joint_schedule import run_together
from oscope.runner.point_runner import PointRunner
from oscope.runner.process_chain import ProcessChain
from oscope.runner.progress import Listener, NullListener
from oscope.runner.run_events import Events, RecordedEvent, note
from oscope.runner.stop_request import StopRequest
from oscope.runner.targets import Targets
from oscope.storage.store import Store
from oscope.targets.affinity import Affinity


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
    and leave one to this process. A budget holds for all sides together, and ends them after a block that
    all have measured. The first SIGINT or SIGTERM ends all runs early, with everything measured kept.

    Raises UsageError where the plans are not alike, or where there can be no duet, and what
    `oscope.runner.execution.execute` raises.
    """
    _check_alike(plans)
    check_duet(plans, duet)
    paths = [find_probe()] * len(plans) if builds is None else builds
    with ExitStack() as stack:
        duet_affinity = DuetAffinity(cpus) if duet else None
        affinity = stack.enter_context(duet_affinity or Affinity())
        chains = [_chain(path, affinity, stack) for path in paths]
        targets = [
            _targets(plan, path, affinity, chain)
            for plan, path, chain in zip(plans, paths, chains, strict=True)
        ]
        stops = [chain.stop for chain in chains]
        stack.enter_context(Interruption(lambda: _interrupt(stops)))
        joint = JointListener(listener or NullListener(), plans)
        sides: list[ActiveRun] = []
        runners: list[PointRunner] = []
        injected: list[RunInjection] = []
        with ExitStack() as begun:
            for number, (plan, chain) in enumerate(zip(plans, chains, strict=True)):
                side = stack.enter_context(begin(plan, store, chain, joint.of(number)))
                injection = RunInjection(plan.injection, affinity)
                # From now on there is a run that an error, such as of the next side's begin, has to end.
                begun.enter_context(recording_end(side, injection))
                runners.append(PointRunner(chain, targets[number], side.state, injection.requests))
                stack.callback(runners[-1].kill)
                sides.append(side)
                injected.append(injection)
            # Its second thread ends before what the sides measure with is killed.
            both = None if duet_affinity is None else begun.enter_context(Duet(stops, duet_affinity.cpus))
            names = [side.recorder.run_id for side in sides]
            openings = [
                _opening(side, injection, names, duet_affinity, duet)
                for side, injection in zip(sides, injected, strict=True)
            ]
            for number, event in run_together(plans, runners, openings=openings, duet=both, names=duet):
                sides[number].append(event)
        outcomes = [finish(side, chain) for side, chain in zip(sides, chains, strict=True)]
    return tuple(replace(each, stopped=stop.asked) for each, stop in zip(outcomes, stops, strict=True))


def _chain(path: Path, affinity: Affinity, stack: ExitStack) -> ProcessChain:
    """Start the processes of one side; they end with `stack`."""
    chain = ProcessChain(path, affinity)
    stack.callback(chain.kill)
    return chain


def _targets(plan: Plan, path: Path, affinity: Affinity, chain: ProcessChain) -> Targets:
    """Return the targets of one side's plan. Raises OscopeError where one cannot be had."""
    found = Targets(path, affinity, chain.local, chain.environment)
    found.check(plan)
    return found


def _opening(
    side: ActiveRun,
    injection: RunInjection,
    names: Sequence[str],
    duet_affinity: DuetAffinity | None,
    duet: Collection[str],
) -> Events:
    """Mark the run of a side, and report how it belongs together with those of these `names`."""
    yield from injection.opening(side.state.points)
    yield RecordedEvent("interleaved", names)
    if duet_affinity is not None:
        yield RecordedEvent("duet", {"cpus": list(duet_affinity.cpus), "experiments": sorted(duet)})
        if duet_affinity.note is not None:
            yield note(duet_affinity.note)


def _interrupt(stops: Sequence[StopRequest]) -> None:
    for stop in stops:
        stop.interrupt()


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
        if [e.budget_s for e in plan.experiments] != [e.budget_s for e in first.experiments]:
            raise UsageError("interleaved sides share their time alike", remedy="plan them alike")
        if [(e.name, e.points, e.blocks) for e in plan.experiments] != [
            (e.name, e.points, e.blocks) for e in first.experiments
        ]:
            raise UsageError("interleaved sides have the same points", remedy="plan them alike")

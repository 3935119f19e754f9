"""Carries out a plan: block by block, a fresh probe process each, every sample committed as it comes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from oscope.model.errors import OscopeError, ProbeError, StoreError, UsageError
from oscope.model.experiment import Inspection
from oscope.model.guest import Guest
from oscope.model.interruption import Interruption
from oscope.model.samples import ExperimentResults
from oscope.model.units import format_duration, format_share
from oscope.planning.plan import Plan, PlannedExperiment
from oscope.planning.precision import IN_A_ROW, Look, look, reached
from oscope.planning.schedule import WHOLE, Share, passes
from oscope.probe.locate import find_probe
from oscope.runner import provenance
from oscope.runner.active_run import ActiveRun
from oscope.runner.events import Happened, ProcessBegan, RunEvent, note
from oscope.runner.injection.during import Disturbing
from oscope.runner.inspections import inspect_all
from oscope.runner.pass_tracing import note_once
from oscope.runner.pauses import Pauses
from oscope.runner.point_runner import PointRunner
from oscope.runner.point_state import PointState
from oscope.runner.progress import Listener, Silence
from oscope.runner.recorder import Recorder
from oscope.runner.resume import resume as take_up
from oscope.runner.run_state import RunState
from oscope.runner.tuning import tuned
from oscope.storage import exclusive
from oscope.storage.store import Happening, Store
from oscope.targets.affinity import Placement
from oscope.targets.guest.place import GuestPlace
from oscope.targets.host.place import HostPlace
from oscope.targets.target import Machine, Place

RunStatus = Literal["done", "failed", "interrupted", "unfinished"]


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    run_id: str
    status: RunStatus
    """Failed: something went wrong, and no sample has a value. Unfinished: a share of the run was asked for,
    and all of that is there."""
    samples: int
    """Samples of the run in the store."""
    failures: tuple[str, ...]
    """What went wrong since it began or resumed, a line each: lost probes, failed points, failed samples."""
    stopped: bool = False
    """A signal asked to end, even if all was measured by then: who measures run after run ends here. Known
    only once no signal can come any more without raising, so not by `finish`."""


def execute(
    plan: Plan,
    store: Store,
    listener: Listener | None = None,
    *,
    resume: str | None = None,
    find_inspection: Callable[[str], Inspection] | None = None,
    share: Share = WHOLE,
    started: Callable[[PointRunner], None] | None = None,
) -> Outcome:
    """Measure what `plan` asks for into `store`; `resume` is the id of the run of this plan that is to go on.

    `find_inspection` returns an inspection of the plan by its name; None: the plan has none. Of a plan with a
    number of blocks, those of `share` that are missing are measured. `started` is given who measures, to
    interrupt it.

    The first SIGINT or SIGTERM ends it early, with everything measured kept. Raises UsageError where the
    probe refuses a request or the run cannot go on here, ProbeError where no probe starts, StoreError where
    storing fails; what was committed stays.
    """
    # Before the first probe, which describes the machine as it is measured.
    with contextlib.ExitStack() as stack:
        held = stack.enter_context(tuned(plan.tuned))
        placement = Placement()
        machine = None if plan.host is None else stack.enter_context(contextlib.closing(HostPlace(plan.host)))
        if machine is None:
            stack.enter_context(placement)
        runner = make_runner(placement, machine.program if machine else find_probe(), machine)
        if started is not None:
            started(runner)
        try:
            with Interruption(runner.interrupt), Disturbing(plan.injection, placement) as disturbing:
                check_places(plan, runner)
                run = stack.enter_context(begin(plan, store, runner, listener or Silence(), resume))
                if held:
                    run.append(Happened("tuned", [asdict(one) for one in held]))
                for line in machine.restored if machine else ():
                    run.note(f"on the host: {line}")
                with recording_failure(run), disturbing.of(run):

                    def results(name: str) -> ExperimentResults:
                        return store.results(run.recorder.run_id, experiment=name).experiments[0]

                    end = None if plan.budget_s is None else time.monotonic() + plan.budget_s
                    inspect_all(plan, run, end, find_inspection or _no_inspection)
                    for event in run.state.advance(measure(plan, runner, end, results, share)):
                        run.append(event)
                outcome = finish(run, share)
        finally:
            runner.kill()
    return replace(outcome, stopped=runner.interrupted)


def _no_inspection(name: str) -> Inspection:
    raise UsageError(f"the run does not know the inspection {name}", remedy="measure with oscope run")


def make_runner(placement: Placement, path: Path, machine: Machine | None = None) -> PointRunner:
    """Return who measures on `machine` (None: this one) and in guests of this one.

    Raises ProbeError where no probe starts.
    """
    runner = PointRunner(
        path,
        placement,
        lambda guest, programs: guest_place(
            guest, programs, path, placement, runner.chain.environment.get("machine")
        ),
        machine,
    )
    return runner


def check_places(plan: Plan, runner: PointRunner) -> None:
    """Raise OscopeError where a guest of the plan cannot be made, before anything is measured."""
    for experiment in plan.experiments:
        runner.place_of(experiment)


def guest_place(
    guest: Guest, programs: Collection[str], probe: Path, placement: Placement, machine: object
) -> Place:
    """Return where `guest` with `programs` is booted on this `machine`; OscopeError where it cannot be."""
    return GuestPlace(guest, programs, probe, placement, machine)


@contextlib.contextmanager
def recording_failure(*runs: ActiveRun) -> Iterator[None]:
    """Have the runs' status tell of an error that ends them."""
    try:
        yield
    except OscopeError:
        # Where the store itself failed, nothing more can be said in it.
        with contextlib.suppress(StoreError):
            for run in runs:
                run.append(Happened("status", "failed"))
        raise


@contextlib.contextmanager
def begin(
    plan: Plan, store: Store, runner: PointRunner, listener: Listener, resume: str | None = None
) -> Iterator[ActiveRun]:
    """Make the run of `plan` in the store, or take up the one to resume, for `runner` to measure.

    Until the end of the block no other program can take it up. Raises BusyError where one measures it.
    """
    environment, made_of = dict(runner.survey()), provenance.describe(runner.path)
    surroundings = [
        Happening("environment", environment),
        Happening("laboratory", made_of),
        Happening("calibrated", store.calibration(environment["machine"])),
    ]
    run_id = resume or store.create_run(plan, surroundings)
    with exclusive.hold(store, run_id):
        if resume is None:
            state = RunState(plan, store.point_ids(run_id))
        else:
            state, notes = take_up(plan, store, run_id, environment, made_of)
            store.add(run_id, (), [*surroundings, *notes, Happening("status", "unfinished")])
        runner.begin(state)
        run = ActiveRun(runner, state, Recorder(store, run_id), listener)
        run.store([ProcessBegan(runner.chain.environment)])
        listener.begin(run_id, plan)
        yield run


def finish(run: ActiveRun, share: Share = WHOLE) -> Outcome:
    """Record how the run ended, or its share."""
    state = run.state
    failing = [point for points in state.points.values() for point in points if point.failed]
    failures = [*state.failures, *map(_failed, failing)]
    kept = state.finished - sum(len(point.failed) for point in failing)
    status: RunStatus = "done" if share.last else "unfinished"
    if run.runner.interrupted:
        status = "interrupted"
    elif share.last and failures and not kept and not state.inspected:
        status = "failed"
    _record_environment_after(run)
    run.append(Happened("status", status))
    return Outcome(run.recorder.run_id, status, state.finished, tuple(failures))


def _failed(point: PointState) -> str:
    count = f"{len(point.failed)} of {sum(point.taken.values())} samples failed"
    return f"{point.label}: {count}, the first: {point.failed[0]}"


def _record_environment_after(run: ActiveRun) -> None:
    try:
        run.append(Happened("environment_after", dict(run.runner.survey())))
    except ProbeError as error:
        run.note(f"the environment after the run is not known: {error}")


def measure(
    plan: Plan,
    runner: PointRunner,
    end: float | None,
    results: Callable[[str], ExperimentResults],
    share: Share = WHOLE,
) -> Generator[RunEvent, None, None]:
    """Measure the `share` of every experiment, each with an equal part of the time left until `end`.

    `results` returns what is stored of an experiment so far.
    """
    for index, experiment in enumerate(plan.experiments):
        if runner.interrupted:
            return
        deadline = float("inf")
        if end is not None:
            left = end - time.monotonic()
            if left <= 0:
                yield note(f"{experiment.name}: {_budget(plan)} ran out before its turn")
                continue
            deadline = time.monotonic() + left / (len(plan.experiments) - index)
        if plan.precision is None:
            spread_s = (plan.spread_s or 0.0) / len(plan.experiments)
            yield from _measure_blocks(plan, experiment, runner, deadline, spread_s, share)
        else:
            yield from _measure_to_precision(plan, experiment, runner, deadline, results)
        yield from runner.end()


def _measure_blocks(
    plan: Plan,
    experiment: PlannedExperiment,
    runner: PointRunner,
    deadline: float,
    spread_s: float,
    share: Share,
) -> Generator[RunEvent, None, None]:
    """Measure all blocks of `share`, or those begun before the budget ran out: none is left half done for it.

    They are spread over `spread_s` seconds, or follow each other if they take longer.
    """
    blocks = share.blocks(experiment.blocks or 0)
    begun: set[int] = set()
    late = _passed(deadline)
    pauses = Pauses(blocks, spread_s)
    points = runner.state.points[experiment.name]
    for one in passes(plan, experiment, range(blocks)):
        if one.block not in begun and begun and late():
            continue
        # What a resumed run has already takes no time.
        if one.block not in begun and any(point.missing(one.block) for point in points):
            pauses.wait(lambda: runner.interrupted or late())
        begun.add(one.block)
        if not (yield from runner.take(one, experiment, lambda: False, late)):
            return
    if len(begun) < blocks:
        yield note(f"{experiment.name}: {_budget(plan)} ran out after {len(begun)} of {blocks} blocks")


def _passed(deadline: float) -> Callable[[], bool]:
    """Return what says whether the monotonic clock has reached `deadline`, in seconds."""
    return lambda: time.monotonic() >= deadline


def _measure_to_precision(
    plan: Plan,
    experiment: PlannedExperiment,
    runner: PointRunner,
    deadline: float,
    results: Callable[[str], ExperimentResults],
) -> Generator[RunEvent, None, None]:
    """Measure blocks of the points that are not yet precise enough, until all are or the budget runs out."""
    points = runner.state.points[experiment.name]
    looks: list[list[Look]] = [[] for _ in points]
    block = 0
    going_on = True
    late = _passed(deadline)
    while going_on and (still := _unfinished(plan, points, looks)):
        for one in passes(plan, experiment, [block]):
            unfinished = replace(one, turns=tuple(turn for turn in one.turns if turn.point in still))
            going_on = yield from runner.take(unfinished, experiment, late, late)
            if not going_on:
                break
        found = results(experiment.name)
        for number in still:
            looks[number].append(look(found, number, block))
        block += 1
    if not runner.interrupted:
        for number, point in enumerate(points):
            if any(point.taken.values()):
                yield from note_once(_describe_precision(plan, looks[number]), point)


def _unfinished(plan: Plan, points: Sequence[PointState], looks: list[list[Look]]) -> set[int]:
    """Return the numbers of the points that need more blocks than they were looked at after."""
    return {
        number
        for number, (point, found) in enumerate(zip(points, looks, strict=True))
        if not point.skipped and not reached(found, plan.precision or 0.0)
    }


def _describe_precision(plan: Plan, looks: list[Look]) -> str:
    wanted = format_share(plan.precision or 0.0)
    last = [found.half_width for found in looks[-IN_A_ROW:] if found.half_width is not None]
    if not last:
        return f"a precision of {wanted} was asked for; there is no interval to judge it by"
    if reached(looks, plan.precision or 0.0):
        return f"the precision of {wanted} is reached: {100 * last[-1]:.2g} %"
    why = f", but after {looks[-1].blocks} blocks only" if max(last) <= (plan.precision or 0.0) else ""
    return f"the precision of {wanted} is not reached within {_budget(plan)}: {100 * max(last):.2g} %{why}"


def _budget(plan: Plan) -> str:
    return f"the budget of {format_duration(plan.budget_s or 0.0)}"

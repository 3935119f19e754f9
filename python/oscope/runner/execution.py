"""Carries out a plan: `for event in run(...): active.append(event)`, and what is before and after that."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Literal

from oscope.model.errors import OscopeError, ProbeError, StoreError, UsageError
from oscope.model.experiment import Inspection
from oscope.model.interruption import Interruption
from oscope.model.samples import ExperimentResults
from oscope.planning.plan import Plan
from oscope.planning.schedule import WHOLE, Share
from oscope.probe.locate import find_probe
from oscope.runner import provenance, resuming
from oscope.runner.active_run import ActiveRun
from oscope.runner.injection.run_injection import RunInjection
from oscope.runner.point_runner import PointRunner
from oscope.runner.point_state import PointState
from oscope.runner.process_chain import ProcessChain
from oscope.runner.progress import Listener, NullListener
from oscope.runner.recorder import Recorder
from oscope.runner.run import run
from oscope.runner.run_events import RecordedEvent, RunEvent, note
from oscope.runner.run_state import RunState
from oscope.runner.stop_request import StopRequest
from oscope.runner.targets import Targets
from oscope.runner.tuning import tuned
from oscope.storage import exclusive
from oscope.storage.store import Store, StoredEvent
from oscope.targets.affinity import Affinity
from oscope.targets.host.target import HostTarget

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
    stop: StopRequest | None = None,
) -> Outcome:
    """Measure what `plan` asks for into `store`; `resume` is the id of the run of this plan that is to go on.

    `find_inspection` returns an inspection of the plan by its name; None: the plan has none. Of a plan with a
    number of blocks, those of `share` that are missing are measured. `stop` ends it early, from another
    thread.

    The first SIGINT or SIGTERM ends it early, with everything measured kept. Raises UsageError where the
    probe refuses a request or the run cannot go on here, ProbeError where no probe starts, StoreError where
    storing fails; what was committed stays.
    """
    stop = stop or StopRequest()
    with contextlib.ExitStack() as stack:
        # Before the first probe, which describes the machine as it is measured.
        held = stack.enter_context(tuned(plan.tuned))
        affinity = Affinity()
        machine = (
            None if plan.host is None else stack.enter_context(contextlib.closing(HostTarget(plan.host)))
        )
        if machine is None:
            stack.enter_context(affinity)
        chain = ProcessChain(machine.program if machine else find_probe(), affinity, machine, stop)
        stack.callback(chain.kill)
        with Interruption(stop.interrupt), RunInjection(plan.injection, affinity) as injection:
            targets = Targets(chain.path, affinity, chain.local, chain.environment)
            targets.check(plan)
            active = stack.enter_context(begin(plan, store, chain, listener or NullListener(), resume))
            runner = PointRunner(chain, targets, active.state, injection.requests)
            stack.callback(runner.kill)
            opening: list[RunEvent] = [
                note(f"on the host: {line}") for line in (machine.restored if machine else ())
            ]
            if held:
                opening.insert(0, RecordedEvent("tuned", [asdict(one) for one in held]))
            opening.extend(injection.opening(active.state.points))
            with recording_end(active, injection):
                for event in run(
                    plan,
                    runner,
                    opening=opening,
                    find_inspection=find_inspection or _no_inspection,
                    known=_known(plan, store, active.recorder.run_id),
                    share=share,
                ):
                    active.append(event)
            outcome = finish(active, chain, share)
    return replace(outcome, stopped=stop.asked)


def _no_inspection(name: str) -> Inspection:
    raise UsageError(f"the run does not know the inspection {name}", remedy="measure with oscope run")


def _known(plan: Plan, store: Store, run_id: str) -> dict[str, ExperimentResults]:
    """Return what the run has of each experiment whose precision decides."""
    if plan.precision is None:
        return {}
    return {each.experiment: each for each in store.results(run_id).experiments}


@contextlib.contextmanager
def recording_end(active: ActiveRun, injection: RunInjection | None = None) -> Iterator[None]:
    """Store what was injected, and have the status report an error that ends the run."""
    try:
        try:
            yield
        finally:
            if injection is not None:
                active.extend(injection.closing())
        if injection is not None:
            injection.check()
    except OscopeError:
        # Where the store itself failed, nothing more can be said in it.
        with contextlib.suppress(StoreError):
            active.append(RecordedEvent("status", "failed"))
        raise


@contextlib.contextmanager
def begin(
    plan: Plan, store: Store, chain: ProcessChain, listener: Listener, resume: str | None = None
) -> Iterator[ActiveRun]:
    """Make the run of `plan` in the store, or take up the one to resume, for `chain` to measure.

    Until the end of the block no other program can take it up. Raises BusyError where one measures it.
    """
    environment, made_of = dict(chain.survey()), provenance.describe(chain.path)
    initial_events = [
        StoredEvent("environment", environment),
        StoredEvent("laboratory", made_of),
        StoredEvent("calibrated", store.calibration(environment["machine"])),
    ]
    run_id = resume or store.create_run(plan, initial_events)
    with exclusive.hold(store, run_id):
        if resume is None:
            state = RunState(plan, store.point_ids(run_id))
        else:
            state, notes = resuming.restore(plan, store, run_id, environment, made_of)
            store.add(run_id, (), [*initial_events, *notes, StoredEvent("status", "unfinished")])
        listener.begin(run_id, plan)
        yield ActiveRun(state, Recorder(store, run_id), listener)


def finish(active: ActiveRun, chain: ProcessChain, share: Share = WHOLE) -> Outcome:
    """Record how the run ended, or its share."""
    state = active.state
    failing = [point for points in state.points.values() for point in points if point.failed]
    failures = [*state.failures, *map(_failed, failing)]
    kept = state.finished - sum(len(point.failed) for point in failing)
    status: RunStatus = "done" if share.last else "unfinished"
    if chain.stop.asked:
        status = "interrupted"
    elif share.last and failures and not kept and not state.inspected:
        status = "failed"
    _record_environment_after(active, chain)
    active.append(RecordedEvent("status", status))
    return Outcome(active.recorder.run_id, status, state.finished, tuple(failures))


def _failed(point: PointState) -> str:
    count = f"{len(point.failed)} of {sum(point.taken.values())} samples failed"
    return f"{point.label}: {count}, the first: {point.failed[0]}"


def _record_environment_after(active: ActiveRun, chain: ProcessChain) -> None:
    try:
        active.append(RecordedEvent("environment_after", dict(chain.survey())))
    except ProbeError as error:
        active.append(note(f"the environment after the run is not known: {error}"))

"""Resumes a run: its state is read from the store, and it is checked that the rest can be measured here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from oscope.model.errors import UsageError
from oscope.planning.plan import Plan
from oscope.probe import catalogue
from oscope.probe.catalogue import Catalogue
from oscope.probe.locate import find_probe
from oscope.probe.own_program import with_programs
from oscope.runner.run_state import RunState
from oscope.storage import schema
from oscope.storage.reader import join_environment, load_events
from oscope.storage.store import Store, StoredEvent


def restore(
    plan: Plan, store: Store, run_id: str, environment: Mapping[str, Any], made_of: Mapping[str, Any]
) -> tuple[RunState, list[StoredEvent]]:
    """Return where the run stands, and what to note on that it goes on.

    `environment` is what the machine is now, `made_of` what the laboratory consists of. Raises UsageError
    where the run cannot go on here.
    """
    state = RunState(plan, store.point_ids(run_id))
    former = _read_state(plan, store, run_id, state)
    known = with_programs(catalogue.load(find_probe()), (each.program for each in plan.experiments))
    _check_machine(former, environment)
    _check_workloads(plan, known)
    if former["laboratory"] and former["laboratory"]["probe_sha256"] != made_of["probe_sha256"]:
        text = "resumed with another build of the probe: its samples may differ for that alone"
        return state, [StoredEvent("note", text)]
    return state, []


def _read_state(plan: Plan, store: Store, run_id: str, state: RunState) -> dict[str, Any]:
    """Have `state` stand where the run stands; return the run's environment, as a record has it.

    Raises UsageError where no command can measure the rest.
    """
    points = {point.id: point for each in state.points.values() for point in each}
    table = schema.sample
    counts = (
        sa.select(table.c.point_id, table.c.block, sa.func.count(), sa.func.max(table.c.process))
        .where(table.c.point_id.in_(sa.select(schema.point.c.id).where(schema.point.c.run_id == run_id)))
        .group_by(table.c.point_id, table.c.block)
    )
    with store.reading() as connection:
        events = load_events(connection, run_id)
        _check_measured_alone(plan, events.run)
        _check_not_refused(events.run)
        for point_id, block, number, process in connection.execute(counts):
            points[point_id].taken[block] = number
            state.finished += number
            state.process = max(state.process, process)
    booted = [*events.run["environment"], *events.run["boot"]]
    state.boots = list(dict.fromkeys(each.get("boot_id") for each in booted))
    state.announcements.restore(events.run)
    state.inspected = {each["inspection"] for each in events.run["inspection"]}
    for point_id, happened in events.points.items():
        for kind, each in happened.items():
            for data in each:
                state.apply_to_point(points[point_id], kind, data)
    for name in state.interference.watched:
        state.interference.restore(store.results(run_id, experiment=name).experiments[0])
    return join_environment(events.run)


def _check_measured_alone(plan: Plan, events: Mapping[str, list[Any]]) -> None:
    """Raise UsageError for one side of a comparison, and for what another tool measured."""
    if events["interleaved"] or plan.build is not None:
        raise UsageError(
            "the run was interleaved with another, which cannot be resumed",
            remedy="compare as far as they go with oscope compare, or begin anew",
        )
    if any("imported" in each for each in events["environment"]):
        raise UsageError("the run was imported, and cannot be resumed", remedy="import a newer file")


def _check_not_refused(events: Mapping[str, list[Any]]) -> None:
    """Raise UsageError for a run that asks for what the probe refuses each time."""
    for refused in events["refused"]:
        if refused["final"]:
            raise UsageError(
                f"the run cannot be resumed, since the probe refused it: {refused['reason']}",
                remedy=refused["remedy"] or "begin a new run without that",
            )


def _check_machine(former: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise UsageError where the machine or its clock is not the one that the run was begun with."""
    # A run that was made for a host before the host was reached has none.
    if former["laboratory"] is None:
        return
    if former.get("machine") != now.get("machine"):
        remedy = "resume it there, or begin a new one"
        raise UsageError("the run was begun on another machine", remedy=remedy)
    if former.get("clock", {}).get("kind") != now.get("clock", {}).get("kind"):
        raise UsageError("the run was begun with another clock", remedy="begin a new one")


def _check_workloads(plan: Plan, known: Catalogue) -> None:
    """Raise UsageError where a workload of the plan is measured differently now."""
    for experiment in plan.experiments:
        program = experiment.program
        workloads = known.workloads if program is None else known.programs[program].workloads
        current = workloads.get(experiment.workload.name)
        if current is None or current.version != experiment.workload.version:
            who = "the probe" if program is None else program.name
            raise UsageError(
                f"{who} measures {experiment.workload.name} differently now", remedy="begin a new run"
            )

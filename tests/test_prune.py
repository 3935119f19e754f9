"""`oscope prune` and what it calls: old runs go whole, and what may be needed stays, in both databases."""

from __future__ import annotations

import json
import re
import time

import sqlalchemy as sa

from cli_driver import CommandLine
from oscope.planning.plan import Plan
from oscope.probe.wire import Sample
from oscope.runner.run_events import ProcessBegan
from oscope.storage import retention, schema
from oscope.storage.fleets import FLEET
from oscope.storage.store import Store, StoredEvent
from run_writer import RunWriter

DAY_S = 86400
ENVIRONMENT = {"boot_id": "b", "machine": "m", "clock": {"kind": "tsc"}}


def add_run(store: Store, plan: Plan, age_days: float, status: str = "done", *more: StoredEvent) -> str:
    """Store a run with three samples, all of it that old; return its id."""
    recorder = RunWriter(store, plan, more)
    recorder.append(ProcessBegan(ENVIRONMENT))
    at = time.time_ns() - int(age_days * DAY_S * 1e9)
    samples = [
        Sample(1, rep, at, 100, 10, 0.0, {"time_ns": 1.0, "cycles": 2.0}, {}, None) for rep in range(3)
    ]
    recorder.add_samples(recorder.points["fake.experiment"][0], 0, samples)
    recorder.add_event("status", status)
    with store.reading() as connection:
        event = schema.event
        connection.execute(sa.update(event).where(event.c.run_id == recorder.run_id).values(at_ns=at))
    return recorder.run_id


def old(store: Store, days: float = 90) -> set[str]:
    return {run.id for group in retention.find_old(store, days * DAY_S) for run in group.runs}


def rows_of(store: Store, table: sa.Table) -> int:
    with store.reading() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0


def test_old_runs_go_whole_and_others_stay(place: str, plan: Plan) -> None:
    with Store.open(place) as store:
        removed = {add_run(store, plan, 100), add_run(store, plan, 91, "failed")}
        kept = {add_run(store, plan, 89), add_run(store, plan, 0)}
        groups = retention.find_old(store, 90 * DAY_S)
        assert {run.id for group in groups for run in group.runs} == removed
        assert [retention.delete(store, group) for group in groups] == [True, True]
        store.give_back()
        assert {run.id for run in store.runs()} == kept
        assert rows_of(store, schema.sample) == 6
        assert rows_of(store, schema.point) == 4
        assert [len(store.results(each).experiments[0].points[0]) for each in kept] == [3, 3]


def test_a_run_that_may_be_under_way_stays(place: str, plan: Plan) -> None:
    with Store.open(place) as store:
        add_run(store, plan, 6, "unfinished")
        killed = add_run(store, plan, 8, "unfinished")
        interrupted = add_run(store, plan, 6, "interrupted")
        assert old(store, 1) == {killed, interrupted}


def test_runs_that_belong_together_are_kept_together(place: str, plan: Plan) -> None:
    with Store.open(place) as store:
        for age in (100, 10):
            add_run(store, plan, age, "done", StoredEvent(FLEET, {"fleet": "f1", "host": {}, "rounds": 1}))
        first = add_run(store, plan, 100)
        add_run(store, plan, 10, "done", StoredEvent("interleaved", [first]))
        both = {
            add_run(store, plan, 100, "done", StoredEvent(FLEET, {"fleet": "f2", "host": {}, "rounds": 1}))
            for _ in range(2)
        }
        assert old(store) == both
        (group,) = retention.find_old(store, 90 * DAY_S)
        assert retention.delete(store, group)
        assert len(store.runs()) == 4


def test_the_newest_calibration_of_each_machine_stays(place: str, plan: Plan) -> None:
    with Store.open(place) as store:
        ids = [
            add_run(store, plan, 100, "done", StoredEvent("calibration", {"machine": machine}))
            for machine in ("a", "a", "b")
        ]
        assert old(store) == {ids[0]}


def test_a_run_that_was_resumed_since_stays_whole(place: str, plan: Plan) -> None:
    with Store.open(place) as store, Store.open(place) as other:
        run_id = add_run(store, plan, 100, "interrupted")
        (group,) = retention.find_old(store, 90 * DAY_S)
        other.add(run_id, (), [StoredEvent("status", "unfinished")])
        assert not retention.delete(store, group)
        assert [(run.id, run.samples) for run in store.runs()] == [(run_id, 3)]


def test_the_command_lists_first_and_deletes_when_asked(oscope: CommandLine, plan: Plan) -> None:
    place = oscope.folder / "oscope.db"
    with Store.open(place) as store:
        removed, kept = add_run(store, plan, 100), add_run(store, plan, 1)
    words = ("prune", "--store", str(place), "--older-than", "90d")
    listed = oscope(*words, "--format", "json")
    assert listed.code == 0
    assert re.fullmatch(
        r"oscope: 1 run with 3 samples, last written to before \d{4}-\d\d-\d\d \d\d:\d\d, "
        r"would be deleted: add --delete\n",
        listed.err,
    )
    (table,) = json.loads(listed.out)
    assert [row["run"] for row in table["rows"]] == [removed]
    with Store.read(place) as store:
        assert len(store.runs()) == 2
    size = place.stat().st_size
    deleted = oscope(*words, "--delete")
    assert (deleted.code, deleted.err) == (0, "oscope: deleted 1 run with 3 samples\n")
    with Store.read(place) as store:
        assert [run.id for run in store.runs()] == [kept]
    assert place.stat().st_size <= size
    again = oscope(*words, "--delete")
    assert (again.code, again.out, again.err) == (0, "", "oscope: deleted 0 runs with 0 samples\n")
    nothing = oscope(*words)
    assert nothing.code == 0
    assert nothing.err.startswith("oscope: 0 runs with 0 samples, last written to before ")
    assert nothing.err.endswith(", would be deleted\n")
    assert oscope("prune").code == 2

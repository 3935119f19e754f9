"""The spool of a fleet: what was measured reaches the database, whatever is away or killed meanwhile."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from cli_driver import CommandLine
from conftest import make_experiment
from fleet_hosts import Fleet, fleet
from oscope.model.errors import OscopeError, StoreUnavailableError, UsageError
from oscope.planning.plan import make_plan
from oscope.probe.catalogue import Catalogue
from oscope.runner.fleet import spool
from oscope.runner.fleet import turn_store as turns
from oscope.runner.fleet.delivering import Delivering
from oscope.storage import schema
from oscope.storage.delivery import deliver
from oscope.storage.fleets import FLEET
from oscope.storage.store import Store, StoredEvent
from postgresql_server import PostgreSQL
from test_fleet import LIMIT_S, PLAN, REPS, begin, error_line, needs_network, rounds_done, scheduler
from waiting import read_until, wait_until

SAMPLE = {"process": 1, "boot": 0, "raw": 7, "iterations": 3, "correction": 0.1, "failed": None}
HOST = {"host": {"name": "n1", "address": "n1"}, "rounds": 1}


def make_run(store: Store, catalogue: Catalogue) -> str:
    plan = make_plan([make_experiment({"size": (1, 2)}, reps=400)], catalogue, seed=1)
    return store.create_run(plan, [StoredEvent(FLEET, {"fleet": "fleet-1", **HOST})])


def add(store: Store, run_id: str, block: int, reps: range, *happenings: StoredEvent) -> None:
    """Store so many samples of both points, with what happened."""
    rows = [
        {
            **SAMPLE,
            "point_id": key,
            "block": block,
            "rep": rep,
            "started_ns": rep,
            "values": f"[{rep}.5, null]",
        }
        for key in store.point_ids(run_id).values()
        for rep in reps
    ]
    store.add(run_id, rows, happenings)


def content(store: Store, run_id: str) -> dict[str, list[Any]]:
    """Return all rows of a run, without the keys that each store gives by itself."""
    point, sample, event = schema.point, schema.sample, schema.event
    names = [column for column in sample.c if column.name != "point_id"]
    samples = (
        sa.select(point.c.experiment, point.c.number, *names)
        .join_from(sample, point, sample.c.point_id == point.c.id)
        .where(point.c.run_id == run_id)
        .order_by(point.c.experiment, point.c.number, sample.c.block, sample.c.rep)
    )
    events = (
        sa.select(event.c.at_ns, event.c.kind, event.c.data, point.c.experiment, point.c.number)
        .join_from(event, point, event.c.point_id == point.c.id, isouter=True)
        .where(event.c.run_id == run_id)
        .order_by(event.c.id)
    )
    runs = sa.select(schema.run).where(schema.run.c.id == run_id)
    with store.reading() as connection:
        parts = {"run": runs, "samples": samples, "events": events}
        return {name: [tuple(row) for row in connection.execute(each)] for name, each in parts.items()}


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_differences_are_delivered_by_key_and_only_once(
    database: str, tmp_path: Path, request: pytest.FixtureRequest, catalogue: Catalogue
) -> None:
    place = request.getfixturevalue("postgresql") if database == "postgresql" else tmp_path / "target.db"
    with Store.open(tmp_path / "source.db") as source, Store.open(place) as target:
        # Keys of the two stores differ.
        add(target, make_run(target, catalogue), 0, range(3))
        run_id = make_run(source, catalogue)
        key = next(iter(source.point_ids(run_id).values()))
        assert deliver(source, target, run_id) == 0
        add(source, run_id, 0, range(4), StoredEvent("note", "of a point", key))
        assert deliver(source, target, run_id) == 8
        assert deliver(source, target, run_id) == 0
        add(source, run_id, 0, range(4, 7))
        # Of a block that has some, others come before and after.
        add(source, run_id, 1, range(2, 4))
        assert deliver(source, target, run_id) == 10
        add(source, run_id, 1, range(2), StoredEvent("status", "done"))
        assert deliver(source, target, run_id) == 4
        assert content(target, run_id) == content(source, run_id)
        assert len(content(target, run_id)["samples"]) == 22
        assert source.fleet("last").runs[0] in target.fleet("last").runs
        # And back, into a new store.
        with Store.open(tmp_path / "again.db") as again:
            assert deliver(target, again, run_id) == 22
            assert content(again, run_id) == content(source, run_id)


def test_a_run_that_went_on_elsewhere_is_not_mixed(tmp_path: Path, catalogue: Catalogue) -> None:
    with Store.open(tmp_path / "source.db") as source, Store.open(tmp_path / "target.db") as target:
        run_id = make_run(source, catalogue)
        deliver(source, target, run_id)
        add(target, run_id, 0, range(2), StoredEvent("note", "elsewhere"))
        add(source, run_id, 1, range(2), StoredEvent("note", "here"))
        before = content(target, run_id)
        with pytest.raises(UsageError, match="went on in the other store"):
            deliver(source, target, run_id)
        assert content(target, run_id) == before


def test_a_database_that_is_away_loses_nothing(
    postgresql_server: PostgreSQL, postgresql: str, tmp_path: Path, catalogue: Catalogue
) -> None:
    path, notes = tmp_path / "spool.db", []
    with Store.open(path) as store:
        runs = [make_run(store, catalogue) for _ in range(3)]
        with Delivering(path, postgresql, runs, notes.append) as delivering:
            try:
                for block in range(60):
                    if block == 20:
                        postgresql_server.stop()
                    if block == 40:
                        wait_until(lambda: notes, "the outage is noticed")
                        postgresql_server.start()
                    for run_id in runs:
                        add(store, run_id, block, range(10), StoredEvent("note", f"{block}"))
                    time.sleep(0.1)
            finally:
                if postgresql_server.process is None:
                    postgresql_server.start()
            assert delivering.finish(120) is None
        with Store.read(postgresql) as central:
            for run_id in runs:
                assert content(central, run_id) == content(store, run_id)
                assert len(content(central, run_id)["samples"]) == 1200
    assert "is not reachable" in notes[0]
    assert "kept in" in notes[0]
    assert "the store is back" in notes[1]
    assert len(notes) == 2


def test_what_is_not_delivered_is_counted(
    postgresql_server: PostgreSQL, postgresql: str, tmp_path: Path, catalogue: Catalogue
) -> None:
    path = tmp_path / "spool.db"
    with Store.open(path) as store:
        run_id = make_run(store, catalogue)
        add(store, run_id, 0, range(5))
        postgresql_server.stop()
        try:
            with Delivering(path, postgresql, [run_id], lambda _: None) as delivering:
                left = delivering.finish(3)
        finally:
            postgresql_server.start()
        assert left is not None
        assert (left.samples, left.spool) == (10, path)
        assert "is not reachable" in left.why
        with Delivering(path, postgresql, [run_id], lambda _: None) as delivering:
            assert delivering.finish(60) is None
        with Store.read(postgresql) as central:
            assert content(central, run_id) == content(store, run_id)


DELIVER = """
import sys
from pathlib import Path
from oscope.runner.fleet.delivering import Delivering
print("begun", flush=True)
with Delivering(Path(sys.argv[1]), sys.argv[2], sys.argv[3:], lambda text: None) as delivering:
    delivering.finish(120)
"""


def test_deliveries_that_are_killed_are_neither_lost_nor_doubled(
    postgresql: str, tmp_path: Path, catalogue: Catalogue
) -> None:
    path, random = tmp_path / "spool.db", np.random.default_rng(1)
    with Store.open(path) as store:
        runs = [make_run(store, catalogue) for _ in range(4)]
        for attempt in range(12):
            for run_id in runs:
                add(store, run_id, attempt, range(300), StoredEvent("note", str(attempt)))
            killed = subprocess.Popen(
                [sys.executable, "-c", DELIVER, path, postgresql, *runs],
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            )
            assert killed.stdout is not None
            assert killed.stdout.readline() == b"begun\n"
            time.sleep(float(random.uniform(0, 0.5)))
            killed.send_signal(signal.SIGKILL)
            killed.wait(60)
        together = [Delivering(path, postgresql, runs, lambda _: None) for _ in range(2)]
        for one in together:
            one.__enter__()
        for one in together:
            assert one.finish(120) is None
        with Store.read(postgresql) as central:
            for run_id in runs:
                assert content(central, run_id) == content(store, run_id)


@pytest.fixture
def left_behind(
    postgresql_server: PostgreSQL,
    postgresql: str,
    catalogue: Catalogue,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[str, dict[str, list[Any]]]:
    """Return a run of whose turn samples are in a worker's spool only, and all that the spool has."""
    place = postgresql
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(turns, "DELIVERY_LIMIT_S", 2.0)
    with Store.open(place) as central:
        run_id = make_run(central, catalogue)
        add(central, run_id, 0, range(3), StoredEvent("note", "before"))
    try:
        with turns.turn_store(place, run_id, lambda _: None, threading.Event()) as store:
            # What a turn resumes is there.
            assert len(content(store, run_id)["samples"]) == 6
            postgresql_server.stop()
            add(store, run_id, 1, range(5), StoredEvent("note", "kept"))
            kept = content(store, run_id)
    except StoreUnavailableError as error:
        assert f"samples are in {spool.path_of(place, f'turn-{run_id}')} on " in str(error)  # noqa: PT017
        return run_id, kept
    finally:
        monkeypatch.setattr(turns, "DELIVERY_LIMIT_S", LIMIT_S)
        postgresql_server.start()
    pytest.fail("the turn ended without the store")


def test_what_a_workers_turn_could_not_deliver_is_delivered_by_the_next(
    left_behind: tuple[str, dict[str, list[Any]]], postgresql: str, tmp_path: Path
) -> None:
    run_id, kept = left_behind
    notes: list[str] = []
    with turns.turn_store(postgresql, run_id, notes.append, threading.Event()) as store:
        assert content(store, run_id) == kept
        with Store.read(postgresql) as central:
            assert content(central, run_id) == kept
        with (
            pytest.raises(OscopeError, match="another worker"),
            turns.turn_store(postgresql, run_id, notes.append, threading.Event()),
        ):
            pass
        add(store, run_id, 2, range(4), StoredEvent("note", "after"))
        whole = content(store, run_id)
    with Store.read(postgresql) as central:
        assert content(central, run_id) == whole
    assert notes == []
    assert list(tmp_path.rglob("turn-*")) == []


def test_what_was_measured_elsewhere_meanwhile_is_kept_apart(
    left_behind: tuple[str, dict[str, list[Any]]], postgresql: str, tmp_path: Path
) -> None:
    run_id, kept = left_behind
    with Store.open(postgresql) as central:
        add(central, run_id, 1, range(5), StoredEvent("note", "another worker's"))
        there = content(central, run_id)
    notes: list[str] = []
    with turns.turn_store(postgresql, run_id, notes.append, threading.Event()) as store:
        assert content(store, run_id) == there
    (aside,) = tmp_path.rglob("turn-*")
    assert notes == [f"measured on another machine meanwhile; what was in a spool here is kept in {aside}"]
    with Store.read(aside) as store:
        assert content(store, run_id) == kept


# ---- A fleet of real hosts.


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("fleet"), ["n1", "n2"]) as made:
        for host in made.hosts:
            host.start()
        yield made


@pytest.fixture
def oscope(network: Fleet, real_probe: Path, postgresql: str, tmp_path: Path) -> CommandLine:
    made = network.commands(real_probe)
    data = {"OSCOPE_STORE": postgresql, "XDG_DATA_HOME": str(tmp_path / "data")}
    command = CommandLine(made.folder, made.environment | data, made.prefix)
    if not (command.folder / "fleet.toml").exists():
        assert command("fleet", "init", "n1", "n2").code == 0
    return command


def spools(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "data" / "oscope" / "spool").glob("*/fleet-*.db"))


def spooled(path: Path) -> dict[str, dict[str, list[Any]]]:
    with Store.read(path) as store:
        return {run.run_id: content(store, run.run_id) for run in store.fleet("last").runs}


def check_whole(oscope: CommandLine, acknowledged: dict[str, dict[str, list[Any]]]) -> None:
    """Check that the database has each host's result complete, and all that the spool once had."""
    assert rounds_done(oscope) == {"n1": 3, "n2": 3}
    with Store.read(oscope.environment["OSCOPE_STORE"]) as store:
        for run in store.fleet("last").runs:
            (found,) = store.results(run.run_id).experiments
            (point,) = found.points
            assert len(point) - len(point.again) == REPS
            stored = content(store, run.run_id)
            for part, rows in acknowledged.get(run.run_id, {}).items():
                assert set(rows) <= set(stored[part])


@needs_network
class TestMeasured:
    def test_the_database_is_away_for_some_seconds(
        self, oscope: CommandLine, postgresql_server: PostgreSQL, tmp_path: Path
    ) -> None:
        begun = begin(oscope, "--reps", str(REPS), "--rounds", "3", "--parallel", "2")
        postgresql_server.stop(begun)
        # The store is away while the rest of a round is measured.
        err = read_until(begun, "is not reachable") + read_until(begun, "is measured")
        postgresql_server.start()
        err += begun.communicate(timeout=LIMIT_S)[1]
        assert begun.returncode == 0, err
        assert "the store is back" in err
        # In brackets are the database's own words on why it is away.
        assert " failed: " not in re.sub(r"\(.*\);", ";", err)
        check_whole(oscope, {})
        assert spools(tmp_path) == []

    def test_the_controller_is_killed_while_the_database_is_away(
        self, network: Fleet, oscope: CommandLine, postgresql_server: PostgreSQL, tmp_path: Path
    ) -> None:
        begun = begin(oscope, "--reps", str(REPS), "--rounds", "3", "--parallel", "2")
        postgresql_server.stop(begun)
        try:
            read_until(begun, "is not reachable")
            begun.send_signal(signal.SIGKILL)
            begun.communicate(timeout=LIMIT_S)
            (path,) = spools(tmp_path)
            acknowledged = spooled(path)
            assert sum(len(run["samples"]) for run in acknowledged.values()) > 0
            for host in network.hosts:
                host.is_quiet()
            resumed = oscope.start("fleet", "run", "--resume", "last", "--parallel", "2")
            read_until(resumed, "is measured")
        finally:
            postgresql_server.start()
        _, err = resumed.communicate(timeout=LIMIT_S)
        assert resumed.returncode == 0, err
        check_whole(oscope, acknowledged)
        assert spools(tmp_path) == []

    def test_what_cannot_be_delivered_is_said_and_delivered_later(
        self, oscope: CommandLine, postgresql_server: PostgreSQL, tmp_path: Path
    ) -> None:
        begun = begin(oscope, "--reps", str(REPS), "--rounds", "3", "--parallel", "2")
        postgresql_server.stop(begun)
        try:
            begun.send_signal(signal.SIGINT)
            _, err = begun.communicate(timeout=LIMIT_S)
            assert begun.returncode == 1
            assert "not delivered" in err.splitlines()[-1]
            assert "--resume fleet-" in err.splitlines()[-1]
            (path,) = spools(tmp_path)
            acknowledged = spooled(path)
        finally:
            postgresql_server.start()
        outliers = oscope("fleet", "outliers")
        assert "oscope fleet run --resume" in outliers.err
        resumed = oscope("fleet", "run", "--resume", "last", "--parallel", "2")
        assert resumed.code == 0, resumed
        check_whole(oscope, acknowledged)
        assert "--resume" not in oscope("fleet", "outliers").err
        # All is there: nothing more is measured.
        again = oscope("fleet", "run", "--resume", "last")
        assert again.code == 0, again
        assert "is measured" not in again.err
        check_whole(oscope, acknowledged)

    def test_workers_keep_what_they_measure_while_the_database_is_away_and_one_is_killed(
        self, network: Fleet, oscope: CommandLine, postgresql_server: PostgreSQL, tmp_path: Path
    ) -> None:
        with scheduler(oscope) as (address, workers):
            begun = begin(oscope, "--reps", str(REPS), "--rounds", "3", "--scheduler", address)
            postgresql_server.stop(begun)
            # Workers report with the end of a turn: there is nothing to wait for before that.
            time.sleep(6)
            postgresql_server.start()
            _, err = begun.communicate(timeout=LIMIT_S)
            assert begun.returncode == 0, err
            # No turn was taken again.
            assert re.search(r"round \d failed", err) is None, err
            check_whole(oscope, {})
            assert list(tmp_path.rglob("turn-*")) == []

            begun = begin(oscope, "--reps", str(REPS), "--rounds", "3", "--scheduler", address)
            workers[0].kill()
            postgresql_server.stop(begun)
            time.sleep(3)
            postgresql_server.start()
            _, err = begun.communicate(timeout=LIMIT_S)
        assert begun.returncode == 0, err
        check_whole(oscope, {})
        for host in network.hosts:
            host.is_quiet()

    def test_a_database_that_is_away_at_the_start_is_one_line(
        self, oscope: CommandLine, postgresql_server: PostgreSQL, tmp_path: Path
    ) -> None:
        postgresql_server.stop()
        try:
            answer = oscope(*PLAN, "--reps", "24", "--rounds", "2")
        finally:
            postgresql_server.start()
        assert answer.code == 1
        assert "is not reachable" in error_line(answer)
        assert spools(tmp_path) == []


def test_a_spool_knows_the_calibrations_of_its_store(
    postgresql: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, catalogue: Catalogue
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    plan = make_plan([make_experiment({"size": (1, 2)}, reps=400)], catalogue, seed=1)
    found = {"machine": "m", "alpha": 0.05}
    with Store.open(postgresql) as central:
        central.create_run(plan, [StoredEvent("calibration", found), StoredEvent("status", "done")])
    spool.make(postgresql, "fleet-1", lambda store: make_run(store, catalogue))
    with Store.read(spool.path_of(postgresql, "fleet-1")) as spooled_store:
        assert spooled_store.calibration("m") == found
        assert spooled_store.calibration("other") is None
    with Store.read(postgresql) as central:
        # They stay where they were: only the fleet's runs are delivered.
        assert [len(entry.runs) for entry in central.fleets()] == [1]
        assert len(central.runs()) == 2
    assert spool.find(postgresql, "last") == "fleet-1"
    spool.remove(postgresql, "fleet-1")
    spool.restore(postgresql, "fleet-1")
    with Store.read(spool.path_of(postgresql, "fleet-1")) as again, Store.read(postgresql) as central:
        (run,) = again.fleet("fleet-1").runs
        assert content(again, run.run_id) == content(central, run.run_id)
        assert again.calibration("m") == found


def test_a_spool_is_taken_up_as_the_store_has_the_fleet(
    postgresql: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, catalogue: Catalogue
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    notes: list[str] = []
    spool.make(postgresql, "fleet-1", lambda store: make_run(store, catalogue))
    path = spool.path_of(postgresql, "fleet-1")
    with Store.open(path) as spooled_store:
        (run,) = spooled_store.fleet("fleet-1").runs
        add(spooled_store, run.run_id, 0, range(3), StoredEvent("note", "left here"))
    spool.take_up(postgresql, "fleet-1", notes.append)
    with Store.read(path) as spooled_store, Store.open(postgresql) as central:
        assert content(central, run.run_id) == content(spooled_store, run.run_id)
        add(central, run.run_id, 1, range(3), StoredEvent("note", "another controller's"))
    assert notes == []
    spool.take_up(postgresql, "fleet-1", notes.append)
    (aside,) = path.parent.glob("*.kept")
    assert notes == [f"measured on another machine meanwhile; what was in a spool here is kept in {aside}"]
    with Store.read(path) as spooled_store, Store.read(postgresql) as central:
        assert content(spooled_store, run.run_id) == content(central, run.run_id)


def test_the_spools_of_two_stores_are_apart_and_no_password_names_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    one = spool.path_of("postgresql://u:secret@a/x", "fleet-1")
    assert one == spool.path_of("postgresql://u:other@a/x", "fleet-1")
    assert one != spool.path_of("postgresql://u:secret@b/x", "fleet-1")
    assert not spool.is_needed(str(tmp_path / "a.db"))
    with (
        spool.alone("postgresql://u@a/x", "fleet-1"),
        pytest.raises(UsageError, match="another oscope"),
        spool.alone("postgresql://u@a/x", "fleet-1"),
    ):
        pass
    assert list(one.parent.iterdir()) == []

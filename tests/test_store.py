from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from conftest import make_experiment
from oscope.cli import stored
from oscope.model.errors import StoreError, UsageError
from oscope.planning.plan import Plan, make_plan
from oscope.probe.catalogue import Catalogue
from oscope.probe.wire import Sample
from oscope.report.view import live
from oscope.runner.execution import execute
from oscope.runner.progress import NullListener, Progress
from oscope.runner.run_events import ProcessBegan
from oscope.storage import schema
from oscope.storage.reader import _fill
from oscope.storage.store import Store
from run_writer import RunWriter
from waiting import unmount

ENVIRONMENT = {"boot_id": "b", "machine": "m", "clock": {"kind": "tsc"}}
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")


@pytest.fixture
def plan(catalogue: Catalogue) -> Plan:
    return make_plan([make_experiment({"size": (1, 2)})], catalogue, seed=1)


def begin(store: Store, plan: Plan) -> RunWriter:
    recorder = RunWriter(store, plan)
    recorder.add_event("environment", ENVIRONMENT)
    recorder.append(ProcessBegan(ENVIRONMENT))
    return recorder


def samples(count: int, value: float = 98.125) -> list[Sample]:
    return [
        Sample(
            request=1,
            rep=index,
            started_ns=1_700_000_000_000_000_000 + index,
            raw=2_600_123 + index,
            iterations=10_000,
            correction=38.25,
            metrics={"time_ns": value + index, "cycles": 255.0},
            covariates={"run_delay_ns": index, "steal_ticks": None},
            failed=None,
        )
        for index in range(count)
    ]


def test_a_run_whose_id_is_taken_draws_another(
    store: Store, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = iter(["0001", "0001", "0001", "0002"])
    monkeypatch.setattr("oscope.storage.store.secrets.token_hex", lambda _: next(draws))
    # One second for all.
    monkeypatch.setattr("oscope.storage.store.time.time_ns", lambda: 1_700_000_000_000_000_000)
    first, second = store.create_run(plan), store.create_run(plan)
    assert (first[-5:], second[-5:]) == ("-0001", "-0002")
    assert [entry.id for entry in store.runs()] == [first, second]


def test_samples_come_back_exactly(store: Store, plan: Plan) -> None:
    recorder = begin(store, plan)
    recorder.add_samples(recorder.points["fake.experiment"][1], 0, samples(3, 0.1))
    empty, point = store.results(recorder.run_id).experiments[0].points
    assert len(empty) == 0
    assert dict(point.factors) == {"size": 2}
    assert point.raw.tolist() == [2_600_123, 2_600_124, 2_600_125]
    assert point.metrics["time_ns"].tolist() == [0.1, 1.1, 2.1]
    assert point.started_ns.tolist()[2] == 1_700_000_000_000_000_002
    assert point.covariates["run_delay_ns"].tolist() == [0, 1, 2]
    assert np.isnan(point.covariates["steal_ticks"]).all()


def test_a_stored_sample_is_never_overwritten(store: Store, plan: Plan) -> None:
    recorder = begin(store, plan)
    point = recorder.points["fake.experiment"][0]
    recorder.add_samples(point, 0, samples(2))
    point.taken.clear()
    with pytest.raises(StoreError, match="another oscope"):
        recorder.add_samples(point, 0, samples(2, value=1.0))
    assert store.results("last").experiments[0].points[0].metrics["time_ns"][0] == 98.125


def test_many_samples_come_back_as_columns(store: Store, plan: Plan) -> None:
    recorder = begin(store, plan)
    point = recorder.points["fake.experiment"][0]
    for block in range(3):
        recorder.add_samples(point, block, samples(25_000))
    loaded = store.results("last").experiments[0].points[0]
    assert len(loaded) == 75_000
    assert (np.diff(loaded.block) >= 0).all()
    assert loaded.metrics["time_ns"].sum() == pytest.approx(3 * (98.125 * 25_000 + 25_000 * 24_999 / 2))


def test_runs_are_listed_and_found(store: Store, plan: Plan) -> None:
    ids = [store.create_run(plan) for _ in range(3)]
    assert [run.id for run in store.runs()] == ids
    entry = store.runs()[0]
    assert (entry.status, entry.profile, entry.place, entry.samples) == ("unfinished", "full", "local", 0)
    assert entry.experiments == ("fake.experiment",)
    assert store.resolve("last") == store.resolve("last~0") == ids[-1]
    assert store.resolve("last~1") == ids[-2]
    with pytest.raises(UsageError, match=r"no run 'last~99'"):
        store.resolve("last~99")
    assert store.resolve(ids[1]) == ids[1]
    # Two of them may begin alike by chance.
    assert len({i[:-1] for i in ids}) < 3 or store.resolve(ids[1][:-1]) == ids[1]
    with pytest.raises(UsageError, match="3 runs begin with '20'"):
        store.resolve("20")
    with pytest.raises(UsageError, match="no run 'x%'"):
        store.resolve("x%")
    assert store.plan(ids[0]) == plan


def test_an_empty_store_has_no_last_run(store: Store) -> None:
    with pytest.raises(UsageError, match="no run yet"):
        store.resolve("last")


def test_the_environment_variable_names_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSCOPE_STORE", str(tmp_path / "named.db"))
    Store.open().close()
    assert (tmp_path / "named.db").exists()


def test_the_default_store_is_in_the_users_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OSCOPE_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    Store.open().close()
    assert (tmp_path / "data/oscope/oscope.db").exists()


def test_reading_a_store_that_is_not_there_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OSCOPE_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "empty.db").touch()
    for place in (None, tmp_path / "new.db", tmp_path / "empty.db"):
        with Store.read(place) as store:
            assert store.runs() == ()
            with pytest.raises(UsageError, match="the store has no run yet"):
                store.resolve("last")
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [("empty.db", 0)]


def test_the_home_folder_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OSCOPE_STORE")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "gone"))
    for use in (Store.open, Store.check):
        with pytest.raises(StoreError) as error:
            use()
        check_one_line(error, f"the home folder {tmp_path}/gone does not exist", "--store")
    assert list(tmp_path.iterdir()) == []


def check_one_line(error: pytest.ExceptionInfo[StoreError], *words: str) -> None:
    text = str(error.value)
    assert "\n" not in text
    for word in words:
        assert word in text


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as error:
        Store.open(tmp_path / "missing/oscope.db")
    check_one_line(error, "missing does not exist", "--store")


def test_a_folder_instead_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as error:
        Store.open(tmp_path)
    check_one_line(error, "is a folder")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/null")])
def test_what_is_no_regular_file_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    place = tmp_path / "store.db"
    make(place)
    for opened in (Store.open, Store.read):
        with pytest.raises(StoreError) as error:
            opened(place)
        check_one_line(error, "is a FIFO" if place.is_fifo() else "is a device", "--store")


def test_not_a_database(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("these are my notes\n" * 100)
    with pytest.raises(StoreError) as error:
        Store.open(tmp_path / "notes.txt")
    check_one_line(error, "notes.txt", "is not a readable database")


def test_a_database_of_something_else(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE cookies (name TEXT)")
    with pytest.raises(StoreError) as error:
        Store.open(tmp_path / "other.db")
    check_one_line(error, "something else")


@pytest.mark.parametrize(("version", "age"), [(schema.VERSION + 1, "newer"), (0, "older")])
def test_a_store_of_another_version(store_path: Path, version: int, age: str) -> None:
    Store.open(store_path).close()
    with sqlite3.connect(store_path) as connection:
        connection.execute("UPDATE oscope_schema SET version = ?", (version,))
    with pytest.raises(StoreError) as error:
        Store.open(store_path)
    check_one_line(error, age)


def test_a_locked_store(store_path: Path, plan: Plan) -> None:
    with Store.open(store_path, lock_limit_s=0.1) as store:
        other = sqlite3.connect(store_path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError) as error:
            store.create_run(plan)
        other.close()
        check_one_line(error, "is locked")
        assert store.create_run(plan), "it works again once the lock is gone"


def test_readers_do_not_wait_for_the_writer(store: Store, store_path: Path, plan: Plan) -> None:
    recorder = begin(store, plan)
    recorder.add_samples(recorder.points["fake.experiment"][0], 0, samples(2))
    with Store.open(store_path, lock_limit_s=0.1) as reader:
        assert reader.runs()[0].samples == 2


def test_stores_opened_at_the_same_moment_agree(store_path: Path) -> None:
    errors: list[BaseException] = []

    def open_it() -> None:
        try:
            Store.open(store_path).close()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_an_unknown_driver_and_a_bad_url() -> None:
    with pytest.raises(StoreError) as error:
        Store.open("nosuchdatabase://host/name")
    check_one_line(error, "no driver", "sqlite:///", "postgresql+psycopg://")
    with pytest.raises(UsageError):
        Store.open("://")


def test_an_unreachable_server() -> None:
    with pytest.raises(StoreError) as error:
        Store.open("postgresql+psycopg://nobody:secret@127.0.0.1:1/nothing")
    check_one_line(error, "not reachable")
    assert "secret" not in str(error.value)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "oscope", folder], check=True, timeout=300)
    yield folder
    unmount(folder)


@needs_root
def test_a_full_disk_keeps_what_was_committed(small_disk: Path, plan: Plan, tmp_path: Path) -> None:
    committed = 0
    with Store.open(small_disk / "oscope.db") as store:
        recorder = begin(store, plan)
        point = recorder.points["fake.experiment"][0]
        with pytest.raises(StoreError) as error:  # noqa: PT012
            for _ in range(1000):
                recorder.add_samples(point, 0, samples(100))
                committed += 100
        check_one_line(error, "full disk", "free some space")
    assert committed > 0
    for file in small_disk.iterdir():
        shutil.copy(file, tmp_path)
    with Store.open(tmp_path / "oscope.db") as store:
        assert len(store.results("last").experiments[0].points[0]) == committed


@needs_root
def test_a_run_on_a_full_disk_ends_in_one_line(small_disk: Path, catalogue: Catalogue) -> None:
    plan = make_plan([make_experiment({"size": tuple(range(100))}, reps=2000, blocks=2)], catalogue, seed=1)
    with Store.open(small_disk / "oscope.db") as store, pytest.raises(StoreError) as error:
        execute(plan, store)
    check_one_line(error, "full disk")


@needs_root
def test_a_read_only_store(small_disk: Path, plan: Plan) -> None:
    with Store.open(small_disk / "oscope.db") as store:
        begin(store, plan)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True, timeout=10)
    with pytest.raises(StoreError) as error, Store.open(small_disk / "oscope.db") as store:
        store.create_run(plan)
    check_one_line(error, "oscope.db", "permissions")


@needs_root
def test_a_store_on_a_read_only_disk_can_be_read(small_disk: Path, plan: Plan) -> None:
    with Store.open(small_disk / "oscope.db") as store:
        recorder = begin(store, plan)
        recorder.add_samples(recorder.points["fake.experiment"][0], 0, samples(2))
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True, timeout=10)
    with Store.open(small_disk / "oscope.db") as store:
        assert store.runs()[0].samples == 2
        assert len(store.results("last").experiments[0].points[0]) == 2


def test_reads_see_one_state_while_another_writes(store: Store, store_path: Path, plan: Plan) -> None:
    count = sa.select(sa.func.count()).select_from(schema.run)
    with Store.open(store_path) as reader, reader.reading() as connection:
        assert connection.scalar(count) == 0
        store.create_run(plan)
        assert connection.scalar(count) == 0
    assert len(store.runs()) == 1


def test_postgresql_works_the_same(postgresql: str, catalogue: Catalogue) -> None:
    plan = make_plan([make_experiment({"do": ("ok", "more_covariates", "unavailable")})], catalogue, seed=1)
    with Store.open(postgresql) as store:
        run_id = execute(plan, store).run_id
        results = store.results(run_id).experiments[0]
        assert [len(p) for p in results.points] == [4, 4, 0]
        assert np.isnan(results.points[1].covariates["instructions"]).tolist() == [True, False, True, False]
        assert execute(plan, store, resume=run_id).samples == 8
        assert store.runs()[-1].samples == 8
    with Store.open(postgresql) as store:
        assert store.resolve("last") == run_id


def test_postgresql_refuses_to_be_written_where_only_reading_is_asked_for(
    postgresql: str, catalogue: Catalogue
) -> None:
    plan = make_plan([make_experiment({"do": ("ok",)})], catalogue, seed=1)
    with Store.open(postgresql) as store:
        run_id = execute(plan, store).run_id
    with Store.read(postgresql, read_only=True) as store:
        assert store.results(run_id).experiments[0].points[0].rep.size == 4
        with pytest.raises(StoreError, match="cannot be written"):
            store.create_run(plan)
    with Store.open(postgresql) as store:
        assert store.runs()[-1].id == run_id


class Follower(NullListener):
    """Follows a run as `oscope view` does, and notes what the database was asked for."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.asked: list[str] = []
        self.seen: list[tuple[int, int]] = []

    def begin(self, run_id: str, plan: Plan) -> None:
        del plan
        self.run = live.LiveRun(self.place, run_id)
        engine = self.run._store._engine
        sa.event.listen(engine, "after_cursor_execute", lambda *given: self.asked.append(given[2]))

    def progress(self, progress: Progress) -> None:
        self.seen.append((self.look()["samples"], progress.finished))

    def look(self) -> dict[str, Any]:
        self.asked.clear()
        self.run._looked = float("-inf")
        self.run.refresh()
        return self.run.state(-1)

    @property
    def read_points(self) -> int:
        return sum("substr" in each for each in self.asked)


@pytest.mark.parametrize("where", ["sqlite", "postgresql"])
def test_a_run_is_followed_by_its_new_samples_alone(
    where: str, request: pytest.FixtureRequest, store_path: Path, catalogue: Catalogue
) -> None:
    place = str(store_path) if where == "sqlite" else str(request.getfixturevalue("postgresql"))
    plan = make_plan([make_experiment({"do": ("ok", "null_metric")})], catalogue, seed=1)
    follower = Follower(place)
    with Store.open(place) as store:
        run_id = execute(plan, store, listener=follower).run_id
        assert len(follower.seen) >= 4
        assert all(samples == finished for samples, finished in follower.seen)
        state = follower.look()
        assert (state["samples"], state["total"], state["share"], state["status"]) == (8, 8, 1.0, "done")
        own = store.results(run_id).experiments[0].points
        assert [list(each.values) for each in follower.run.experiments["fake.experiment"].points] == [
            values[np.isfinite(values)].tolist() for values in (each.metrics["time_ns"] for each in own)
        ]
        follower.look()
        assert follower.read_points == 0
        assert where == "postgresql" or not any("FROM" in each for each in follower.asked)
        follower.run.close()


def test_opening_again_adds_nothing(store: Store, store_path: Path) -> None:
    Store.open(store_path).close()
    with store.reading() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(schema.layout)) == 1


def test_several_runs_are_read_through_one_connection(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "oscope.db"
    with Store.open(place) as store:
        names = [begin(store, plan).run_id for _ in range(2)]
    opened = []
    read = Store.read
    monkeypatch.setattr(Store, "read", lambda where: (opened.append(where), read(where))[1])
    found = stored.load(names, str(place))
    assert [each.run_id for each in found.experiments] == names
    assert len(opened) == 1


def test_rows_that_were_lengthened_later_are_cut_to_what_is_read() -> None:
    values = np.full((3, 2), np.nan, order="F")
    _fill(values, ["[1, 2]", "[3, 4, 5]", "[6]"])
    assert values.tolist()[:2] == [[1, 2], [3, 4]]
    assert values[2, 0] == 6
    assert np.isnan(values[2, 1])

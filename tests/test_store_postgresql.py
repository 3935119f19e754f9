"""The store in PostgreSQL: the same samples as in SQLite, several writers, an older layout, a lost server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from conftest import make_experiment
from oscope.model.errors import StoreError
from oscope.planning.plan import Plan, make_plan
from oscope.probe.catalogue import Catalogue
from oscope.probe.wire import Sample
from oscope.runner.run_events import ProcessBegan
from oscope.storage import schema
from oscope.storage.frames import to_frame
from oscope.storage.store import Store
from postgresql_server import PostgreSQL
from run_writer import RunWriter
from waiting import wait_until_gone

ENVIRONMENT = {"boot_id": "b", "machine": "m", "clock": {"kind": "tsc"}}
KEY = "sample_point_id_fkey"


@pytest.fixture
def plan(catalogue: Catalogue) -> Plan:
    return make_plan([make_experiment({"size": (1, 2)}, reps=400)], catalogue, seed=1)


def begin(store: Store, plan: Plan) -> RunWriter:
    recorder = RunWriter(store, plan)
    recorder.add_event("environment", ENVIRONMENT)
    recorder.append(ProcessBegan(ENVIRONMENT))
    return recorder


def hostile_samples(count: int) -> list[Sample]:
    """Return samples with all that a text format could change."""
    return [
        Sample(
            request=1,
            rep=index,
            started_ns=1_700_000_000_000_000_001 + index,
            raw=None if index % 3 == 1 else 2**62 + index,
            iterations=2**40 + index,
            correction=0.1 + index / 3,
            metrics={"time_ns": 1 / (index + 3), "cycles": 1e300},
            covariates={"run_delay_ns": index, "steal_ticks": None},
            failed="tab\t, line\n, \\N, \\. and ü" if index % 3 == 1 else None,
        )
        for index in range(count)
    ]


def foreign_keys(url: str) -> set[str]:
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        return {str(each["name"]) for each in sa.inspect(engine).get_foreign_keys("sample")}
    finally:
        engine.dispose()


def execute(url: str, *statements: str) -> None:
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))
    engine.dispose()


def test_both_databases_give_the_same_samples_back(postgresql: str, store_path: Path, plan: Plan) -> None:
    frames = []
    for place in (postgresql, str(store_path)):
        with Store.open(place) as store:
            recorder = begin(store, plan)
            recorder.add_samples(recorder.points["fake.experiment"][0], 0, hostile_samples(250))
            frames.append(to_frame(store.results(recorder.run_id)).drop(columns="run"))
    assert len(frames[0]) == 250
    assert frames[0].equals(frames[1])
    assert frames[0]["raw"].isna().sum() == 83


def test_a_sample_is_never_stored_twice_nor_half_of_a_batch(postgresql: str, plan: Plan) -> None:
    with Store.open(postgresql) as store:
        recorder = begin(store, plan)
        point = recorder.points["fake.experiment"][0]
        rows = recorder.rows(point, 0, hostile_samples(3))
        store.add(recorder.run_id, rows[:2])
        with pytest.raises(StoreError, match="has this sample already"):
            store.add(recorder.run_id, [rows[2], rows[1]])
        (entry,) = store.runs()
        assert entry.samples == 2


def test_writers_at_the_same_time_lose_nothing(postgresql: str, plan: Plan) -> None:
    errors: list[BaseException] = []
    written: dict[int, str] = {}
    together = threading.Barrier(8)

    def write(number: int) -> None:
        try:
            together.wait(60)
            with Store.open(postgresql) as store:
                recorder = begin(store, plan)
                written[number] = recorder.run_id
                for block in range(2):
                    for point in recorder.points["fake.experiment"]:
                        recorder.add_samples(point, block, hostile_samples(50 + number))
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with Store.read(postgresql, read_only=True) as store:
        assert {run.id: run.samples for run in store.runs()} == {
            run_id: 4 * (50 + number) for number, run_id in written.items()
        }
        for number, run_id in written.items():
            (found,) = store.results(run_id).experiments
            expected = [1 / (index + 3) for index in range(50 + number)] * 2
            for point in found.points:
                assert np.array_equal(point.metrics["time_ns"], expected)


def test_an_older_layout_is_read_as_it_is_and_migrated_by_a_writer(postgresql: str, plan: Plan) -> None:
    with Store.open(postgresql) as store:
        recorder = begin(store, plan)
        recorder.add_samples(recorder.points["fake.experiment"][0], 0, hostile_samples(5))
    assert KEY not in foreign_keys(postgresql)
    # As the first layout was.
    execute(
        postgresql,
        f"ALTER TABLE sample ADD CONSTRAINT {KEY} FOREIGN KEY (point_id) REFERENCES point (id)",
        "UPDATE oscope_schema SET version = 1",
    )
    with Store.read(postgresql, read_only=True) as store:
        assert [run.samples for run in store.runs()] == [5]
    assert KEY in foreign_keys(postgresql)
    opened = [threading.Thread(target=lambda: Store.open(postgresql).close()) for _ in range(4)]
    for thread in opened:
        thread.start()
    for thread in opened:
        thread.join()
    assert KEY not in foreign_keys(postgresql)
    with Store.open(postgresql) as store:
        assert [run.samples for run in store.runs()] == [5]
        with store.reading() as connection:
            assert list(connection.scalars(sa.text("SELECT version FROM oscope_schema"))) == [2]
    execute(postgresql, "UPDATE oscope_schema SET version = 3")
    with pytest.raises(StoreError, match="has layout 3, newer than this oscope's 2"):
        Store.open(postgresql)


def test_a_server_that_ends_is_one_line_and_the_store_works_once_it_is_back(
    postgresql_server: PostgreSQL, postgresql: str, plan: Plan
) -> None:
    with Store.open(postgresql) as store:
        recorder = begin(store, plan)
        point = recorder.points["fake.experiment"][0]
        rows = recorder.rows(point, 0, hostile_samples(3))
        store.add(recorder.run_id, rows[:1])
        postgresql_server.stop()
        try:
            for _ in range(2):
                with pytest.raises(StoreError, match="is not reachable") as error:
                    store.add(recorder.run_id, rows[1:])
                assert "\n" not in str(error.value)
        finally:
            postgresql_server.start()
        store.add(recorder.run_id, rows[1:])
        assert [run.samples for run in store.runs()] == [3]


def test_a_summary_reads_its_own_points_alone(postgresql: str, plan: Plan) -> None:
    """Samples of many runs that were written in turns: a point is read by its key, from few pages."""
    with Store.open(postgresql) as store:
        recorders = [begin(store, plan) for _ in range(40)]
        for block in range(2):
            for recorder in recorders:
                for point in recorder.points["fake.experiment"]:
                    recorder.add_samples(point, block, hostile_samples(100))
        key = recorders[7].points["fake.experiment"][1].id
        with store.reading() as connection:
            connection.execute(sa.text("SET LOCAL enable_seqscan = on"))
            pages = connection.scalar(sa.text("SELECT pg_relation_size('sample') / 8192"))
            (plan_of,) = connection.execute(
                sa.text("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM sample WHERE point_id = :key"),
                {"key": key},
            ).scalar_one()
    assert plan_of["Plan"]["Actual Rows"] == 200
    read = plan_of["Plan"]["Shared Hit Blocks"] + plan_of["Plan"]["Shared Read Blocks"]
    assert pages > 200
    assert read < pages / 10


PROCESS = """
import sys, time
from postgresql_server import PostgreSQL
from pathlib import Path
import tempfile
folder = Path(sys.argv[1])
server = PostgreSQL(Path(sys.argv[2]), folder)
server.make()
server.start()
print(server.process.pid, flush=True)
time.sleep(600)
"""


def test_the_server_of_tests_that_are_killed_ends(postgresql_server: PostgreSQL, tmp_path: Path) -> None:
    del tmp_path
    folder = postgresql_server.folder.with_name(f"{postgresql_server.folder.name}-killed")
    folder.mkdir()
    try:
        tests = subprocess.Popen(
            [sys.executable, "-c", PROCESS, folder, postgresql_server.programs],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert tests.stdout is not None
        server = int(tests.stdout.readline())
        below = [int(pid) for pid in Path(f"/proc/{server}/task/{server}/children").read_text().split()]
        assert below
        tests.send_signal(signal.SIGKILL)
        tests.wait(60)
        wait_until_gone([server, *below])
    finally:
        subprocess.run(["rm", "-rf", folder], check=True, timeout=300)


def test_reads_of_a_transaction_see_one_state(postgresql: str, plan: Plan) -> None:
    count = sa.select(sa.func.count()).select_from(schema.run)
    with Store.open(postgresql) as store, Store.open(postgresql) as other:
        with store.reading() as connection:
            before = connection.scalar(count)
            other.create_run(plan)
            assert connection.scalar(count) == before
        with store.reading() as connection:
            assert connection.scalar(count) == (before or 0) + 1

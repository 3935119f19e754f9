from __future__ import annotations

import dataclasses
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from conftest import TESTS, make_experiment
from oscope.model.errors import BusyError, UsageError
from oscope.planning.plan import Amount, Plan, make_plan
from oscope.probe.catalogue import Catalogue, load
from oscope.runner.execution import execute
from oscope.runner.interleaved import execute_interleaved
from oscope.runner.progress import NullListener
from oscope.storage.store import Store, StoredEvent
from test_run import order_taken, planned_order
from waiting import wait_until

# A laboratory in a process of its own, which prints how many samples it has committed.
LABORATORY = """
import sys
from pathlib import Path
import orjson
from oscope.probe import process
from oscope.planning.plan import Plan
from oscope.runner.progress import NullListener
from oscope.runner.execution import execute
from oscope.storage.store import Store

class Teller(NullListener):
    def begin(self, run_id, plan):
        print(run_id, flush=True)
    def progress(self, progress):
        print(progress.finished, flush=True)
    def note(self, text):
        print(text, flush=True)

process.Probe.goodbye_limit_s = 1.0
plan = Plan.from_object(orjson.loads(Path(sys.argv[2]).read_bytes()))
resume = sys.argv[3] if len(sys.argv) > 3 else None
with Store.open(sys.argv[1]) as store:
    print(execute(plan, store, Teller(), resume=resume).status, flush=True)
"""


def start(plan: Plan, store_path: Path, *more: str) -> subprocess.Popen[str]:
    import orjson

    plan_file = store_path.with_suffix(".plan")
    plan_file.write_bytes(orjson.dumps(plan.to_object()))
    path = os.pathsep.join([str(TESTS.parent / "python"), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", LABORATORY, str(store_path), str(plan_file), *more],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )


@pytest.fixture
def plan(catalogue: Catalogue) -> Plan:
    experiment = make_experiment({"size": (1, 2, 3), "pause": (0.005,)}, reps=12, blocks=4)
    return make_plan([experiment], catalogue, seed=11)


@pytest.mark.parametrize("seed", range(5))
def test_a_killed_run_keeps_every_committed_sample_and_resumes(
    plan: Plan, store_path: Path, seed: int
) -> None:
    laboratory = start(plan, store_path)
    assert laboratory.stdout is not None
    run_id = laboratory.stdout.readline().strip()
    moment = random.Random(seed)
    expected = moment.randrange(19)
    committed = [int(laboratory.stdout.readline())]
    while committed[-1] < expected:
        committed.append(int(laboratory.stdout.readline()))
    time.sleep(moment.uniform(0, 0.01))
    laboratory.kill()
    committed += [int(line) for line in laboratory.stdout.read().splitlines() if line.isdigit()]
    assert laboratory.wait(10) == -signal.SIGKILL
    with Store.open(store_path) as store:
        before = store.results(run_id).experiments[0]
        count = sum(len(p) for p in before.points)
        assert count >= max(committed)
        assert before.status == "unfinished"
        outcome = execute(store.plan(run_id), store, NullListener(), resume=run_id)
        assert (outcome.status, outcome.samples) == ("done", 36)
        after = store.results(run_id).experiments[0]
        assert order_taken(after) == planned_order(plan), "the schedule is that of an unbroken run"
        for old, new in zip(before.points, after.points, strict=True):
            assert new.raw[: len(old)].tolist() == old.raw.tolist(), "nothing stored was touched"


def test_processes_and_boots_go_on_counting(
    plan: Plan, store: Store, monkeypatch: pytest.MonkeyPatch, store_path: Path
) -> None:
    run_id = interrupt(plan, store_path)
    monkeypatch.setenv("FAKE_PROBE_BOOT", "boot-2")
    execute(plan, store, resume=run_id)
    results = store.results(run_id).experiments[0]
    assert results.environment["boots"] == ["boot-1", "boot-2"]
    processes: dict[int, set[int]] = {0: set(), 1: set()}
    for point in results.points:
        for boot, process in zip(point.boot.tolist(), point.process.tolist(), strict=True):
            processes[boot].add(process)
    assert processes[0]
    assert processes[1]
    assert max(processes[0]) < min(processes[1])


def interrupt(plan: Plan, store_path: Path, number: int = signal.SIGINT) -> str:
    """Begin the run in another process and interrupt it once it has a few samples; return its id."""
    laboratory = start(plan, store_path)
    assert laboratory.stdout is not None
    run_id = laboratory.stdout.readline().strip()
    while int(laboratory.stdout.readline()) < 5:
        pass
    laboratory.send_signal(number)
    last = laboratory.stdout.read().split()[-1]
    assert (laboratory.wait(30), last) == (0, "interrupted")
    return run_id


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_marked_and_resumes(plan: Plan, store_path: Path, number: int) -> None:
    run_id = interrupt(plan, store_path, number)
    with Store.open(store_path) as store:
        results = store.results(run_id).experiments[0]
        assert results.status == "interrupted"
        assert 5 <= sum(len(p) for p in results.points) < 36
        for point in results.points:
            if not len(point):
                assert point.remedy == f"oscope run --resume {run_id}"
        execute(plan, store, resume=run_id)
        assert order_taken(store.results(run_id).experiments[0]) == planned_order(plan)


def test_a_probe_deaf_to_the_interruption_is_killed(catalogue: Catalogue, store_path: Path) -> None:
    plan = make_plan([make_experiment({"do": ("deaf",)})], catalogue, seed=1)
    laboratory = start(plan, store_path)
    assert laboratory.stdout is not None
    laboratory.stdout.readline()
    while "deaf" not in laboratory.stdout.readline():
        pass
    laboratory.send_signal(signal.SIGINT)
    assert laboratory.stdout.read().split()[-1] == "interrupted"
    with Store.open(store_path) as store:
        point = store.results("last").experiments[0].points[0]
    assert "was killed" not in (point.skipped or ""), "ending it was asked for: no fault of the point"


def test_a_probe_does_not_outlive_a_killed_laboratory(probe: Path, store_path: Path) -> None:
    experiment = dataclasses.replace(
        make_experiment({"duration": (60.0,)}, reps=1, blocks=1),
        workload="syscall.throughput",
        metrics=("calls_per_s",),
    )
    laboratory = start(make_plan([experiment], load(probe), seed=1), store_path)
    assert laboratory.stdout is not None
    laboratory.stdout.readline()
    assert laboratory.stdout.readline() == "0\n", "the first repetition is under way"
    children = Path(f"/proc/{laboratory.pid}/task/{laboratory.pid}/children").read_text().split()
    assert len(children) == 1
    laboratory.kill()
    laboratory.wait(10)
    wait_until(lambda: is_gone(children[0]), "the probe's end")


def is_gone(pid: str) -> bool:
    """Whether a process has ended; nobody may have taken notice of it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_finished_run_resumes_to_itself(plan: Plan, store: Store) -> None:
    run_id = execute(plan, store).run_id
    before = store.results(run_id).experiments[0]
    assert execute(plan, store, resume=run_id).samples == 36
    after = store.results(run_id).experiments[0]
    assert [p.raw.tolist() for p in before.points] == [p.raw.tolist() for p in after.points]


def test_another_build_of_the_probe_is_told(plan: Plan, store: Store, fake_probe: Path) -> None:
    run_id = execute(plan, store).run_id
    execute(plan, store, resume=run_id)
    assert store.results(run_id).experiments[0].settings["notes"] == []
    with fake_probe.open("a") as program:
        program.write("# built anew\n")
    execute(plan, store, resume=run_id)
    (note,) = store.results(run_id).experiments[0].settings["notes"]
    assert "another build" in note


def test_a_point_that_was_skipped_stays_so(catalogue: Catalogue, store: Store) -> None:
    plan = make_plan([make_experiment({"do": ("ok", "unavailable")})], catalogue, seed=1)
    run_id = execute(plan, store).run_id
    execute(plan, store, resume=run_id)
    assert store.results(run_id).experiments[0].points[1].skipped == "no counter here"


def test_a_run_with_a_precision_resumes_as_far_as_it_was(catalogue: Catalogue, store: Store) -> None:
    experiment = make_experiment({"width": (1,)}, reps=4, blocks=2)
    plan = make_plan([experiment], catalogue, amount=Amount(precision=0.05), seed=1)
    run_id = execute(plan, store).run_id
    before = store.results(run_id).experiments[0].points[0]
    execute(plan, store, resume=run_id)
    after = store.results(run_id).experiments[0].points[0]
    assert np.array_equal(before.raw, after.raw)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("FAKE_PROBE_MACHINE", "fedcba9876543210", "another machine"),
        ("FAKE_PROBE_VERSION", "2", "differently now"),
    ],
)
def test_a_run_never_goes_on_with_figures_that_are_not_alike(
    catalogue: Catalogue,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    message: str,
) -> None:
    from oscope.probe.catalogue import _load

    plan = make_plan([make_experiment({})], catalogue, seed=1)
    run_id = execute(plan, store).run_id
    monkeypatch.setenv(variable, value)
    _load.cache_clear()
    with pytest.raises(UsageError, match=message):
        execute(plan, store, resume=run_id)


def test_a_run_that_is_measured_is_not_resumed_meanwhile(
    catalogue: Catalogue, plan: Plan, store_path: Path
) -> None:
    # It has not ended before this process looks.
    long = make_experiment({"size": (1, 2, 3), "pause": (0.05,)}, reps=12, blocks=4)
    measured = make_plan([long], catalogue, seed=11)
    laboratory = start(measured, store_path)
    assert laboratory.stdout is not None
    run_id = laboratory.stdout.readline().strip()
    assert laboratory.stdout.readline()
    with Store.open(store_path) as store:
        with pytest.raises(BusyError, match=f"{run_id} is being measured by another oscope"):
            execute(measured, store, resume=run_id)
        # Another run is measured beside it.
        assert execute(plan, store).status == "done"
        assert laboratory.stdout.read().split()[-1] == "done"
        assert laboratory.wait(30) == 0
        assert execute(measured, store, resume=run_id).samples == 36


def test_one_of_interleaved_runs_is_not_resumed(plan: Plan, store: Store) -> None:
    first, _ = execute_interleaved([plan, plan], store)
    built = store.create_run(dataclasses.replace(plan, build="./old"))
    for run_id in (first.run_id, built):
        status = store.results(run_id).experiments[0].status
        with pytest.raises(UsageError, match="interleaved with another, which cannot be resumed"):
            execute(store.plan(run_id), store, resume=run_id)
        assert store.results(run_id).experiments[0].status == status
    run_id = store.create_run(plan, [StoredEvent("interleaved", ["a"]), StoredEvent("status", "interrupted")])
    assert store.results(run_id).experiments[0].points[0].remedy == "begin the comparison anew"


def test_a_first_contact_after_an_upgrade_is_checked(
    catalogue: Catalogue, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oscope.probe.catalogue import _load

    plan = make_plan([make_experiment({})], catalogue, seed=1)
    ids = [store.create_run(plan) for _ in range(2)]
    assert execute(plan, store, resume=ids[0]).status == "done"
    monkeypatch.setenv("FAKE_PROBE_VERSION", "2")
    _load.cache_clear()
    with pytest.raises(UsageError, match="differently now"):
        execute(plan, store, resume=ids[1])

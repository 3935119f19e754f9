"""What interference affects is measured again, once; everything is kept and marked."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import oscope
from cli_driver import CommandLine
from conftest import make_experiment
from oscope import labs
from oscope.model.errors import UsageError
from oscope.model.experiment import Lab
from oscope.model.guest import Guest
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.planning import interference
from oscope.planning.plan import Amount, Plan, make_plan
from oscope.planning.precision import MINIMUM_BLOCKS
from oscope.probe.catalogue import Catalogue, load
from oscope.runner.execution import execute
from oscope.runner.interleaved import execute_interleaved
from oscope.runner.progress import NullListener, Progress
from oscope.storage import record
from oscope.storage.frames import to_frame
from oscope.storage.store import Store
from test_resume import start

ALONE = tuple(interference.LOST_NS)


def columns(**given: Sequence[float]) -> dict[str, np.ndarray]:
    return {name: np.array(values, dtype=float) for name, values in given.items()}


def planned(
    catalogue: Catalogue,
    do: str,
    *,
    reps: int = 6,
    blocks: int = 2,
    size: tuple[int, ...] = (1,),
    **more: object,
) -> Plan:
    factors = {"do": (do,), "size": size} | {name: (level,) for name, level in more.items()}
    plan = make_plan([make_experiment(factors, reps, blocks)], catalogue, seed=1)
    return dataclasses.replace(plan, again=True)


def measured(plan: Plan, store: Store) -> ExperimentResults:
    return store.results(execute(plan, store).run_id).experiments[0]


def check_all_kept(point: PointSamples, reps: int) -> None:
    """Each block has as many samples more as were affected of those planned, and these come last."""
    again = set(point.again)
    assert len(point) == reps + len(again)
    for block in np.unique(point.block):
        own = np.flatnonzero(point.block == block).tolist()
        more = [index for index in own if index in again]
        first = [index for index, _ in point.interference if index in own and index not in again]
        assert len(more) == len(first)
        assert own[len(own) - len(more) :] == more
        assert point.rep[own].tolist() == list(range(len(own)))
        assert len(set(point.process[own].tolist())) == 1


# The rule.


def test_a_wait_counts_by_its_part_of_the_time() -> None:
    waits = columns(run_delay_ns=[0, 9_000, 11_000, 1e6], steal_ticks=[0, 0, 0, 0])
    found = interference.find(waits, np.full(4, 1e6), ALONE)
    assert found == ((2, "run_delay_ns"), (3, "run_delay_ns"))


def test_what_took_the_time_adds_up_and_the_largest_part_is_named() -> None:
    lost = columns(run_delay_ns=[6e3, 0, 3e5], involuntary_switches=[1, 2, 1], steal_ticks=[0, 0, 1])
    found = interference.find(lost, np.full(3, 1.5e6), ALONE)
    assert found == ((0, "involuntary_switches"), (1, "involuntary_switches"), (2, "steal_ticks"))


def test_a_tick_of_the_hypervisor_is_little_of_a_long_repetition() -> None:
    assert interference.find(columns(steal_ticks=[1, 1]), np.array([1e6, 5e9]), interference.ANYWHERE) == (
        (0, "steal_ticks"),
    )


def test_what_is_not_known_and_what_failed_is_not_affected() -> None:
    unknown = columns(run_delay_ns=[np.nan, 1e9], steal_ticks=[np.nan, 1])
    assert interference.find(unknown, np.array([1e6, np.nan]), ALONE) == ()
    assert interference.find({}, np.array([1e6]), ALONE) == ()
    assert interference.find(columns(run_delay_ns=[], steal_ticks=[]), np.array([]), ALONE) == ()


def test_of_repetitions_that_share_a_reading_one_stands_for_all() -> None:
    shared = columns(steal_ticks=[1, 1, 1, 1, 0], counted_ns=[5e7, 5e7, 5e7, 6e7, 6e7])
    found = interference.find(shared, np.full(5, 1e6), interference.ANYWHERE)
    assert found == ((0, "steal_ticks"), (3, "steal_ticks"))


def test_others_of_the_same_workload_are_no_interference() -> None:
    waits = columns(run_delay_ns=[1e9], involuntary_switches=[9], steal_ticks=[0])
    assert interference.find(waits, np.array([1e6]), interference.ANYWHERE) == ()


def test_it_is_not_looked_for_where_it_would_mislead(catalogue: Catalogue) -> None:
    plan = planned(catalogue, "ok", huge=True)
    (experiment,) = plan.experiments
    (point,) = experiment.points
    assert interference.telling(plan, experiment, point) == ALONE
    assert interference.telling(plan, experiment, {**point, "huge": False}) == interference.ANYWHERE
    assert interference.telling(dataclasses.replace(plan, again=False), experiment, point) == ()
    guest = Guest("any", clock="instructions", cpus=1, memory_bytes=2**30)
    assert interference.telling(plan, dataclasses.replace(experiment, guest=guest), point) == ()
    traced = ({**point, "tracer": "none"}, {**point, "tracer": "counts"})
    assert interference.telling(plan, dataclasses.replace(experiment, points=traced), traced[0]) == ()
    for causes, found in ((["hog"], ()), ([], ALONE)):
        injected = dataclasses.replace(plan, injection={"causes": causes})
        assert interference.telling(injected, experiment, point) == found


@pytest.mark.parametrize("seed", range(3))
def test_samples_taken_again_do_not_move_what_is_estimated(seed: int) -> None:
    """Of a machine with interference at random, where leaving out what was affected is wrong by design."""
    random = np.random.default_rng(seed)
    planned, taken, unaffected = [], [], []
    for _ in range(20_000):
        slow = random.random(10) < 0.2
        more = random.random(int(slow.sum())) < 0.2
        values = 100 + 10 * np.concatenate([slow, more]) + random.normal(0, 1, 10 + len(more))
        taken.append(values)
        planned.append(values[:10])
        unaffected.append(values[:10][~slow])
    plain, more_of_it, left = (np.concatenate(each) for each in (planned, taken, unaffected))
    assert len(more_of_it) > 1.15 * len(plain)
    assert more_of_it.mean() == pytest.approx(plain.mean(), abs=0.05)
    for value in (99, 100, 101, 109):
        assert (more_of_it < value).mean() == pytest.approx((plain < value).mean(), abs=0.005)
    assert left.mean() < plain.mean() - 1.9


# The run.


def test_an_affected_sample_is_measured_again_once(catalogue: Catalogue, store: Store) -> None:
    plan = planned(catalogue, "stolen_once", size=(1, 2, 3))
    results = measured(plan, store)
    assert results.settings["again"] is True
    for point in results.points:
        assert (point.interference, point.again) == (((0, "steal_ticks"),), (3,))
        check_all_kept(point, 6)
    first = [point.started_ns[3] for point in results.points]
    planned_last = [point.started_ns[2] for point in results.points]
    assert min(first) > max(planned_last), "after all other turns of the block"


def test_a_machine_that_always_has_interference_costs_at_most_twice_as_much(
    catalogue: Catalogue, store: Store
) -> None:
    class Ear(NullListener):
        last: Progress

        def progress(self, progress: Progress) -> None:
            self.last = progress

    ear = Ear()
    results = store.results(execute(planned(catalogue, "stolen"), store, ear).run_id).experiments[0]
    (point,) = results.points
    assert len(point) == 12
    assert len(point.interference) == 12
    check_all_kept(point, 6)
    assert (ear.last.finished, ear.last.total) == (12, 12)
    assert interference.remark(results) == (
        "samples affected by interference: 6 of 6 (the hypervisor took the CPU: 6); repeated: 6, "
        "of these affected again: 6; all are kept, and count"
    )


def test_the_first_screen_warns_where_many_samples_were_affected(catalogue: Catalogue, store: Store) -> None:
    results = measured(planned(catalogue, "stolen"), store)
    assert interference.warning([results]) is None, "six samples are too few"
    (point,) = results.points
    twice = dataclasses.replace(
        point.only(np.arange(len(point)) < 6), interference=point.interference[:6], again=()
    )
    many = dataclasses.replace(results, points=(twice, twice))
    warning = "others took the CPU during 20 % of the samples or more: repeat it when idle"
    assert interference.warning([many]) == warning
    quiet = dataclasses.replace(twice, interference=())
    assert interference.warning([dataclasses.replace(many, points=(quiet, quiet))]) is None
    few = dataclasses.replace(
        many, points=(dataclasses.replace(twice, interference=point.interference[:1]), quiet)
    )
    assert interference.warning([few]) is None
    assert "in 1 of 2 experiments" in (interference.warning([many, few]) or "")


def test_a_wait_is_interference_only_where_the_thread_is_alone(catalogue: Catalogue, store: Store) -> None:
    shared, alone = (measured(planned(catalogue, "waiting", huge=huge), store) for huge in (False, True))
    assert (shared.points[0].interference, shared.points[0].again) == ((), ())
    assert interference.remark(shared) is None
    assert [name for _, name in alone.points[0].interference] == ["run_delay_ns"] * 4
    check_all_kept(alone.points[0], 6)


def test_nothing_is_measured_again_where_that_was_not_asked_for(catalogue: Catalogue, store: Store) -> None:
    results = measured(dataclasses.replace(planned(catalogue, "stolen"), again=False), store)
    (point,) = results.points
    assert (len(point), point.interference, point.again) == (6, (), ())
    assert results.settings["again"] is False


def test_the_budget_leaves_no_time_to_measure_again(catalogue: Catalogue, store: Store) -> None:
    plan = dataclasses.replace(planned(catalogue, "stolen", blocks=1, pause=0.02), budget_s=0.01)
    results = measured(plan, store)
    (point,) = results.points
    assert (len(point), len(point.interference), point.again) == (6, 6, ())
    assert "repeated: 0" in (interference.remark(results) or "")


def test_a_precision_is_judged_by_all_samples(catalogue: Catalogue, store: Store) -> None:
    experiment = make_experiment({"do": ("stolen",)}, reps=4, blocks=2)
    plan = make_plan([experiment], catalogue, amount=Amount(precision=0.2, budget_s=60.0), seed=1)
    (point,) = measured(dataclasses.replace(plan, again=True), store).points
    assert np.bincount(point.block).tolist() == [4] * MINIMUM_BLOCKS
    assert any("is reached" in note for note in point.notes)


def test_sides_that_take_turns_are_measured_alike(catalogue: Catalogue, store: Store) -> None:
    plan = planned(catalogue, "stolen")
    outcomes = execute_interleaved([plan, plan], store)
    for outcome in outcomes:
        check_all_kept(store.results(outcome.run_id).experiments[0].points[0], 6)
        assert outcome.samples == 12
    with pytest.raises(UsageError, match="measured alike"):
        execute_interleaved([plan, dataclasses.replace(plan, again=False)], store)


@pytest.mark.parametrize("committed", [2, 3, 4, 5, 6, 8, 10])
def test_a_run_killed_at_any_moment_ends_with_each_block_measured_again_once(
    catalogue: Catalogue, store_path: Path, committed: int
) -> None:
    # The kill has to arrive before the twelfth sample.
    plan = planned(catalogue, "stolen", pause=0.2 if committed >= 8 else 0.02)
    laboratory = start(plan, store_path)
    assert laboratory.stdout is not None
    run_id = laboratory.stdout.readline().strip()
    while int(laboratory.stdout.readline()) < committed:
        pass
    laboratory.kill()
    assert laboratory.wait(10) == -signal.SIGKILL
    with Store.open(store_path) as store:
        assert store.plan(run_id) == plan
        before = store.results(run_id).experiments[0].points[0]
        outcome = execute(store.plan(run_id), store, resume=run_id)
        assert (outcome.status, outcome.samples) == ("done", 12)
        after = store.results(run_id).experiments[0].points[0]
        assert after.raw[: len(before)].tolist() == before.raw.tolist(), "nothing stored was touched"
        assert after.again == (3, 4, 5, 9, 10, 11)
        assert len(after.interference) == 12
        again = execute(store.plan(run_id), store, resume=run_id)
        assert again.samples == 12, "what was measured again is not measured once more"


# What is kept of it.


def test_marks_are_the_same_wherever_they_are_read(catalogue: Catalogue, store: Store) -> None:
    run_id = execute(planned(catalogue, "stolen_once", size=(1, 2)), store).run_id
    found = store.results(run_id)
    again = record.from_records([json.loads(record.to_json(found))])
    brief = store.results(run_id, columns="metrics")
    for results in (again, brief):
        for point, other in zip(results.experiments[0].points, found.experiments[0].points, strict=True):
            assert (
                (point.interference, point.again)
                == (other.interference, other.again)
                == (((0, "steal_ticks"),), (3,))
            )
    assert not brief.experiments[0].points[0].covariates
    frame = to_frame(found)
    assert frame["disturbed"].notna().sum() == 2
    assert frame.loc[frame["disturbed"].notna(), "rep"].tolist() == [0, 0]
    assert frame.loc[frame["again"], "rep"].tolist() == [3, 3]
    point = found.experiments[0].points[0]
    rest = point.only(np.arange(len(point)) > 0)
    assert (rest.interference, rest.again) == ((), (2,))


def test_the_command_measures_again_and_says_so(oscope: CommandLine) -> None:
    words = (
        "run",
        "syscall.cost",
        "--set",
        "call=getppid",
        "--set",
        "style=loop",
        "--reps",
        "4",
        "--json",
        "-",
    )
    on, off = (oscope(*words, *more) for more in ((), ("--no-again",)))
    assert (on.code, off.code) == (0, 0), on.err + off.err
    reported, plain = json.loads(on.out), json.loads(off.out)
    assert (reported["settings"]["again"], plain["settings"]["again"]) == (True, False)
    assert "again" in reported["points"][0]["samples"]
    assert "again" not in plain["points"][0]["samples"]
    refused = oscope("run", "--resume", "last", "--no-again")
    assert refused.code == 2
    assert "--no-again" in refused.err


def test_a_comparison_warns_of_the_side_that_others_affected(
    catalogue: Catalogue, store: Store, oscope: CommandLine, tmp_path: Path
) -> None:
    paths = []
    for reps in (12, 12, 6):
        run_id = execute(planned(catalogue, "stolen", reps=reps), store).run_id
        paths.append(tmp_path / f"{run_id}.json")
        paths[-1].write_bytes(record.to_json(store.results(run_id)))
    many, also, few = map(str, paths)
    for command in ("compare", "gate"):
        texts = [" ".join(oscope(command, *sides).out.split()) for sides in ((many, also), (many, few))]
        assert [text.count("others took the CPU") for text in texts] == [2, 1], texts
        name = paths[0].stem
        assert f"note: run {name}: others took the CPU during 20 % of the samples or more" in texts[0]


def test_the_interface_can_leave_it_out(
    fake_probe: Path, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del fake_probe
    experiment = make_experiment({"do": ("stolen",)})
    monkeypatch.setattr(labs, "LABS", (Lab("fake", "Fake", "none", (experiment,), lambda _: []),))
    for again, count in ((True, 8), (False, 4)):
        run = oscope.run("fake.experiment", seed=1, again=again, store=store_path)
        assert len(run.results.experiments[0].points[0]) == count


# The real probe, on a machine that may have interference at any time.


@contextlib.contextmanager
def competitor() -> Iterator[subprocess.Popen[bytes]]:
    """Keep the CPU that is measured on busy."""
    last = max(os.sched_getaffinity(0))
    program = f"import os\nos.sched_setaffinity(0, [{last}])\nprint(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


class Ending(NullListener):
    """Ends the competitor when the second block begins."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def progress(self, progress: Progress) -> None:
        if progress.block > 0:
            self._process.kill()


def real_plan(probe: Path, name: str, reps: int, blocks: int, **factors: object) -> Plan:
    plan = make_plan(
        [labs.experiment(name)],
        load(probe),
        settings={factor: [level] for factor, level in factors.items()},  # type: ignore[list-item]
        amount=Amount(reps=reps),
        seed=1,
    )
    (experiment,) = plan.experiments
    return dataclasses.replace(
        plan, experiments=(dataclasses.replace(experiment, blocks=blocks),), again=True
    )


@pytest.mark.alone
def test_a_block_with_a_competitor_is_measured_again(probe: Path, store: Store) -> None:
    plan = real_plan(probe, "syscall.cost", 60, 2, call="getppid", style="loop")
    with competitor() as process:
        run_id = execute(plan, store, Ending(process)).run_id
    results = store.results(run_id).experiments[0]
    (point,) = results.points
    check_all_kept(point, 60)
    # 30 repetitions of a millisecond, beside somebody who has half of the CPU by turns of some milliseconds.
    begun = [index for index in point.again if point.block[index] == 0]
    assert begun
    waited = point.covariates["run_delay_ns"] + 1e4 * point.covariates["involuntary_switches"]
    hit = {index for index, name in point.interference if name != "steal_ticks"}
    assert hit
    duration_ns = results.duration_ns(point)
    assert duration_ns is not None
    stolen = np.nan_to_num(point.covariates["steal_ticks"]) > 0
    assert hit - set(np.flatnonzero(stolen)) == set(np.flatnonzero((waited > 0.01 * duration_ns) & ~stolen))
    shown = interference.remark(results)
    assert shown is not None
    assert f"repeated: {len(point.again)}" in shown


@pytest.mark.alone
def test_threads_of_the_workload_itself_are_no_interference(probe: Path, store: Store) -> None:
    plan = real_plan(probe, "memory.fault", 20, 2, kind="zero-page", threads=2, size="4M")
    with competitor():
        (point,) = measured(plan, store).points
    check_all_kept(point, 20)
    assert (point.covariates["run_delay_ns"] > 0).any(), "they did wait"
    assert {name for _, name in point.interference} <= {"steal_ticks"}

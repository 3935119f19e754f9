from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import make_experiment
from oscope import labs
from oscope.model.errors import ProbeError, UsageError
from oscope.model.samples import ExperimentResults
from oscope.planning.plan import Amount, Plan, make_plan
from oscope.planning.precision import MINIMUM_BLOCKS
from oscope.planning.schedule import Pass, passes, schedule
from oscope.probe.catalogue import Catalogue, load
from oscope.runner import point_request, run
from oscope.runner.execution import Outcome, execute
from oscope.runner.progress import NullListener, Progress
from oscope.storage.store import Store


class Ear(NullListener):
    """A listener that remembers."""

    def __init__(self) -> None:
        self.run_id = ""
        self.steps: list[Progress] = []
        self.notes: list[str] = []

    def begin(self, run_id: str, plan: Plan) -> None:
        self.run_id = run_id
        self.plan = plan

    def progress(self, progress: Progress) -> None:
        self.steps.append(progress)

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def ear() -> Ear:
    return Ear()


def measure(
    catalogue: Catalogue, store: Store, ear: Ear, do: tuple[str, ...], reps: int = 4, blocks: int = 2
) -> tuple[Outcome, ExperimentResults]:
    plan = make_plan([make_experiment({"do": do}, reps, blocks)], catalogue, seed=1)
    outcome = execute(plan, store, ear)
    return outcome, store.results(outcome.run_id).experiments[0]


def test_every_sample_is_stored_with_its_place(catalogue: Catalogue, store: Store, ear: Ear) -> None:
    plan = make_plan([make_experiment({"size": (1, 2, 3)}, reps=5, blocks=2)], catalogue, seed=1)
    outcome = execute(plan, store, ear)
    assert (outcome.status, outcome.samples, outcome.failures) == ("done", 15, ())
    results = store.results(outcome.run_id).experiments[0]
    assert results.status == "done"
    for point in results.points:
        assert point.block.tolist() == [0, 0, 0, 1, 1]
        assert point.process.tolist() == [1, 1, 1, 2, 2]
        assert point.rep.tolist() == [0, 1, 2, 0, 1]
        assert set(point.boot.tolist()) == {0}
        assert point.metrics["time_ns"].tolist() == pytest.approx((point.metrics["cycles"] / 2.5).tolist())
        assert (point.correction == 20).all()
        assert np.isnan(point.covariates["steal_ticks"]).all()
    assert list(results.metrics) == ["time_ns", "cycles"], "the headline metric is first"


@pytest.mark.parametrize("renews", ["yes", "die"])
def test_blocks_have_processes_of_their_own_also_where_the_probe_renews_itself(
    renews: str, catalogue: Catalogue, store: Store, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PROBE_RENEWS", renews)
    outcome, results = measure(catalogue, store, ear, ("ok",), reps=6, blocks=3)
    assert (outcome.status, outcome.samples, outcome.failures) == ("done", 6, ())
    (point,) = results.points
    assert point.process.tolist() == [1, 1, 2, 2, 3, 3]
    scratch = [note for note in ear.notes if "from scratch" in note]
    # Told once, however often.
    assert len(scratch) == (renews == "die")


@pytest.mark.usefixtures("probe")
def test_a_pass_with_nothing_to_measure_leaves_the_waiting_process_to_the_next(
    store: Store, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a resumed run has the pass already."""

    def with_empty_ones(*arguments: Any) -> Iterator[Pass]:
        for one in passes(*arguments):
            yield from (one, dataclasses.replace(one, turns=()), dataclasses.replace(one, turns=()))

    monkeypatch.setattr(run, "passes", with_empty_ones)
    plan = make_plan(
        [labs.experiment("syscall.cost")],
        load(),
        profile="quick",
        settings={"call": ["getppid"], "style": ["loop"]},
        amount=Amount(reps=6),
    )
    (experiment,) = plan.experiments
    plan = dataclasses.replace(
        plan, experiments=(dataclasses.replace(experiment, points=experiment.points[:1], blocks=3),)
    )
    outcome = execute(plan, store, ear)
    assert (outcome.status, outcome.samples, outcome.failures) == ("done", 6, ())
    assert not [note for note in ear.notes if "from scratch" in note]
    (point,) = store.results(outcome.run_id).experiments[0].points
    assert point.process.tolist() == [1, 1, 2, 2, 3, 3]


def test_blocks_are_spread_over_the_time_asked_for(catalogue: Catalogue, store: Store, ear: Ear) -> None:
    plan = make_plan(
        [make_experiment({"do": ("ok",)}, reps=4, blocks=4)], catalogue, amount=Amount(spread_s=1.6)
    )
    assert Plan.from_object(plan.to_object()) == plan
    outcome = execute(plan, store, ear)
    assert (outcome.status, outcome.samples) == ("done", 4)
    results = store.results(outcome.run_id).experiments[0]
    assert results.settings["spread_s"] == 1.6
    # What takes time in between, such as starting a process, shortens a pause.
    started = results.points[0].started_ns
    assert started[-1] - started[0] > 3 * 0.1e9


def test_a_pause_ends_with_the_run(catalogue: Catalogue, store: Store) -> None:
    plan = make_plan(
        [make_experiment({"do": ("ok",)}, reps=2, blocks=2)], catalogue, amount=Amount(spread_s=86_400.0)
    )

    class Interrupter(Ear):
        def progress(self, progress: Progress) -> None:
            super().progress(progress)
            if progress.finished:
                os.kill(os.getpid(), signal.SIGINT)

    outcome = execute(plan, store, Interrupter())
    assert (outcome.status, outcome.stopped, outcome.samples) == ("interrupted", True, 1)


def test_samples_are_taken_in_the_order_of_the_schedule(catalogue: Catalogue, store: Store, ear: Ear) -> None:
    plan = make_plan([make_experiment({"size": tuple(range(6))}, reps=4, blocks=2)], catalogue, seed=3)
    results = store.results(execute(plan, store, ear).run_id).experiments[0]
    assert order_taken(results) == planned_order(plan)


def order_taken(results: ExperimentResults) -> list[tuple[int, int, int]]:
    samples = [
        (started, block, number, rep)
        for number, point in enumerate(results.points)
        for started, block, rep in zip(
            point.started_ns.tolist(), point.block.tolist(), point.rep.tolist(), strict=True
        )
    ]
    return [(block, number, rep) for _, block, number, rep in sorted(samples)]


def planned_order(plan: Plan) -> list[tuple[int, int, int]]:
    experiment = plan.experiments[0]
    return [
        (block, turn.point, rep)
        for block in range(experiment.blocks or 0)
        for turn in schedule(plan, experiment, block)
        for rep in range(turn.reps)
    ]


def test_progress_counts_what_is_committed(catalogue: Catalogue, store: Store, ear: Ear) -> None:
    outcome, _ = measure(catalogue, store, ear, ("ok",))
    assert ear.run_id == outcome.run_id
    assert ear.steps[-1].finished == ear.steps[-1].total == 4
    assert [s.finished for s in ear.steps] == sorted(s.finished for s in ear.steps)


def test_the_environment_is_kept_from_before_and_after(catalogue: Catalogue, store: Store, ear: Ear) -> None:
    _, results = measure(catalogue, store, ear, ("ok",))
    assert results.environment["machine"] == "0123456789abcdef"
    assert results.environment["after"]["machine"] == "0123456789abcdef"
    assert len(results.environment["laboratory"]["probe_sha256"]) == 64


def test_a_dead_probe_costs_its_point_only(catalogue: Catalogue, store: Store, ear: Ear) -> None:
    outcome, results = measure(catalogue, store, ear, ("ok", "die"), reps=6, blocks=3)
    good, bad = results.points
    assert len(good) == 6
    assert len(bad) == 0
    assert "SIGSEGV" in (bad.skipped or "")
    assert "segment violated" in (bad.skipped or "")
    assert len(outcome.failures) == 2, "after two deaths the point is left alone"
    assert outcome.status == "done"


def test_a_probe_that_dies_once_loses_one_block(catalogue: Catalogue, store: Store, ear: Ear) -> None:
    _, results = measure(catalogue, store, ear, ("die_once", "ok"), reps=6, blocks=3)
    point = results.points[0]
    assert point.skipped is None
    assert sorted(set(point.block.tolist())) == [1, 2]
    assert any("SIGSEGV" in note for note in point.notes)
    assert len(results.points[1]) == 6


@pytest.mark.parametrize("do", ["garbage", "foreign", "chatter", "exit", "endless"])
def test_a_broken_protocol_is_a_lost_probe(catalogue: Catalogue, store: Store, ear: Ear, do: str) -> None:
    _, results = measure(catalogue, store, ear, ("ok", do))
    assert len(results.points[0]) == 4
    assert results.points[1].skipped is not None
    assert "2 probes were lost" in results.points[1].skipped


def test_a_hanging_probe_is_killed(
    catalogue: Catalogue, store: Store, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(point_request, "PATIENCE_S", 2.0)
    _, results = measure(catalogue, store, ear, ("ok", "hang"))
    assert len(results.points[0]) == 4
    assert "silent" in (results.points[1].skipped or "")
    assert "stuck here" in (results.points[1].skipped or "")


def test_what_is_unavailable_is_skipped_with_the_remedy(catalogue: Catalogue, store: Store, ear: Ear) -> None:
    outcome, results = measure(catalogue, store, ear, ("ok", "unavailable"))
    point = results.points[1]
    assert (point.skipped, point.remedy) == ("no counter here", "buy another machine")
    assert outcome.failures == (), "what a machine cannot do is no failure"


def test_a_wrong_request_is_a_usage_error(catalogue: Catalogue, store: Store, ear: Ear) -> None:
    with pytest.raises(UsageError, match="do: cannot be"):
        measure(catalogue, store, ear, ("request",))
    assert store.runs()[0].status == "failed"


def test_a_point_that_fails_twice_is_skipped(catalogue: Catalogue, store: Store, ear: Ear) -> None:
    outcome, results = measure(catalogue, store, ear, ("ok", "failed"), reps=6, blocks=3)
    assert "failed 2 times" in (results.points[1].skipped or "")
    assert len(outcome.failures) == 2
    assert len(results.points[0]) == 6


def test_a_point_that_fails_once_goes_on(catalogue: Catalogue, store: Store, ear: Ear) -> None:
    _, results = measure(catalogue, store, ear, ("failed_once",), reps=6, blocks=3)
    assert results.points[0].block.tolist() == [1, 1, 2, 2]


def test_a_failed_sample_is_kept_as_failed(catalogue: Catalogue, store: Store, ear: Ear) -> None:
    outcome, results = measure(catalogue, store, ear, ("failed_sample",))
    point = results.points[0]
    assert point.failed == ((0, "wrong result"), (2, "wrong result"))
    assert np.isnan(point.metrics["time_ns"][[0, 2]]).all()
    assert np.isnan(point.raw).tolist() == [True, False, True, False]
    assert np.isfinite(point.metrics["time_ns"][[1, 3]]).all()
    assert len(outcome.failures) == 1


def test_a_note_is_told_once(catalogue: Catalogue, store: Store, ear: Ear) -> None:
    _, results = measure(catalogue, store, ear, ("note",))
    assert results.points[0].notes == ("the call returned ENOSYS",)
    assert len([n for n in ear.notes if "ENOSYS" in n]) == 1


def test_covariates_that_appear_late_are_kept(catalogue: Catalogue, store: Store, ear: Ear) -> None:
    _, results = measure(catalogue, store, ear, ("more_covariates",))
    values = results.points[0].covariates["instructions"]
    assert np.isnan(values).tolist() == [True, False, True, False]
    assert results.points[0].covariates["run_delay_ns"].tolist() == [0, 1, 0, 1]


def test_the_loop_count_of_the_first_block_is_kept(catalogue: Catalogue, store: Store, ear: Ear) -> None:
    _, results = measure(catalogue, store, ear, ("ok",))
    assert set(results.points[0].iterations.tolist()) == {1000}


def test_a_precise_point_ends_early(catalogue: Catalogue, store: Store, ear: Ear) -> None:
    plan = make_plan(
        [make_experiment({"width": (0, 1)}, reps=40, blocks=2)],
        catalogue,
        amount=Amount(precision=0.05),
        seed=1,
    )
    outcome = execute(plan, store, ear)
    results = store.results(outcome.run_id).experiments[0]
    for point in results.points:
        assert len(set(point.block.tolist())) >= MINIMUM_BLOCKS
        assert any("is reached" in note for note in point.notes)
    assert all(step.total is None for step in ear.steps)


def test_the_budget_ends_a_hopeless_precision(catalogue: Catalogue, store: Store, ear: Ear) -> None:
    plan = make_plan(
        [make_experiment({"width": (100,)}, reps=2, blocks=2)],
        catalogue,
        amount=Amount(precision=0.0001, budget_s=3.0),
        seed=1,
    )
    outcome = execute(plan, store, ear)
    point = store.results(outcome.run_id).experiments[0].points[0]
    assert any("is not reached within the budget of 3 s" in note for note in point.notes)


def test_a_budget_ends_after_a_whole_block(catalogue: Catalogue, store: Store, ear: Ear) -> None:
    plan = make_plan(
        [
            make_experiment({"size": (1, 2)}, 20, 10, name="fake.a"),
            make_experiment({}, 20, 10, name="fake.b"),
        ],
        catalogue,
        amount=Amount(budget_s=1e-6),
        seed=1,
    )
    outcome = execute(plan, store, ear)
    first, second = store.results(outcome.run_id).experiments
    if len(first.points[0]):
        assert [len(p) for p in first.points] == [2, 2]
    assert second.points[0].skipped == "the budget ran out before its turn"
    assert any("ran out" in note for note in ear.notes)
    assert outcome.status == "done"


def test_a_probe_that_does_not_start_leaves_no_run(
    catalogue: Catalogue, store: Store, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PROBE_HELLO", "die")
    with pytest.raises(ProbeError, match="SIGSEGV"):
        measure(catalogue, store, ear, ("ok",))
    assert store.runs() == ()


def test_the_laboratory_keeps_off_the_probes_cpu(catalogue: Catalogue, store: Store) -> None:
    before = os.sched_getaffinity(0)
    seen = []

    class Watch(Ear):
        def progress(self, _: Progress) -> None:
            seen.append(os.sched_getaffinity(0))

    _, results = measure(catalogue, store, Watch(), ("ok",))
    assert os.sched_getaffinity(0) == before
    assert set(results.environment["cpu"]["allowed"]) == before, "the probe itself may run everywhere"
    if len(before) > 1:
        assert all(max(before) not in cpus for cpus in seen)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_everything_is_given_back_after_an_exception(
    catalogue: Catalogue, store: Store, fake_probe: Path, error: type[BaseException]
) -> None:
    def borrowed() -> tuple[object, ...]:
        return os.sched_getaffinity(0), signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    class Breaking(Ear):
        def progress(self, _: Progress) -> None:
            assert borrowed() != before
            raise error

    before = borrowed()
    with pytest.raises(error):
        measure(catalogue, store, Breaking(), ("ok",))
    assert borrowed() == before
    assert _processes(fake_probe) == []


def test_the_built_probe_measures_nothing_as_nothing(probe: Path, store: Store) -> None:
    """The real instrument, over the whole path: an empty loop costs nothing, whatever the machine."""
    experiment = dataclasses.replace(
        make_experiment({"style": ("loop",)}, reps=12, blocks=2), workload="null"
    )
    plan = make_plan([experiment], load(probe), seed=1)
    results = store.results(execute(plan, store).run_id).experiments[0]
    point = results.points[0]
    assert len(point) == 12
    assert len(set(point.process.tolist())) == 2
    # A loop of nothing; other work on the machine adds to some repetitions, and seldom to half of them.
    assert abs(float(np.median(point.metrics["time_ns"]))) < 20.0
    assert np.isfinite(point.covariates["run_delay_ns"]).any() or "run_delay_ns" in str(results.environment)
    assert results.environment["after"]["boot_id"] == results.environment["boot_id"]


def test_no_probe_process_is_left(catalogue: Catalogue, store: Store, ear: Ear, fake_probe: Path) -> None:
    measure(catalogue, store, ear, ("ok", "die", "garbage"))
    assert _processes(fake_probe) == []


def _processes(program: Path) -> list[str]:
    """Return the ids of the processes that run `program`."""
    return [
        p.name
        for p in Path("/proc").iterdir()
        if p.name.isdigit() and str(program).encode() in _command_line(p)
    ]


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""

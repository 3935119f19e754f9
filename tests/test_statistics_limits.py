"""What comparisons must not overlook: the clock's step, less precise runs, other runs, a chosen reference."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

import invented_runs
import null_compare as null
from conftest import make_experiment
from oscope.analysis import earlier_runs
from oscope.analysis.gate import Gate, judge
from oscope.model.samples import ExperimentResults, Results
from oscope.planning.plan import make_plan
from oscope.probe.catalogue import Catalogue
from oscope.probe.wire import Sample
from oscope.programs.verdicts import verdict
from oscope.questions.curves import At, best
from oscope.runner.run_events import ProcessBegan
from oscope.statistics import ComparedMetric, compare_results, effect, summarise_point
from oscope.statistics.between_runs import spread
from oscope.statistics.effect import Median
from oscope.storage import schema
from oscope.storage.store import Store
from run_writer import RunWriter

CALL = "getppid"
TICKS = {**invented_runs.ENVIRONMENT, "clock": {"kind": "tsc", "hz": 1e9, "resolution": 10}}
"""A clock that advances by 10 ns."""
TWO = ["202601-a", "202601-b"]


def interleaved(a: ExperimentResults, b: ExperimentResults) -> tuple[ExperimentResults, ExperimentResults]:
    """Make two runs sides that took turns."""
    first, second = (
        replace(each, run_id=name, settings={**each.settings, "interleaved": TWO})
        for each, name in zip((a, b), TWO, strict=True)
    )
    return first, second


def stepped(cost: float, number: int) -> ExperimentResults:
    """Return a run of single calls, 20 blocks of 10, whose times the clock rounds down to its step."""
    scenario = null.Scenario("stepped", blocks=(20, 20), reps=(10, 10), process_spread=0.001, spread=0.001)
    found = invented_runs.run({CALL: cost}, number, scenario=scenario, environment=TICKS)
    (point,) = found.points
    times = np.floor(point.metrics["time_ns"] / 10) * 10
    once = {"iterations": np.ones(len(point), dtype=int), "raw": times, "correction": np.zeros(len(point))}
    own = replace(point, **once, metrics={"time_ns": times})
    return replace(found, points=(own,), metrics=dict(null.METRIC))


def only_row(a: ExperimentResults, b: ExperimentResults, **how: object) -> ComparedMetric:
    (row,) = compare_results(a, b, **how).rows  # type: ignore[arg-type]
    return row


@pytest.mark.parametrize("paired", [True, False])
def test_times_that_are_equal_by_the_clock_may_differ_by_its_step(*, paired: bool) -> None:
    # 172 and 176 ns: both are read as 170.
    a, b = stepped(172.0, 1), stepped(176.0, 2)
    assert np.unique([each.points[0].metrics["time_ns"] for each in (a, b)]).tolist() == [170.0]
    row = only_row(*(interleaved(a, b) if paired else (a, b)))
    assert (row.different, row.matters) == ("cannot tell", "cannot tell")
    assert row.ci95[0] < 0.95
    assert row.ci95[1] > 176 / 172
    assert row.detectable > 4 / 172
    assert "identical" not in row.sentence


def test_the_step_is_spread_over_what_a_repetition_touches() -> None:
    run = stepped(172.0, 1)
    (point,) = run.points
    assert run.resolution(point, "time_ns") == 10.0
    pages = replace(point, raw=point.metrics["time_ns"] * 1024, correction=np.zeros(len(point)))
    assert run.resolution(pages, "time_ns") == pytest.approx(10.0 / 1024)


def test_a_failed_sample_does_not_change_the_step() -> None:
    run = stepped(172.0, 1)
    (point,) = run.points
    pages = replace(point, raw=point.metrics["time_ns"] * 1024, correction=np.zeros(len(point)))
    pages.raw[3] = pages.metrics["time_ns"][3] = np.nan
    assert run.resolution(pages, "time_ns") == pytest.approx(10.0 / 1024)


def test_with_the_step_too_p_and_interval_agree() -> None:
    random = np.random.default_rng(15)
    for count in range(20, 50):
        for _ in range(10):
            pairs = random.exponential(0.1, count) - 0.04
            found = effect.with_bias(effect.paired(pairs), 0.01)
            assert (found.p < 0.05) == (found.low > 0 or found.high < 0)


@pytest.mark.parametrize(("count", "less"), [(44, 15), (67, 25), (94, 37), (20, 5), (20, 6)])
def test_the_signs_and_the_interval_by_ranks_agree(count: int, less: int) -> None:
    spread_out = np.diff(np.arange(count + 1) * less // count) == 1
    found = effect.paired(np.where(spread_out, -1.0, 1.0) * np.linspace(1, 2, count))
    assert (found.p < 0.05) == (found.low > 0)


def test_a_gate_does_not_pass_what_the_clock_cannot_show() -> None:
    # 4 % slower, of which the readings show half a step.
    a, b = interleaved(stepped(171.0, 1), stepped(178.0, 2))
    (found,) = judge(Results((a,)), Results((b,)), 0.03).rows
    assert (found.verdict, found.can_tell) == ("not proven", False)
    # What is beyond the step is found.
    assert only_row(*interleaved(stepped(171.0, 1), stepped(215.0, 2))).different == "yes"


def test_a_difference_that_the_medians_contradict_is_no_proof_that_none_would_be_seen() -> None:
    """The machine becomes slower by 40 %, and only one side has values of the slow half."""
    scenario = replace(invented_runs.QUIET, blocks=(40, 40))
    a, b = interleaved(
        *(invented_runs.run({CALL: cost}, 1, scenario=scenario) for cost in (100.0, 105.0)),
    )
    slow = np.where(a.points[0].block >= 20, 1.4, 1.0)

    def changed(run: ExperimentResults, *, whole: bool) -> ExperimentResults:
        (point,) = run.points
        times = point.metrics["time_ns"] * slow
        own = replace(point, metrics={"time_ns": times if whole else np.where(slow > 1, np.nan, times)})
        return replace(run, points=(own,), metrics=dict(null.METRIC))

    gate: Gate = judge(Results((changed(a, whole=True),)), Results((changed(b, whole=False),)), 0.03)
    (found,) = gate.rows
    assert found.row.p_holm < 0.05
    assert (found.verdict, found.can_tell) == ("not proven", False)
    assert len(gate.blind) == 1


@pytest.mark.parametrize("share", [0.5, 1.0, 2.0])
def test_runs_that_are_less_precise_than_earlier_ones_differ_by_more(share: float) -> None:
    """Earlier runs are precise and differ by 1 %; these two have a standard error of their own besides."""
    random, trials, held = np.random.default_rng(11), 1500, 0
    reach = share * 0.01 * 2.0227
    for _ in range(trials):
        known = spread(np.exp(random.normal(0, 0.01, 30)), share * 0.01, 0.0, 0.0005)
        sides = random.normal(0, 0.01, 2) + random.normal(0, share * 0.01, 2)
        found = effect.separate(*(Median(x, x - reach, x + reach, 39) for x in sides), known)
        held += found.low <= 0 <= found.high
    assert held / trials > 0.94


def test_runs_as_precise_as_earlier_ones_differ_by_no_more_than_those() -> None:
    runs = np.exp(np.random.default_rng(12).normal(0, 0.01, 30))
    side = Median(0.0, -0.01, 0.01, 39)
    found = effect.separate(side, side, spread(runs, side.error, 0.0, side.error))
    assert found.error == pytest.approx(np.sqrt(2) * np.log(runs).std(ddof=1))


def test_most_pairs_equal_show_no_detectable_difference() -> None:
    random = np.random.default_rng(13)
    pairs = np.concatenate([np.zeros(130), random.exponential(0.02, 70)])
    found = effect.paired(random.permutation(pairs))
    assert (found.effect, found.low, found.high) == (0, 0, 0)
    assert np.isnan(effect.with_extra_error(found, 1e-9).detectable(0.05))
    a = invented_runs.run({CALL: 100.0}, scenario=replace(invented_runs.QUIET, blocks=(30, 30), reps=(1, 1)))
    sides = interleaved(
        *(
            replace(a, points=(replace(a.points[0], metrics={"time_ns": times}),), metrics=dict(null.METRIC))
            for times in (np.full(30, 100.0), np.where(np.arange(30) % 5 == 0, 101.0, 100.0))
        )
    )
    row = only_row(*sides)
    assert (row.different, row.sentence) == ("no", "no difference found: most pairs are equal")
    assert "B and A do not differ by more than 1.0" in verdict(row, "A", "B", 0.01)


@pytest.mark.parametrize(("above", "others"), [(67, 19), (100, 18)])
def test_what_is_compared_with_the_best_of_many_is_corrected_for_all_pairs(above: int, others: int) -> None:
    """67 of 100 blocks above the best have p = 0.0009: enough for 19 tests, and not for 190 pairs."""
    random = np.random.default_rng(14)
    scenario = replace(invented_runs.QUIET, blocks=(100, 100), reps=(1, 1))
    run = invented_runs.run({str(each): 100.0 for each in range(20)}, scenario=scenario)
    steps = np.diff(np.arange(101) * above // 100)
    times = [np.full(100, 99.99), np.where(steps == 1, 100.5, 99.5)]
    times += [random.permutation(np.where(np.arange(100) < 50, 100.2, 99.8)) for _ in range(18)]
    points = [replace(each, metrics={"time_ns": own}) for each, own in zip(run.points, times, strict=True)]
    run = replace(run, points=tuple(points), metrics=dict(null.METRIC))
    found = [At(at, each, summarise_point(run, each, "time_ns")) for at, each in enumerate(run.points)]
    first, alike = best(found, run, "time_ns")
    assert (first.size, len(alike)) == (0, others)


def test_runs_of_another_kernel_do_not_crowd_out_those_that_are_comparable(
    tmp_path: Path, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan([make_experiment({"size": (1,)})], catalogue, seed=1)

    def add(store: Store, release: str) -> str:
        recorder = RunWriter(store, plan)
        environment = {
            "boot_id": "b",
            "machine": "m",
            "clock": {"kind": "tsc"},
            "kernel": {"release": release, "version": "#1", "cmdline": "", "arch": "x86_64"},
        }
        recorder.append(ProcessBegan(environment))
        samples = [
            Sample(1, rep, time.time_ns(), 100, 10, 0.0, {"time_ns": 1.0, "cycles": 2.0}, {}, None)
            for rep in range(3)
        ]
        recorder.add_event("environment", environment)
        recorder.add_samples(recorder.points["fake.experiment"][0], 0, samples)
        recorder.add_event("status", "done")
        started = time.time_ns() + len(store.runs())
        with store.reading() as connection:
            own = schema.run.c.id == recorder.run_id
            connection.execute(sa.update(schema.run).where(own).values(started_ns=started))
        return recorder.run_id

    monkeypatch.setattr(earlier_runs, "NEWEST", 2)
    with Store.open(tmp_path / "store.db") as store:
        ids = [add(store, release) for release in ("6.1", "6.1", "6.1", "6.2", "6.2", "6.2", "6.1", "6.1")]
        a, b = (store.results(each).experiments[0] for each in ids[-2:])
        assert [each.run_id for each in earlier_runs.earlier_runs_in(store, a, b)] == ids[1:3]

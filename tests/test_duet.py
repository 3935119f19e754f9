"""Duets: both sides are measured at the same time, on two CPUs that they swap."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import synthetic
from cli_driver import CommandLine
from conftest import make_experiment
from injected import living, processes_below
from oscope import labs
from oscope.analysis.calibration.pair_measurement import measure
from oscope.analysis.calibration.result import NullListener
from oscope.analysis.calibration.spec import DUET, SUBJECTS, CalibrationSpec, Subject
from oscope.model.errors import UsageError
from oscope.model.factors import Level
from oscope.model.samples import ExperimentResults, Results
from oscope.planning.plan import Amount, Plan, make_plan
from oscope.probe import catalogue as catalogues
from oscope.probe.catalogue import Catalogue
from oscope.runner.duet import Duet, doubled
from oscope.runner.duet_cpus import why_not
from oscope.runner.execution import Outcome
from oscope.runner.injection.spec import Injection
from oscope.runner.interleaved import execute_interleaved
from oscope.runner.progress import NullListener as Quiet
from oscope.runner.progress import Progress
from oscope.statistics import compare_results
from oscope.storage import record
from oscope.storage.store import Store

VALIDATOR = jsonschema.Draft202012Validator(
    json.loads(resources.files("oscope").joinpath("record.schema.json").read_text())
)
CPUS = (min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0)))
"""Forced on the duet, even where they are all there are."""

two_cpus = pytest.mark.skipif(CPUS[0] == CPUS[1], reason="both sides at once need two CPUs")


def planned(name: str, settings: Mapping[str, Level], blocks: int = 4, reps: int = 10) -> Plan:
    """Return a plan of one point of a real experiment."""
    plan = make_plan(
        [labs.experiment(name)],
        catalogues.load(),
        settings={factor: [level] for factor, level in settings.items()},
        amount=Amount(reps=blocks * reps),
        seed=5,
    )
    return replace(plan, experiments=tuple(replace(each, blocks=blocks) for each in plan.experiments))


def getppid(blocks: int) -> Plan:
    return planned("syscall.cost", {"call": "getppid", "style": "loop"}, blocks)


def names(plan: Plan) -> list[str]:
    return [each.name for each in plan.experiments]


def results_of(outcomes: Sequence[Outcome], store: Store) -> list[ExperimentResults]:
    return [store.results(outcome.run_id).experiments[0] for outcome in outcomes]


def without_waits(results: ExperimentResults) -> ExperimentResults:
    """Return the repetitions during which no other process ran on their CPU."""
    (point,) = results.points
    return replace(results, points=(point.only(point.covariates["run_delay_ns"] == 0),))


def spans(results: ExperimentResults) -> dict[tuple[int, int], tuple[float, float]]:
    """Return when each half of each block was measured, by block and CPU."""
    (point,) = results.points
    cpu = point.covariates["cpu"].astype(int)
    ended = point.started_ns + point.raw * 1e9 / results.environment["clock"]["hz"]
    return {
        (int(block), int(on)): (
            float(point.started_ns[(point.block == block) & (cpu == on)].min()),
            float(ended[(point.block == block) & (cpu == on)].max()),
        )
        for block in np.unique(point.block)
        for on in np.unique(cpu[point.block == block])
    }


@pytest.mark.usefixtures("probe")
@two_cpus
@pytest.mark.alone
def test_both_sides_are_measured_at_the_same_time_and_swap_their_cpus(store: Store) -> None:
    plan = getppid(6)
    a, b = results_of(execute_interleaved([plan, plan], store, duet=names(plan), cpus=CPUS), store)
    for side in (a, b):
        (point,) = side.points
        assert np.bincount(point.block).tolist() == [10] * 6
        cpu = point.covariates["cpu"].astype(int)
        halves = {(int(k), int(p)) for k, p in zip(point.block, point.process, strict=True)}
        assert len(halves) == 12, "each half has fresh processes"
        for half in halves:
            assert len(set(cpu[(point.block == half[0]) & (point.process == half[1])])) == 1
        assert all(set(cpu[point.block == block]) == set(CPUS) for block in range(6))
        assert len(set(point.iterations)) == 1
        assert (side.settings["way"], side.settings["cpus"]) == ("duet", list(CPUS))
        VALIDATOR.validate(json.loads(record.to_json(Results((side,)))))
    assert len({int(each.points[0].iterations[0]) for each in (a, b)}) == 1
    first, second = spans(a), spans(b)
    other = {CPUS[0]: CPUS[1], CPUS[1]: CPUS[0]}
    together = [
        min(first[block, cpu][1], second[block, other[cpu]][1])
        > max(first[block, cpu][0], second[block, other[cpu]][0])
        for block, cpu in first
    ]
    assert sum(together) > len(together) / 2
    starts = [min(first, key=lambda key: (key[0] != block, first[key])) for block in range(6)]
    assert {cpu for _, cpu in starts} == set(CPUS), "which side begins on which CPU is drawn"
    (row, *_) = compare_results(a, b).rows
    assert row.method == "paired by block"


@pytest.mark.usefixtures("probe")
@two_cpus
@pytest.mark.alone
def test_an_injected_difference_is_found(store: Store) -> None:
    # Twice the time: beside the laboratory on the same two CPUs, less may be lost among others' work, of
    # which a repetition that waited for its CPU holds more than it was given.
    plan = getppid(120)
    sides = [
        replace(plan, injection=Injection(delay_ns=delay, seed=1, steady=True).to_object())
        for delay in (0.0, 120.0)
    ]
    a, b = results_of(execute_interleaved(sides, store, duet=names(plan), cpus=CPUS), store)
    (row,) = (
        row for row in compare_results(without_waits(a), without_waits(b)).rows if row.metric == a.headline
    )
    iteration_ns = row.median_a
    assert row.different == "yes"
    assert row.ratio == pytest.approx(1 + 120.0 / iteration_ns, rel=0.15)


def fake_plan(fake: Catalogue, blocks: int = 3, reps: int = 12, **factors: Level) -> Plan:
    experiment = make_experiment(
        {"huge": (True,), **{name: (level,) for name, level in factors.items()}}, reps, blocks
    )
    return make_plan([experiment], fake, seed=3)


@two_cpus
def test_a_side_that_dies_loses_its_block_and_both_go_on(
    catalogue: Catalogue, store: Store, fake_probe: Path, tmp_path: Path
) -> None:
    """Side A is told to have died before, so that only B does: while A measures beside it."""
    (tmp_path / "fake-state" / "died").touch()
    (tmp_path / "b-state").mkdir()
    other = tmp_path / "b-probe"
    other.write_text(f'#!/bin/sh\nFAKE_PROBE_STATE={tmp_path}/b-state exec {fake_probe} "$@"\n')
    other.chmod(0o755)
    plan = fake_plan(catalogue, do="die_once")
    outcomes = execute_interleaved(
        [plan, plan], store, builds=[fake_probe, other], duet=names(plan), cpus=CPUS
    )
    assert [outcome.status for outcome in outcomes] == ["done", "done"]
    assert ([len(outcome.failures) for outcome in outcomes]) == [0, 1]
    a, b = (side.points[0] for side in results_of(outcomes, store))
    assert np.bincount(b.block, minlength=3).tolist() == [0, 4, 4]
    assert np.bincount(a.block, minlength=3).tolist() == [2, 4, 4], "nothing is measured without its partner"


@two_cpus
def test_what_a_side_cannot_measure_the_other_one_leaves_out(catalogue: Catalogue, store: Store) -> None:
    plan = fake_plan(catalogue, do="unavailable")
    a, b = results_of(execute_interleaved([plan, plan], store, duet=names(plan), cpus=CPUS), store)
    assert a.points[0].skipped == "no counter here"
    assert "other side" in (b.points[0].skipped or "")


@two_cpus
def test_affected_samples_are_kept_and_not_measured_again(catalogue: Catalogue, store: Store) -> None:
    plan = replace(fake_plan(catalogue, do="stolen"), again=True)
    for side in results_of(execute_interleaved([plan, plan], store, duet=names(plan), cpus=CPUS), store):
        (point,) = side.points
        assert (len(point), point.again, side.settings["again"]) == (12, (), False)


@two_cpus
@pytest.mark.parametrize("renews", ["yes", "die"])
def test_processes_are_renewed_or_started_from_scratch(
    catalogue: Catalogue, store: Store, monkeypatch: pytest.MonkeyPatch, renews: str
) -> None:
    monkeypatch.setenv("FAKE_PROBE_RENEWS", renews)
    plan = fake_plan(catalogue)
    outcomes = execute_interleaved([plan, plan], store, duet=names(plan), cpus=CPUS)
    for side in results_of(outcomes, store):
        assert np.bincount(side.points[0].block).tolist() == [4, 4, 4]
        assert len(set(side.points[0].process)) == 6
        assert any("cannot renew" in note for note in side.settings["notes"]) is (renews == "die")


class Presser(Quiet):
    """Sends SIGINT some time after both sides were asked for samples: each has some then."""

    def __init__(self) -> None:
        self.asked = 0

    def progress(self, progress: Progress) -> None:
        del progress
        self.asked += 1
        # The first is asked for the loop count, then both for samples.
        if self.asked == 3:
            threading.Timer(2.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()


@two_cpus
def test_an_interrupted_duet_keeps_what_it_has_and_leaves_no_process(
    catalogue: Catalogue, store: Store
) -> None:
    before = processes_below(os.getpid())
    plan = fake_plan(catalogue, blocks=1, reps=2000, pause=0.05)
    outcomes = execute_interleaved([plan, plan], store, Presser(), duet=names(plan), cpus=CPUS)
    assert [(outcome.status, outcome.stopped) for outcome in outcomes] == [("interrupted", True)] * 2
    assert all(0 < outcome.samples < 1000 for outcome in outcomes)
    assert living(processes_below(os.getpid()) - before) == set()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("duet")]


class Stub:
    """A side that only notes that it is to end."""

    def __init__(self) -> None:
        self.reported = threading.Event()

    def interrupt(self) -> None:
        self.reported.set()


def test_an_exception_in_one_thread_ends_what_the_other_one_does() -> None:
    sides = [Stub(), Stub()]

    def press() -> bool:
        raise KeyboardInterrupt

    with Duet(sides, (0, 1)) as duet, pytest.raises(KeyboardInterrupt):  # type: ignore[arg-type]
        duet._both(press, sides[1].reported.wait)
    assert all(side.reported.is_set() for side in sides)


@two_cpus
@pytest.mark.usefixtures("probe")
@pytest.mark.parametrize(
    ("name", "settings", "fits"),
    [
        ("syscall.cost", {"call": "getppid", "style": "loop"}, True),
        ("memory.bandwidth", {"operation": "read", "threads": 1, "size": "4M", "window": 0}, True),
        ("memory.bandwidth", {"operation": "read", "threads": 2, "size": "4M", "window": 0}, False),
        ("ipc.latency", {}, False),
        ("process.create", {}, False),
    ],
)
def test_work_that_is_not_alone_on_its_cpu_is_no_duet(
    store: Store, name: str, settings: dict[str, Level], fits: bool
) -> None:
    plan = planned(name, settings)
    (experiment,) = plan.experiments
    assert (why_not(experiment) is None) is fits
    if not fits:
        with pytest.raises(UsageError, match=f"{name} is no duet"):
            execute_interleaved([plan, plan], store, duet=[name], cpus=CPUS)


@two_cpus
def test_a_duet_has_two_sides_and_samples_on_both_cpus(catalogue: Catalogue, store: Store) -> None:
    plan = fake_plan(catalogue)
    with pytest.raises(UsageError, match="a duet of 3 sides"):
        execute_interleaved([plan] * 3, store, duet=names(plan), cpus=CPUS)
    few = fake_plan(catalogue, blocks=3, reps=3)
    with pytest.raises(UsageError, match="samples on either CPU"):
        execute_interleaved([few, few], store, duet=names(few), cpus=CPUS)
    execute_interleaved([doubled(few, names(few))] * 2, store, duet=names(few), cpus=CPUS)


def invented(run_id: str, slower: float = 0.0, *, apart: bool = False) -> ExperimentResults:
    """Return a side of a duet on CPUs of which one is by a tenth slower: A is on that one last, B first.

    `apart`: as if each half of a block were a block of its own.
    """
    blocks = 40
    random = np.random.default_rng(ord(run_id))
    cost = synthetic.cost(seed=1, reps=10 * blocks, blocks=blocks)
    half = np.tile(np.repeat([0, 1], 5), blocks)
    is_slow = half == (run_id == "a")
    point = replace(
        cost.points[0],
        metrics={
            "time_ns": 100 * (1 + slower) * (1 + 0.1 * is_slow) * random.lognormal(0, 1e-3, 10 * blocks)
        },
        covariates={},
        failed=(),
        block=cost.points[0].block * 2 + half if apart else cost.points[0].block,
    )
    return replace(
        cost,
        run_id=run_id,
        points=(point,),
        metrics={"time_ns": cost.metrics["time_ns"]},
        settings={**cost.settings, "interleaved": ["a", "b"], "way": "duet"},
    )


def test_what_the_cpus_differ_by_cancels_within_a_block() -> None:
    for slower, matters in ((0.0, "no"), (0.02, "yes")):
        (row,) = compare_results(invented("a"), invented("b", slower)).rows
        assert (row.matters, row.method, row.clusters_a) == (matters, "paired by block", 40)
        assert row.ratio == pytest.approx(1 + slower, abs=0.001)
        assert row.ci95[1] - row.ci95[0] < 0.002
    (row,) = compare_results(invented("a", apart=True), invented("b", 0.02, apart=True)).rows
    assert row.different == "cannot tell", "between the halves it is the CPUs that differ"


def test_a_duet_is_not_compared_with_what_was_measured_alone() -> None:
    a, b = invented("a"), invented("b")
    b = replace(b, settings={name: value for name, value in b.settings.items() if name != "way"})
    with pytest.raises(UsageError, match="way of measuring"):
        compare_results(a, b)


@pytest.mark.usefixtures("probe")
@two_cpus
@pytest.mark.alone
def test_a_calibration_measures_duets() -> None:
    subjects = (SUBJECTS[0], Subject("ipc.latency"))
    expected = CalibrationSpec(subjects, ("interleaved", DUET), pairs=1, effects=(), blocks=6, reps=2)
    found = list(measure(expected, NullListener(), find=labs.experiment, cpus=CPUS))
    assert sorted((each.subject, each.way) for each in found) == [
        ("ipc.latency", "interleaved"),
        (SUBJECTS[0].name, DUET),
        (SUBJECTS[0].name, "interleaved"),
    ]
    assert all(each.observed is not None and each.observed.pairs == 6 for each in found)


@pytest.mark.usefixtures("probe")
def test_a_calibration_of_duets_alone_refuses_work_that_is_none() -> None:
    expected = CalibrationSpec((Subject("ipc.latency"),), (DUET,), pairs=1, effects=(), blocks=2, reps=2)
    with pytest.raises(UsageError, match=r"cannot be measured as a duet: ipc\.latency uses other"):
        next(measure(expected, NullListener(), find=labs.experiment, cpus=CPUS))


def test_a_calibration_of_duets_says_how_many_cpus_it_needs(oscope: CommandLine) -> None:
    former = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(former)})
    try:
        answer = oscope("calibrate", "--way", "duet", "--pairs", "1")
    finally:
        os.sched_setaffinity(0, former)
    assert answer.code == 2
    assert "duet needs 3 CPUs" in answer.err
    assert oscope.runs() == []

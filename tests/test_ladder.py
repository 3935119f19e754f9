"""The latency ladder takes its figures from the points that it names, and from nothing else."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import synthetic
import synthetic_disk
import synthetic_ipc
import synthetic_memory
import synthetic_transfer
from oscope.cli.summary import summary_columns
from oscope.figures.analysed import Analysed
from oscope.figures.ladder import Ladder, ladder
from oscope.figures.rungs import RUNGS
from oscope.model.samples import ExperimentResults, Results

SURVEYS = (synthetic, synthetic_memory, synthetic_disk, synthetic_ipc, synthetic_transfer)


@pytest.fixture(scope="module")
def survey() -> Analysed:
    """Return one run's results of every lab that gives the ladder a figure."""
    return Analysed.of(Results(tuple(e for made in SURVEYS for e in made.survey().experiments)))


def _of(*experiments: ExperimentResults) -> Ladder:
    return ladder(Results(experiments))


def test_every_figure_is_the_summary_that_the_tables_show(survey: Analysed) -> None:
    found = ladder(survey)
    assert len(found.latencies) >= 10
    assert len(found.throughputs) >= 6
    for rung in (*found.latencies, *found.throughputs):
        own = [e for e in survey.experiments if e.experiment == rung.experiment]
        summaries = [
            survey.summary(e, point, rung.metric)
            for e in own
            for point in e.points
            if dict(point.factors) == dict(rung.factors)
        ]
        assert rung.summary in summaries
        assert rung.median == rung.summary.median
    assert {*(r.key for r in (*found.latencies, *found.throughputs, *found.absent))} == {s.key for s in RUNGS}


def test_a_shown_figure_stands_in_the_table_of_its_experiment() -> None:
    results = Analysed.of(Results((synthetic.cost(),)))
    rung = ladder(results).rung("null-call")
    assert rung is not None
    columns, _ = summary_columns(results, results.experiments[0], width=1000)
    by_heading = {column[0].strip(): column[1:] for column in columns}
    row = [
        index
        for index, (call, style) in enumerate(zip(by_heading["call"], by_heading["style"], strict=True))
        if (call, style) == ("getppid", "loop")
    ]
    assert [by_heading["time [ns]"][index].strip() for index in row] == [rung.scale.text(rung.median)]
    assert [by_heading["95 % interval"][index].strip() for index in row] == [rung.scale.span(rung.ci95)]


def test_latencies_rise_and_throughputs_fall(survey: Analysed) -> None:
    found = ladder(survey)
    rising = [rung.median * rung.base_factor for rung in found.latencies]
    falling = [rung.median * rung.base_factor for rung in found.throughputs]
    assert rising == sorted(rising)
    assert falling == sorted(falling, reverse=True)


def test_loads_are_named_after_the_cache_that_holds_the_memory() -> None:
    latency = synthetic_memory.latency()
    found = _of(latency)
    sizes = {r.key: (r.name, r.factors["size"]) for r in found.latencies}
    smallest, largest = min(latency.levels("size")), max(latency.levels("size"))
    assert sizes["load-l1"] == ("L1 load", smallest)
    assert sizes["load-dram"][1] == largest


def test_a_load_whose_cache_is_not_known_is_named_after_its_size() -> None:
    latency = synthetic_memory.latency()
    cpu = {**latency.environment["cpu"], "caches": []}
    unknown = dataclasses.replace(latency, environment={**latency.environment, "cpu": cpu})
    found = _of(unknown)
    names = {r.key: r.name for r in found.latencies}
    assert set(names) == {"load-l1", "load-dram"}
    assert all(name.startswith("load, ") for name in names.values())


def test_memory_within_the_last_cache_is_not_called_dram() -> None:
    found = _of(synthetic_memory.latency(sizes=(8192, 16384)))
    rung = found.rung("load-dram")
    assert rung is not None
    assert rung.name == "load, 16 KiB"


def test_an_empty_parent_is_not_taken_from_one_with_memory() -> None:
    create = synthetic.create()
    grown = tuple(p for p in create.points if p.factors.get("resident"))
    assert grown
    found = _of(dataclasses.replace(create, points=grown))
    assert found.rung("fork-empty") is None
    assert found.rung("fork-resident") is not None
    empty = tuple(p for p in create.points if not p.factors.get("resident"))
    assert _of(dataclasses.replace(create, points=empty)).rung("fork-resident") is None


def test_what_a_tracer_watched_gives_no_figure() -> None:
    cost = synthetic.cost()
    traced = tuple(dataclasses.replace(p, factors={**p.factors, "tracer": "strace"}) for p in cost.points)
    found = _of(dataclasses.replace(cost, points=traced))
    assert found.rung("null-call") is None


def test_a_figure_that_was_skipped_says_why() -> None:
    cost = synthetic.cost()
    points = tuple(
        dataclasses.replace(
            p.only(np.zeros(len(p), dtype=bool)), skipped="no such call", remedy="load the module"
        )
        for p in cost.points
    )
    found = _of(dataclasses.replace(cost, points=points))
    absent = {each.key: (each.why, each.remedy) for each in found.absent}
    assert absent["null-call"] == ("no such call", "load the module")
    assert absent["shm"] == ("ipc.throughput was not run", "oscope run ipc.throughput")


def test_a_count_of_instructions_is_no_latency() -> None:
    cost = synthetic.cost()
    guest = {**cost.environment, "clock": {**cost.environment["clock"], "kind": "instructions"}}
    found = _of(dataclasses.replace(cost, environment=guest))
    assert found.rung("null-call") is None
    assert next(a for a in found.absent if a.key == "null-call").why.endswith("by a wall clock")


def test_the_latest_experiment_of_a_name_that_has_the_figure_gives_it() -> None:
    first, second = synthetic.cost(seed=1), synthetic.cost(seed=2)
    other = tuple(p for p in second.points if p.factors["call"] != "getppid")
    assert _of(first, second).rung("null-call") == _of(second).rung("null-call")
    assert _of(first, dataclasses.replace(second, points=other)).rung("null-call") == _of(first).rung(
        "null-call"
    )


def test_the_command_of_a_figure_measures_its_point() -> None:
    rung = _of(synthetic.cost()).rung("null-call")
    assert rung is not None
    assert rung.command == "oscope run syscall.cost --set call=getppid --set style=loop"


def test_bytes_moved_between_processes_are_named_with_the_size_of_the_buffer() -> None:
    moved = [spec for spec in RUNGS if spec.experiment == "ipc.throughput"]
    assert moved
    assert [spec.name for spec in moved if not spec.name.endswith("iB")] == []

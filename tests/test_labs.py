"""The labs: names, designs and the answers drawn from results whose causes are known."""

from __future__ import annotations

import dataclasses
import itertools
import re
import subprocess
import sys

import numpy as np
import pytest

import synthetic
import synthetic_kernel
from oscope import labs
from oscope.figures.analysed import label, level_text
from oscope.model.document import Section
from oscope.model.errors import UsageError
from oscope.model.experiment import Lab
from oscope.model.formatting import GROUP
from oscope.model.samples import ExperimentResults, Results
from oscope.probe.catalogue import Catalogue, check_level, load
from oscope.report.figures import draw
from oscope.trace.factor import TRACER
from synthetic import column, number, prose

SYSCALLS = labs.lab("syscalls")


def answers(results: Results) -> dict[str, Section]:
    return {section.title: section for section in SYSCALLS.sections(results)}


@pytest.fixture(scope="module")
def survey() -> dict[str, Section]:
    return answers(synthetic.survey())


def test_a_name_means_one_experiment_though_labs_share_it() -> None:
    experiments = [each for lab in labs.LABS for each in lab.experiments]
    assert all(labs.experiment(each.name) is each for each in experiments)
    assert all(len({each.name for each in lab.experiments}) == len(lab.experiments) for lab in labs.LABS)


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("syscal.cost", "syscall.cost"), ("process.creat", "process.create"), ("syscals", "syscalls")],
)
def test_an_unknown_experiment_is_a_usage_error_with_the_nearest_name(wrong: str, near: str) -> None:
    with pytest.raises(UsageError, match=near):
        labs.experiment(wrong)


def test_a_name_like_no_other_gets_the_labs() -> None:
    with pytest.raises(UsageError, match=r"the labs are disk, .*syscalls, .*oscope list"):
        labs.experiment("zzzzzzzz")
    with pytest.raises(UsageError, match="syscalls"):
        labs.lab("zzzzzzzz")


def test_importing_the_labs_loads_nothing_heavy() -> None:
    heavy = {"numpy", "scipy", "pandas", "plotly", "jinja2", "sqlalchemy"}
    code = f"import sys, oscope.labs; print(sorted({{m.split('.')[0] for m in sys.modules}} & {heavy}))"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert answer.stdout.strip() == "[]"


@pytest.mark.parametrize("lab", labs.LABS, ids=lambda lab: lab.name)
def test_every_design_is_one_that_the_probe_takes(lab: Lab, real_catalogue: Catalogue) -> None:
    for experiment in lab.experiments:
        workload = real_catalogue.workload(experiment.workload)
        assert set(experiment.metrics) <= {metric.name for metric in workload.metrics}
        # What is simulated is the same every time, so one process is enough.
        fewest = 1 if experiment.name == "memory.counters" else 5
        for design in filter(None, (experiment.full, experiment.quick)):
            assert design.reps >= design.blocks >= fewest
            for name, levels in design.factors.items():
                parameter = TRACER if name == TRACER.name else workload.parameter(name)
                assert parameter is not None, f"{experiment.name} has no parameter {name}"
                assert [check_level(parameter, level) for level in levels] == list(levels)


@pytest.fixture
def real_catalogue(probe: object) -> Catalogue:
    return load(probe)  # type: ignore[arg-type]


def test_pages_of_no_memory_are_no_point() -> None:
    create = labs.experiment("process.create")
    assert create.exclude is not None
    names = tuple(create.full.factors)
    points = [
        dict(zip(names, levels, strict=True)) for levels in itertools.product(*create.full.factors.values())
    ]
    kept = [point for point in points if not create.exclude(point)]
    assert len(points) == 30
    assert len(kept) == 25


def test_every_question_of_the_document_is_answered(survey: dict[str, Section]) -> None:
    assert len(survey) == 7
    assert all(section.answer for section in survey.values())
    assert all(section.tables for section in survey.values())


def test_the_documents_table_cites_it_and_lists_ten_iterations(survey: dict[str, Section]) -> None:
    section = survey["A call and fork in cycles, beside the original report"]
    statistics, iterations = section.tables
    assert [row[0] for row in statistics.rows] == [
        "my_precious",
        "fork child (one call each)",
        "fork parent (one call each)",
    ]
    assert list(statistics.rows[0][6:]) == ["9637.50", "8786.50", "1770.49"]
    assert statistics.rows[0][1] == "not measured where fork was"
    assert list(statistics.rows[1][6:]) == ["522560.90", "349551.50", "429520.55"]
    assert [row[0] for row in iterations.rows] == [str(number) for number in range(1, 11)]
    fork = synthetic.create().point(how="fork", resident=0)
    assert fork is not None
    first = [f"{cycles:,.0f}".replace(",", "\u202f") for cycles in fork.metrics["child_cycles"][:10]]
    assert [row[5] for row in iterations.rows] == first
    assert "oscope run kernel.precious-wall" in section.missing


def test_the_mean_and_the_deviation_share_their_decimals(survey: dict[str, Section]) -> None:
    statistics = survey["A call and fork in cycles, beside the original report"].tables[0]
    for row in statistics.rows[1:]:
        assert len({len(cell.partition(".")[2]) for cell in (row[2], row[3], row[5])}) == 1


def test_the_documents_own_figures_follow_from_its_iterations() -> None:
    from oscope.originals import syscalls as reference

    printed = {
        reference.MY_PRECIOUS: (9637.50, 8786.50, 1770.49),
        reference.FORK_CHILD: (522560.90, 349551.50, 429520.55),
        reference.FORK_PARENT: (201388.10, 192662.50, 61774.13),
    }
    for cited, figures in printed.items():
        assert (round(cited.mean, 2), cited.median, round(cited.deviation, 2)) == figures


TABLE_ONE = "A call and fork in cycles, beside the original report"


def test_figures_of_a_guest_are_not_in_a_column_with_those_of_its_host() -> None:
    results = Results((synthetic.cost(), synthetic.create(), synthetic_kernel.precious("wall")))
    section = answers(results)[TABLE_ONE]
    statistics, iterations = section.tables
    assert statistics.rows[0][1] == "not measured where fork was"
    assert {row[4] for row in iterations.rows} == {"–"}
    assert "kernel.precious-wall kernel.fork-wall" in section.missing
    for figure in section.figures:
        draw(figure)
        assert "my_precious" not in str(figure)


@pytest.mark.parametrize(
    ("style", "reported"), [("single", "one call each"), ("loop", "calls in a loop each")]
)
def test_my_precious_stands_beside_fork_of_the_same_guest_as_it_was_timed(style: str, reported: str) -> None:
    wall = synthetic_kernel.precious("wall")
    points = tuple(dataclasses.replace(p, factors={**p.factors, "style": style}) for p in wall.points)
    create = dataclasses.replace(synthetic.create(), environment=wall.environment)
    results = Results((create, dataclasses.replace(wall, points=points)))
    section = answers(results)[TABLE_ONE]
    name, *cells = section.tables[0].rows[0]
    assert name.startswith("my_precious (")
    assert name.endswith(f"{reported})")
    assert cells[0] == str(len(points[0]))
    assert ("in a loop" in name) == (style == "loop")
    assert section.missing == ""


def test_another_call_is_not_taken_for_my_precious() -> None:
    wall = synthetic_kernel.precious("wall")
    points = tuple(point for point in wall.points if point.factors["call"] != "my_precious_logged")
    results = Results((synthetic.create(), dataclasses.replace(wall, points=points)))
    section = answers(results)["A call and fork in cycles, beside the original report"]
    assert section.tables[0].rows[0][1] == "not measured where fork was"


def test_interrupts_are_found_as_the_cause_that_they_are(survey: dict[str, Section]) -> None:
    section = survey["What makes the times vary"]
    assert "interrupts" in section.answer
    guesses = {row[0]: row[1] for row in section.tables[0].rows}
    assert guesses["timer interrupts"].startswith("Yes")
    assert guesses["caches"] == "Not measured, because no PMU in this guest."
    assert "+12 ± 150 ticks" in guesses["the counters of the cores are not synchronised"]


def test_causes_that_cannot_be_told_apart_are_named_together() -> None:
    cost = synthetic.cost()
    doubled = [
        dataclasses.replace(
            point, covariates={**point.covariates, "steal_ticks": point.covariates["interrupts"]}
        )
        for point in cost.points
    ]
    section = answers(Results((dataclasses.replace(cost, points=tuple(doubled)),)))[
        "What makes the times vary"
    ]
    tables = {table.title: table for table in section.tables}
    assert "interrupts (with steal_ticks)" in {row[2] for row in tables["Causes by point"].rows}
    named = {row[0] for row in tables["What the named covariates are"].rows}
    assert {"interrupts", "steal_ticks"} <= named


def test_interrupts_that_rise_with_a_wait_for_a_cpu_are_not_blamed_alone() -> None:
    cost = synthetic.cost()
    waited = [
        dataclasses.replace(
            point, covariates={**point.covariates, "run_delay_ns": 4000 * point.covariates["interrupts"]}
        )
        for point in cost.points
    ]
    guesses = answers(Results((dataclasses.replace(cost, points=tuple(waited)),)))[
        "What makes the times vary"
    ].tables[0]
    (timer,) = [row[1] for row in guesses.rows if row[0] == "timer interrupts"]
    assert timer.startswith("Not separable from other covariates, at ")
    assert "run_delay_ns" in timer


def test_without_interrupts_none_are_blamed() -> None:
    cost = synthetic.cost()
    quiet = [
        dataclasses.replace(point, covariates={**point.covariates, "interrupts": np.zeros(len(point))})
        for point in cost.points
    ]
    section = answers(Results((dataclasses.replace(cost, points=tuple(quiet)),)))["What makes the times vary"]
    guesses = {row[0]: row[1] for row in section.tables[0].rows}
    assert guesses["timer interrupts"].startswith("No")


def test_offsets_measured_before_and_after_the_run_are_both_told() -> None:
    create = synthetic.create()
    before = {"cpus": [0, 1], "ticks": [0.0, -26.0], "error_ticks": [0.0, 273.0]}
    after = {"cpus": [0, 1], "ticks": [0.0, 14.0], "error_ticks": [0.0, 250.0]}
    environment = {**create.environment, "tsc_offsets": before, "after": {"tsc_offsets": after}}
    changed = dataclasses.replace(create, environment=environment)
    guess = answers(Results((changed,)))["What makes the times vary"].tables[0].rows[0][1]
    assert guess.startswith("CPU 1 from CPU 0: -26 to +14 ± 273 ticks, measured 2 times;")


def test_unknown_offsets_are_not_measured_and_say_why() -> None:
    create = synthetic.create()
    environment = {
        **create.environment,
        "tsc_offsets": None,
        "unavailable": {"tsc_offsets": "only one CPU answers"},
    }
    changed = dataclasses.replace(create, environment=environment)
    guess = answers(Results((changed,)))["What makes the times vary"].tables[0].rows[0][1]
    assert guess == "Not measured, because only one CPU answers."


def test_page_tables_cost_what_was_put_in(survey: dict[str, Section]) -> None:
    section = survey["What page tables cost"]
    slopes = {(row[0], row[1]): row[6] for row in section.tables[0].rows}
    assert 880 < float(slopes["fork", "4K"].split()[0]) < 920
    assert 15 < float(slopes["fork", "huge"].split()[0]) < 25
    assert section.answer.startswith("fork with 4K pages holds its parent ")
    assert section.answer.endswith(
        " longer for each MiB resident (paired by block), clone3 likewise; none was found for vfork, "
        "posix_spawn and thread."
    )
    verdicts = {row[0]: row[7] for row in section.tables[0].rows}
    assert verdicts["clone3"] == "slower"
    assert {how for how, verdict in verdicts.items() if verdict == "no cost found"} == {
        *("vfork", "posix_spawn", "thread")
    }
    assert "no huge pages are free" in section.missing


def test_a_call_by_itself_costs_what_was_put_in(survey: dict[str, Section]) -> None:
    rows = {row[0]: row for row in survey["What a call costs"].tables[0].rows}
    assert 4 < float(rows["getppid"][5]) < 8
    assert rows["getppid"][7] == "yes"


def test_a_difference_below_the_clocks_step_is_not_claimed() -> None:
    cost = synthetic.cost()
    coarse = {**cost.environment, "clock": {**cost.environment["clock"], "resolution": 26}}
    section = answers(Results((dataclasses.replace(cost, environment=coarse),)))["What a call costs"]
    assert "not found" in column(section.tables[0], "differ")


def test_a_clock_source_that_the_vdso_cannot_read_is_told() -> None:
    cost = synthetic.cost()
    environment = {**cost.environment, "clocksource": "hpet"}
    section = answers(Results((dataclasses.replace(cost, environment=environment),)))["What a call costs"]
    assert "not measured: the kernel's clock source is hpet" in section.text[0]


def test_throughput_stands_beside_the_documents_figures(survey: dict[str, Section]) -> None:
    section = survey["How many calls fit into a second"]
    rows = {row[0]: row for row in section.tables[0].rows}
    cited = [float(rows[call][7].replace(GROUP, "")) for call in ("read", "lseek", "getpid", "gethostid")]
    assert cited == pytest.approx([1.03e6, 1.51e6, 1.19e6, 0.131e6], rel=0.01)
    assert section.tables[0].columns[6] == "bytes [MiB/s]"
    assert {"median [calls/s]", "original [calls/s]"} <= set(section.tables[0].columns)
    assert sorted(rows, key=lambda call: -number(rows[call][7])) == ["lseek", "getpid", "read", "gethostid"]


def _without_values(experiment: ExperimentResults, *metrics: str) -> ExperimentResults:
    points = tuple(
        dataclasses.replace(
            point,
            metrics={
                name: np.full(len(point), np.nan) if name in metrics else values
                for name, values in point.metrics.items()
            },
        )
        for point in experiment.points
    )
    return dataclasses.replace(experiment, points=points)


def test_without_a_time_stamp_counter_the_cycles_are_missing_with_the_reason() -> None:
    create = synthetic.create()
    clock = {
        "kind": "monotonic_raw",
        "hz": 1e9,
        "overhead": 20.0,
        "overhead_mad": 1.0,
        "why": "the TSC is not invariant",
    }
    create = dataclasses.replace(create, environment={**create.environment, "clock": clock})
    create = _without_values(create, "child_cycles", "parent_cycles", "total_cycles")
    section = answers(Results((create,)))["A call and fork in cycles, beside the original report"]
    assert "the TSC is not invariant" in section.missing
    heads = section.tables[0].columns
    assert heads[6:] == [f"original: {name} [cycles]" for name in ("mean", "median", "std. dev.")]
    assert all(head.endswith("[ns]") for head in heads[2:6])
    assert re.search(r"first instruction comes [\d.]+ [nµ]s ", section.answer)
    assert not section.figures


@pytest.mark.parametrize("name", ["syscall.cost", "syscall.throughput", "process.create"])
def test_an_experiment_by_itself_is_answered_as_far_as_it_goes(name: str) -> None:
    only = [each for each in synthetic.survey().experiments if each.experiment == name]
    assert answers(Results(tuple(only)))


def test_an_experiment_of_skipped_points_makes_no_answer_out_of_nothing() -> None:
    create = synthetic.create()
    points = tuple(synthetic.skipped(point.factors) for point in create.points)
    found = answers(Results((dataclasses.replace(create, points=points),)))
    assert all(not section.answer for section in found.values())


def _few(experiment: ExperimentResults, samples: int) -> ExperimentResults:
    """Keep the first samples of each point, each as if of a process of its own."""

    def cut(values: np.ndarray) -> np.ndarray:
        return values[:samples]

    points = []
    for point in experiment.points:
        arrays = {
            name: cut(getattr(point, name))
            for name in ("process", "boot", "rep", "started_ns", "raw", "iterations", "correction")
        }
        points.append(
            dataclasses.replace(
                point,
                **arrays,
                block=np.arange(len(arrays["rep"])),
                metrics={name: cut(values) for name, values in point.metrics.items()},
                covariates={name: cut(values) for name, values in point.covariates.items()},
                failed=tuple(each for each in point.failed if each[0] < samples),
            )
        )
    return dataclasses.replace(experiment, points=tuple(points))


@pytest.mark.parametrize("samples", [1, 2, 3])
def test_few_samples_are_said_to_be_too_few(samples: int) -> None:
    found = answers(Results(tuple(_few(each, samples) for each in synthetic.survey().experiments)))
    for title in ("How the times are spread", "What makes the times vary", "Which value stands for the cost"):
        assert found[title].answer.startswith("Too few samples")
    guesses = {row[0]: row[1] for row in found["What makes the times vary"].tables[0].rows}
    assert guesses["timer interrupts"] == "Not decided: no point has enough samples."
    verdicts = column(found["What page tables cost"].tables[0], "verdict")
    assert ("one block is too few to decide" in verdicts) == (samples == 1)


def test_the_order_of_parent_and_child_is_counted_in_the_forks_themselves() -> None:
    create = synthetic.create()
    points = []
    for point in create.points:
        child, parent = (point.metrics.get(f"{who}_cycles") for who in ("child", "parent"))
        if child is None or parent is None:
            points.append(point)
            continue
        early = np.where(np.arange(len(child)) < 16, parent - 1, parent + 1)
        points.append(dataclasses.replace(point, metrics={**point.metrics, "child_cycles": early}))
    section = answers(Results((dataclasses.replace(create, points=tuple(points)),)))[
        "A call and fork in cycles, beside the original report"
    ]
    assert "before the child ran in 48 of 64 forks (10 of 10 in the original report)" in prose(section)


def test_calls_whose_rates_overlap_are_not_ranked_for_certain() -> None:
    throughput = synthetic.throughput()
    points = tuple(
        dataclasses.replace(
            point, metrics={**point.metrics, "calls_per_s": np.array([1e6, 2e6, 3e6, 4e6, 5e6])}
        )
        if point.factors["call"] in ("lseek", "getpid")
        else point
        for point in throughput.points
    )
    section = answers(Results((dataclasses.replace(throughput, points=points),)))[
        "How many calls fit into a second"
    ]
    spans = {row[0]: [number(end) for end in row[4].split(" to ")] for row in section.tables[0].rows}
    assert spans["lseek"][0] <= spans["getpid"][1]
    assert spans["getpid"][0] <= spans["lseek"][1]


def test_entering_the_kernel_is_compared_with_getppid() -> None:
    """A question that is nothing but data: rows, template, columns and figure are of `oscope.questions`."""
    cost, calls = synthetic.cost(), {"clock_gettime": "nr:1023", "getppid": "getppid", "read": "nr:24"}
    points = tuple(
        dataclasses.replace(point, factors={**point.factors, "call": calls[str(point.factors["call"])]})
        for point in cost.points
        if point.factors["style"] == "loop" and point.factors["call"] in calls
    )
    made = dataclasses.replace(cost, experiment="syscall.entry", points=points)
    section = answers(Results((made,)))["Entering the kernel"]
    assert re.fullmatch(r"nr:1023 costs .+; nr:24, the most expensive of 3, .+\.", section.answer)
    rows = {row[0]: row for row in section.tables[0].rows}
    medians = {str(p.factors["call"]): float(np.nanmedian(p.metrics["time_ns"])) for p in points}
    for call, row in rows.items():
        assert float(row[2]) == pytest.approx(medians[call], rel=0.01)
        if call != "getppid":
            assert float(row[4].split()[0]) == pytest.approx(medians[call] / medians["getppid"], rel=0.05)
            assert row[5] == "yes"
    assert list(rows["getppid"][4:]) == ["–", "–", "–"]
    draw(section.figures[0])
    assert labs.experiment("syscall.entry").workload == "syscall.cost"


def test_the_type_of_a_factor_decides_how_its_levels_are_written() -> None:
    create = synthetic.create()
    assert label(create, {"how": "fork", "resident": 64 << 20}, ("how", "resident")) == "fork · 64 MiB"
    unknown = dataclasses.replace(create, factor_types={})
    assert label(unknown, {"how": "fork", "resident": 64 << 20}, ("resident",)) == str(64 << 20)
    assert level_text(0.5, "duration") == "500 ms"


def test_a_call_alone_is_named_whichever_style_was_run() -> None:
    cost = synthetic.cost()
    for style, ending in (("loop", " in a loop."), ("single", " timed by itself.")):
        point = cost.point(call="read", style=style)
        assert point is not None
        section = answers(Results((dataclasses.replace(cost, points=(point,)),)))["What a call costs"]
        assert section.answer.startswith("read costs ")
        assert section.answer.endswith(ending)

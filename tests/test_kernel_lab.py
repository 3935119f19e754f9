"""The kernel lab: its designs, and answers that follow results whose causes are known."""

from __future__ import annotations

import dataclasses
import re
from typing import get_args

import numpy as np
import pytest

import synthetic
import synthetic_kernel
from oscope import labs
from oscope import questions as q
from oscope.figures.analysed import Analysed
from oscope.labs.kernel import CALLS, KERNEL, MAPPINGS, POLICIES, calls
from oscope.model.clocks import Clock
from oscope.model.document import Section
from oscope.model.samples import ExperimentResults
from oscope.questions import clocked
from oscope.questions.clocked import names
from oscope.report.build import answers, build
from oscope.report.figures import draw
from oscope.statistics.multiplicity import holm
from synthetic import prose
from synthetic_kernel import FAULTS, sections

LAB = labs.lab("kernel")
PRECIOUS, FORK = "A new system call, and what its printing costs", "fork beside the new call"
TABLE_ONE = "The new call and fork in one table"
POLICY = {mapping: f"Reclaim policies: {mapping} mapping" for mapping in MAPPINGS}
FIGURE = re.compile(r"[\d.]+")
CLOCKS: tuple[Clock, ...] = get_args(Clock)


@pytest.fixture(scope="module")
def survey() -> dict[str, Section]:
    return sections(*synthetic_kernel.survey().experiments)


def test_one_kernel_serves_every_experiment_and_none_is_quick() -> None:
    for experiment in LAB.experiments:
        assert experiment.guest is not None
        assert experiment.guest.kernel == KERNEL
        assert experiment.guest.clock == ("wall" if experiment.name.endswith("-wall") else "instructions")
        assert experiment.quick is None
        assert "oscope kernel build --patch my_precious --patch reclaim-policy" in experiment.quick_share
        # A verdict on kernels rests on five boots.
        assert experiment.full.blocks >= 5


def test_the_reclaim_is_of_every_policy_and_its_counts_repeat_by_design() -> None:
    factors = labs.experiment("kernel.reclaim").full.factors
    assert factors["policy"] == POLICIES
    assert factors["mapping"] == MAPPINGS
    # A competitor that takes turns, and swap in memory: nothing of the host decides what is counted.
    assert all(int(level) > 0 for level in factors["steps"])
    assert factors["swap"] == ("zram",)


def test_every_section_has_answer_table_and_figure(survey: dict[str, Section]) -> None:
    assert list(survey) == [PRECIOUS, FORK, TABLE_ONE, *POLICY.values()]
    for section in survey.values():
        assert prose(section)
        assert section.tables
        assert section.figures or section.title == TABLE_ONE
        assert not section.missing
        for figure in section.figures:
            draw(figure)
        for table in section.tables:
            assert all(len(row) == len(table.columns) for row in table.rows), table.title


def test_the_printing_is_told_with_its_share_under_each_clock(survey: dict[str, Section]) -> None:
    section = survey[PRECIOUS]
    assert "200 instructions" in prose(section)
    (table,) = section.tables
    logged = dict(zip(table.columns, table.rows[1], strict=True))
    assert logged["instructions / my_precious's (95 %)"] == "20.000 (20.000 to 20.000)"
    assert logged["printing's share of the instructions (95 %)"] == "95.00 % (95.00 to 95.00 %)"
    # By time the share has the uncertainty of the ratio.
    share, low, high = map(float, FIGURE.findall(logged["printing's share of the time (95 %)"]))
    assert low < share < high
    assert [row[0] for row in section.tables[0].rows] == list(CALLS)
    assert any("439.3 cycles" in text or "439 cycles" in text for text in section.text)
    assert any("are not compared" in text for text in section.text)


def test_the_call_and_fork_of_one_guest_are_in_one_table_with_their_units(survey: dict[str, Section]) -> None:
    section = survey[TABLE_ONE]
    wall, counted = section.tables
    assert "time in a guest" in wall.title
    assert "instructions in a guest" in counted.title
    for table, unit in ((wall, "cycles"), (counted, "instructions")):
        assert table.columns[2:6] == [f"{name} [{unit}]" for name in ("mean", "median", "95 %", "std. dev.")]
        assert [row[0].partition(" (")[0] for row in table.rows] == [
            "my_precious_logged",
            "my_precious",
            "fork, until the child's first instruction",
            "fork, until the parent's return",
        ]
        assert list(table.rows[0][6:]) == ["9637.50", "8786.50", "1770.49"]
        assert list(table.rows[2][6:]) == ["522560.90", "349551.50", "429520.55"]
        assert "in a loop" in table.rows[0][0]
    # Under this clock each repeats the other.
    assert counted.rows[0][2:6] == ["4000", "4000", "–", "0"]
    assert any("--set style=single" in text for text in section.text)


def test_a_guest_without_cycles_has_its_table_in_time(survey: dict[str, Section]) -> None:
    del survey
    made = []
    for experiment in (synthetic_kernel.precious("wall"), synthetic_kernel.fork("wall")):
        points = tuple(
            dataclasses.replace(
                p, metrics={name: v for name, v in p.metrics.items() if not name.endswith("cycles")}
            )
            for p in experiment.points
        )
        metrics = {name: c for name, c in experiment.metrics.items() if not name.endswith("cycles")}
        made.append(dataclasses.replace(experiment, points=points, metrics=metrics))
    (table,) = sections(*made)[TABLE_ONE].tables
    assert all(head.endswith("[ns]") for head in table.columns[2:6])
    assert all(head.endswith("[cycles]") for head in table.columns[6:])


def test_figures_of_two_guests_are_not_in_one_table() -> None:
    precious, fork = synthetic_kernel.precious("wall"), synthetic_kernel.fork("wall")
    guest = {**fork.environment["guest"], "accelerator": "kvm"}
    other = dataclasses.replace(fork, environment={**fork.environment, "guest": guest})
    for together in ((precious, other), (precious,), (other,)):
        section = sections(*together)[TABLE_ONE]
        assert section.tables == []
        assert "oscope run kernel.precious-wall kernel.fork-wall" in section.missing


def test_a_call_timed_by_itself_is_not_said_to_be_in_a_loop() -> None:
    wall = synthetic_kernel.precious("wall")
    points = tuple(dataclasses.replace(p, factors={**p.factors, "style": "single"}) for p in wall.points)
    found = sections(dataclasses.replace(wall, points=points), synthetic_kernel.fork("wall"))
    for title in (PRECIOUS, TABLE_ONE):
        reported = " ".join(found[title].text) + str(found[title].tables) + prose(found[title])
        assert "in a loop" not in reported
        assert "one call" in reported


def test_printing_that_costs_nothing_is_not_called_the_cost() -> None:
    made = synthetic_kernel.precious("instructions")
    silent = made.point(call="my_precious")
    assert silent is not None
    points = [
        dataclasses.replace(point, metrics=silent.metrics)
        if point.factors["call"] == "my_precious_logged"
        else point
        for point in made.points
    ]
    section = sections(dataclasses.replace(made, points=tuple(points)))[PRECIOUS]
    assert section.tables[0].rows[1][-2:] == ["no", "–"]
    assert "share" not in " ".join(section.text)


def test_one_clock_alone_is_enough(survey: dict[str, Section]) -> None:
    for clock in CLOCKS:
        found = sections(*(make(clock) for make in (synthetic_kernel.precious, synthetic_kernel.fork)))
        assert list(found) == [PRECIOUS, FORK, TABLE_ONE]
        unit = "instructions" if clock == "instructions" else "ns"
        assert unit in prose(found[PRECIOUS])
        assert len(found[PRECIOUS].figures) == 1
    assert len(survey[PRECIOUS].figures) == 2


def test_fork_says_who_comes_first(survey: dict[str, Section]) -> None:
    section = survey[FORK]
    assert prose(section).count("The parent returns first") == 2
    assert section.tables[0].rows[0][-3:] == ["522560.90", "349551.50", "429520.55"]
    assert section.tables[0].rows[0][1] == "300\u202f000 instructions"


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_each_mapping_has_its_verdict_on_each_policy(survey: dict[str, Section], mapping: str) -> None:
    section = survey[POLICY[mapping]]
    faults = next(
        table for table in section.tables if table.title.startswith("Against the kernel's own policy")
    ).rows[0]
    for policy, ratio, different in zip(POLICIES[1:], faults[1::2], faults[2::2], strict=True):
        expected = FAULTS[mapping][policy]
        assert different == ("no" if expected == 1 else "yes"), policy
        assert float(ratio.partition(" ")[0]) == pytest.approx(expected, rel=0.001)


def test_what_the_intervals_cover_is_told(survey: dict[str, Section]) -> None:
    for mapping in MAPPINGS:
        assert any("drawn from the run's seed" in text for text in survey[POLICY[mapping]].text)


def test_an_emulated_machines_time_is_told_to_be_that(survey: dict[str, Section]) -> None:
    reported = "QEMU's emulation of a machine (tcg)"
    for title in (PRECIOUS, FORK):
        assert prose(survey[title]).count(reported) == 1
    for title in POLICY.values():
        assert sum(reported in text for text in survey[title].text) == 1
    for make in (synthetic_kernel.precious, synthetic_kernel.fork, synthetic_kernel.reclaim):
        wall = make("wall")
        guest = {**wall.environment["guest"], "accelerator": "kvm"}
        true = dataclasses.replace(wall, environment={**wall.environment, "guest": guest})
        for results in (make("instructions"), true):
            for section in sections(results).values():
                assert reported not in " ".join((prose(section), *section.text))


def test_the_clocks_are_set_apart_only_where_both_measured(survey: dict[str, Section]) -> None:
    for section in survey.values():
        assert sum("are not compared" in text for text in section.text) == 1
    for clock in CLOCKS:
        for make in (synthetic_kernel.precious, synthetic_kernel.fork, synthetic_kernel.reclaim):
            for section in sections(make(clock)).values():
                assert "are not compared" not in " ".join(section.text)


def test_an_answer_is_given_once_where_a_wall_experiment_counted_instructions() -> None:
    made = dataclasses.replace(synthetic_kernel.precious("instructions"), experiment="kernel.precious-wall")
    section = sections(made)[PRECIOUS]
    assert prose(section).count("The call takes") == 1
    assert len(section.figures) == 1
    assert names("cycles") == ("cycles",)
    assert names("child_ns") == ("child_ns", "child_instructions")


@pytest.mark.parametrize("clock", CLOCKS)
def test_the_calls_of_a_clock_are_one_family_of_tests(clock: Clock) -> None:
    measured = synthetic_kernel.precious(clock)
    run = q.Run(Analysed((measured,)), measured)
    (side,) = clocked.sides(run, (measured.experiment, "time_ns"))
    rows = calls.over_silent(side)
    assert set(rows) == set(CALLS) - {calls.SILENT}
    assert {(row.tests, row.correction) for row in rows.values()} == {(len(CALLS) - 1, "Holm")}
    p = np.array([row.p for row in rows.values()])
    assert np.array_equal([row.p_holm for row in rows.values()], holm(p))


@pytest.mark.parametrize(("boots", "different"), [(2, "cannot tell"), (4, "cannot tell"), (5, "yes")])
def test_fewer_than_five_boots_tell_nothing_however_alike(boots: int, different: str) -> None:
    made = synthetic_kernel.reclaim("instructions")
    points = tuple(point.only(point.boot < boots) for point in made.points)
    section = sections(dataclasses.replace(made, points=points))[POLICY["private"]]
    table = next(each for each in section.tables if each.title.startswith("Against"))
    mglru = [row[-2:] for row in table.rows]
    assert {verdict for _, verdict in mglru} == {different}
    assert mglru[0][0].startswith("0.5")
    assert ("no difference from it was found" in section.answer) == (boots < 5)


def test_cpu_time_is_compared_as_what_it_is_counted_by() -> None:
    made = synthetic_kernel.reclaim("instructions")
    points = [
        dataclasses.replace(
            point,
            metrics={**point.metrics, "cpu_instructions": np.full(len(point), 100_000.0 + 1000 * index)},
        )
        for index, point in enumerate(made.points)
    ]
    section = sections(dataclasses.replace(made, points=tuple(points)))[POLICY["private"]]
    table = next(each for each in section.tables if each.title.startswith("Against"))
    (row,) = [row for row in table.rows if "(cpu_instructions)" in row[0]]
    # With an interval, though each boot has the same.
    assert all(" to " in ratio for ratio in row[1::2])


def test_a_policy_that_could_not_be_set_is_told_with_its_remedy() -> None:
    made = synthetic_kernel.reclaim("instructions")
    points = tuple(
        dataclasses.replace(
            synthetic.skipped(point.factors),
            skipped="this kernel has no /proc/sys/vm/reclaim_referenced",
            remedy="--on guest:reclaim-policy",
        )
        if point.factors["policy"] == "reclaim-active"
        else point
        for point in made.points
    )
    section = sections(dataclasses.replace(made, points=points))[POLICY["private"]]
    assert "--on guest:reclaim-policy" in section.missing
    assert "reclaim-active" not in section.answer
    heads = [head for table in section.tables for head in table.columns]
    assert not any("reclaim-active" in head for head in heads)
    assert "mglru" in heads


def test_too_few_boots_with_a_spread_say_nothing() -> None:
    made = synthetic_kernel.reclaim("instructions")
    generator = np.random.default_rng(1)

    def noisy(results: ExperimentResults) -> ExperimentResults:
        points = [
            dataclasses.replace(
                point,
                metrics={**point.metrics, "majflt": np.rint(2400 * generator.lognormal(0, 0.3, len(point)))},
            ).only(point.boot < 2)
            for point in results.points
        ]
        return dataclasses.replace(results, points=tuple(points))

    section = sections(noisy(made))[POLICY["anonymous"]]
    table = next(each for each in section.tables if each.title.startswith("Against"))
    assert set(table.rows[0][2::2]) == {"cannot tell"}


def test_the_report_takes_both_clocks(survey: dict[str, Section]) -> None:
    results = synthetic_kernel.survey()
    (part,) = answers(results, labs.LABS)
    assert part.key == "kernel"
    assert [section.title for section in part.sections] == list(survey)
    assert len(build(results, labs.LABS).experiments) == len(LAB.experiments)

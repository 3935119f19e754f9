"""The lab of networked file systems: its designs, and answers that follow results whose causes are known."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fs_mount
import synthetic
import synthetic_fs
import synthetic_instructions
from oscope import labs
from oscope.figures.analysed import Analysed
from oscope.labs.fs import HERE, LOCAL, NFS, OPERATIONS, OSCOPE, SYSTEMS, compare, fuse, trips
from oscope.labs.fs.fs_points import COUNTED, WORDS, Shown
from oscope.labs.fs.trips import fitted
from oscope.model.document import Section, Table
from oscope.model.samples import ExperimentResults, PointSamples, Results
from oscope.questions.run import Run
from oscope.report.build import answers, build
from oscope.report.figures import draw
from synthetic import column, number, prose
from synthetic_fs import TRIPS, experiment, line_bytes, sections, time_ns

LAB = labs.lab("fs")
HERE_TITLE = "Beside the local file system, on this machine (fs.here)"
GUEST_TITLE = "Beside the local file system, in a guest (fs.compare)"
RATIO = re.compile(r"([\d.\u202f]+) times \[[\d.\u202f]+, [\d.\u202f]+\]")


@pytest.fixture(scope="module")
def survey() -> dict[str, Section]:
    return sections(*synthetic_fs.survey().experiments)


@pytest.fixture(scope="module")
def compared() -> ExperimentResults:
    return experiment("fs.compare")


def changed(
    made: ExperimentResults, change: Callable[[PointSamples], PointSamples | None]
) -> ExperimentResults:
    """Return the results with each point as `change` makes it; None leaves it out."""
    points = (change(point) for point in made.points)
    return dataclasses.replace(made, points=tuple(point for point in points if point is not None))


def with_times(point: PointSamples, values: np.ndarray) -> PointSamples:
    return dataclasses.replace(point, metrics={**point.metrics, "time_ns": values})


def alone(asked: Callable[[Analysed], Section | None], made: ExperimentResults) -> Section:
    """Return one section: the others take their time."""
    section = asked(Analysed.of(Results((made,))))
    assert isinstance(section, Section)
    return section


def ratios(text: str) -> list[float]:
    """Return the ratios that a text tells."""
    return [float(found.replace("\u202f", "")) for found in RATIO.findall(text)]


def row_of(table: Table, *cells: str) -> list[str]:
    """Return the row that begins with these cells."""
    return next(list(row) for row in table.rows if tuple(row[: len(cells)]) == cells)


def factors(system: str, operation: str, delay: float) -> dict[str, str | float | int]:
    return {"system": system, "operation": operation, "delay": delay, "size": 64 << 20, "files": 200}


def truth(operation: str, delay: float, one: str, other: str) -> float:
    """Return the true ratio of two systems' times."""
    return time_ns(factors(one, operation, delay)) / time_ns(factors(other, operation, delay))


def test_every_system_meets_every_operation_and_only_the_local_one_has_no_delay() -> None:
    known = labs.experiment("fs.compare")
    assert known.guest is not None
    assert known.exclude is not None
    assert known.full.factors["system"] == SYSTEMS
    assert known.full.factors["operation"] == OPERATIONS
    product = [
        dict(zip(known.full.factors, each, strict=True))
        for each in itertools.product(*known.full.factors.values())
    ]
    kept = [each for each in product if not known.exclude(each)]
    delays = known.full.factors["delay"]
    assert len(kept) == len(OPERATIONS) * (1 + 3 * len(delays))
    assert {each["delay"] for each in kept if each["system"] == LOCAL} == {0.0}
    # What the guest's root is cannot be served.
    assert known.full.factors["directory"] == ("/tmp",)  # noqa: S108
    # A model with two unknowns is borne out by three delays at least.
    assert len(delays) >= trips.FEWEST_DELAYS


def test_what_is_measured_here_needs_neither_a_guest_nor_nfs() -> None:
    known = labs.experiment("fs.here")
    assert known.guest is None
    assert known.full.factors["system"] == HERE
    assert NFS not in HERE
    assert known.full.factors["delay"] == (0.0,)


def test_the_quick_design_is_a_part_of_the_full_one_and_smaller() -> None:
    # The guest's takes too long for a survey.
    assert [known.name for known in LAB.experiments if known.quick is not None] == ["fs.here"]
    known = labs.experiment("fs.here")
    assert known.quick is not None
    for name in ("system", "operation", "delay"):
        assert set(known.quick.factors[name]) <= set(known.full.factors[name])
    for name in ("size", "files"):
        assert max(map(int, known.quick.factors[name])) < min(map(int, known.full.factors[name]))


def test_counted_instructions_give_the_answers_of_times(survey: dict[str, Section]) -> None:
    """What is counted stands in the place of the time, and each answer says that it was counted."""
    (made,) = (each for each in synthetic_fs.survey().experiments if each.experiment == "fs.compare")
    found = sections(synthetic_fs.counted(made))
    ratios, counted = (
        [number(row[2]) for table in each[compare.WINS_TITLE].tables for row in table.rows]
        for each in (survey, found)
    )
    assert len(ratios) == 80
    # Counts are compared by blocks' medians, times by means of logarithms.
    assert counted == pytest.approx(ratios, rel=0.05)
    for title in (compare.WINS_TITLE, trips.TITLE, compare.TIMES_TITLE):
        assert COUNTED in prose(found[title])
        assert COUNTED not in prose(survey[title])
    cells = [cell for table in found[compare.TIMES_TITLE].tables for row in table.rows for cell in row]
    assert not [cell for cell in cells if re.search(r"\d (ns|µs|ms|s)\b.*\(", cell)]
    assert [cell for cell in cells if "instr" in cell]


def test_every_operation_is_explained() -> None:
    assert tuple(WORDS) == OPERATIONS


def test_every_section_has_an_answer_and_whole_tables_and_figures(survey: dict[str, Section]) -> None:
    assert list(survey) == [
        compare.WINS_TITLE,
        trips.TITLE,
        compare.CHOICE_TITLE,
        compare.TIMES_TITLE,
        HERE_TITLE,
        GUEST_TITLE,
        fuse.TITLE,
    ]
    for section in survey.values():
        assert prose(section)
        assert section.tables
        assert not section.missing
        for figure in section.figures:
            draw(figure)
        for table in section.tables:
            assert table.rows
            assert all(len(row) == len(table.columns) for row in table.rows), table.title


def test_the_scenarios_of_either_win_are_those_put_in(survey: dict[str, Section]) -> None:
    won, lost = prose(survey[compare.WINS_TITLE]).split(" NFS wins most at ")
    delays = labs.experiment("fs.compare").full.factors["delay"]
    every = {
        (operation, float(delay)): truth(operation, float(delay), OSCOPE, NFS)
        for operation in OPERATIONS
        for delay in delays
    }
    best, worst = min(every, key=lambda key: every[key]), max(every, key=lambda key: every[key])
    assert won.startswith("oscope-fs wins most over NFS at read-random with 50 ms each way, ")
    assert best == ("read-random", 0.05)
    assert ratios(won)[0] == pytest.approx(1 / every[best], rel=0.05)
    assert worst[1] == 0
    assert lost.startswith(("change-block with no delay", "append with no delay"))
    assert ratios(lost)[0] == pytest.approx(every[worst], rel=0.05)


def test_each_ratio_has_its_verdict(survey: dict[str, Section]) -> None:
    table = survey[compare.WINS_TITLE].tables[0]
    assert len(table.rows) == len(OPERATIONS) * 4
    for operation, shown, delay in (("read-again", "10 ms", 0.01), ("append", "0 s", 0.0)):
        row = row_of(table, operation, shown)
        expected = truth(operation, delay, OSCOPE, NFS)
        assert float(row[2].partition(" ")[0]) == pytest.approx(expected, rel=0.05)
        assert row[3:] == ["yes", "yes", "oscope-fs" if expected < 1 else "NFS"]


def test_systems_that_do_not_differ_are_not_said_to(compared: ExperimentResults) -> None:
    def alike(point: PointSamples) -> PointSamples:
        if point.factors["system"] != OSCOPE:
            return point
        twin = compared.point(**{**point.factors, "system": NFS})
        assert twin is not None
        noise = np.random.default_rng(int(1000 * float(point.factors["delay"]))).lognormal(
            0, 0.01, len(point)
        )
        return with_times(point, twin.metrics["time_ns"] * noise)

    section = alone(compare.WINS, changed(compared, alike))
    assert "Nowhere was a difference between oscope-fs and NFS found." in prose(section)
    assert {row[3] for row in section.tables[0].rows} <= {"no", "cannot tell"}
    assert {row[5] for row in section.tables[0].rows} <= {"neither", "cannot tell"}


def test_the_causes_are_told_by_bytes_packets_and_round_trips(survey: dict[str, Section]) -> None:
    traffic, model = ({tuple(row[:2]): row for row in t.rows} for t in survey[trips.TITLE].tables)
    share = survey[trips.TITLE].tables[1].columns.index("of the time with 50 ms each way")
    assert traffic["read-random", "oscope-fs"][2] == "48.0 KiB"
    assert model["read-random", "oscope-fs"][share].startswith("0")
    assert 390 <= number(model["read-random", "NFS"][3]) < 410
    assert number(model["read-random", "NFS"][share]) >= 90
    assert (
        survey[compare.WINS_TITLE]
        .answer.partition(" NFS wins most at ")[2]
        .startswith(("change-block", "append"))
    )
    for operation in ("change-block", "append"):
        assert traffic[operation, "oscope-fs"][2:4] == ["96.0 MiB", "32.0 MiB"]
        assert traffic[operation, "NFS"][2] == "48.0 KiB"


def shown_of(compared: ExperimentResults) -> Shown:
    return Shown.of(Run(Analysed.of(Results((compared,))), compared))


@pytest.mark.parametrize("system", ["oscope", "sshfs", "nfs"])
@pytest.mark.parametrize("operation", ["read-first", "read-random", "create"])
def test_round_trips_and_start_are_found_again(
    compared: ExperimentResults, system: str, operation: str
) -> None:
    found = fitted(shown_of(compared), system, operation)
    assert found is not None
    assert found.fits
    expected = TRIPS[system][operation]
    assert found.trips.median == pytest.approx(expected, rel=0.03, abs=0.05)
    assert found.start.median == pytest.approx(time_ns(factors(system, operation, 0.0)), rel=0.05)


def test_a_time_that_does_not_follow_the_delay_is_said_not_to(compared: ExperimentResults) -> None:
    def bent(point: PointSamples) -> PointSamples:
        # A window of a connection that is full from 10 ms on.
        if point.factors["operation"] != "read-first" or point.factors["delay"] != 0.05:
            return point
        return with_times(point, point.metrics["time_ns"] * 3)

    section = alone(trips.section, changed(compared, bent))
    fits = {(row[0], row[1]): row[5] for row in section.tables[1].rows}
    assert fits["read-first", "NFS"] == "no"
    assert fits["read-again", "NFS"] == "yes"
    assert (list(fits.values()).count("yes"), len(fits)) == (27, 30)


def test_few_blocks_of_small_slopes_are_no_proof_of_a_round_trip(compared: ExperimentResults) -> None:
    def sloping(point: PointSamples) -> PointSamples:
        slopes = np.array([0.02, 0.05, 0.1, 0.2, 0.4])[point.block]
        return with_times(point, 1e9 + slopes * 2e9 * float(point.factors["delay"]))

    found = fitted(shown_of(changed(compared, sloping)), NFS, "read-first")
    assert found is not None
    assert found.trips.ci95 == pytest.approx((-0.037, 0.345), abs=0.001)


def test_two_delays_bear_out_no_model(compared: ExperimentResults) -> None:
    two = changed(compared, lambda point: point if point.factors["delay"] in (0.0, 0.01) else None)
    found = sections(two)
    assert {row[5] for row in found[trips.TITLE].tables[1].rows} == {"cannot tell"}
    assert not found[trips.TITLE].answer
    assert {row[6] for row in found[trips.TITLE].tables[1].rows} == {"–"}


def test_one_block_decides_nothing(compared: ExperimentResults) -> None:
    one = changed(compared, lambda point: point.only(point.block == 0))
    found = sections(one)
    section = found[compare.WINS_TITLE]
    assert "Nowhere was a difference between oscope-fs and NFS found." in prose(section)
    assert {row[3] for row in section.tables[0].rows} == {"cannot tell"}
    assert "Fastest at every delay" not in prose(found[compare.CHOICE_TITLE])
    shares = column(found[trips.TITLE].tables[1], "of the time with 50 ms each way")
    assert all(cell in ("–", "0 %", "0.0 %") for cell in shares)


def test_what_was_moved_is_told_of_every_system_but_the_local_one(survey: dict[str, Section]) -> None:
    table = survey[trips.TITLE].tables[0]
    assert len(table.rows) == 3 * len(OPERATIONS)
    assert row_of(table, "change-block", "oscope-fs")[2:4] == ["96.0 MiB", "32.0 MiB"]
    assert line_bytes(OSCOPE, "change-block", 64 << 20) == 128 << 20


def test_the_map_names_the_fastest_and_those_not_to_be_told_from_it(survey: dict[str, Section]) -> None:
    section = survey[compare.CHOICE_TITLE]
    assert "Fastest at every delay: NFS at change-block and append; " in section.answer
    (table,) = section.tables
    assert row_of(table, "read-again")[1:] == ["NFS", "oscope-fs", "oscope-fs", "oscope-fs"]
    # Without delay all three of them move the same bytes at the same rate.
    assert set(row_of(table, "read-first")[1].split(", ")) == {"oscope-fs", "sshfs", "NFS"}


def test_every_operation_has_its_figure_with_a_line_for_each_system(survey: dict[str, Section]) -> None:
    section = survey[compare.TIMES_TITLE]
    assert [figure.title for figure in section.figures] == [f"Time of {name}" for name in OPERATIONS]
    for figure in section.figures:
        assert [trace["name"] for trace in figure.traces] == ["local", "oscope-fs", "sshfs", "NFS"]
        assert [len(trace["x"]) for trace in figure.traces] == [1, 4, 4, 4]
        assert figure.layout["yaxis"]["type"] == "log"
    mounted = {row[0]: row[1] for row in section.tables[-1].rows}
    assert mounted == {name: synthetic_fs.NOTES[key][0] for name, key in _named().items()}


def _named() -> dict[str, str]:
    return {"oscope-fs": "oscope", "sshfs": "sshfs", "NFS": "nfs"}


def test_the_growth_with_the_delay_is_that_put_in(survey: dict[str, Section]) -> None:
    assert survey[compare.TIMES_TITLE].answer.startswith("With 50 ms each way, ")
    table = survey[compare.TIMES_TITLE].tables[1]
    assert table.title == "Time with 50 ms each way over that with no delay"
    rows = {row[1]: row for row in table.rows if row[0] == "oscope-fs"}
    own = {
        operation: time_ns(factors(OSCOPE, operation, 0.05)) / time_ns(factors(OSCOPE, operation, 0.0))
        for operation in OPERATIONS
    }
    assert max(number(row[2]) for row in rows.values()) == pytest.approx(max(own.values()), rel=0.05)
    assert rows["read-random"][3] != "yes"


@pytest.mark.parametrize("title", [HERE_TITLE, GUEST_TITLE])
def test_the_local_file_system_stands_beside(survey: dict[str, Section], title: str) -> None:
    section = survey[title]
    expected = truth("change-block", 0.0, OSCOPE, LOCAL)
    most = re.search(r", ([\d\u202f.]+) times \[[^]]*\] at change-block\.", section.answer)
    assert most is not None
    assert float(most[1].replace("\u202f", "")) == pytest.approx(expected, rel=0.05)
    over = section.tables[0].columns.index("oscope-fs / sshfs (95 %)")
    found = {row[0]: number(row[over]) for row in section.tables[0].rows if row[over + 1] == "yes"}
    assert {operation for operation, ratio in found.items() if ratio > 1} == {"change-block", "append"}
    assert [row[0] for row in section.tables[0].rows] == list(OPERATIONS)


def test_as_fast_as_the_local_one_is_said_where_it_is(compared: ExperimentResults) -> None:
    def as_local(point: PointSamples) -> PointSamples:
        if point.factors["system"] != OSCOPE or point.factors["operation"] != "read-again":
            return point
        twin = compared.point(**{**point.factors, "system": LOCAL, "delay": 0.0})
        assert twin is not None
        return with_times(point, twin.metrics["time_ns"] * np.array([1.01, 0.99, 1.005, 0.995, 1.0]))

    section = sections(changed(compared, as_local))[GUEST_TITLE]
    over = section.tables[0].columns.index("oscope-fs / local (95 %)")
    assert [row[0] for row in section.tables[0].rows if row[over + 1] != "yes"] == ["read-again"]


def test_a_system_that_could_not_be_mounted_is_told_with_its_remedy(compared: ExperimentResults) -> None:
    def without_nfs(point: PointSamples) -> PointSamples:
        if point.factors["system"] != NFS:
            return point
        return dataclasses.replace(
            synthetic.skipped(point.factors),
            skipped="system=nfs needs a kernel that serves and mounts NFS",
            remedy="measure in a guest (--on guest)",
        )

    found = sections(changed(compared, without_nfs))
    section = found[compare.WINS_TITLE]
    assert "serves and mounts NFS: measure in a guest (--on guest)" in section.missing
    assert section.answer.startswith("oscope-fs wins most over sshfs at ")
    assert [table.title for table in section.tables] == ["oscope-fs against sshfs"]
    assert "NFS" not in prose(section)
    assert "Compared are oscope-fs and sshfs;" in prose(found[compare.CHOICE_TITLE])


def test_without_any_time_there_is_no_answer_but_the_reason(compared: ExperimentResults) -> None:
    none = changed(compared, lambda point: synthetic.skipped(point.factors))
    found = sections(none)
    assert not prose(found[compare.WINS_TITLE])
    assert "no huge pages are free" in found[compare.WINS_TITLE].missing
    assert set(found) == {compare.WINS_TITLE, fuse.TITLE}


def test_without_the_guest_it_is_told_how_to_get_the_comparison() -> None:
    found = sections(experiment("fs.here"))
    assert not prose(found[compare.WINS_TITLE])
    assert "oscope kernel build" in found[compare.WINS_TITLE].missing
    assert "oscope run fs.compare" in found[compare.WINS_TITLE].missing
    assert prose(found[HERE_TITLE])


def test_an_emulated_guest_and_a_busy_machine_are_told(compared: ExperimentResults) -> None:
    reported = "QEMU's emulation of a machine (tcg)"
    assert reported in prose(alone(compare.WINS, compared))
    guest = synthetic_instructions.guest("base", clock="wall", accelerator="kvm")
    environment = {**guest, "clock": synthetic.ENVIRONMENT["clock"], "load": [5.0, 1.0, 1.0]}
    answer = prose(alone(compare.WINS, dataclasses.replace(compared, environment=environment)))
    assert reported not in answer
    assert "The machine was busy" in answer


def test_another_size_is_shown_by_its_first_level_and_told(compared: ExperimentResults) -> None:
    larger = changed(
        compared, lambda point: dataclasses.replace(point, factors={**point.factors, "size": 128 << 20})
    )
    both = dataclasses.replace(compared, points=(*compared.points, *larger.points))
    found = alone(compare.WINS, both)
    assert len(found.tables[0].rows) == len(OPERATIONS) * 4
    assert any("size = 64 MiB" in text for text in found.text)


def test_the_table_of_fuse_is_the_programs_own(survey: dict[str, Section]) -> None:
    program = fs_mount.find_oscope_fs()
    printed = subprocess.run([program, "operations", "--json"], capture_output=True, check=True, timeout=300)
    expected = json.loads(printed.stdout)
    (table,) = survey[fuse.TITLE].tables
    assert [row[0] for row in table.rows] == [each["name"] for each in expected]
    assert [row[1] == "yes" for row in table.rows] == [each["implemented"] for each in expected]
    assert [row[2] for row in table.rows] == [each["what"] for each in expected]
    done = sum(each["implemented"] for each in expected)
    assert f"implements {done} of {len(expected)} calls" in prose(survey[fuse.TITLE])


@pytest.mark.parametrize("text", ["echo no JSON", "echo '[1]'", "exit 3", 'echo \'[{"name": "open"}]\''])
def test_a_program_that_tells_no_table_is_told_with_its_remedy(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "oscope-fs"
    broken.write_text(f"#!/bin/sh\n{text}\n")
    broken.chmod(0o755)
    monkeypatch.setenv("OSCOPE_FS", str(broken))
    section = alone(fuse.section, experiment("fs.here"))
    assert not prose(section)
    assert "make setup" in section.missing


def test_a_missing_program_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSCOPE_FS", "/nowhere/oscope-fs")
    section = alone(fuse.section, experiment("fs.here"))
    assert not prose(section)
    assert "/nowhere/oscope-fs is not a program" in section.missing


def test_the_report_has_the_lab_with_both_experiments() -> None:
    # The wiring alone: few points of each are enough.
    made = synthetic_fs.survey().experiments
    results = Results(tuple(dataclasses.replace(each, points=each.points[:3]) for each in made))
    (part,) = answers(results, labs.LABS)
    assert part.key == "fs"
    assert [each.name for each in build(results, labs.LABS).experiments] == ["fs.compare", "fs.here"]

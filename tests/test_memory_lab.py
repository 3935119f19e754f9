"""The memory lab: its designs, and answers that follow results whose causes are known."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import synthetic_memory
from oscope import labs
from oscope.labs.memory.counts import formula
from oscope.labs.memory.walks import reach
from oscope.model.document import Section
from oscope.model.factors import Level
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.report.figures import draw
from synthetic import column, prose
from synthetic_disk import changed
from synthetic_memory import sections

MEMORY = labs.lab("memory")
PATTERNS, TOUCHED = "Sequential and random access", "What the address arithmetic touches"
COUNTS, COUNTERS = "How many accesses there are", "Hits and misses of caches and TLBs"
MAPPING, PREPARED = "Mapping a file", "Populating and setting memory first"
PRESSURE, LEVELS = "Memory pressure", "Levels of caches and TLBs"
BANDWIDTH, FAULTS = "Bandwidth", "What a page fault costs by its kind"
TITLES = [PATTERNS, TOUCHED, COUNTS, COUNTERS, MAPPING, PREPARED, PRESSURE, LEVELS, BANDWIDTH, FAULTS]


@pytest.fixture(scope="module")
def survey() -> dict[str, Section]:
    return sections(*synthetic_memory.survey().experiments)


def _points(name: str, profile: str) -> list[dict[str, Level]]:
    experiment = labs.experiment(name)
    design = experiment.full if profile == "full" else experiment.quick
    assert design is not None
    every = [
        dict(zip(design.factors, levels, strict=True))
        for levels in itertools.product(*design.factors.values())
    ]
    rules = [rule for rule in (experiment.exclude, design.omit) if rule is not None]
    return [point for point in every if not any(rule(point) for rule in rules)]


# ---- designs


def test_the_full_profile_is_the_documents() -> None:
    for name in ("memory.access", "memory.mapping", "memory.initialise", "memory.pressure"):
        for point in _points(name, "full"):
            assert (point["sets"], point["size"]) == (1 << 20, 1 << 30), name
        assert labs.experiment(name).full.reps == 5
    assert {point["wait"] for point in _points("memory.pressure", "full")} == {5.0}
    assert {(point["pattern"], point["footprint"]) for point in _points("memory.access", "full")} == set(
        itertools.product(("seq", "random"), ("first64th", "full"))
    )
    ways = {
        (point["mapping"], point["populate"], point["initialise"])
        for point in _points("memory.initialise", "full")
    }
    assert len(ways) == 3 * 2 * 3


def test_a_quick_walk_says_how_many_sets_it_has() -> None:
    quick = {point["sets"] for point in _points("memory.access", "quick")}
    assert quick == {32768}
    share = labs.experiment("memory.access").quick_share
    assert "32768 sets" in share
    assert "1048576" in share


@pytest.mark.parametrize("profile", ["full", "quick"])
def test_a_chase_has_two_places_or_more(profile: str) -> None:
    points = _points("memory.latency", profile)
    assert all(int(point["size"]) >= 2 * int(point["stride"]) for point in points)
    assert {point["pages"] for point in points} == {"4K", "huge"}


@pytest.mark.parametrize("profile", ["full", "quick"])
def test_every_operation_is_done_by_one_core_and_by_all(profile: str) -> None:
    plain = {(p["operation"], p["threads"]) for p in _points("memory.bandwidth", profile) if not p["window"]}
    assert plain == set(itertools.product(("read", "write", "copy"), (1, 0)))


def test_the_traced_faults_have_a_name_of_their_own() -> None:
    assert labs.experiment("trace.fault").workload == labs.experiment("memory.fault").workload
    assert "tracer" in labs.experiment("trace.fault").full.factors
    assert "tracer" not in labs.experiment("memory.fault").full.factors


def test_the_disk_lab_has_the_same_bandwidth() -> None:
    own = next(each for each in MEMORY.experiments if each.name == "memory.bandwidth")
    assert any(each is own for each in labs.lab("disk").experiments)


# ---- all sections


def test_every_question_is_answered_with_a_table(survey: dict[str, Section]) -> None:
    assert list(survey) == TITLES
    for title, section in survey.items():
        assert prose(section), title
        assert section.tables, title
        for table in section.tables:
            assert table.rows, table.title
            assert all(len(row) == len(table.columns) for row in table.rows), table.title


def test_every_figure_can_be_drawn_for_a_paper(survey: dict[str, Section]) -> None:
    figures = [figure for section in survey.values() for figure in section.figures]
    assert len(figures) >= 8
    for figure in figures:
        draw(figure)


@pytest.mark.parametrize("name", [each.name for each in MEMORY.experiments])
def test_an_experiment_by_itself_is_answered_as_far_as_it_goes(name: str) -> None:
    only = [each for each in synthetic_memory.survey().experiments if each.experiment == name]
    assert len(only) == 1
    assert any(prose(section) for section in sections(*only).values())


def test_what_was_skipped_altogether_makes_no_answer_but_says_why() -> None:
    for experiment in synthetic_memory.survey().experiments:
        missing = tuple(synthetic_memory.skipped(point.factors) for point in experiment.points)
        found = sections(dataclasses.replace(experiment, points=missing))
        assert found, experiment.experiment
        assert all(not prose(section) for section in found.values())
        assert any("this machine has no PMU" in section.missing for section in found.values())


def _cut(experiment: ExperimentResults, samples: int) -> ExperimentResults:
    def cut(point: PointSamples) -> PointSamples:
        arrays = {
            field.name: value[:samples]
            for field in dataclasses.fields(point)
            if isinstance(value := getattr(point, field.name), np.ndarray)
        }
        metrics = {name: values[:samples] for name, values in point.metrics.items()}
        return dataclasses.replace(point, **arrays, metrics=metrics, covariates={}, failed=())

    return dataclasses.replace(experiment, points=tuple(cut(point) for point in experiment.points))


@pytest.mark.parametrize("samples", [0, 1, 2])
def test_few_samples_break_nothing_and_prove_nothing(samples: int) -> None:
    found = sections(*(_cut(each, samples) for each in synthetic_memory.survey().experiments))
    for section in found.values():
        for figure in section.figures:
            draw(figure)
    if samples == 1:
        assert "cannot be distinguished from 1" in prose(found[PATTERNS])
        assert "levels were found" not in prose(found[LEVELS])
        assert "the samples do not separate them" in prose(found[LEVELS])


def test_traced_points_are_not_taken_for_untraced_ones() -> None:
    plain = synthetic_memory.access()

    def under(point: PointSamples, tracer: str, slow: float) -> PointSamples:
        metrics = {**point.metrics, "set_ns": point.metrics["set_ns"] * slow}
        return dataclasses.replace(point, factors={**point.factors, "tracer": tracer}, metrics=metrics)

    both = [
        each for point in plain.points for each in (under(point, "faults", 9.0), under(point, "none", 1.0))
    ]
    mixed = dataclasses.replace(plain, points=tuple(both))
    for title in (PATTERNS, TOUCHED, COUNTS):
        assert prose(sections(mixed)[title]) == prose(sections(plain)[title])


# ---- patterns


def _table(section: Section, title: str) -> dict[str, list[str]]:
    table = next(each for each in section.tables if each.title == title)
    return {row[0]: list(row[1:]) for row in table.rows}


def test_the_pattern_costs_what_was_put_in(survey: dict[str, Section]) -> None:
    rows = _table(survey[PATTERNS], "Sequential and random access over the first 1/64 of the buffer")
    assert 1.47 < float(rows["time of a set"][2].split()[0]) < 1.53
    assert rows["time of a set"][3] == "yes"
    assert rows["minor faults (minflt)"][:2] == ["4104", "7387"]
    whole = _table(survey[PATTERNS], "Sequential and random access over the whole buffer")
    assert len(whole["time of a set"]) == 4, "the document did not walk the whole buffer"


def test_the_documents_times_are_given_for_a_set(survey: dict[str, Section]) -> None:
    rows = _table(survey[PATTERNS], "Sequential and random access over the first 1/64 of the buffer")
    assert rows["user time of a set"][-2:] == ["3.1633 ± 0.0048 µs", "4.6034 ± 0.0029 µs"]
    assert rows["minor faults (minflt)"][-2:] == ["4113.60 ± 0.49", "7336.60 ± 0.49"]


def test_patterns_that_cost_the_same_are_not_ranked() -> None:
    same = synthetic_memory.access(slow={("random", "first64th"): 3.0 / 4.5, ("random", "full"): 6.0 / 9.0})
    section = sections(same)[PATTERNS]
    assert "cannot be distinguished from 1" in section.answer or "no difference" in section.answer
    verdicts = [row[4] for table in section.tables for row in table.rows if row[0] == "time of a set"]
    assert len(verdicts) == 2
    assert set(verdicts) <= {"cannot tell", "no"}


def test_fewer_sets_than_the_documents_are_said(survey: dict[str, Section]) -> None:
    for table in survey[PATTERNS].tables:
        note = table.note.replace("\u202f", " ")
        assert "Here 32 768 sets are walked" in note
        assert "in the original report 1 048 576" in note


# ---- the address arithmetic


@pytest.mark.parametrize("footprint", ["first64th", "full"])
@pytest.mark.parametrize("size", [64 << 10, 128 << 10, 1 << 20])
def test_small_memory_is_all_reached(size: int, footprint: str) -> None:
    found = reach("random", footprint, size, 1 << 20)
    assert found.touched == pytest.approx(found.last)
    assert 0 < found.last <= found.whole
    assert 0 < reach("random", footprint, size, 1).touched <= found.last


@pytest.mark.parametrize(
    ("pattern", "footprint", "sets"),
    [
        ("seq", "first64th", 100),
        ("seq", "first64th", 2000),
        ("seq", "full", 10),
        ("seq", "full", 100),
        ("random", "first64th", 400),
        ("random", "full", 100),
        ("random", "full", 400),
    ],
)
def test_the_pages_by_arithmetic_are_those_of_the_loop(pattern: str, footprint: str, sets: int) -> None:
    size, step = 8 << 20, 1 if footprint == "first64th" else 64
    most = size // 64 - 512
    generator = np.random.default_rng(1)
    base, touched = 0, set()
    for drawn in generator.integers(0, most, sets):
        base = int(drawn) if pattern == "random" else (base + 512 if base + 512 < most else 0)
        first = base * step
        touched.update(((first + 64 * line) // 4096) for line in range(512))
    found = reach(pattern, footprint, size, sets)
    assert found.whole == 2048
    assert found.last <= 2048
    assert max(touched) < found.last
    if pattern == "seq":
        assert found.touched == len(touched)
    else:
        assert found.touched == pytest.approx(len(touched), rel=0.05)


def test_the_documents_footprint_reaches_a_sixty_fourth() -> None:
    found = reach("random", "first64th", 1 << 30, 1 << 20)
    assert found.last == 4104
    assert found.whole / 64 == 4096


def test_touched_pages_stand_beside_the_arithmetic(survey: dict[str, Section]) -> None:
    table = next(each for each in survey[TOUCHED].tables if "by arithmetic" in each.title)
    rows = {(row[0], row[1]): [cell.replace("\u202f", " ") for cell in row] for row in table.rows}
    assert rows["first64th", "seq"][3:7] == ["4104", "4104", "4104", "262 144"]
    assert rows["full", "seq"][3:7] == ["262 136", "262 136", "262 144", "262 144"]
    assert "1.6 %" in prose(survey[TOUCHED])
    misses = {
        (row[0], row[1]): row[3] for row in survey[COUNTERS].tables[0].rows if row[2] == "L1D read misses"
    }
    assert misses["first64th", "random"] != misses["full", "random"]


def test_counts_that_never_vary_are_compared_as_they_are(survey: dict[str, Section]) -> None:
    rows = _table(survey[TOUCHED], "Both footprints, seq")
    assert rows["pages touched"][2:4] == ["63.87", "yes"]
    assert rows["major faults (majflt)"][2:4] == ["–", "no"]


# ---- counts


def test_the_formula_is_the_documents() -> None:
    assert formula(1 << 20) == {"accesses": 8589934592, "reads": 7516192768, "writes": 1073741824}


def test_the_documents_extra_accesses_are_four_and_five_a_set(survey: dict[str, Section]) -> None:
    assert column(survey[COUNTS].tables[1], "more, a set") == ["5.0035", "4.0000"]
    assert column(survey[COUNTS].tables[0], "equal in all samples").count("yes") == 4
    alone = sections(synthetic_memory.access())[COUNTS]
    assert {row[-1] for row in alone.tables[0].rows} == {"not counted"}


def test_counts_that_are_not_the_formulas_are_said_not_to_be() -> None:
    def wrong(point: PointSamples) -> dict[str, np.ndarray]:
        return {"simulated_l1d_read_access": point.metrics["simulated_l1d_read_access"] + 1}

    where = {"counters": "simulated", "pattern": "seq", "footprint": "full"}
    section = sections(changed(synthetic_memory.counters(), wrong, **where))[COUNTS]
    assert [row[-1] for row in section.tables[0].rows].count("no") == 1


# ---- counters


def test_without_counters_only_the_model_speaks_and_is_named(survey: dict[str, Section]) -> None:
    section = survey[COUNTERS]
    assert section.answer.startswith("Simulated, with footprint=full: 7.0 % of the L1D reads miss")
    rates = {(row[0], row[1]): row[3] for row in section.tables[0].rows if row[2] == "L1D read miss rate"}
    assert rates["first64th", "sequential"] == "0.70 %"
    assert rates["full", "sequential"] == "7.0 %"
    assert "this machine has no PMU: counters=simulated" in section.missing
    assert "simulated: L1D 32 KiB, 8 ways" in section.text
    for table in section.tables:
        assert "computed by a model, not measured" in table.note
        assert {row[4] for row in table.rows} == {"–"}
    for figure in section.figures:
        assert all("simulated" in trace["name"] for trace in figure.traces)
        assert "not measured" in figure.note


def test_counters_stand_beside_the_model_with_its_error() -> None:
    section = sections(synthetic_memory.counters(hardware=True))[COUNTERS]
    assert section.answer.startswith("Counted by the CPU, with footprint=full: ")
    rates = {(row[0], row[1]): row[4] for row in section.tables[0].rows if row[2] == "L1D read miss rate"}
    assert rates["first64th", "sequential"].startswith("0.63 %")
    off = [float(row[5].split()[0]) for row in section.tables[0].rows if row[5] != "–"]
    assert (min(off), max(off)) == (pytest.approx(1.0), pytest.approx(1.1))
    errors = {row[2]: row[5] for row in section.tables[0].rows}
    assert errors["L1D read misses"] == "1.1"
    assert errors["L1D reads"] == "1"
    assert errors["L2 misses"] == "–"


def test_the_documents_counters_are_cited_for_its_footprint_alone(survey: dict[str, Section]) -> None:
    rows = {(row[0], row[1], row[2]): row[-1] for row in survey[COUNTERS].tables[0].rows}
    assert rows["first64th", "random", "L1D read miss rate"] == "11 %"
    assert rows["first64th", "sequential", "dTLB read misses"].startswith("0.0946")
    assert {cell for (footprint, *_), cell in rows.items() if footprint == "full"} == {"–"}

"""The memory lab: its designs, and answers that follow results whose causes are known."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import synthetic_memory
from oscope import labs
from oscope.experiment import Level
from oscope.labs.memory import reference
from oscope.labs.memory.counts import formula
from oscope.labs.memory.footprint import reach
from oscope.labs.memory.levels import segments
from oscope.report.document import Section
from oscope.report.figures import draw
from oscope.samples import ExperimentResults, PointSamples
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
        assert section.answer, title
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
    assert any(section.answer for section in sections(*only).values())


def test_what_was_skipped_altogether_makes_no_answer_but_says_why() -> None:
    for experiment in synthetic_memory.survey().experiments:
        gone = tuple(synthetic_memory.skipped(point.factors) for point in experiment.points)
        found = sections(dataclasses.replace(experiment, points=gone))
        assert found, experiment.experiment
        assert all(not section.answer for section in found.values())
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
        assert "cannot be told from 1" in found[PATTERNS].answer
        assert "levels were found" not in found[LEVELS].answer
        assert "the samples do not tell them apart" in found[LEVELS].answer


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
        assert sections(mixed)[title].answer == sections(plain)[title].answer


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
    assert rows["user time of a set"][-2:] == ["3.163 µs", "4.603 µs"]
    assert rows["minor faults (minflt)"][-2:] == ["4114", "7337"]


def test_patterns_that_cost_the_same_are_not_ranked() -> None:
    same = synthetic_memory.access(slow={("random", "first64th"): 3.0 / 4.5, ("random", "full"): 6.0 / 9.0})
    answer = sections(same)[PATTERNS].answer
    assert answer.count("cannot be told from 1") + answer.count("no difference") == 2


def test_fewer_sets_than_the_documents_are_said(survey: dict[str, Section]) -> None:
    assert any("32 768 sets; the document's walk 1 048 576" in text for text in _spaced(survey[PATTERNS]))


def _spaced(section: Section) -> list[str]:
    return [text.replace("\u202f", " ") for text in (*section.text, section.answer)]


# ---- the address arithmetic


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
    assert "1.6 %" in survey[TOUCHED].answer
    assert any(text.startswith("Simulated, for a random set") for text in survey[TOUCHED].text)


def test_counts_that_never_vary_are_compared_as_they_are(survey: dict[str, Section]) -> None:
    rows = _table(survey[TOUCHED], "Both footprints, seq")
    assert rows["pages touched"][2:4] == ["63.87", "yes"]
    assert rows["major faults (majflt)"][2:4] == ["–", "no"]


# ---- counts


def test_the_formula_is_the_documents() -> None:
    assert formula(1 << 20) == {"accesses": 8589934592, "reads": 7516192768, "writes": 1073741824}


def test_the_documents_extra_accesses_are_four_and_five_a_set(survey: dict[str, Section]) -> None:
    assert "5.0035 reads and 4.0000 writes a set" in survey[COUNTS].text[0]
    assert "exactly those of the formula" in survey[COUNTS].answer


def test_counts_that_are_not_the_formulas_are_said_not_to_be() -> None:
    def wrong(point: PointSamples) -> dict[str, np.ndarray]:
        return {"reads": point.metrics["reads"] + 1}

    section = sections(changed(synthetic_memory.access(), wrong, pattern="seq", footprint="full"))[COUNTS]
    assert "At 1 point of 4 the counts are not those of the formula" in section.answer
    assert [row[-1] for row in section.tables[0].rows].count("no") == 1


# ---- counters


def test_without_counters_only_the_model_speaks_and_is_named(survey: dict[str, Section]) -> None:
    section = survey[COUNTERS]
    assert section.answer.startswith("Simulated, over first64th: 0.70 % of the L1D reads miss")
    assert "no counters of the CPU here" in section.answer
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
    assert "Counted by the CPU, over first64th: 0.63 % of the L1D reads miss" in section.answer
    assert "the model is off by +0.0%" in section.answer
    assert "to +10.0%" in section.answer
    errors = {row[2]: row[5] for row in section.tables[0].rows}
    assert errors["L1D read misses"] == "1.1"
    assert errors["L1D reads"] == "1"
    assert errors["L2 misses"] == "–"


def test_the_documents_counters_are_cited_for_its_footprint_alone(survey: dict[str, Section]) -> None:
    rows = {(row[0], row[1], row[2]): row[-1] for row in survey[COUNTERS].tables[0].rows}
    assert rows["first64th", "random", "L1D read miss rate"] == "11 %"
    assert rows["first64th", "sequential", "dTLB read misses"].startswith("0.0946")
    assert {cell for (footprint, *_), cell in rows.items() if footprint == "full"} == {"–"}


# ---- mappings and initialisation


def test_blocks_of_a_shared_mapping_are_tied_to_its_pages(survey: dict[str, Section]) -> None:
    answer = survey[MAPPING].answer
    assert "With private memory no block is charged" in answer
    assert "within 2.0 % of 8 for each page that it touches" in answer
    assert "shared, seq, 1.4" in answer or "shared, seq, 1.5" in answer


def test_other_blocks_are_not_tied_to_pages() -> None:
    answer = sections(synthetic_memory.mapping(dirtied=0.5))[MAPPING].answer
    assert "every page became dirty" not in answer
    assert "0.5 to 0.5 times 8 for each page" in answer


def test_the_documents_blocks_follow_from_its_pages() -> None:
    assert reference.FUNCTION_OUBLOCK == (16 * 1024 + 32) * 1024 / 512
    assert 5 * reference.MAPPING["shared", "seq"]["oublock"] == pytest.approx(reference.FUNCTION_OUBLOCK)
    assert (1 << 30) / 512 - reference.SYNCED_OUBLOCK == reference.FUNCTION_OUBLOCK


def test_what_preparing_does_and_saves_is_told(survey: dict[str, Section]) -> None:
    answer = survey[PREPARED].answer
    assert "The whole buffer is resident after the initialisation with 9 of the ways" in answer
    assert "shared 257 without, 0 after memset, 0 after memset+msync and 0 after MAP_POPULATE" in answer
    assert "shared, memset+msync: what the size of the file over 512 B says" in answer


def test_fewer_blocks_than_the_file_has_are_not_explained_away() -> None:
    answer = sections(synthetic_memory.initialise(synced=0.25))[PREPARED].answer
    assert "0.25 times the size of the file over 512 B" in answer


# ---- pressure


def test_pressure_slows_down_by_what_was_put_in(survey: dict[str, Section]) -> None:
    answer = survey[PRESSURE].answer
    assert answer.startswith("The time of a set with a competitor over that without is 1.397 (1.36")
    assert "Major faults of the function are 0 alone and 24 beside it" in answer
    rows = {row[0]: row for row in survey[PRESSURE].tables[0].rows}
    assert rows["major faults (majflt)"][1:3] == ["0", "24"]
    assert rows["major faults (majflt)"][-3:] == ["yes", "0", "16.20"]


def test_pressure_that_does_nothing_is_not_said_to() -> None:
    answer = sections(synthetic_memory.pressure(slowed=1.0, major=0.0))[PRESSURE].answer
    assert "cannot be told from 1" in answer or "no difference" in answer
    assert "no page had to be brought back" in answer


def test_a_competitor_that_could_not_be_had_leaves_one_side() -> None:
    whole = synthetic_memory.pressure()
    alone = tuple(
        synthetic_memory.skipped(point.factors) if point.factors["pressure"] == "compete" else point
        for point in whole.points
    )
    section = sections(dataclasses.replace(whole, points=alone))[PRESSURE]
    assert section.answer.startswith("Only one side was measured")
    assert "1 of 2 points: this machine has no PMU" in section.missing


# ---- levels


def test_steps_are_found_where_they_are() -> None:
    assert segments([1.0, 1.01, 0.99, 5.0, 5.1, 90.0, 91.0]) == [(0, 3), (3, 5), (5, 7)]
    assert segments([1.0, 1.0, 2.5, 5.0, 5.0]) == [(0, 2), (2, 3), (3, 5)]
    assert segments([4.0] * 6) == [(0, 6)]
    assert segments([4.0]) == [(0, 1)]


def test_levels_and_the_reach_of_the_tlb_are_those_put_in(survey: dict[str, Section]) -> None:
    answer = survey[LEVELS].answer
    assert "With stride 64 B, huge pages, 3 levels were found" in answer
    assert "from 8 KiB to 32 KiB" in answer
    assert "from 64 KiB to 512 KiB" in answer
    assert "from 512 KiB on" in answer
    assert "between 64 and 128 pages of 4 KiB" in answer


def test_a_cache_that_the_curve_does_not_show_is_said(survey: dict[str, Section]) -> None:
    answer = survey[LEVELS].answer
    assert "between 32 KiB and 64 KiB lies the L1 of 48 KiB" in answer
    assert "between 512 KiB and 1 MiB lies no cache that the CPU names" in answer
    assert "No change of its own was found for L2 (2 MiB)" in answer


def test_noise_makes_no_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic_memory, "CACHES", ((1 << 40, 5.0),))
    monkeypatch.setattr(synthetic_memory, "TLB_MISS", 1.0)
    section = sections(synthetic_memory.latency())[LEVELS]
    assert "1 level was found" in section.answer
    assert "no size was found at which 4 KiB pages cost 10 % more" in section.answer


def test_a_step_that_noise_hides_is_no_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        synthetic_memory.Maker, "spread", lambda maker: maker.generator.lognormal(0, 1.5, maker.blocks)
    )
    section = sections(synthetic_memory.latency())[LEVELS]
    assert any(text.startswith("Not told apart") for text in section.text)


# ---- bandwidth and faults


def test_all_cores_reach_what_was_put_in(survey: dict[str, Section]) -> None:
    rows = {(row[0], row[1]): row for row in survey[BANDWIDTH].tables[0].rows if row[1] == "all"}
    assert {operation for operation, _ in rows} == {"read", "write", "copy"}
    assert all(1.6 < float(row[5].split()[0]) < 1.8 for row in rows.values())


def test_faults_are_ordered_by_cost_and_their_scaling_told(survey: dict[str, Section]) -> None:
    answer = survey[FAULTS].answer
    order = ["zero-page", "file 3", "anonymous", "copy-on-write", "swap-in", "file-major", "huge"]
    places = [answer.index(kind) for kind in order[:1] + order[2:]]
    assert places == sorted(places)
    rows = {row[0]: row for row in survey[FAULTS].tables[0].rows}
    assert 1.85 < float(rows["zero-page"][-1].split()[0]) < 1.95
    assert 0.95 < float(rows["file"][-1].split()[0]) < 1.05
    assert rows["swap-in"][3] == "1024"
    assert rows["anonymous"][3] == "0"

"""The memory lab on mappings, pressure, levels and faults: its answers follow results that are known."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

import synthetic_memory
from oscope.labs.memory import FEW_SIZES
from oscope.model.document import Section
from oscope.model.samples import PointSamples
from oscope.originals import memory as reference
from oscope.questions.curve_shapes import levels
from oscope.questions.curves import At
from oscope.statistics.segments import cuts
from synthetic import column, number, prose
from synthetic_disk import changed
from synthetic_memory import sections

PATTERNS = "Sequential and random access"
MAPPING, PREPARED = "Mapping a file", "Populating and setting memory first"
PRESSURE, LEVELS = "Memory pressure", "Levels of caches and TLBs"
BANDWIDTH, FAULTS = "Bandwidth", "What a page fault costs by its kind"


@pytest.fixture(scope="module")
def survey() -> dict[str, Section]:
    return sections(*synthetic_memory.survey().experiments)


# ---- mappings and initialisation


def test_blocks_of_a_shared_mapping_are_tied_to_its_pages(survey: dict[str, Section]) -> None:
    assert "has 8 blocks to write for each page mapped." in survey[MAPPING].answer
    table = survey[MAPPING].tables[0]
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows if row[1] == "here"}
    assert {row["blocks written (oublock)"] for name, row in rows.items() if "private" in name} == {"0"}
    over = next(
        row["time over anonymous (95 %)"] for name, row in rows.items() if name.startswith("shared · seq")
    )
    assert 1.4 <= number(over) < 1.6


def test_other_blocks_are_not_tied_to_pages() -> None:
    assert (
        "has 4 (4 to 4) blocks to write for each page"
        in sections(synthetic_memory.mapping(dirtied=0.5))[MAPPING].answer
    )


def test_a_block_in_one_repetition_is_not_none() -> None:
    def once(point: PointSamples) -> dict[str, np.ndarray]:
        return {"oublock": 8 * np.eye(1, len(point), 2)[0]}

    found = changed(synthetic_memory.mapping(), once, mapping="private", pattern="seq")
    table = sections(found)[MAPPING].tables[0]
    blocks = [row[7] for row in table.rows if row[1] == "here" and row[0].startswith("private · seq")]
    assert table.columns[7] == "blocks written (oublock)"
    assert "0" not in blocks


def test_both_footprints_of_a_mapping_are_told() -> None:
    made = synthetic_memory.mapping()
    points = [
        dataclasses.replace(point, factors={**point.factors, "footprint": footprint})
        for footprint in ("first64th", "full")
        for point in made.points
    ]
    table = sections(dataclasses.replace(made, points=tuple(points)))[MAPPING].tables[0]
    over = {row[0]: row[-1] for row in table.rows if row[1] == "here"}
    for name in ("shared · seq · first64th", "shared · seq · full", "private · random · full"):
        assert number(over[name]) > 0


def test_patterns_over_different_footprints_are_not_compared() -> None:
    access = synthetic_memory.access()
    kept = {("seq", "first64th"), ("random", "full")}
    points = tuple(p for p in access.points if (p.factors["pattern"], p.factors["footprint"]) in kept)
    found = sections(dataclasses.replace(access, points=points))
    answers = [section.answer for section in found.values()]
    assert "Sequential and random sets were never measured in the same case: nothing is compared." in answers


def test_the_flush_is_not_taken_for_the_buffer() -> None:
    def only_flushed(point: PointSamples) -> dict[str, np.ndarray]:
        return {"init_maxrss_kib": np.full(len(point), 16384.0)}

    found = changed(synthetic_memory.initialise(), only_flushed, mapping="shared", initialise="memset")
    assert _initialised(sections(found)[PREPARED], "buffer resident")["shared", "memset"] in ("0.0 %", "0 %")


def _initialised(section: Section, heading: str) -> dict[tuple[str, str], str]:
    """Return a column of what was measured here of each way to prepare memory."""
    table = section.tables[0]
    cells = zip(table.rows, column(table, heading), strict=True)
    return {(row[0], row[1]): cell for row, cell in cells if row[2] == "here"}


def test_the_page_of_zeros_explains_fresh_anonymous_memory_alone(survey: dict[str, Section]) -> None:
    assert any("page of zeros" in text for text in survey[PATTERNS].text)
    made = synthetic_memory.access()
    for other in ({"populate": True}, {"mapping": "shared"}, {"pages": "huge"}):
        points = [dataclasses.replace(each, factors={**each.factors, **other}) for each in made.points]
        text = sections(dataclasses.replace(made, points=tuple(points)))[PATTERNS].text
        assert not any("page of zeros" in each for each in text), other


def test_the_documents_blocks_follow_from_its_pages() -> None:
    assert reference.FUNCTION_OUBLOCK == (16 * 1024 + 32) * 1024 / 512
    assert 5 * reference.FIFTH.mean == pytest.approx(reference.FUNCTION_OUBLOCK)
    synced = reference.PREPARED["shared", False, "memset+msync"]["init_oublock"]
    assert (1 << 30) / 512 - synced.mean == reference.FUNCTION_OUBLOCK


def test_what_preparing_does_and_saves_is_told(survey: dict[str, Section]) -> None:
    resident = _initialised(survey[PREPARED], "buffer resident")
    whole = [way for way, cell in resident.items() if way[1] != "nothing" and number(cell) >= 98]
    assert len(whole) == 9
    function = survey[PREPARED].tables[1]
    minor = function.columns.index("minflt (fun)")
    faults = {row[1]: row[minor] for row in function.rows if row[0] == "shared" and row[2] == "here"}
    assert faults.pop("nothing") == "257"
    assert {"memset", "memset+msync", "MAP_POPULATE"} <= faults.keys()
    assert set(faults.values()) == {"0"}
    blocks = _initialised(survey[PREPARED], "blocks / (size / 512 B)")
    assert number(blocks["shared", "memset+msync"]) == pytest.approx(1, abs=0.02)


def test_fewer_blocks_than_the_file_has_are_not_explained_away() -> None:
    section = sections(synthetic_memory.initialise(synced=0.25))[PREPARED]
    assert _initialised(section, "blocks / (size / 512 B)")["shared", "memset+msync"] == "0.25"


# ---- pressure


def test_pressure_slows_down_by_what_was_put_in(survey: dict[str, Section]) -> None:
    answer = prose(survey[PRESSURE])
    assert answer.startswith("With a competitor for memory, the same work takes 1.408 times [1.370, 1.447]")
    rows = {row[0]: row for row in survey[PRESSURE].tables[0].rows}
    assert rows["time of a set"][3] == "1.408 (1.370 to 1.447)"
    assert rows["major faults (majflt)"][1:3] == ["0", "24"]
    assert rows["major faults (majflt)"][-3:] == ["yes", "0", "16.2 ± 2.5"]


def test_pressure_that_does_nothing_is_not_said_to() -> None:
    section = sections(synthetic_memory.pressure(slowed=1.0, major=0.0))[PRESSURE]
    assert "cannot be distinguished from 1" in section.answer or "no difference" in section.answer
    assert {row[0]: row[2] for row in section.tables[0].rows}["major faults (majflt)"] == "0"


def test_a_single_major_fault_is_not_none() -> None:
    def once(point: PointSamples) -> dict[str, np.ndarray]:
        return {"majflt": np.eye(1, len(point), 2)[0]}

    found = changed(synthetic_memory.pressure(major=0.0), once, pressure="compete")
    cell = {row[0]: row[2] for row in sections(found)[PRESSURE].tables[0].rows}["major faults (majflt)"]
    assert cell != "0"
    assert cell.startswith("0")


def test_each_combination_of_the_other_factors_is_told() -> None:
    one, two = synthetic_memory.pressure(), synthetic_memory.pressure(slowed=3.0)
    points = [
        dataclasses.replace(point, factors={**point.factors, "mapping": mapping})
        for mapping, each in (("private", one), ("shared", two))
        for point in each.points
    ]
    section = sections(dataclasses.replace(one, points=tuple(points)))[PRESSURE]
    assert [table.title.rpartition(", ")[2] for table in section.tables] == ["private", "shared"]
    ratios = [number(row[3]) for table in section.tables for row in table.rows if row[0] == "time of a set"]
    assert ratios[1] > 2 * ratios[0]
    assert all(len(table.columns) == 5 for table in section.tables), (
        "the original report's Figure 5 is anonymous"
    )


def test_the_whole_machine_is_not_called_a_group() -> None:
    group = synthetic_memory.pressure()
    points = [
        dataclasses.replace(point, factors={**point.factors, "scope": "machine"}) for point in group.points
    ]
    machine = dataclasses.replace(group, points=tuple(points))
    assert any("plays the machine's memory" in text for text in sections(group)[PRESSURE].text)
    reported = sections(machine)[PRESSURE].text
    assert any("No group limits it" in text for text in reported)
    assert not any("plays the machine's memory" in text for text in reported)


def test_the_documents_figure_5_stands_beside(survey: dict[str, Section]) -> None:
    rows = {row[0]: row for row in survey[PRESSURE].tables[0].rows}
    assert rows["growth of resident memory (maxrss)"][-2:] == ["0 KiB", "670 ± 120 KiB"]
    assert rows["user time of a set"][-2:] == ["–", "6.50 ± 0.16 µs"]
    assert rows["L1D read misses of a set, counted"][1:3] == ["–", "–"]


def test_a_competitor_that_could_not_be_had_leaves_one_side() -> None:
    whole = synthetic_memory.pressure()
    alone = tuple(
        synthetic_memory.skipped(point.factors) if point.factors["pressure"] == "compete" else point
        for point in whole.points
    )
    section = sections(dataclasses.replace(whole, points=alone))[PRESSURE]
    assert prose(section).startswith("Only one side was measured")
    assert "1 of 2 points: this machine has no PMU" in section.missing


# ---- levels


def test_steps_are_found_where_they_are() -> None:
    assert cuts([1.0, 1.01, 0.99, 5.0, 5.1, 90.0, 91.0]) == [3, 5]
    assert cuts([1.0, 1.0, 2.5, 5.0, 5.0]) == [2, 3]
    assert cuts([4.0] * 6) == []
    assert cuts([4.0]) == []


def test_levels_and_the_reach_of_the_tlb_are_those_put_in(survey: dict[str, Section]) -> None:
    answer = prose(survey[LEVELS])
    assert "With stride 64 B, huge pages, 3 levels were found" in answer
    spans = {tuple(row[2:4]) for row in survey[LEVELS].tables[0].rows if row[:2] == ["64 B", "huge"]}
    assert {("8 KiB", "32 KiB"), ("64 KiB", "512 KiB")} <= spans
    note = survey[LEVELS].tables[-1].note
    assert "From 512 KiB on 4 KiB pages cost" in note
    assert "reaches between 64 and 128 pages" in note


def test_a_cache_that_the_curve_does_not_show_is_said(survey: dict[str, Section]) -> None:
    assert survey[LEVELS].tables[1].rows == [
        ["L1", "48 KiB", "between 32 KiB and 64 KiB"],
        ["L2", "2 MiB", "no step of the curve near it"],
    ]


def test_noise_makes_no_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic_memory, "CACHES", ((1 << 40, 5.0),))
    monkeypatch.setattr(synthetic_memory, "TLB_MISS", 1.0)
    section = sections(synthetic_memory.latency())[LEVELS]
    assert "1 level was found" in prose(section)
    assert "At no size was it found that 4 KiB pages cost 10 % more" in section.tables[-1].note


def _curve(generator: np.random.Generator, times: list[float], spread: float, blocks: int = 5) -> list[At]:
    found = []
    for size, time in zip(FEW_SIZES, times, strict=True):
        values = time * generator.lognormal(0, spread, blocks)
        point = SimpleNamespace(metrics={"time_ns": values}, block=np.arange(blocks))
        found.append(At(size, point, SimpleNamespace(median=float(np.median(values)))))
    return found


def test_levels_that_are_none_are_found_in_less_than_a_twentieth_of_flat_curves() -> None:
    generator, curves = np.random.default_rng(7), 200
    flat = [5.0] * len(FEW_SIZES)
    found = [levels(_curve(generator, flat, 0.3), "time_ns") for _ in range(curves)]
    false = sum(len(each.plateaus) != 1 or bool(each.between) for each in found)
    assert any(each.unseparated for each in found), "the noise is too little to be taken for steps"
    assert false <= 0.05 * curves


def test_levels_that_are_there_are_found_in_noise() -> None:
    generator = np.random.default_rng(8)
    times = [2.0] * 3 + [6.0] * 4 + [90.0] * (len(FEW_SIZES) - 7)
    found = [levels(_curve(generator, times, 0.2), "time_ns") for _ in range(20)]
    right = [[FEW_SIZES[2], FEW_SIZES[6], FEW_SIZES[-1]] == [p.high for p in each.plateaus] for each in found]
    assert sum(right) >= 18


def test_a_step_that_noise_hides_is_no_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        synthetic_memory.Maker, "spread", lambda maker: maker.generator.lognormal(0, 1.5, maker.blocks)
    )
    section = sections(synthetic_memory.latency())[LEVELS]
    assert "Not separated" in section.tables[0].note


# ---- bandwidth and faults


def test_all_cores_reach_what_was_put_in(survey: dict[str, Section]) -> None:
    rows = {(row[0], row[1]): row for row in survey[BANDWIDTH].tables[0].rows if row[1] == "all"}
    assert {operation for operation, _ in rows} == {"read", "write", "copy"}
    assert all(1.6 < float(row[5].split()[0]) < 1.8 for row in rows.values())


def test_faults_are_ordered_by_cost_and_their_scaling_told(survey: dict[str, Section]) -> None:
    assert "kind zero-page takes " in survey[FAULTS].answer
    assert "huge, the slowest" in survey[FAULTS].answer
    drawn = survey[FAULTS].figures[0].layout["yaxis"]["ticktext"]
    order = ["zero-page", "file", "anonymous", "copy-on-write", "swap-in", "file-major", "huge"]
    assert [kind for kind in drawn if kind != "file"] == [kind for kind in order if kind != "file"]
    rows = {row[0]: row for row in survey[FAULTS].tables[0].rows}
    assert 1.85 < float(rows["zero-page"][-2].split()[0]) < 1.95
    assert 0.95 < float(rows["file"][-2].split()[0]) < 1.05
    assert rows["swap-in"][3] == "1024"
    assert rows["anonymous"][3] == "0"

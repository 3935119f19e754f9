"""The transfer lab's answers follow results whose causes are known."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

import synthetic_transfer
from oscope import labs
from oscope.figures.analysed import Analysed
from oscope.labs.transfer import SAME, SIZES, large
from oscope.labs.transfer.ways import compared_ways, way
from oscope.model.document import Section
from oscope.model.samples import PointSamples, Results
from oscope.originals.sizes import SMALL
from oscope.questions import lasting
from oscope.questions.run import Run
from oscope.questions.section_text import brackets
from oscope.report.build import answers, build
from oscope.report.figures import draw
from synthetic import number, prose
from synthetic_transfer import experiment, sections
from transfer_answers import (
    CONTENT,
    DEVICE,
    EQUAL,
    INPUTS,
    LARGE,
    LINE,
    PAIRS,
    SMALL_FILES,
    STEP,
    TRACED,
    WHERE,
    changed,
    scaled,
    surveyed,
)

LAB = labs.lab("transfer")


@pytest.fixture(scope="module")
def survey() -> dict[str, Section]:
    return surveyed()


def test_five_large_inputs_are_told_with_averages_beside_the_documents(survey: dict[str, Section]) -> None:
    section = survey[INPUTS]
    assert not section.missing
    # mmap is twice as fast a byte as readwrite here, and four times as fast as fcntl.
    for expected, table in zip((0.5, 0.25), section.tables[2:], strict=True):
        found = [number(row[2]) for row in table.rows if row[1] == "mmap"]
        assert found == pytest.approx([expected] * 2, rel=0.1)
    user, devices = section.tables[:2]
    for table, calls in ((user, "readwrite"), (devices, "fcntl")):
        rows = {(row[0], row[1]): row for row in table.rows}
        assert {row[2].replace("\u202f", "").replace(" ", "") for row in table.rows} == {str(sum(SIZES))}
        assert rows["zeros", calls][-1] == "519.5"
        assert rows["random", "mmap"][-1] == "484.5"
    assert len(section.figures) == 2
    assert "not compared with those of user space" in " ".join(section.text)


def test_every_section_has_an_answer_and_its_tables_are_whole(survey: dict[str, Section]) -> None:
    assert list(survey) == [
        *(LARGE, INPUTS, SMALL_FILES, CONTENT, WHERE, TRACED, STEP, DEVICE, PAIRS, LINE, EQUAL),
    ]
    for section in survey.values():
        assert prose(section), section.title
        assert section.tables, section.title
        assert not section.missing, section.title
        for figure in section.figures:
            draw(figure)
        for table in section.tables:
            assert table.rows, table.title
            assert all(len(row) == len(table.columns) for row in table.rows), table.title
    assert all(survey[title].figures for title in survey if title not in (CONTENT, EQUAL))


def test_mmap_is_faster_from_where_it_is(survey: dict[str, Section]) -> None:
    assert "mmap is faster than readwrite from 1 MiB on" in survey[LARGE].answer
    assert "mmap is faster than fcntl from 1 MiB on" in survey[DEVICE].answer
    for section in (survey[LARGE], survey[DEVICE]):
        for row in section.tables[1].rows:
            if row[2] == "mmap":
                assert (number(row[3]) < 1 and row[4] == "yes") == (
                    row[0][-3:] == "MiB" or row[0].startswith("1502860")
                ), row
    verdicts = {tuple(row[:3]): row for row in survey[LARGE].tables[1].rows}
    assert verdicts["1 KiB", "zeros", "mmap"][4:] == ["yes", "yes"]
    assert float(str(verdicts["100 MiB", "random", "mmap"][3]).split()[0]) == pytest.approx(0.5, rel=0.1)
    assert "8 times as many" in survey[LARGE].tables[2].note


def test_mmap_that_is_never_faster_is_said_to_be_at_no_size() -> None:
    def slowed(point: PointSamples) -> PointSamples:
        return scaled(point, 3.0, "time_ns", "receiver_time_ns") if way(point.factors) == "mmap" else point

    section = sections(changed(experiment("transfer.large"), slowed))[LARGE]
    assert "mmap is found faster than readwrite at no size" in prose(section)
    assert "is faster than readwrite from" not in prose(section)


def test_a_size_lasts_only_if_all_larger_ones_hold() -> None:
    sizes = [1, 2, 3, 4]
    assert lasting(sizes, lambda size: size >= 3) == 3
    assert lasting(sizes, lambda size: size != 3) == 4
    assert lasting(sizes, lambda size: size < 4) is None


def test_single_files_stand_beside_the_documents(survey: dict[str, Section]) -> None:
    single, several, verdicts = survey[SMALL_FILES].tables
    rows = {tuple(row[:2]): row for row in single.rows}
    assert rows["577 B", "readwrite"][-1] == "0.0587"
    assert rows["577 B", "mmap"][-1] == "0.1695"
    assert rows["1\u202f502\u202f860 B", "mmap"][-1] == "2.6937"
    assert rows["4 B", "sendfile → readwrite"][-1] == "–"
    five = next(row for row in several.rows if row[0] == "5" and row[2] == "readwrite")
    assert five[1] == "2275"
    assert five[-1] == "0.3200"
    assert len(verdicts.rows) == 2 * (len(SMALL) + 1 + 2)
    # FILE_NS, by both.
    column = several.columns.index("receiver, a file more")
    more = [number(row[column]) for row in several.rows if row[2] in ("readwrite", "mmap") and row[0] == "10"]
    assert len(more) == 2
    assert all(abs(each - 10) < 3 for each in more)


def test_content_that_makes_no_difference_is_not_said_to_make_one(survey: dict[str, Section]) -> None:
    assert "makes no difference that was found" in survey[CONTENT].answer
    assert {row[4] for row in survey[CONTENT].tables[0].rows} & {"yes"} == set()


def test_random_bytes_that_take_longer_are_found_to() -> None:
    def slowed(point: PointSamples) -> PointSamples:
        late = point.factors["content"] == "random"
        return scaled(point, 1.5, "time_ns", "receiver_time_ns") if late else point

    section = sections(changed(experiment("transfer.large"), slowed))[CONTENT]
    assert "at 20 of 20 points" in section.answer
    rows = section.tables[0].rows
    longer = [row for row in rows if row[2] == "time_ns" and row[4] == "yes" and number(row[3]) > 1]
    assert len(longer) == 20
    assert not [row for row in rows if "cpu" in row[2] and row[4] == "yes"]


def test_cpu_time_calls_and_waiting_are_told_of_both_sides(survey: dict[str, Section]) -> None:
    section = survey[WHERE]
    rows = {tuple(row[:2]): row for row in section.tables[0].rows}
    both = {way: sum(number(rows[way, side][4]) for side in ("sender", "receiver")) for way, _ in rows}
    assert min(both, key=both.__getitem__) == "mmap"
    assert len(rows) == 2 * len(SAME)
    assert rows["readwrite", "sender"][2] == "16.10"
    # Counts that never change are compared as they are.
    ratios = {tuple(row[:2]): row[2:] for row in section.tables[1].rows}
    assert ratios["mmap", "calls"] == ["0.007453", "yes", "yes"]
    assert ratios["sendfile → readwrite", "receiver_calls"] == ["1", "no", "no"]


def test_the_documents_difference_by_content_is_mostly_its_groups(survey: dict[str, Section]) -> None:
    assert large.by_group("fcntl") == pytest.approx(452, abs=1)
    assert large.by_group("mmap") == pytest.approx(270, abs=1)
    rows = {row[0]: row for row in survey[CONTENT].tables[1].rows}
    assert rows["mmap"][3:5] == ["280", "270"]
    assert rows["mmap"][5] == "+16.4 near 20 (p 0.13) and +18.0 near 920 (p 0.10)"


def test_the_answer_and_the_table_are_of_the_same_comparison(survey: dict[str, Section]) -> None:
    made = experiment("transfer.large")
    rows = compared_ways(Run(Analysed.of(Results((made,))), made), "time_ns", "readwrite")
    assert len([each for each in rows if each.ends[1] == "mmap"]) == 10
    # On the edge of what is told: more rows would change the corrected p.
    printed = re.findall(r"at 100 MiB it takes ([^;]*?) its time", survey[LARGE].answer)
    shown = {
        str(row[1]): row[3]
        for row in survey[LARGE].tables[1].rows
        if row[0] == "100 MiB" and row[2] == "mmap"
    }
    assert printed == [brackets(shown["random"]).replace(" [", " times [")]
    assert number(shown["zeros"]) == pytest.approx(0.5, rel=0.1)
    # A byte by mmap takes half the CPU time, at either side.
    ratios = {tuple(row[:2]): row[2] for row in survey[WHERE].tables[1].rows}
    for name in ("cpu_s_per_gib", "receiver_cpu_s_per_gib"):
        assert number(ratios["mmap", name]) == pytest.approx(0.5, rel=0.1)


def test_a_side_with_several_threads_may_keep_more_than_one_cpu_busy() -> None:
    def busier(point: PointSamples) -> PointSamples:
        return scaled(point, 20.0, "receiver_cpu_s_per_gib") if way(point.factors) == "mmap" else point

    section = sections(changed(experiment("transfer.large"), busier))[WHERE]
    column = section.tables[0].columns.index("CPUs busy")
    cells = {tuple(row[:2]): float(str(row[column])) for row in section.tables[0].rows}
    assert cells["mmap", "receiver"] > 1
    below = [cell for (_, side), cell in cells.items() if side == "receiver" and 0 < cell < 1]
    assert (len(below), len(cells)) == (3, 8)
    assert "longest" not in prose(section)


def test_threads_that_wait_for_one_another_are_not_where_most_time_goes(survey: dict[str, Section]) -> None:
    assert "of both sides' time is in" in survey[TRACED].answer
    assert "futex" not in survey[TRACED].answer
    shares = {tuple(row[:2]): row[4] for row in survey[TRACED].tables[0].rows}
    assert shares["readwrite", "write"] == "50.0 %"
    assert shares["readwrite", "futex"] == "60.0 %"


def test_a_busy_machine_is_told_with_each_answer_from_it(survey: dict[str, Section]) -> None:
    made = experiment("transfer.large")
    loaded = dataclasses.replace(made, environment={**made.environment, "load": [11.94, 9.06, 6.9]})
    busy = sections(loaded)
    for title in (LARGE, CONTENT, WHERE):
        assert "a load of 11.9 on 4 CPUs" in prose(busy[title])
        assert "a load of" not in prose(survey[title])
    assert "a load of" not in prose(busy[EQUAL])


def test_of_several_contents_the_pairs_show_the_first_and_say_so() -> None:
    one = sections(experiment("transfer.copy", size=(1 << 20,)))[PAIRS]
    both = sections(experiment("transfer.copy", size=(1 << 20,), content=("random", "zeros")))[PAIRS]
    assert len(both.tables[0].rows) == len(one.tables[0].rows)
    assert any("Shown here is content = random" in text for text in both.text)
    assert not any("Shown here" in text for text in one.text)


def test_a_digest_that_is_faster_than_none_has_no_negative_price() -> None:
    def quicker(point: PointSamples) -> PointSamples:
        return scaled(point, 2.0, "bytes_per_s") if point.factors["digest"] == "blake3" else point

    section = sections(changed(experiment("transfer.copy"), quicker))[PAIRS]
    found = [number(row[2]) for row in section.tables[-1].rows if row[0] == "blake3"]
    assert found
    assert all(each > 1 for each in found)
    assert "takes" not in prose(section)


def test_devices_without_a_guest_are_of_the_same_kernel() -> None:
    made, other = experiment("transfer.device"), experiment("transfer.large")
    for environment, words in (
        (made.environment, "A guest has its own"),
        (other.environment, "on this kernel"),
    ):
        section = sections(dataclasses.replace(made, environment=environment), other)[DEVICE]
        (table,) = [each for each in section.tables if "side by side" in each.title]
        assert words in table.note


def test_the_fastest_pair_and_the_price_of_a_digest_are_told(survey: dict[str, Section]) -> None:
    assert survey[PAIRS].answer.startswith("mmap is the fastest at 256 MiB")
    price = next(row[2] for row in survey[PAIRS].tables[-1].rows if row[:2] == ["blake3", "256 MiB"])
    left, low, high = map(float, re.findall(r"[\d.]+", price))
    assert low < left < high
    assert left == pytest.approx(0.9, abs=0.03)
    matrix = survey[PAIRS].tables[0]
    assert [row[0] for row in matrix.rows] == ["readwrite", "mmap", "sendfile", "splice", "zerocopy", "uring"]


def test_a_failed_transfer_is_counted_and_its_file_is_not() -> None:
    made = experiment("transfer.small")
    first = made.points[0]
    metrics = {name: np.concatenate([[np.nan], values[1:]]) for name, values in first.metrics.items()}
    broken = dataclasses.replace(first, metrics=metrics, failed=((0, "file 1 differs from its source"),))
    whole = sections(made)[EQUAL]
    section = sections(dataclasses.replace(made, points=(broken, *made.points[1:])))[EQUAL]
    assert prose(whole).startswith("All ")
    assert "1 transfer failed" in prose(section)
    assert not prose(section).startswith("All ")
    assert section.tables[0].rows[0][-1] == "file 1 differs from its source (1)"
    assert int(str(section.tables[0].rows[0][3])) == int(str(whole.tables[0].rows[0][3])) - 1


def test_devices_that_were_not_measured_are_said_to_be_missing() -> None:
    section = sections(experiment("transfer.small"))[DEVICE]
    assert not section.answer
    assert "oscope run transfer.device" in section.missing
    assert "oscope kernel build" in section.missing


def test_times_of_an_emulated_guest_are_said_to_be(survey: dict[str, Section]) -> None:
    assert any("emulat" in text for text in survey[DEVICE].text)


def test_the_report_has_the_lab_with_all_experiments() -> None:
    # The wiring alone: three points of each are enough.
    made = synthetic_transfer.survey().experiments
    results = Results(tuple(dataclasses.replace(each, points=each.points[:3]) for each in made))
    (part,) = answers(results, labs.LABS)
    assert part.key == "transfer"
    assert len(build(Results(results.experiments), labs.LABS).experiments) == len(LAB.experiments)

"""Assignments drawn from invented results: the original's tables and columns, our statistics, and gaps."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import synthetic_assignment
from oscope import assignments, labs
from oscope.assignments import markdown
from oscope.assignments.answers import DRAWN, as_lab, sections, title
from oscope.assignments.memory import NO_KERNEL as NO_POLICY
from oscope.assignments.model import Document
from oscope.assignments.syscall import NO_KERNEL
from oscope.assignments.transfer import NO_DEVICES
from oscope.figures.analysed import Analysed
from oscope.labs.disk import POWERS, XOR_POWERS
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import GROUP, MISSING
from oscope.model.samples import Results
from oscope.model.units import format_bytes
from oscope.originals.transfer import RECEIVER, SENDER, averaged
from oscope.report.build import build

KEYS = [each.key for each in assignments.DOCUMENTS]


def drawn(key: str, results: Results) -> dict[str, Section]:
    """Return the section of each step by the step's key."""
    document = assignments.document(key)
    found = sections(document, results)
    return {step.key: section for step, section in zip(document.steps, found, strict=True)}


@pytest.fixture(scope="module")
def measured() -> dict[str, Analysed]:
    """Return whole invented results of each document."""
    return {each.key: Analysed.of(synthetic_assignment.results(each)) for each in assignments.DOCUMENTS}


@pytest.fixture(scope="module")
def whole(measured: dict[str, Analysed]) -> dict[str, dict[str, Section]]:
    return {key: drawn(key, results) for key, results in measured.items()}


def number(text: str) -> float:
    return float(text.replace(GROUP, ""))


def column(table: Table, name: str) -> list[str]:
    return [row[list(table.columns).index(name)] for row in table.rows]


@pytest.mark.parametrize("key", KEYS)
def test_every_step_has_a_section_in_the_documents_order(
    key: str, whole: dict[str, dict[str, Section]]
) -> None:
    document = assignments.document(key)
    assert [section.title for section in whole[key].values()] == [title(step) for step in document.steps]


@pytest.mark.parametrize("key", KEYS)
def test_what_was_measured_stands_in_every_table_and_figure_of_the_document(
    key: str, whole: dict[str, dict[str, Section]]
) -> None:
    inspected = {each.name for each in assignments.document(key).inspections}
    for step in assignments.document(key).steps:
        if inspected.intersection(step.measured):
            continue
        section = whole[key][step.key]
        if step.kind == "table":
            assert section.tables, step.key
        if step.kind == "figure":
            assert section.figures, step.key


@pytest.mark.parametrize("key", KEYS)
def test_without_results_each_measured_step_says_what_measures_it(key: str) -> None:
    for step, section in zip(assignments.document(key).steps, drawn(key, Results(())).values(), strict=True):
        reported = section.missing or " ".join(
            " ".join([*itertools.chain(*table.rows), table.note]) for table in section.tables
        )
        if step.measured:
            assert "not in this run" in reported or "oscope" in reported or "root" in reported, step.key


@pytest.mark.parametrize("key", KEYS)
def test_a_table_has_cells_for_its_columns_and_none_beyond(
    key: str, whole: dict[str, dict[str, Section]]
) -> None:
    for section in whole[key].values():
        for table in section.tables:
            assert all(0 < len(row) <= len(table.columns) for row in table.rows), table.title


def test_each_drawn_step_is_one_of_the_document() -> None:
    for document in assignments.DOCUMENTS:
        assert set(DRAWN[document.key]) <= {step.key for step in document.steps}


# The disk assignment.


def test_the_disk_tables_have_the_originals_rows_columns_and_figures(
    whole: dict[str, dict[str, Section]],
) -> None:
    [cold], [warm] = whole["disk"]["cold"].tables, whole["disk"]["caching"].tables
    assert column(cold, "Block size") == column(warm, "Block size") == [format_bytes(each) for each in POWERS]
    assert column(cold, "original: Performance [MiB/s]")[:3] == ["439", "505", "405"]
    assert column(warm, "original: With caching [MiB/s]")[-1] == "7200"
    for name in ("mean", "std. dev.", "median", "95 % interval"):
        assert f"Performance: {name} [MiB/s]" in cold.columns
        assert f"With caching: {name} [MiB/s]" in warm.columns
    [fast] = whole["disk"]["fast"].tables
    assert len(fast.rows) == len(XOR_POWERS) == 17
    assert set(column(fast, "XOR value")) == {f"{synthetic_assignment.XOR:08x}"}
    assert column(fast, "original: Time (non-cached) [s]")[:2] == ["24", "41"]
    [calls] = whole["disk"]["syscalls"].tables
    assert column(calls, "syscall") == ["read", "lseek", "getpid", "gethostid"]
    assert column(calls, "original: Performance [MiB/s]")[0] == "0.982676"


def test_a_row_of_the_disk_table_is_the_summary_that_oscope_show_has(
    measured: dict[str, Analysed], whole: dict[str, dict[str, Section]]
) -> None:
    results = measured["disk"]
    experiment = results.get("disk.read")
    assert experiment is not None
    [table] = whole["disk"]["cold"].tables
    for size, row in zip(POWERS, table.rows, strict=True):
        point = experiment.point(block_size=size, cache="cold", size=32 << 20)
        assert point is not None
        summary = results.summary(experiment, point, "throughput")
        assert summary is not None
        assert summary.std is not None
        assert summary.ci95 is not None
        cells = dict(zip(table.columns, row, strict=True))
        assert cells["n"] == str(summary.n)
        close = pytest.approx
        assert number(cells["Performance: mean [MiB/s]"]) == close(summary.mean, rel=0.01)
        assert number(cells["Performance: std. dev. [MiB/s]"]) == close(summary.std, rel=0.06)
        assert number(cells["Performance: median [MiB/s]"]) == close(summary.median, rel=0.01)
        low, _, high = cells["Performance: 95 % interval [MiB/s]"].partition(" to ")
        assert (number(low), number(high)) == close(summary.ci95, rel=0.01)


def test_a_file_of_part_two_is_read_in_the_time_of_its_column(
    measured: dict[str, Analysed], whole: dict[str, dict[str, Section]]
) -> None:
    [table] = whole["disk"]["run2"].tables
    [writing] = [
        each
        for section in labs.lab("disk").sections(measured["disk"])
        for each in section.tables
        if each.title.startswith("The file that is read")
    ]
    # The same figures as in the lab's own answer.
    ours = {row[0]: (row[3], row[4]) for row in table.rows}
    assert {row[0]: (row[-3], row[-2]) for row in writing.rows} == ours
    assert f"a file of {' to '.join(ours['128 B'])} is read" in whole["disk"]["run2"].answer


def test_the_small_file_of_part_one_is_not_among_the_rates_of_part_three(
    measured: dict[str, Analysed],
) -> None:
    experiment = measured["disk"].get("disk.read")
    assert experiment is not None
    small = [point for point in experiment.points if point.factors["size"] == 1 << 20]
    assert [(point.factors["block_size"], point.factors["cache"]) for point in small] == [(1024, "warm")]


def test_an_xor_that_differs_is_said_in_its_row(measured: dict[str, Analysed]) -> None:
    results = measured["disk"]
    experiment = results.get("disk.xor")
    assert experiment is not None
    xor = experiment.points[0].metrics["xor"]
    kept = xor.copy()
    try:
        xor[0] = 1.0
        section = drawn("disk", Results(results.experiments))["fast"]
    finally:
        xor[:] = kept
    assert "DIFFERS FROM" in section.tables[0].rows[0][1]
    assert "differs between rows" in section.answer


def test_a_pass_that_could_not_be_measured_has_its_reason_once(measured: dict[str, Analysed]) -> None:
    results = measured["disk"]
    experiments = []
    for each in results.experiments:
        points = [
            replace(
                point.only(np.zeros(len(point), bool)), metrics={}, skipped="not root", remedy="run as root"
            )
            if point.factors.get("cache") == "cold"
            else point
            for point in each.points
        ]
        experiments.append(replace(each, points=tuple(points)))
    found = drawn("disk", Results(tuple(experiments)))
    [cold] = found["cold"].tables
    assert all(row[-1] == "not measured" for row in cold.rows)
    assert cold.note.count("Not measured: not root – run as root.") == 1
    assert "run as root" in found["caching"].missing
    # The warm columns stay.
    assert number(column(found["caching"].tables[0], "With caching: median [MiB/s]")[0]) > 0


# The system-call assignment.


def test_table_one_has_ten_iterations_then_mean_median_and_deviation(
    measured: dict[str, Analysed], whole: dict[str, dict[str, Section]]
) -> None:
    [table] = whole["syscall"]["table-1"].tables
    assert column(table, "") == [*map(str, range(1, 11)), "mean", "std. dev.", "median", "95 % interval", "n"]
    assert column(table, "original: my_precious [cycles]")[:2] == ["9082", "8491"]
    assert column(table, "original: fork_child [cycles]")[10:13] == [
        f"522{GROUP}560.9",
        f"429{GROUP}520.55",
        f"349{GROUP}551.5",
    ]
    experiment = measured["syscall"].get("process.create")
    assert experiment is not None
    values = experiment.points[0].metrics["child_cycles"]
    own = column(table, "fork_child, this machine [cycles]")
    assert [number(each) for each in own[:10]] == pytest.approx(values[:10].tolist(), rel=1e-4)
    assert number(own[10]) == pytest.approx(values.mean(), rel=0.01)
    assert number(own[11]) == pytest.approx(values.std(ddof=1), rel=0.06)
    assert number(own[14]) == len(values)
    assert not whole["syscall"]["table-1"].missing


def test_without_a_guest_the_call_has_the_reason_and_fork_is_of_this_machine() -> None:
    results = synthetic_assignment.results(assignments.document("syscall"), guests=False)
    section = drawn("syscall", results)["table-1"]
    assert section.missing == NO_KERNEL
    [table] = section.tables
    assert "my_precious, guest: not measured" in table.columns
    assert set(column(table, "my_precious, guest: not measured")) == {MISSING}
    assert "fork_parent, this machine [cycles]" in table.columns


# The memory assignment.


def test_figure_two_has_the_originals_rows_and_both_columns(whole: dict[str, dict[str, Section]]) -> None:
    section = whole["memory"]["figure-2"]
    [table] = section.tables
    names = [row[0] for row in table.rows]
    assert names[:6] == [
        "Data L1 read access",
        "Data L1 write access",
        "Data L1 read miss",
        "Data L1 read miss rate",
        "Data TLB read miss",
        "Data TLB write miss",
    ]
    assert names[-4:] == ["utime [s]", "stime [s]", "minflt", "maxrss [KiB]"]
    utime = dict(zip(table.columns, table.rows[-4], strict=True))
    assert utime["original: [sequential access]"] == "3.317 (std 0.005)"
    assert utime["original: [random access]"] == "4.827 (std 0.003)"
    assert re.fullmatch(r"0\.0\d+ \(std 0\.\d+\)", utime["[random access]: mean (std)"])
    # There are no counters here: the reason stands above, and the model never takes the place of its figures.
    assert table.rows[0][-1] == "not measured"
    assert "no hardware counters – use a bare machine" in section.missing
    assert len(table.rows[0]) == 4
    assert len(table.rows[6]) == len(table.columns)


@pytest.mark.parametrize(
    ("key", "columns"),
    [
        ("figure-3", ["[private, seq]", "[private, rand]", "[share, seq]", "[share, rand]"]),
        ("figure-4", ["[private, populate]", "[share, populate]", "[share, memset and msync]"]),
        ("figure-5", ["[compete]", "[no compete]"]),
        ("figure-6", ["[modified kernel]", "[no modified kernel]"]),
    ],
)
def test_a_figure_of_the_memory_report_has_its_columns(
    key: str, columns: Sequence[str], whole: dict[str, dict[str, Section]]
) -> None:
    for table in whole["memory"][key].tables:
        assert list(table.columns[1 : 1 + len(columns)]) == [f"original: {name}" for name in columns]
        assert f"{columns[0]}: mean (std)" in table.columns


def test_a_cell_of_figure_three_is_the_mean_and_deviation_of_its_point(
    measured: dict[str, Analysed], whole: dict[str, dict[str, Section]]
) -> None:
    experiment = measured["memory"].get("memory.mapping")
    assert experiment is not None
    point = experiment.point(mapping="shared", pattern="random")
    assert point is not None
    values = point.metrics["init_maxrss_kib"]
    [table] = whole["memory"]["figure-3"].tables
    cell = dict(zip(table.columns, table.rows[0], strict=True))["[share, rand]: mean (std)"]
    mean, deviation = re.fullmatch(r"(.+) \(std (.+)\)", cell).groups()  # type: ignore[union-attr]
    assert number(mean) == pytest.approx(values.mean(), rel=0.01)
    assert number(deviation) == pytest.approx(values.std(ddof=1), rel=0.06)


def test_without_a_guest_figure_six_says_how_to_get_one() -> None:
    results = synthetic_assignment.results(assignments.document("memory"), guests=False)
    assert drawn("memory", results)["figure-6"].missing == NO_POLICY


# The transfer assignment.


def test_the_lists_of_the_transfer_report_are_there_with_its_averages(
    measured: dict[str, Analysed], whole: dict[str, dict[str, Section]]
) -> None:
    [five] = whole["transfer"]["mmap-5"].tables
    original = column(five, "original: Transmission time [ms]")
    # The document lists 13 runs of five files by mmap.
    assert original[:2] == ["0.2899", "0.2443"]
    assert len(five.rows) == 13 + 5
    assert original[13] == "0.298169"
    [large] = whole["transfer"]["fcntl-master-zeros"].tables
    assert column(large, "original: Transmission time [ms]")[10] == "1788.156289"
    experiment = measured["transfer"].get("transfer.inputs")
    assert experiment is not None
    point = experiment.point(sender="readwrite", content="zeros")
    assert point is not None
    # The master is the sender, whose time the workload gives as time_ns.
    own = column(large, "Transmission time, user space [ms]")
    assert number(own[10]) == pytest.approx(point.metrics["time_ns"].mean() / 1e6, rel=0.01)
    [one] = whole["transfer"]["fcntl-1"].tables
    assert column(one, "File size") == [
        f"{size} bytes" for size in (4, 107, 167, 207, 255, 383, 351, 507, 457, 577, f"1{GROUP}502{GROUP}860")
    ]


PRINTED_AVERAGES = {
    ("master", "fcntl", "zeros"): 1788.156288889,
    ("master", "fcntl", "random"): 2095.52102,
    ("slave", "fcntl", "zeros"): 519.51015,
    ("slave", "fcntl", "random"): 969.44381,
    ("master", "mmap", "zeros"): 1134.1621,
    ("master", "mmap", "random"): 1461.742288889,
    ("slave", "mmap", "zeros"): 204.86532,
    ("slave", "mmap", "random"): 484.46212,
}
"""In ms, by the document."""


def test_the_originals_averages_are_those_of_its_lists_with_the_first_left_out_where_it_is_said() -> None:
    for (side, method, content), average in PRINTED_AVERAGES.items():
        kept = averaged(SENDER if side == "master" else RECEIVER, (method, content))
        assert kept is not None
        assert np.mean(kept) == pytest.approx(average, rel=1e-9), (side, method, content)


def test_zeros_and_random_bytes_are_compared_by_the_ratio_of_the_slaves_times(
    measured: dict[str, Analysed], whole: dict[str, dict[str, Section]]
) -> None:
    experiment = measured["transfer"].get("transfer.inputs")
    assert experiment is not None
    section = whole["transfer"]["content"]
    [table] = section.tables
    for row, method in zip(table.rows, ("readwrite", "mmap"), strict=True):
        zeros, random = (experiment.point(sender=method, content=content) for content in ("zeros", "random"))
        assert zeros is not None
        assert random is not None
        medians = [np.median(point.metrics["receiver_time_ns"]) for point in (zeros, random)]
        assert float(row[2].partition(" ")[0]) == pytest.approx(medians[0] / medians[1], rel=0.05)


def test_without_devices_user_space_stands_alone_and_the_reason_is_said() -> None:
    results = synthetic_assignment.results(assignments.document("transfer"), guests=False)
    section = drawn("transfer", results)["fcntl-10"]
    assert section.missing == NO_DEVICES
    assert [name for name in section.tables[0].columns if "devices" in name] == []
    assert "Transmission time, user space [ms]" in section.tables[0].columns


def test_integrity_counts_a_file_that_differs(measured: dict[str, Analysed]) -> None:
    results = measured["transfer"]
    spoilt = []
    for each in results.experiments:
        if each.experiment == "transfer.copy":
            first, *rest = each.points
            failed = replace(first, failed=((0, "the digest differs"),))
            each = replace(each, points=(failed, *rest))
        spoilt.append(each)
    good, bad = (drawn("transfer", each)["integrity"] for each in (results, Results(tuple(spoilt))))
    assert {row[-1] for row in good.tables[0].rows} == {"yes"}
    assert [row[-1] for row in bad.tables[0].rows].count("no") == 1


# The IPC lab.


def test_the_verbose_output_has_the_benchmarks_lines(
    measured: dict[str, Analysed], whole: dict[str, dict[str, Section]]
) -> None:
    [table] = whole["ipc"]["verbose"].tables
    assert [row[0] for row in table.rows] == [
        "buffersize",
        "totalsize",
        "blockcount",
        "mode",
        "ipctype",
        "time",
        "KBytes/sec",
    ]
    assert [row[1] for row in table.rows] == [
        "131072",
        "16777216",
        "128",
        "1thread",
        "pipe",
        "0.033753791",
        "485397.29",
    ]
    experiment = measured["ipc"].get("ipc.throughput")
    assert experiment is not None
    point = experiment.point(buffer=131072, channel="pipe", mode="1thread")
    assert point is not None
    mean = point.metrics["throughput"].mean() * 1024
    assert number(table.rows[-1][2]) == pytest.approx(mean, rel=0.01)


# What is written.


def test_a_cell_of_markdown_keeps_pipes_and_lines_within_it() -> None:
    table = Table("T", ["a | b", "c"], [["1\n2", f"`x|y` 1{GROUP}000"], ["why not"]], frozenset({1}), "note")
    assert list(markdown.table_lines(table)) == [
        "**T**",
        f"| a \\| b | c |\n| --- | ---: |\n| 1 2 | `x\\|y` 1{GROUP}000 |\n| why not |  |",
        "*note*",
    ]


def test_a_figure_of_markdown_links_its_file_from_where_the_page_lies(tmp_path: Path) -> None:
    folder = tmp_path
    figure = Figure("F", [], {}, "what to see")
    page = markdown.Page("P", ["lead"], [Section("S", "answer", figures=[figure])])
    file = folder / "my figures" / "f.png"
    linked = markdown.encode(page, {id(figure): file}, folder / "pages").decode()
    assert "![F](<../my figures/f.png>)" in linked
    assert "`--figures DIR` draws it" in markdown.encode(page, {}, folder).decode()


@pytest.mark.parametrize("key", KEYS)
def test_the_report_takes_an_assignment_as_a_lab(key: str, measured: dict[str, Analysed]) -> None:
    document: Document = assignments.document(key)
    report = build(measured[key], [as_lab(document)])
    [part] = report.labs
    assert [section.title for section in part.sections] == [title(step) for step in document.steps]

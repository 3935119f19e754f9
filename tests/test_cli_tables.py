"""Tables, digits and progress: the parts of the terminal's output that need no run."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

import synthetic
import synthetic_memory
from oscope.cli import progress
from oscope.cli.summary import notes, print_experiment, tables, unmeasured
from oscope.cli.views.columns import measurement_columns
from oscope.figures import experiments
from oscope.figures.analysed import Analysed
from oscope.model.samples import Column, ExperimentResults, PointSamples, Results
from oscope.planning.plan import Plan, PlannedExperiment
from oscope.probe.catalogue import Workload
from oscope.report.comparison import (
    MARK,
    NOT_OF_MEDIANS,
    comparison_table,
    print_comparison,
    remarks,
)
from oscope.report.comparison_verdict import verdict
from oscope.report.forms import encode
from oscope.report.terminal import Piped, aligned, console, grid, print_prose, prose, table_width
from oscope.statistics import Comparison, compare_results, compare_within, summarise


def make_point(level: str, values: list[float], **other: object) -> PointSamples:
    count = len(values)
    whole = np.zeros(count, np.int64)
    return PointSamples(
        factors={"call": level, "style": "loop"},
        block=np.arange(count) // 2,
        process=np.arange(count) // 2,
        boot=whole,
        rep=np.arange(count) % 2,
        started_ns=np.arange(count) * 1_000_000,
        raw=np.zeros(count),
        iterations=whole + 1,
        correction=np.zeros(count),
        metrics={"time_ns": np.array(values)},
        covariates={},
        **other,  # type: ignore[arg-type]
    )


def make_results(*points: PointSamples) -> ExperimentResults:
    return ExperimentResults(
        run_id="run",
        experiment="syscall.cost",
        workload="syscall.cost",
        workload_version=1,
        started="2026-01-01T00:00:00+00:00",
        seed=1,
        points=points,
        metrics={"time_ns": Column("time_ns", "ns", better="less")},
        covariates={},
        environment={},
        question="What does a call cost?",
    )


def noise(middle: float, count: int = 20) -> list[float]:
    return list(middle * (1 + 0.01 * np.random.default_rng(1).standard_normal(count)))


def printed(results: ExperimentResults) -> str:
    out = Console(width=80, record=True, file=io.StringIO())
    print_experiment(Analysed((results,)), results, out)
    return out.export_text()


def test_decimal_points_stand_under_each_other() -> None:
    column = aligned(["time [ns]", "12.5", "1000", "0.125", "–"])
    assert len({len(text) for text in column}) == 1
    assert column[2].index("1000") + 4 == column[1].index(".")
    assert len({text.index(".") for text in column if "." in text}) == 1


def test_a_table_is_as_wide_as_it_says() -> None:
    columns = [["call", "getpid"], ["time [ns]", "  98.1"], ["n", "5"]]
    out = Console(width=80, record=True, file=io.StringIO())
    out.print(grid(columns))
    assert max(map(len, out.export_text().splitlines())) == table_width(columns)


def test_digits_follow_the_interval_of_each_row_and_have_an_end() -> None:
    rows = [
        summarise(noise(100.0), np.arange(20) // 2),
        summarise([170.2536 + 1e-8 * value for value in noise(100.0)], np.arange(20) // 2),
    ]
    medians, intervals = measurement_columns("time_ns", rows, "ns")
    assert medians[0].strip() == "time [ns]"
    assert medians[2].strip() == "170.25"
    for median, interval in zip(medians[1:], intervals[1:], strict=True):
        low, _, high = interval.partition(" to ")
        decimals = {len(text.strip().partition(".")[2]) for text in (median, low, high)}
        assert len(decimals) == 1


def test_a_heading_tells_the_unit_once() -> None:
    row = summarise([3.0 * 2**30] * 4, np.arange(4))
    assert measurement_columns("slab_after_bytes", [row], "B")[0][0].strip() == "slab_after [GiB]"
    assert measurement_columns("bytes", [row], "B")[0][0].strip() == "bytes [GiB]"
    brief = summarise([3e-3] * 4, np.arange(4))
    assert measurement_columns("cpu_s", [brief], "s")[0][0].strip() == "cpu [ms]"


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e6, 1e9, 1e12])
def test_the_columns_for_a_program_do_not_follow_the_figures(scale: float) -> None:
    """Neither their units, from picoseconds to hours, nor that of a bench of one command which it is."""
    times = np.array(noise(1234.5678 * scale))
    point = replace(make_point("", list(times)), factors={"command": "sort"})
    sized = replace(point, metrics={"time_ns": times, "max_rss_bytes": times, "rate": times})
    metrics = {
        name: Column(name, unit)
        for name, unit in (("time_ns", "ns"), ("max_rss_bytes", "B"), ("rate", "B/s"))
    }
    results = replace(make_results(sized), experiment="command.run", metrics=metrics)
    (table,) = tables(Results((results,)), plain=True)
    (row,) = csv.DictReader(io.StringIO(encode([table], "csv")))
    assert list(row) == [
        "command", "time [ns]", "95 % low", "95 % high", "n", "ess", "max_rss [B]", "rate [B/s]",
    ]  # fmt: skip
    assert row["command"] == "sort"
    median = float(np.median(times))
    for name in ("time [ns]", "max_rss [B]", "rate [B/s]"):
        assert float(row[name]) == pytest.approx(median, rel=1e-3)
    assert float(row["95 % low"]) == pytest.approx(median, rel=0.02)
    assert float(row["95 % low"]) <= float(row["time [ns]"]) <= float(row["95 % high"])
    # People have the unit that suits, and no column that says the same in every row.
    (table,) = tables(Results((results,)))
    assert "command" not in table.columns
    assert ("time [ns]" in table.columns) == (scale < 1)


def with_words(point: PointSamples, *words: float) -> PointSamples:
    return replace(point, metrics={**point.metrics, "xor": np.resize(words, len(point))})


def test_an_xor_is_a_word_and_not_a_quantity_with_a_median() -> None:
    results = make_results(
        with_words(make_point("read", noise(100)), 0xAB),
        with_words(make_point("lseek", noise(120)), 0xAB, 0xCEBF3693),
        with_words(make_point("write", noise(140)), np.nan),
    )
    reported = printed(replace(results, metrics={**results.metrics, "xor": Column("xor", "1")}))
    heading, *rows = (
        line.split() for line in reported.splitlines() if line[:4] in ("call", "read", "lsee", "writ")
    )
    assert heading[-1] == "xor"
    assert [row[-1] for row in rows] == ["000000ab", "differ", "–"]
    assert rows[1][-2] == "2"


def test_notes_name_their_points_only_where_not_all_share_them() -> None:
    shared = ("kept warm",)
    reported = printed(
        make_results(
            make_point("read", noise(100), notes=(*shared, "ENOSYS is the result")),
            make_point("lseek", noise(120), notes=shared),
        )
    )
    assert "\nnote: kept warm\n" in reported
    assert "\nnote: read: ENOSYS is the result\n" in reported


def test_a_skipped_point_has_no_row_but_a_reason_and_a_remedy() -> None:
    reported = printed(
        make_results(
            make_point("read", noise(100)),
            make_point("lseek", [], skipped="no such device", remedy="plug it in"),
        )
    )
    assert "skipped: lseek: no such device\n  → plug it in\n" in reported
    assert not any(line.startswith("lseek") for line in reported.splitlines())


def test_a_metric_without_any_value_is_told_with_the_clocks_reason() -> None:
    results = make_results(make_point("read", noise(100)))
    nothing = replace(results.points[0], metrics={**results.points[0].metrics, "cycles": np.full(20, np.nan)})
    results = replace(
        results,
        points=(nothing,),
        metrics={**results.metrics, "cycles": Column("cycles", "cycles")},
        environment={"clock": {"kind": "monotonic_raw", "why": "the TSC is not invariant"}},
    )
    reported = printed(results)
    text = " ".join(reported.split())
    assert "not measured: cycles: the clock is MONOTONIC_RAW, because the TSC is not invariant" in text


def test_failed_samples_are_told_with_their_number() -> None:
    reported = printed(make_results(make_point("read", [*noise(100), np.nan], failed=((20, "short read"),))))
    assert "note: 1 of 21 samples failed: short read" in reported


@pytest.mark.parametrize(
    ("other", "reported"),
    [
        (100.0, "no difference found in 1 of 1 (a difference of "),
        (150.0, "1 of 1 differ, 1 by more than 1 %"),
    ],
)
def test_the_verdict_is_one_sentence(other: float, reported: str) -> None:
    values = noise(other)[::-1]
    results = make_results(make_point("read", noise(100)), make_point("lseek", values))
    assert reported in verdict(compare_within(results, "call", "read", "lseek"))


def test_a_ratio_that_seems_to_contradict_the_medians_is_marked_and_explained() -> None:
    results = make_results(make_point("read", noise(100)), make_point("lseek", noise(100)))
    same = compare_within(results, "call", "read", "lseek")
    (row,) = same.rows
    assert remarks(same) == ()
    assert MARK not in screen_of(results, same)
    other = replace(same, rows=(replace(row, median_b=row.median_a * 1.5),))
    (reported,) = remarks(other)
    assert reported.startswith(f"{MARK} B/A is estimated block by block")
    assert "of all samples: their ratio is 1.50" in reported
    lines = screen_of(results, other).splitlines()
    # The mark is in the row, and its meaning directly below.
    (place,) = (number for number, line in enumerate(lines) if line.startswith(MARK))
    assert f" {MARK}" in lines[place - 1]
    document = comparison_table(results, other)
    assert document.note.startswith(reported)
    assert NOT_OF_MEDIANS not in document.note
    # Where no ratio is estimated, none is contradicted.
    without = replace(row, median_b=row.median_a * 1.5, ratio=np.nan, ci95=(np.nan, np.nan))
    assert remarks(replace(same, rows=(without,))) == ()
    # Figures for programs have no mark.
    for_programs = comparison_table(results, other, each_unit=True)
    assert not any(MARK in cell for cells in for_programs.rows for cell in cells)
    assert NOT_OF_MEDIANS in for_programs.note


def test_figures_for_programs_are_numbers_alone() -> None:
    a, b = (replace(synthetic.cost(seed=seed), run_id=f"run{seed}") for seed in (1, 2))
    found = compare_results(a, b)
    wide = replace(found.rows[0], ratio=250.0, ci95=(120.0, 500.0), detectable=1700.0)
    table = comparison_table(a, replace(found, rows=(wide, *found.rows[1:])), each_unit=True)
    ((first, *others),) = (each["rows"] for each in json.loads(encode([table], "json")))
    assert (first["mde"], first["B/A"], first["95 % high"]) == (1700, 250, 500)
    for row in (first, *others):
        assert all(isinstance(row[name], int | float) for name in ("A", "B", "B/A", "mde", "difference"))


def test_a_narrow_terminal_has_answers_that_all_rows_share_as_a_text() -> None:
    a, b = (replace(synthetic.cost(seed=seed), run_id=f"run{seed}") for seed in (1, 2))
    found = compare_results(a, b)
    rows = tuple(replace(row, different="cannot tell", matters="cannot tell") for row in found.rows)
    out = Console(record=True, width=60, file=io.StringIO())
    print_comparison(a, replace(found, rows=rows), out)
    lines = out.export_text().splitlines()
    assert max(map(len, lines)) <= 60
    assert any(line.startswith("in every row: metric time_ns") for line in lines)


def test_an_interval_beside_cannot_tell_that_excludes_1_is_explained() -> None:
    results = make_results(make_point("read", noise(100)), make_point("lseek", noise(100)))
    same = compare_within(results, "call", "read", "lseek")
    row = replace(same.rows[0], median_b=same.rows[0].median_a * 1.03)
    undone = replace(
        row, different="cannot tell", matters="cannot tell", p=0.01, p_holm=0.22, ci95=(1.01, 1.05), tests=22
    )
    (reported,) = remarks(replace(same, rows=(undone,)))
    assert reported.startswith("cannot tell though the 95 % interval excludes 1")
    assert reported.endswith("after the correction for 22 rows (Holm)")
    for plain in (
        replace(undone, p=0.06),
        replace(undone, ci95=(0.99, 1.05)),
        replace(undone, different="no"),
    ):
        assert remarks(replace(same, rows=(plain,))) == ()


def screen_of(results: ExperimentResults, comparison: Comparison) -> str:
    out = Console(record=True, width=200, file=io.StringIO())
    print_comparison(results, comparison, out)
    return out.export_text()


def test_a_metric_without_a_value_says_when_it_has_none() -> None:
    results = make_results(make_point("read", noise(100)))
    columns = [
        Column("user_s", "s", "User time.", null_when="where the CPU time is less than 10 ticks"),
        Column("system_s", "s", "Sampled.", null_when="where the CPU time is less than 10 ticks"),
        Column("other", "s", "Something else."),
    ]
    nothing = {each.name: np.full(20, np.nan) for each in columns}
    points = (replace(results.points[0], metrics={**results.points[0].metrics, **nothing}),)
    metrics = {**results.metrics, **{each.name: each for each in columns}}
    assert list(unmeasured(replace(results, points=points, metrics=metrics))) == [
        "not measured: user_s, system_s: no value where the CPU time is less than 10 ticks",
        "not measured: other: no sample has a value",
    ]


def test_a_pipe_gets_no_spaces_at_the_end_of_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    table = grid([["name", "a", "b"], ["what", "x", "a longer cell"]])
    out = console()
    assert isinstance(out, Piped)
    out.print(table)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(line == line.rstrip() for line in lines)
    assert lines[-1] == "b     a longer cell"


def test_a_paragraph_breaks_neither_within_a_number_nor_before_its_unit() -> None:
    text = "takes 1\u202f234 cycles or 12.5 ns of 3.49 Mcalls/s and 40 % of 64 MiB " * 5
    for width in range(40, 80):
        lines = prose(text, width, indent="  ").plain.splitlines()
        assert max(map(len, lines)) <= width
        assert all(line.startswith("  ") for line in lines)
        assert " ".join(line.strip() for line in lines) == text.strip()
        for line in lines[1:]:
            assert line.split()[0] not in {"cycles", "ns", "Mcalls/s", "%", "MiB"}


@pytest.mark.parametrize("kind", [Console, Piped])
def test_a_paragraph_does_not_break_a_command(kind: type[Console]) -> None:
    command = "oscope bench -- ./OLD --vs ./NEW"
    for before in range(30):
        out = kind(file=io.StringIO(), width=40)
        print_prose(f"{'a ' * before}or interleaved: {command}", out)
        assert isinstance(out.file, io.StringIO)
        printed = out.file.getvalue()
        assert any(command in line for line in printed.splitlines())
        assert "\u00a0" not in printed


def test_what_is_told_of_a_run_is_counted_with_its_plural() -> None:
    workload = Workload("syscall.cost", 1, "", "", (), ())
    experiment = PlannedExperiment("syscall.cost", "", "", (), ({"call": "read"},), 1, 1, 1000, workload)
    assert (
        progress.size(Plan(1, "full", "local", None, None, (experiment,)))
        == "syscall.cost: 1 point, 1 sample"
    )
    more = replace(experiment, reps=5, points=({"call": "read"}, {"call": "lseek"}))
    assert (
        progress.size(Plan(1, "full", "local", None, None, (more,))) == "syscall.cost: 2 points, 10 samples"
    )
    again = Plan(1, "full", "local", None, None, (more,), again=True)
    assert progress.size(again) == "syscall.cost: 2 points, 10 samples, more after interference"


def test_ci_and_pipes_get_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    assert type(progress.display()) is progress.Lines
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert type(progress.display()) is progress.Bar
    monkeypatch.setenv("CI", "true")
    assert type(progress.display()) is progress.Notes


def test_the_same_note_about_another_point_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    notes = progress.Notes()
    for point in ("read", "lseek"):
        notes.note(f"syscall.cost call={point}: ENOSYS is\nthe result")
    assert capsys.readouterr().err == "oscope: syscall.cost call=read: ENOSYS is the result\n"


def test_notes_on_points_that_differ_in_their_figures_alone_are_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = progress.Notes()
    for size in ("4096", "65536", "1.5"):
        shown.remark(f"ipc.throughput buffer={size}: asked for {size} B")
    shown.remark("ipc.throughput buffer=1: refused")
    assert capsys.readouterr().err.splitlines() == [
        "oscope: ipc.throughput buffer=4096: asked for 4096 B",
        "oscope: ipc.throughput buffer=1: refused",
    ]
    results = synthetic_memory.pressure()
    points = tuple(
        replace(each, notes=(f"asked for {64 << index} B",)) for index, each in enumerate(results.points)
    )
    reported = replace(results, points=points)
    (line,) = (each for each in notes(Analysed.of(Results((reported,))), reported) if "asked for" in each)
    assert line == "note: asked for 64 B (and 1 note of other figures)"


def test_a_cause_that_several_processes_met_is_one_note() -> None:
    results = synthetic_memory.pressure()
    text = "writing -1000 to /proc/{}/oom_score_adj: Permission denied"
    points = tuple(
        replace(each, notes=tuple(text.format(pid) for pid in (11, 222))) for each in results.points
    )
    reported = replace(results, points=points)
    cause = "writing -1000 to /proc/PID/oom_score_adj: Permission denied"
    lines = list(notes(Analysed.of(Results((reported,))), reported))
    assert [line for line in lines if "oom_score_adj" in line] == [f"note: {cause}"]
    view = experiments.view(Analysed.of(Results((reported,))), reported)
    assert [line for line in view.notes if "oom_score_adj" in line] == [cause]

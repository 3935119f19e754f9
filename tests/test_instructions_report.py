"""What people read of the instructions clock: whole counts, what they do not see, and no unit of time."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import synthetic
from cli_driver import CommandLine
from oscope.cli.summary import print_results
from oscope.cli.views.answers_found import sentences
from oscope.figures.analysed import Analysed
from oscope.labs import LABS
from oscope.model import formatting
from oscope.model.document import Section
from oscope.model.experiment import Lab
from oscope.model.samples import ExperimentResults, Results
from oscope.report import embed, page, plot
from oscope.report.build import Report, answers, build
from oscope.report.comparison import print_comparison
from oscope.statistics import compare_results
from oscope.storage import frames, record
from synthetic_instructions import SOME, pair, point, results

A_TIME = re.compile(r"\d (?:ns|µs|ms|s)\b|\[(?:ns|µs|ms|s|cycles)\]|calls/s")


def written(*experiments: ExperimentResults, width: int = 120) -> str:
    out = Console(file=io.StringIO(), width=width)
    print_results(Results(experiments), out, verbose=True)
    text = out.file.getvalue()  # type: ignore[attr-defined]
    return str(text)


@pytest.fixture(scope="module")
def whole() -> ExperimentResults:
    return results(
        point("getppid", 236 + 30 / 508, SOME),
        point("fork", 120_000, SOME, iterations=1),
        point("read", 1234.5, SOME, boot_effect=(0, 3, 1, 8, 2)),
    )


@pytest.fixture(scope="module")
def report(whole: ExperimentResults) -> Report:
    return build(Results((whole,)), LABS)


@pytest.mark.parametrize(
    ("value", "spread", "unit", "text"),
    [
        (236.0, None, "instructions", "236 instructions"),
        (236.0590551, None, "instructions", "236.06 instructions"),
        (236.5, 0.0, "instructions", "236.5 instructions"),
        # A difference that is there is not printed as none, unless its uncertainty is larger.
        (0.002, None, "instructions", "0.002 instructions"),
        (0.002, 0.0003, "instructions", "0.0020 instructions"),
        (0.002, 0.5, "instructions", "0.00 instructions"),
        (3e-13, None, "instructions", "0 instructions"),
        (1.0, None, "instructions", "1 instruction"),
        (1_234_567_890.0, None, "instructions", "1\u202f234\u202f567\u202f890 instructions"),
        (12_345.0, 220.0, "instructions", "12\u202f340 instructions"),
        (4_237_288.0, 4000.0, "calls/Ginstr", "4\u202f237\u202f300 calls/Ginstr"),
        (512.25, 1.0, "MiB/Ginstr", "512.2 MiB/Ginstr"),
    ],
)
def test_counts_have_no_prefix(value: float, spread: float | None, unit: str, text: str) -> None:
    assert formatting.format_value(value, spread, unit) == text


def test_the_terminal_shows_counts_and_what_they_do_not_see(whole: ExperimentResults) -> None:
    text = written(whole)
    assert "236.06 to 236.06" in text
    assert "120\u202f000 to 120\u202f000" in text
    assert "guest with kernel base, tcg; clock INSTRUCTIONS" in text
    assert "idle time counts 1 a ns" in " ".join(text.split())
    assert "3 of 50 samples had an interrupt in them and are left out." in text
    assert not A_TIME.search(text.replace("1 a ns", ""))


def test_no_lab_that_speaks_of_time_answers_from_counts(whole: ExperimentResults) -> None:
    wall = synthetic.cost()
    assert answers(Results((whole,)), LABS) == []
    assert all(sentence not in written(whole) for sentence in sentences(Analysed.of(Results((wall,)))))
    assert [part.key for part in answers(Results((wall, whole)), LABS)] == ["syscalls"]


def test_a_lab_that_takes_counts_gets_them(whole: ExperimentResults) -> None:
    seen: list[tuple[str, ...]] = []

    def sections(given: Results) -> list[Section]:
        seen.append(tuple(each.clock for each in given.experiments))
        return []

    original = next(lab for lab in LABS if lab.name == "syscalls")
    both: Lab = replace(original, sections=sections, clocks=("wall", "instructions"))
    only: Lab = replace(original, sections=sections)
    mixed = Results((synthetic.cost(), whole))
    answers(mixed, [both])
    answers(mixed, [only])
    answers(Results((whole,)), [only])
    assert seen == [("wall", "instructions"), ("wall",)]


def test_the_method_tells_guest_clock_and_what_it_does_not_see(report: Report) -> None:
    tables = {table.title: table for table in report.method}
    instrument = dict(row[:2] for row in tables["The instrument"].rows)
    assert instrument["clock"].startswith("executed instructions")
    assert instrument["clock's step"] == "1 instruction"
    assert "36 instructions" in instrument["cost of reading it"]
    guest = dict(row[:2] for row in tables["The guest"].rows)
    assert guest["accelerator"] == "tcg (the instructions clock needs emulation)"
    unseen = dict(row[:2] for row in tables["What a count of instructions does not show"].rows)
    assert {"caches and pipelines", "parallelism", "copies", "idle time"} <= unseen.keys()
    assert "ERMS" in unseen["copies"]


def test_a_wall_clock_has_no_such_table() -> None:
    titles = [table.title for table in build(synthetic.survey(), LABS).method]
    assert not any("guest" in title or "count of instructions" in title for title in titles)


def test_boots_of_one_kernel_are_one_guest_in_the_method(whole: ExperimentResults) -> None:
    later = replace(whole, environment={**whole.environment, "boot_id": "another"})
    titles = [table.title for table in build(Results((whole, later)), LABS).method]
    assert sum(title.startswith("The guest") for title in titles) == 1


def test_tables_and_axes_are_in_instructions(report: Report) -> None:
    (view,) = report.experiments
    table = view.tables[0]
    assert "median [instructions]" in table.columns
    column = list(table.columns).index("median [instructions]")
    assert [row[column] for row in table.rows] == ["236.06", "120\u202f000", "1236.5"]
    assert view.figures[0].layout["xaxis"]["title"]["text"] == "instructions"
    texts = [*table.columns, *view.notes, *(cell for row in table.rows for cell in row)]
    assert not [text for text in texts if A_TIME.search(text)]
    assert "left out" in " ".join(view.notes)


def test_a_figure_does_not_round_counts() -> None:
    precise = results(point("fork", 119_925, SOME, iterations=1))
    (view,) = build(Results((precise,)), LABS).experiments
    shown = [x for trace in view.figures[0].traces for x in trace["x"]]
    assert 119_925.0 in shown


def test_the_page_can_be_written(report: Report) -> None:
    assert "What a count of instructions does not show" in page.render(report)


def test_a_covariate_of_the_same_name_does_not_take_the_counts_place(whole: ExperimentResults) -> None:
    found = embed.decode(embed.pack(whole, 10**8))
    counts = np.concatenate([each.metrics["instructions"] for each in whole.points])
    assert np.array_equal(np.asarray(found["instructions"], float), counts)
    assert np.isnan(np.asarray(found["covariate_instructions"], float)).all()
    table = frames.to_frame(Results((whole,)))
    assert np.array_equal(table["instructions"].to_numpy(), counts)
    assert table["covariate_instructions"].isna().all()


def test_a_record_keeps_every_sample(whole: ExperimentResults, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    record.write(Results((whole,)), path)
    (again,) = record.read(path).experiments
    assert again.clock == "instructions"
    for mine, theirs in zip(whole.points, again.points, strict=True):
        assert len(theirs) == 50
        assert np.array_equal(mine.metrics["instructions"], theirs.metrics["instructions"])
        assert np.array_equal(mine.covariates["interrupts"], theirs.covariates["interrupts"])


def test_the_plot_names_the_axis_once(whole: ExperimentResults) -> None:
    assert plot.plot_headline(whole).axes[0].get_xlabel() == "instructions"


@pytest.mark.parametrize("width", [80, 100, 140])
def test_a_comparison_shows_the_difference(width: int) -> None:
    a, b = pair(5)
    out = Console(file=io.StringIO(), width=width)
    print_comparison(a, compare_results(a, b, allow=("kernel",)), out)
    text = " ".join(out.file.getvalue().split())  # type: ignore[attr-defined]
    assert (
        "B (20260101-000001-bbbb, kernel my_precious) against A (20260101-000000-aaaa, kernel base)" in text
    )
    assert "B is 5 instructions (2.1 %) more than A" in text
    if width >= 100:
        assert "difference" in text
        assert "+5 " in text


def test_the_command_compares_records_of_two_kernels(oscope: CommandLine) -> None:
    for name, each in zip(("a.json", "b.json"), pair(0), strict=True):
        record.write(Results((each,)), oscope.folder / name)
    answer = oscope("compare", "a.json", "b.json", "--allow", "kernel")
    assert answer.code == 0
    assert "no difference found in 2 of 2" in " ".join(answer.out.split())


def test_the_command_refuses_two_clocks_in_one_line(oscope: CommandLine) -> None:
    record.write(Results((synthetic.cost(),)), oscope.folder / "wall.json")
    record.write(Results((pair(0)[0],)), oscope.folder / "count.json")
    answer = oscope("compare", "wall.json", "count.json", "--allow", "machine")
    assert answer.code == 2
    (line,) = answer.err.strip().splitlines()
    assert "clock differs (tsc and instructions)" in line

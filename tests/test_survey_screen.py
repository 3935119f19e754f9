"""The survey's one screen, its ladder drawn with characters, and the other forms and the pager of tables."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import synthetic
import synthetic_disk
import synthetic_ipc
import synthetic_memory
import synthetic_transfer
from oscope.cli import pager
from oscope.cli.summary import print_results, tables
from oscope.cli.views.answers_found import first_sentence, sentences
from oscope.cli.views.ladder import ASCII, Axis, draw, throughputs
from oscope.cli.views.survey import (
    COLUMNS,
    FEWEST_RUNGS,
    LINES,
    SHOWN,
    SOUGHT_FINDINGS,
    is_survey,
    print_survey,
)
from oscope.figures.analysed import Analysed
from oscope.figures.ladder import ladder
from oscope.figures.notable import notable
from oscope.labs import LABS
from oscope.model.document import Table
from oscope.model.samples import Results
from oscope.report import terminal
from oscope.report.build import answers, headlines
from oscope.report.forms import encode
from oscope.storage import record

SURVEYS = (synthetic, synthetic_memory, synthetic_disk, synthetic_ipc, synthetic_transfer)


@pytest.fixture(scope="module")
def survey() -> Analysed:
    """Return one run's results of five labs."""
    return Analysed.of(Results(tuple(e for made in SURVEYS for e in made.survey().experiments)))


def shown(results: Results, report: str | None = "oscope-report.html", width: int = 80) -> list[str]:
    out = Console(width=width, file=io.StringIO(), highlight=False, markup=False, emoji=False)
    print_survey(results, out, report)
    return str(out.file.getvalue()).splitlines()  # type: ignore[attr-defined]


def test_a_survey_is_one_screen_of_80_columns(survey: Analysed) -> None:
    lines = shown(survey)
    assert len(lines) <= LINES < 24
    assert max(map(len, lines)) <= COLUMNS
    assert lines[0].startswith("Oscope survey  Synthetic CPU @ 2.60GHz, 2 CPUs, KVM guest, Linux 6.")
    assert "Report        oscope-report.html" in lines
    assert lines[-1] == f"Details       oscope show {survey.parts[0].run_id} process.create"
    text = " ".join("\n".join(lines).split())
    assert re.search(r"Not measured .* points.*: the report says why and how to fix it", text)


def test_what_was_not_measured_is_shown_by_the_command_that_the_screen_names() -> None:
    survey = synthetic_memory.survey()
    text = " ".join("\n".join(shown(survey, report=None)).split())
    (lacking,) = re.findall(r"Not measured .*: oscope show (.+) says why and how to fix it", text)
    run, *names = lacking.split()
    assert run == survey.parts[0].run_id
    assert names == [
        each.experiment
        for each in survey.experiments
        if any(point.skipped or point.failed for point in each.points)
    ]


def test_the_screen_has_the_ladder_with_the_intervals_of_the_tables(survey: Analysed) -> None:
    text = "\n".join(shown(survey))
    rungs = [rung for rung in ladder(survey).latencies if rung.key in SHOWN]
    assert len(rungs) == len(SHOWN)
    drawn = [rung for rung in rungs if f"\n{rung.name} " in text]
    assert len(drawn) >= FEWEST_RUNGS
    assert {rung.key for rung in drawn} == set(SHOWN[: len(drawn)])
    for rung in drawn:
        row = next(line for line in text.splitlines() if line.startswith(f"{rung.name} "))
        assert row.endswith(f"{rung.scale.with_unit(rung.median)}  {rung.interval}")


def test_the_screen_has_the_first_findings_in_their_order(survey: Analysed) -> None:
    lines = shown(survey)
    found = [each.sentence for each in notable(survey)]
    assert found
    heading = lines.index("Notable")
    end = next(index for index, line in enumerate(lines) if line.startswith("How sure"))
    text = " ".join(" ".join(lines[heading + 1 : end]).split())
    kept = [sentence for sentence in found if sentence in text]
    assert len(kept) >= SOUGHT_FINDINGS
    assert [text.index(sentence) for sentence in kept] == sorted(text.index(sentence) for sentence in kept)


def test_a_narrow_terminal_gets_no_wider_line(survey: Analysed) -> None:
    # A command to be copied is never broken.
    lines = [line for line in shown(survey, width=64) if "oscope show" not in line]
    assert max(map(len, lines)) <= 64


def test_the_certificate_says_how_sure_the_figures_are(survey: Analysed) -> None:
    assert any("oscope calibrate --quick" in line for line in shown(survey))
    known = {"false_alarms": {"count": 2, "of": 100}, "certificate": []}
    certified = Results(
        tuple(
            dataclasses.replace(e, settings={**e.settings, "calibrated": known}) for e in survey.experiments
        )
    )
    assert "How sure      false positives 2 of 100" in shown(certified)


def test_a_failed_self_check_is_said_first(survey: Analysed) -> None:
    first, *rest = survey.experiments
    wrong = dataclasses.replace(first, environment={**first.environment, "self_check": {"ok": False}})
    lines = shown(Results((wrong, *rest)))
    assert lines[1] == "Do not trust these figures: the probe's self-check failed."
    assert len(lines) <= LINES


def test_a_run_of_one_lab_is_no_survey(survey: Analysed) -> None:
    assert is_survey(survey)
    assert not is_survey(synthetic.survey())


def test_marks_stand_where_the_values_are(survey: Analysed) -> None:
    rungs = ladder(survey).latencies
    lines = draw(rungs, 80, dataclasses.replace(ASCII, median="@"))
    columns = [line.index("@") for line in lines[1:]]
    assert columns == sorted(columns)
    axis = Axis.over(rungs, 30)
    assert axis.column(min(10**axis.low, 1.0)) == 0
    assert axis.column(10**axis.high) == 29
    assert lines[0].split()[-3:] == ["95", "%", "interval"]
    assert "1 µs" in lines[0]


def test_a_throughput_says_how_wide_its_interval_is_where_it_is(survey: Analysed) -> None:
    rung = ladder(survey).throughputs[0]

    def rung_text(ci95: tuple[float, float] | None) -> str:
        return throughputs([dataclasses.replace(rung, summary=dataclasses.replace(rung.summary, ci95=ci95))])[
            0
        ]

    middle = rung.median
    assert re.fullmatch(rf"{rung.name} [\d\u202f.]+", rung_text((0.99 * middle, 1.01 * middle)))
    assert rung_text((0.8 * middle, 1.2 * middle)).endswith(" ±20 %")
    assert " to " in rung_text((0.2 * middle, 2 * middle))
    assert rung_text(None).endswith(" (once)")
    assert rung_text((0.9 * middle, 101 * middle)).endswith(" (too few samples)")
    assert rung_text((0.009 * middle, 2 * middle)).endswith(" (too few samples)")


def test_a_sentence_ends_neither_in_a_number_nor_in_an_abbreviated_unit() -> None:
    text = "fork takes 1.5 ms (1.2 to 1.9), i.e. 12 times as long. It copies page tables."
    assert first_sentence(text) == "fork takes 1.5 ms (1.2 to 1.9), i.e. 12 times as long."
    assert first_sentence("One only") == "One only"


def test_a_named_run_begins_with_what_was_found_and_ends_with_a_legend() -> None:
    results = Analysed.of(Results((synthetic.cost(),)))
    out = Console(width=80, file=io.StringIO())
    print_results(results, out)
    text = " ".join(str(out.file.getvalue()).split())  # type: ignore[attr-defined]
    [sentence] = sentences(results)
    assert text.startswith(" ".join(sentence.split()))
    assert text.count("ess: effective sample size") == 1


def test_a_run_that_is_not_whole_or_whose_probe_failed_its_check_says_so_before_its_figures() -> None:
    whole = synthetic.cost()
    checked = whole.environment | {"self_check": {"ok": False, "ratio_of_double_work": 2.3}}
    for experiment, warning in (
        (dataclasses.replace(whole, status="interrupted"), "The run was interrupted: samples are missing."),
        (
            dataclasses.replace(whole, environment=checked),
            "Do not trust these figures: the probe's self-check",
        ),
    ):
        for results, there in ((experiment, True), (whole, False)):
            out = Console(width=80, file=io.StringIO())
            print_results(Analysed.of(Results((results,))), out)
            text = " ".join(str(out.file.getvalue()).split())  # type: ignore[attr-defined]
            assert (warning in text) is there
        assert text.index("syscall.cost:") > 0


def test_the_sentences_are_the_answers_of_the_labs_sections(survey: Analysed) -> None:
    made = (section.answer for part in answers(survey, LABS) for section in part.sections)
    assert list(headlines(survey, LABS)) == list(dict.fromkeys(filter(None, made)))


def test_the_sentence_does_not_wait_for_scipy_stats(tmp_path: Path) -> None:
    """Importing it takes longer than all else between the last sample and the sentence."""
    record.write(Results((synthetic.cost(),)), tmp_path / "run.json")
    code = (
        "import sys\n"
        "from oscope.cli.views.answers_found import sentences\n"
        "from oscope.figures.analysed import Analysed\n"
        "from oscope.storage import record\n"
        f"print(*sentences(Analysed.of(record.read({str(tmp_path / 'run.json')!r}))))\n"
        "assert 'scipy.special' in sys.modules\n"
        "assert 'scipy.stats' not in sys.modules\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    assert "getppid costs" in ended.stdout


def test_an_experiment_that_no_lab_answers_is_described_by_its_extremes() -> None:
    cost = dataclasses.replace(synthetic.cost(), experiment="my.own", title="My own")
    [sentence] = sentences(Analysed.of(Results((cost,))))
    assert re.fullmatch(r"My own: from .* at .* to .* at .*\.", sentence)


def test_technical_notes_need_verbose() -> None:
    results = Results((synthetic.throughput(reps=2),))

    def notes_of(*, verbose: bool) -> str:
        out = Console(width=80, file=io.StringIO())
        print_results(results, out, verbose=verbose)
        return " ".join(str(out.file.getvalue()).split())  # type: ignore[attr-defined]

    assert "note: Only 2 processes" in notes_of(verbose=True)
    assert "note: Only 2 processes" not in notes_of(verbose=False)
    assert "--verbose adds 1 technical note" in notes_of(verbose=False)


def test_the_forms_of_a_table_have_every_cell() -> None:
    rows = [["a|b", "12\u202f345.5", "1.0 to 2.5"], ["c", "–", "–"]]
    table = Table("Title", ["name", "median [ns]", "95 % interval"], rows, frozenset({1, 2}), note="Why.")
    markdown = encode([table], "md")
    assert "| a\\|b | 12\u202f345.5 | 1.0 to 2.5 |" in markdown
    assert markdown.startswith("### Title\n\n| name | median [ns] | 95 % interval |\n| --- | --: | --: |\n")
    read = list(csv.DictReader(io.StringIO(encode([table], "csv"))))
    assert read[0] == {"name": "a|b", "median [ns]": "12345.5", "95 % low": "1.0", "95 % high": "2.5"}
    assert read[1] == {"name": "c", "median [ns]": "", "95 % low": "", "95 % high": ""}
    [value] = json.loads(encode([table], "json"))
    assert value["rows"][0]["median [ns]"] == 12345.5
    assert value["rows"][1] == {"name": "c", "median [ns]": None, "95 % low": None, "95 % high": None}
    assert (value["title"], value["note"]) == ("Title", "Why.")


def test_the_tables_of_a_summary_have_the_figures_of_the_terminal() -> None:
    results = Analysed.of(Results((synthetic.cost(),)))
    [table] = tables(results)
    rung = ladder(results).rung("null-call")
    assert rung is not None
    row = next(dict(zip(table.columns, r, strict=True)) for r in table.rows if r[:2] == ["getppid", "loop"])
    assert row["time [ns]"] == rung.scale.text(rung.median)
    assert row["95 % interval"] == rung.scale.span(rung.ci95)


def test_into_a_pipe_a_table_has_all_columns_and_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    columns = [f"column number {index}" for index in range(12)]
    table = Table("Wide", columns, [["cell"] * 12] * 40)
    terminal.print_table(table, terminal.console())
    out = capsys.readouterr().out
    assert all(name in out for name in columns)
    assert sum(line.startswith("cell") for line in out.splitlines()) == 40
    monkeypatch.setenv("COLUMNS", "80")
    terminal.print_table(table, terminal.console())
    narrow = capsys.readouterr().out
    assert max(map(len, narrow.splitlines())) <= 80
    assert "wider terminals also show: column number 4" in narrow


def test_a_column_that_the_note_cites_is_not_the_one_left_out() -> None:
    columns = ["name", "first of the figures", "second of the figures", "third of the figures", "cited"]
    table = Table("Wide", columns, [["x"] * 5], note="The column cited says it.")
    out = Console(width=60, file=io.StringIO())
    terminal.print_table(table, out)
    lines = str(out.file.getvalue()).splitlines()  # type: ignore[attr-defined]
    assert "cited" in lines[2]
    assert "third" not in lines[2]


def test_what_is_longer_than_the_screen_goes_through_the_pager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "my pager"
    script.write_text(f"#!{sys.executable}\nimport sys\nprint('PAGED', len(sys.stdin.readlines()))\n")
    script.chmod(0o755)
    monkeypatch.setenv("PAGER", f"'{script}'")
    pager.show("line\n" * 50, 24)
    assert capfd.readouterr().out == "PAGED 50\n"
    pager.show("line\n" * 5, 24)
    assert capfd.readouterr().out == "line\n" * 5
    monkeypatch.setenv("PAGER", str(tmp_path / "missing"))
    pager.show("line\n" * 50, 24)
    assert capfd.readouterr().out == "line\n" * 50


def test_on_a_terminal_a_long_list_is_paged_and_a_short_one_is_not(tmp_path: Path, probe: Path) -> None:
    script = tmp_path / "pager"
    script.write_text(f"#!{sys.executable}\nimport sys\nprint('PAGED', len(sys.stdin.readlines()) > 24)\n")
    script.chmod(0o755)

    def on_terminal(*words: str) -> str:
        child, terminal_end = pty.fork()
        if child == 0:
            variables = {"PAGER": str(script), "COLUMNS": "80", "LINES": "24", "OSCOPE_PROBE": str(probe)}
            os.environ.update(variables)
            os.execv(sys.executable, [sys.executable, "-m", "oscope", *words])  # noqa: S606
        text = b""
        while select.select([terminal_end], [], [], 60)[0]:
            try:
                text += os.read(terminal_end, 65536)
            except OSError:
                break
        os.waitpid(child, 0)
        os.close(terminal_end)
        return text.decode()

    assert "PAGED" not in on_terminal("list")
    assert on_terminal("list", "--all").strip() == "PAGED True"

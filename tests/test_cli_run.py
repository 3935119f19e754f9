"""`oscope run`: what it writes where, and what becomes of failures."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_driver import COST, NOBODY, CommandLine, as_nobody
from waiting import wait_until


@pytest.fixture
def real(probe: Path, tmp_path: Path) -> CommandLine:
    del probe
    return CommandLine(tmp_path)


@pytest.fixture
def nobody(probe: Path) -> Iterator[CommandLine]:
    with as_nobody(probe) as oscope:
        yield oscope


def test_a_named_run_is_summarised_stored_and_writes_no_file(oscope: CommandLine) -> None:
    answer = oscope(*COST)
    assert answer.code == 0
    assert answer.errors == []
    assert re.search(r"time \[ns\] +95 % interval +n", answer.out)
    assert "call=getppid, style=loop" in answer.out
    (run,) = oscope.runs()
    assert f"oscope show {run}" in answer.out
    assert list(oscope.folder.iterdir()) == []


def test_no_line_is_wider_than_the_terminal(oscope: CommandLine) -> None:
    # What is never left out takes 47 to 51 columns, by the digits of the numbers that come.
    answer = oscope("run", "syscall.cost", "--reps", "2", COLUMNS="52")
    assert answer.code == 0
    tables = [line for line in answer.out.splitlines() if "oscope show" not in line]
    assert max(map(len, tables)) <= 52
    assert re.search(r"wider terminals also show: [^.]*cycles", answer.out)


def test_no_figure_is_cut_where_the_terminal_is_narrow(oscope: CommandLine) -> None:
    answer = oscope("run", "syscall.cost", "--reps", "2", COLUMNS="30")
    assert answer.code == 0
    assert "…" not in answer.out
    assert re.search(r"call +style +time \[ns\] +95 % interval", answer.out)


def test_json_on_standard_output_is_alone_there(oscope: CommandLine) -> None:
    answer = oscope(*COST, "--json", "-")
    record = json.loads(answer.out)
    assert record["schema"] == "oscope.record/1"
    assert record["points"][0]["metrics"]["time_ns"]["n"] == 4
    assert "95 % interval" in answer.err


def test_several_experiments_give_an_array_of_records(oscope: CommandLine) -> None:
    answer = oscope("run", "syscalls", "--reps", "1", "--json", "-")
    assert [record["experiment"] for record in json.loads(answer.out)] == [
        "syscall.cost",
        "syscall.throughput",
        "process.create",
        "syscall.entry",
        "syscall.uring-nop",
    ]


def test_json_goes_to_a_file_beside_the_summary(oscope: CommandLine) -> None:
    answer = oscope(*COST, "--json", "record.json")
    assert "95 % interval" in answer.out
    assert json.loads((oscope.folder / "record.json").read_text())["experiment"] == "syscall.cost"


def test_sizes_and_durations_are_understood(oscope: CommandLine) -> None:
    answer = oscope(*COST, "--set", "size=128K", "--set", "pause=1ms", "--json", "-")
    factors = json.loads(answer.out)["points"][0]["factors"]
    assert (factors["size"], factors["pause"]) == (131072, 0.001)


def test_the_seed_is_kept(oscope: CommandLine) -> None:
    assert json.loads(oscope(*COST, "--seed", "7", "--json", "-").out)["seed"] == 7


def test_a_precision_is_reached_and_said(oscope: CommandLine) -> None:
    answer = oscope(*COST[:-2], "--precision", "5%", "--budget", "60s")
    assert answer.code == 0
    assert "the precision of 5 % is reached" in answer.out


def test_a_budget_ends_the_run(oscope: CommandLine) -> None:
    answer = oscope(*COST[:-2], "--set", "pause=20ms", "--reps", "1000", "--budget", "300ms")
    assert answer.code == 0
    assert "ran out after" in answer.err


def test_a_dying_probe_is_told_and_the_other_points_go_on(oscope: CommandLine) -> None:
    answer = oscope(*COST, "--set", "do=ok,die")
    assert answer.code == 1
    last = answer.err.splitlines()[-1]
    assert "SIGSEGV" in last
    assert "segment violated" in last
    assert "Traceback" not in answer.err
    assert re.search(r"^ok +\d", answer.out, re.MULTILINE)
    assert "skipped: die" in answer.out


def test_what_the_machine_cannot_do_is_skipped_and_no_failure(oscope: CommandLine) -> None:
    answer = oscope(*COST, "--set", "do=ok,unavailable")
    assert answer.code == 0
    assert "skipped: unavailable: no counter here\n  → buy another machine\n" in answer.out


def test_a_named_experiment_of_which_nothing_can_be_measured_is_a_failure(oscope: CommandLine) -> None:
    answer = oscope(*COST, "--set", "do=unavailable")
    assert answer.code == 1
    assert answer.err.splitlines()[-1].startswith("oscope: nothing could be measured of syscall.cost: ")
    assert "buy another machine" in answer.out


def test_failed_samples_are_counted_with_their_reason(oscope: CommandLine) -> None:
    answer = oscope(*COST, "--set", "do=failed_sample")
    assert answer.code == 1
    assert "samples failed: wrong result" in answer.out


def test_a_note_of_the_probe_stands_under_the_table(oscope: CommandLine) -> None:
    answer = oscope(*COST, "--set", "do=note")
    assert "note: the call returned ENOSYS" in answer.out


def test_ctrl_c_keeps_what_was_measured_and_resume_goes_on(oscope: CommandLine) -> None:
    running = oscope.start(*COST[:-1], "40", "--set", "pause=200ms", "--report", "r.html")
    wait_until(oscope.has_samples, "the first sample", running)
    runs = oscope.runs()
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=300)
    assert running.returncode == 1
    assert err.splitlines()[-1].startswith(f"oscope: interrupted: run {runs[0]} keeps ")
    assert f"oscope run --resume {runs[0]}" in err
    assert not (oscope.folder / "r.html").exists()
    # To compute a summary takes seconds, in which the person waits for the prompt.
    assert out == f"\nrun {runs[0]} is stored: oscope show {runs[0]}\n"
    assert re.search(r"time \[ns\]", oscope("show", runs[0]).out)
    resumed = oscope("run", "--resume", "last", "--json", "-")
    assert resumed.code == 0
    record = json.loads(resumed.out)
    assert (record["id"], record["status"]) == (runs[0], "done")
    assert record["points"][0]["metrics"]["time_ns"]["n"] == 40


def test_a_complete_run_is_not_resumed_in_silence(oscope: CommandLine) -> None:
    assert oscope(*COST).code == 0
    answer = oscope("run", "--resume", "last")
    assert answer.code == 0
    assert "is complete, there is nothing left to measure: to measure again, oscope run syscall.cost" in (
        answer.err
    )


def test_ctrl_c_leaves_the_record_that_was_asked_for(oscope: CommandLine) -> None:
    words = (*COST[:-1], "400", "--set", "pause=50ms", "--json", "r.json", "--figures", "figures")
    running = oscope.start(*words)
    runs = wait_until(oscope.runs, "the run", running)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=300)
    assert running.returncode == 1
    record = json.loads((oscope.folder / "r.json").read_text())
    assert (record["id"], record["status"]) == (runs[0], "interrupted")
    assert not (oscope.folder / "figures").exists()


def test_under_ci_nothing_but_the_summary_is_told(oscope: CommandLine) -> None:
    assert oscope(*COST, CI="true").err == ""


def test_a_missing_system_call_is_measured_and_said(real: CommandLine) -> None:
    answer = real("run", "syscall.cost", "--set", "call=nr:1000", "--reps", "5")
    assert answer.code == 0
    assert "ENOSYS" in answer.out


def test_the_survey_writes_the_report(real: CommandLine) -> None:
    answer = real("run", "--budget", "4s")
    assert answer.code == 0, answer.err
    assert (real.folder / "oscope-report.html").read_text().startswith("<!")
    lines = answer.out.splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("Oscope survey  ")
    assert "Report        oscope-report.html" in lines
    (run,) = real.runs()
    assert f"oscope show {run}" in lines[-1]
    shown = real("show", run, "syscalls").out
    for name in ("syscall.cost", "syscall.throughput", "process.create"):
        assert re.search(rf"^{name}: ", shown, re.MULTILINE)
    assert "disk.read" not in shown


def test_figures_go_into_their_folder(real: CommandLine) -> None:
    answer = real("run", "syscall.cost", "--reps", "5", "--figures", "figures")
    assert answer.code == 0, answer.err
    suffixes = {path.suffix for path in (real.folder / "figures").iterdir()}
    assert suffixes == {".png", ".svg"}
    assert not (real.folder / "oscope-report.html").exists()


def test_without_root_it_measures(nobody: CommandLine) -> None:
    answer = nobody("run", "syscall.cost", "--set", "call=getppid", "--reps", "5", "--json", "record.json")
    assert answer.code == 0, answer.err
    record = json.loads((nobody.folder / "record.json").read_text())
    assert record["environment"]["uid"] == NOBODY
    point = record["points"][0]
    assert point["metrics"]["time_ns"]["n"] == 5 + len(point["samples"]["again"])

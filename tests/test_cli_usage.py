"""Requests that are wrong get one clear line and exit code 2, and nothing is measured or written."""

from __future__ import annotations

import re
import shlex

import pytest

from cli_driver import CommandLine
from command_tree import commands
from oscope.cli.options import CheckedCommand
from oscope.probe import programs

COST = "run syscall.cost --set call=getppid"

WRONG = {
    "run --set": "option '--set' requires an argument: see oscope run --help",
    "bench --pin": "option '--pin' requires an argument: see oscope bench --help",
    "run syscal.cost": "there is no experiment 'syscal.cost': did you mean 'syscall.cost'?",
    "run syscall": "did you mean 'syscalls'?",
    "run quux": "the labs are disk, fs, ipc, kernel, memory",
    "run syscall.cost --set cal=getpid": "factor 'cal': did you mean 'call'?",
    "run syscall.cost --set call=getpidd": "call=getpidd: not a level of this factor: did you mean 'getpid'?",
    "run syscall.cost --set call=nr:x": "call=nr:x: not a level",
    "run syscall.cost --set call": "--set call: not of the form factor=level",
    "run syscall.cost --set =read": "--set =read: not of the form factor=level",
    "run syscall.cost --set call=": "--set call=: a level is empty",
    "run syscall.cost --set call=read,,lseek": "a level is empty",
    "run syscall.cost --set call=read --set call=lseek": "--set call is given twice",
    f"{COST} --set size=12x": "unknown unit",
    f"{COST} --reps 0": "--reps 0 measures nothing: give 1 or more",
    f"{COST} --reps -3": "--reps -3 measures nothing",
    f"{COST} --reps many": "--reps many is not a whole number: write digits only, such as 10",
    f"{COST} --reps 3 --precision 2%": "--reps and --precision contradict each other",
    f"{COST} --precision 0": "--precision: '0' is not between 0 % and 100 %",
    f"{COST} --precision 200%": "--precision: '200%' is not between 0 % and 100 %",
    f"{COST} --precision 2": "--precision: '2' would be 200 %: write 2%, or 200% if that is meant",
    "compare --threshold 5": "--threshold: '5' would be 500 %: write 5%, or 500% if that is meant",
    f"{COST} --precision fine": "--precision: 'fine' is not a share",
    f"{COST} --budget -1s": "--budget: '-1s' is less than no time",
    f"{COST} --budget 0": "a budget of 0 s leaves no time to measure",
    f"{COST} --budget 3parsecs": "--budget: '3parsecs' has an unknown unit 'parsecs'",
    f"{COST} --seed -1": "the seed -1 is below zero",
    f"{COST} --profile hasty": "'--profile'",
    f"{COST} --on mars": "--on mars",
    f"{COST} --report missing/r.html": "--report missing/r.html: the folder",
    f"{COST} --report .": "--report . is a folder",
    f"{COST} --json missing/r.json": "--json missing/r.json: the folder",
    f"{COST} --json /dev/null": "--json /dev/null is a device, not a regular file",
    f"{COST} --all-figures": "--all-figures without --figures",
    f"{COST} --figures missing/figures": "--figures missing/figures: the folder",
    "run --resume nothing": "the store has no run 'nothing'",
    "run --resume last --reps 3": "--resume and --reps contradict each other",
    "run --resume last --seed 0": "--resume and --seed contradict each other",
    "run syscall.cost --resume last": "--resume and a name contradict each other",
    "bench --resume last --reps 3": "--resume and --reps contradict each other: a resumed run keeps its plan",
    "bench --resume last --warmup 1": "--resume and --warmup contradict each other",
    "bench --resume last --metric cpu_ns --quick": "contradict each other: a resumed run keeps its plan",
    "bench --resume last -i": "--resume and --ignore-failure contradict each other",
    "bench --resume last --json -": "the store has no run yet",
    "bench ./old --vs ./new": "--vs needs -- before the first command: write it like oscope bench -- ./old",
    "bench ./old --vs=./new": "--vs needs -- before the first command",
    "bench --export md e.md --export csv e.csv -- true": "--export is given twice: give it once",
    "run --nope": "no such option: --nope",
    "run --store": "--store: expected one argument",
    "measure": "no such command 'measure'",
    "show": "the store has no run yet",
    "show 20240601-1 20240601-2": "show takes one run: oscope compare 20240601-1 20240601-2 takes two",
    "show last": "the store has no run yet",
    "show syscall.cost": "has no run 'syscall.cost': oscope show last syscall.cost shows it of the last run",
    "show memory": "the store has no run 'memory': oscope show last memory shows it",
    "show command.run": "oscope show last command.run shows it",
    "report last": "the store has no run yet",
    "report": "the store has no run yet",
    "history": "the store has no samples yet: measure with oscope run EXPERIMENT",
    "compare": "the store has no two runs that may be compared: measure one experiment twice",
    "gate": "the store has no two runs that may be compared",
    "list syscal.cost": "there is no experiment 'syscal.cost': did you mean 'syscall.cost'?",
    "show last --format xml": "'--format'",
    f"{COST} --quick --profile full": "--quick and --profile full contradict each other",
    "report last -o missing/r.html": "-o missing/r.html: the folder",
    "export last --format xml": "'--format'",
    "export last --format csv": "the store has no run yet",
    "compare last": "compare takes two runs, or one and --by: name a second run (oscope compare A B)",
    "explain-variation": "no run is named: oscope explain-variation last takes the newest one",
    "export": "no run is named: oscope export last takes the newest one",
    "compare last last --by call=read,lseek": "compare takes two runs, or one and --by: leave out one",
    "compare missing.json last": "there is no record file missing.json",
    "compare last last --threshold much": "--threshold: 'much' is not a share",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_request_gets_one_line_and_measures_nothing(line: str, oscope: CommandLine) -> None:
    answer = oscope(*shlex.split(line))
    assert answer.code == 2
    assert answer.out == ""
    (reported,) = answer.err.splitlines()
    assert reported.startswith("oscope: ")
    assert WRONG[line] in reported
    assert oscope.runs() == []
    assert list(oscope.folder.iterdir()) == []


def test_every_command_refuses_an_output_that_is_given_twice() -> None:
    for words, command in commands():
        # The others become a program, which reads its own options.
        assert isinstance(command, CheckedCommand) or words[0] in programs.COMMANDS, words


@pytest.mark.parametrize("times", [2, 3])
def test_all_but_the_last_of_several_files_would_not_be_written(times: int, oscope: CommandLine) -> None:
    given = [word for number in range(times) for word in ("--json", f"{number}.json")]
    answer = oscope("bench", "--reps", "2", *given, "--", "true")
    assert answer.code == 2
    assert answer.err == f"oscope: --json is given {('twice', '3 times')[times - 2]}: give it once\n"
    assert list(oscope.folder.iterdir()) == []


def test_two_runs_of_different_experiments_have_nothing_to_compare(oscope: CommandLine) -> None:
    for name in ("syscall.cost", "syscall.throughput"):
        oscope("run", name, "--reps", "1")
    answer = oscope("compare", *oscope.runs())
    assert answer.code == 2
    assert "A has syscall.cost, B has syscall.throughput: nothing in common" in answer.err


@pytest.mark.parametrize("content", ["not JSON", "[]", '{"schema": "something/1"}'])
def test_a_file_that_is_no_record_is_refused(content: str, oscope: CommandLine) -> None:
    (oscope.folder / "some.json").write_text(content)
    answer = oscope("compare", "some.json", "some.json")
    assert answer.code == 2
    assert len(answer.err.splitlines()) == 1


def test_an_unexpected_error_is_one_line_and_verbose_adds_the_trace(oscope: CommandLine) -> None:
    # Labs that are missing stand for any mistake of ours.
    (oscope.folder / "sitecustomize.py").write_text("import oscope.labs\noscope.labs.LABS = None\n")
    path = f"{oscope.folder}:{oscope.all_variables({})['PYTHONPATH']}"
    short = oscope("list", PYTHONPATH=path)
    assert short.code == 1
    (reported,) = short.err.splitlines()
    assert "this is a bug in Oscope" in reported
    long = oscope("list", "--verbose", PYTHONPATH=path)
    assert "Traceback" in long.err
    assert long.err.splitlines()[-1] == reported


def test_verbose_adds_the_trace_of_an_expected_error(oscope: CommandLine) -> None:
    answer = oscope("show", "nothing", "--verbose")
    assert answer.code == 2
    assert answer.err.startswith("Traceback")
    assert re.search(r"^oscope: the store has no run 'nothing'", answer.err, re.MULTILINE)

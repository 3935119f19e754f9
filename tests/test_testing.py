"""What the tests themselves rest on: commands that are forked, waiting, the stages."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import preloaded
import run_tests
from cli_driver import CommandLine
from waiting import wait_until

WORDS = (
    ("--version",),
    ("list", "syscall.cost"),
    ("runs",),
    ("show", "last"),
    ("compare", "one", "two", "--max-regression", "x"),
    ("nonsense",),
)


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_a_forked_command_answers_as_a_process_of_its_own(
    words: tuple[str, ...], oscope: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    forked = oscope(*words)
    monkeypatch.setenv("OSCOPE_TEST_FULL", "1")
    assert not preloaded.serves(oscope.all_variables({}))
    assert oscope(*words) == forked


def test_what_an_interpreter_reads_as_it_starts_is_given_to_a_process_of_its_own(oscope: CommandLine) -> None:
    assert preloaded.serves(oscope.all_variables({"NO_COLOR": "1"}))
    for name in ("PYTHONWARNINGS", "LC_ALL", "TZ", "COVERAGE_PROCESS_CONFIG"):
        assert not preloaded.serves(oscope.all_variables({name: "C"})), name


def test_a_module_that_reads_the_environment_as_it_is_imported_is_not_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "reading_early"
    folder.mkdir()
    (folder / "__init__.py").write_text("import os, platform\n\ndef home(): return os.getenv('HOME')\n")
    monkeypatch.syspath_prepend(tmp_path)
    preloaded.load(["reading_early"], str(folder))
    (folder / "early.py").write_text("from reading_early import home\n\nHOME = home()\n")
    with pytest.raises(RuntimeError, match=r"reading_early/__init__.py reads HOME of the environment"):
        preloaded.load(["reading_early"], str(folder))
    assert os.environ["PATH"]


def test_waiting_gives_the_value_or_says_what_did_not_come() -> None:
    values = iter((0, "", "here"))
    assert wait_until(lambda: next(values), "a value") == "here"
    with pytest.raises(TimeoutError, match=r"the end: not within 0\.01 s"):
        wait_until(lambda: False, "the end", limit_s=0.01)


@pytest.mark.parametrize("full", [False, True])
def test_every_test_is_in_one_stage(full: bool) -> None:
    stages = {stage.name: stage for group in run_tests.stages(full) for stage in group}
    (parallel,), (shared,) = stages["parallel"].commands, stages["rust"].commands
    lone, alone = stages["alone"].commands
    chosen = [command[command.index("-m", command.index("pytest")) + 1] for command in (parallel, alone)]
    more = "" if full else " and not full"
    assert chosen == [f"not alone{more}", f"alone{more}"]
    assert (shared[-1], lone[-1]) == ("--shared", "--alone")
    modules = {word for word in alone if word.startswith("tests/")}
    assert "tests/test_inject.py" in modules
    assert "tests/test_testing.py" not in modules, "none of its tests has the mark"


def test_what_comes_first_is_what_nothing_else_runs_without() -> None:
    first, *_ = run_tests.stages(full=False)
    assert tuple(stage.name for stage in first) == run_tests.CHECKS


def test_of_stages_beside_each_other_only_the_first_writes_as_it_runs(
    capfd: pytest.CaptureFixture[str],
) -> None:
    script = "import time; print('{0} begins', flush=True); time.sleep({1}); print('{0} ends')"
    stages = [
        run_tests.Stage(name, ((sys.executable, "-c", script.format(name, seconds)),))
        for name, seconds in (("one", 1.0), ("two", 0.3))
    ]
    outcomes = run_tests.carry_out_together(stages)
    assert [(each.name, each.passed) for each in outcomes] == [("one", True), ("two", True)]
    lines = [line for line in capfd.readouterr().out.splitlines() if not line.startswith("==")]
    assert lines.index("two ends") == lines.index("two begins") + 1


def test_a_stage_that_is_to_go_on_runs_all_its_commands(capfd: pytest.CaptureFixture[str]) -> None:
    fails, tells = (sys.executable, "-c", "raise SystemExit(1)"), (sys.executable, "-c", "print('told')")
    for to_the_end in (True, False):
        stage = run_tests.Stage("some", (fails, tells), to_the_end=to_the_end)
        assert not run_tests.carry_out(stage, beside=False).passed
        assert ("told" in capfd.readouterr().out.split()) == to_the_end


def test_the_slowest_tests_come_from_all_lanes(tmp_path: Path) -> None:
    case = '<testsuite><testcase classname="tests.test_x" name="{}" time="{}"/></testsuite>'
    (tmp_path / "a.xml").write_text(case.format("test_one@test_x", 1.5))
    (tmp_path / "b.xml").write_text(case.format("test_two", 20))
    files = [tmp_path / name for name in ("a.xml", "b.xml", "absent.xml")]
    assert run_tests.slowest(files) == [(20, "tests.test_x::test_two"), (1.5, "tests.test_x::test_one")]

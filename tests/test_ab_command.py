"""`oscope ab` on programs of the user's own: what it prints, stores and reports of both."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from cli_driver import ROOT, CommandLine

PROGRAM = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT / "python")!r})
import oscope.workload as kit

@kit.workload("sort.list")
def sort_list(size: int = 100):
    "Sort a list of numbers."
    numbers = list(range(size, 0, -1))
    return lambda: sorted(numbers)

kit.main()
"""
BROKEN = PROGRAM.replace("return lambda", "if size == 10: return lambda: 1 / 0\n    return lambda")


@pytest.fixture
def builds(oscope: CommandLine, tmp_path: Path) -> CommandLine:
    """Make a folder with three builds of a program; `broken` fails at size=10."""
    for name, text in (("old", PROGRAM), ("new", f"{PROGRAM}# new\n"), ("broken", BROKEN)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return CommandLine(tmp_path, oscope.environment)


def words(text: str) -> str:
    """Return a text without its line breaks."""
    return " ".join(text.split())


def test_a_level_that_fails_in_one_build_leaves_the_others_compared(builds: CommandLine) -> None:
    done = builds("ab", "./old", "./broken", "sort.list", "--set", "size=10,100", "--budget", "1s")
    assert done.code == 1
    assert "ZeroDivisionError" in done.errors[-1]
    assert re.search(r"sort\.list: B \([-\w]+, \./broken\) against A \([-\w]+, \./old\)", words(done.out))
    assert "[size=10]: not compared" in done.out
    # What it stored can be compared again by the command that it names.
    (command,) = re.findall(r"^  → oscope (compare \S+ \S+)$", done.out, re.MULTILINE)
    again = builds(*command.split())
    assert again.code == 0, again.err
    assert "./broken" in again.out
    for run, name in zip(command.split()[1:], ("./old", "./broken"), strict=True):
        assert f"run {run}, {name}" in words(done.out)
        assert f"  → oscope show {run}\n" in done.out


def test_where_every_level_fails_the_runs_are_named_still(builds: CommandLine) -> None:
    done = builds("ab", "./old", "./broken", "sort.list", "--set", "size=10", "--budget", "1s")
    assert done.code == 1
    assert "ZeroDivisionError" in done.errors[-1]
    assert "sort.list is not compared: nothing to compare" in words(done.out)
    assert re.search(r"^  → oscope compare \S+ \S+$", done.out, re.MULTILINE)

"""A whole run of benchmarks with modules that fail in all ways: nothing stops it, the table has every bar."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
DRIVER = """
import sys
from pathlib import Path
import bench, runner
runner.PATIENCE_S = float(sys.argv[3])
bench.MODULES = tuple(sys.argv[2].split(","))
bench.PAGE = Path(sys.argv[1])
sys.exit(bench.main(sys.argv[4:]))
"""
HEAD = """
from bars import Bar, Figure, NotMeasured, Part


def part(measure, *bars, short_s=0.1, **more):
    return Part("As it is.", bars, measure, short_s, 0.1, **more)


"""
GOOD = """
'''Measures well.'''
FAST = Bar("fast", "s", most=2)
SLOW = Bar("slow [all]", "s", most=2)
PEER = Bar("beside a peer", needs=("no-such-program",))


def two(bench):
    yield Figure(FAST, 1.25, (1.0, 1.5), "n = 7")
    yield Figure(SLOW, 3)


def refused(bench):
    raise NotMeasured("there is no moon: wait for the night")
    yield


PARTS = (
    part(two, FAST, SLOW, PEER),
    part(refused, Bar("by moonlight")),
    part(two, Bar("rare"), short_s=None),
    part(two, Bar("on a peer"), needs=("no-such-program",)),
)
"""
BAD = """
'''Fails in all ways.'''
import os, subprocess, time
from pathlib import Path
from measuring import ROOT


def raises(bench):
    raise RuntimeError(f"{ROOT}/tests/disk is on fire")
    yield


def dies(bench):
    print("out of ideas", file=__import__("sys").stderr, flush=True)
    os._exit(3)
    yield


def hangs(bench):
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    Path(os.environ["CHILD"]).write_text(str(child.pid))
    time.sleep(1000)
    yield


def silent(bench):
    return iter([Figure(Bar("undeclared"), 1)])


LAST = Bar("last", least=1)
PARTS = (
    part(raises, Bar("raised")),
    part(dies, Bar("died")),
    part(hangs, Bar("hung")),
    part(silent, Bar("silent")),
    part(lambda bench: iter([Figure(LAST, 1)]), LAST),
)
"""
INTERRUPTS = """
'''Has Ctrl-C pressed.'''
import os, signal, time

BEFORE = Bar("before", least=1)


def presses(bench):
    yield Figure(BEFORE, 1)
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(1000)


PARTS = (part(presses, BEFORE, Bar("during")), part(presses, Bar("after")))
"""
NO_MODULE = "raise RuntimeError('no such luck')"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    for name, text in (("good", GOOD), ("bad", BAD), ("interrupts", INTERRUPTS), ("absent", NO_MODULE)):
        (tmp_path / f"fake_{name}.py").write_text(HEAD + text)
    return tmp_path / "page.md"


def bench(page: Path, modules: str, *words: str, patience_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Run the program with other modules than its own."""
    paths = f"{BENCHMARKS}:{page.parent}"
    return subprocess.run(
        [sys.executable, "-c", DRIVER, page, modules, str(patience_s), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
        env={**os.environ, "PYTHONPATH": paths, "CHILD": str(page.with_name("child"))},
    )


def rows(text: str) -> dict[str, list[str]]:
    """Return the cells of each bar in the page's table: measured, wanted, result."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| fake_"):
            found[cells[1]] = cells[2:]
    return found


def test_whatever_fails_the_run_goes_on(page: Path) -> None:
    done = bench(page, "fake_bad,fake_absent,fake_good", patience_s=25)
    found = rows(page.read_text())
    assert found["fast"] == ["1.25 [1.00, 1.50] s; n = 7", "at most 2 s", "met"]
    assert found["slow [all]"] == ["3 s", "at most 2 s", "**missed**"]
    assert found["beside a peer"][::2] == [
        "install no-such-program: apt-get install no-such-program",
        "not measured",
    ]
    assert found["on a peer"][0].startswith("install no-such-program")
    assert found["by moonlight"][0] == "there is no moon: wait for the night"
    assert found["rare"][0].startswith("only by make bench-full")
    assert found["raised"][0] == "RuntimeError: tests/disk is on fire"
    assert "(6 of them failed or were stopped)" in done.stdout
    assert found["died"][0] == "the module ended with status 3: out of ideas"
    assert found["hung"][0].startswith("hung: stopped after")
    assert found["silent"][0] == "the module gave no figure"
    assert found["undeclared"][0] == "the module does not declare it, or gave it twice"
    assert found["last"] == ["1", "at least 1", "met"]
    assert "no such luck" in found["can be imported"][0]
    assert done.returncode == 1, done.stderr
    for bar in found:
        assert bar in done.stdout
        assert bar in done.stderr
    child = int(page.with_name("child").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(child, signal.SIGCONT)


def test_ctrl_c_prints_what_was_measured(page: Path) -> None:
    done = bench(page, "fake_interrupts,fake_good")
    assert done.returncode == 130, done.stderr
    lines = {line.split("│")[2].strip(): line for line in done.stdout.splitlines() if line.startswith("│")}
    assert "met" in lines["before"]
    for bar in ("during", "after", "fast"):
        assert "interrupted" in lines[bar]
    assert not page.exists()


def test_a_missing_peer_is_no_failure_and_a_partial_run_writes_no_page(page: Path) -> None:
    (page.parent / "fake_good.py").write_text(HEAD + GOOD.replace("most=2", "most=4"))
    done = bench(page, "fake_good,fake_bad", "fake_good")
    assert done.returncode == 0, done.stderr
    assert "2 met, 0 missed, 0 shown, 4 not measured" in done.stdout
    assert not page.exists()


def test_what_the_time_does_not_suffice_for_is_not_measured(page: Path) -> None:
    done = bench(page, "fake_bad,fake_good", "--minutes", "0.00001")
    found = rows(page.read_text())
    assert "time" in found["raised"][0]
    assert found["fast"][0] == "no time left of 0 s"
    assert done.returncode == 1


def test_the_page_names_machine_and_code(page: Path) -> None:
    bench(page, "fake_good")
    text = page.read_text()
    for name in ("commit", "processor", "CPUs", "memory", "kernel", "virtualisation", "run"):
        assert f"| {name} | " in text
    assert not re.search(rf"\b{re.escape(os.uname().nodename)}\b", text)
    assert str(BENCHMARKS.parent) not in text


def test_a_wrong_command_line_is_refused(page: Path) -> None:
    for words in (["nothing"], ["--minutes", "0"], ["--full", "--smoke"]):
        done = bench(page, "fake_good", *words)
        assert done.returncode == 2
        assert done.stdout == ""

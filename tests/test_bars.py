"""What the benchmarks measure with, on programs whose figures are known; and how they judge."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bars import Bar, Figure, interval_of, median, ratio, share
from measuring import compile_c, peak_memory

MIB = 1 << 20
OWN = 300 * MIB
TAKEN = 64 * MIB
HOLDER = f"""\
import subprocess, sys, time
taken = bytearray(b"x") * {TAKEN}
if len(sys.argv) > 1:
    subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
del taken
time.sleep(2)
"""
"""Takes memory, and gives it back before it ends; its argument is a child's program."""


def measured(*words: str) -> int:
    with subprocess.Popen([sys.executable, "-c", HOLDER, *words]) as process:
        found = peak_memory(process)
    assert process.returncode == 0
    return found


def test_the_memory_of_who_measures_does_not_count() -> None:
    own = bytearray(b"x") * OWN
    assert TAKEN < measured() < TAKEN + 60 * MIB
    assert len(own) == OWN


def test_the_memory_of_children_is_added() -> None:
    assert 2 * TAKEN < measured(HOLDER) < 2 * TAKEN + 120 * MIB


def test_a_bar_is_judged_by_the_value() -> None:
    bar = Bar("ratio", least=0.98, most=1.02)
    verdicts = [bar.judge(Figure(bar, value, (0.9, 1.1))) for value in (0.97, 0.98, 1.02, 1.03)]
    assert verdicts == ["missed", "met", "met", "missed"]
    assert Bar("shown").judge(Figure(bar, 5)) == "shown"


def test_a_share_is_missed_where_its_whole_interval_is() -> None:
    bar = Bar("false positives", "%", most=6, by_interval=True)
    assert bar.judge(share(bar, 1, 10)) == "met"
    assert bar.judge(share(bar, 5, 10)) == "missed"
    assert bar.judge(share(bar, 200, 2000)) == "missed"
    held = Bar("coverage", "%", 93, 97, by_interval=True)
    assert held.judge(share(held, 10, 10)) == "met"
    assert held.judge(share(held, 2000, 2000)) == "missed"


def test_a_figure_has_the_digits_of_its_interval() -> None:
    bar = Bar("time", "ns", most=1000)
    assert Figure(bar, 1234.5678, (1200.0, 1270.0), "n = 9").text == "1,235 [1,200, 1,270] ns; n = 9"
    assert Figure(bar, 0.98765, (0.98, 0.99)).text == "0.9877 [0.9800, 0.9900] ns"
    assert Figure(bar, 17).text == "17 ns"
    assert [bar.bound, Bar("", least=5).bound, Bar("", "%", 3, 4).bound, Bar("", "B", 2, 2).bound] == [
        "at most 1,000 ns",
        "at least 5",
        "3 to 4 %",
        "2 B",
    ]
    with pytest.raises(ValueError, match="is no figure"):
        Figure(bar, float("nan"))


def test_few_values_have_no_interval() -> None:
    bar = Bar("time")
    assert median(bar, [1, 2, 9]).interval is None
    assert interval_of([3.0] * 9) == (3.0, 3.0)
    found = ratio(bar, [2, 4, 6, 8, 10.5], [1, 2, 3, 4, 5])
    assert found.value == 2
    assert found.interval is not None
    assert found.interval[0] <= 2 <= found.interval[1]


def test_a_program_is_compiled_once() -> None:
    first = compile_c("getppid")
    built = first.stat().st_mtime_ns
    compile_c.cache_clear()
    assert compile_c("getppid") == first
    assert first.stat().st_mtime_ns == built
    assert compile_c("getppid", "-O1") != first

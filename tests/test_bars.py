"""What the benchmarks measure with, on programs whose figures are known."""

from __future__ import annotations

import subprocess
import sys

from bars import peak_memory

MIB = 1 << 20
OWN = 300 * MIB
TAKEN = 64 * MIB
HOLDER = f"""\
import subprocess, sys, time
taken = bytearray(b"x") * {TAKEN}
if len(sys.argv) > 1:
    subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
del taken
time.sleep(0.5)
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

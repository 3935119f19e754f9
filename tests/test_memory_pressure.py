"""`memory.access pressure=compete` with the real probe: pages go to swap and come back; nothing is left."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from cli_driver import CommandLine
from machine_state import family, machine_state
from oscope.probe.probe_session import ProbeSession, RefusedError
from waiting import wait_until

MEBIBYTE = 1 << 20
LIMIT_S = 120.0
PRESSED: dict[str, Any] = {
    "pattern": "random",
    "size": 128 * MEBIBYTE,
    "limit": 64 * MEBIBYTE,
    "swap_size": 512 * MEBIBYTE,
    # More than the group may have is touched, and again: some of it has to come back from swap.
    "sets": 8000,
    "wait": 0.0,
    "pressure": "compete",
}

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes swap and control groups"),
]


def test_pressure_makes_major_faults_and_leaves_nothing(probe: Path) -> None:
    del probe
    before = machine_state()
    notes: list[str] = []
    with ProbeSession(notes.append) as session:
        free, pressed = (
            session.measure("memory.access", PRESSED | {"pressure": each}, limit_s=LIMIT_S).metrics
            for each in ("none", "compete")
        )
        below = family(session.pid)
    assert free["majflt"] == 0
    assert free["pressure_resident_kib"] is None
    assert pressed["majflt"] is not None
    assert pressed["majflt"] > 0
    # Its program, which it shares with the probe, is outside the group.
    assert 0 < (pressed["pressure_resident_kib"] or 0) < (PRESSED["limit"] + 4 * MEBIBYTE) / 1024
    assert below == [], "the competitor outlived its repetition"
    assert any("swap" in note for note in notes)
    assert machine_state() == before


@pytest.mark.parametrize("swap", ["file", "zram"])
def test_swap_lies_where_it_was_asked_for(swap: str, probe: Path) -> None:
    del probe
    before = machine_state()
    notes: list[str] = []
    with ProbeSession(notes.append) as session:
        try:
            found = session.measure("memory.access", PRESSED | {"swap": swap}, limit_s=LIMIT_S).metrics
        except RefusedError as error:
            pytest.skip(str(error))
    assert found["majflt"]
    assert any(("file" if swap == "file" else "zram") in note for note in notes)
    assert machine_state() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_under_pressure_that_is_interrupted_leaves_nothing(
    number: signal.Signals, probe: Path, tmp_path: Path
) -> None:
    del probe
    before = machine_state()
    oscope = CommandLine(tmp_path)
    words = [word for name, level in PRESSED.items() for word in ("--set", f"{name}={level}")]
    process = oscope.start("run", "memory.access", *words, "--reps", "100000")
    try:
        # The probe, the competitor, and the process that is measured.
        wait_until(lambda: len(family(process.pid)) >= 3, "three processes", process)
    finally:
        process.send_signal(number)
        _, err = process.communicate(timeout=LIMIT_S)
    assert "interrupted" in err
    assert machine_state() == before

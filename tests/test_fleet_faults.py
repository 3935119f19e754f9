"""`benchmarks/fleet_faults.py`: random faults of a fleet's engine lose nothing that was acknowledged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fleet_fault_kinds
from cli_driver import ROOT
from test_fleet import needs_network

TRIALS = 2 * len(fleet_fault_kinds.FAULTS)
LIMIT_S = 3600


@needs_network
@pytest.mark.full
@pytest.mark.alone
@pytest.mark.timeout(LIMIT_S)
def test_random_faults_lose_nothing(real_probe: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "fleet_faults.py", "--trials", str(TRIALS), "--seed", "5"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python"), "OSCOPE_PROBE": str(real_probe)},
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{TRIALS} of {TRIALS} trials are right" in done.stdout

"""tools/aarch64.py takes the right packages; marked `full`, it checks, builds and measures for arm64."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import aarch64

ROOT = Path(__file__).parent.parent
MADISON = """\
 rustc-web | 1.96.0+dfsg1-1~deb12u2 | http://deb.example bookworm-security/main amd64 Packages
 rustc-web | 1.85.0+dfsg3-1~deb12u3 | http://deb.example bookworm/main amd64 Packages
     rustc | 1.63.0+dfsg1-2 | http://deb.example bookworm/main amd64 Packages
"""
SIMULATED = """\
NOTE: This is only a simulation!
Inst gcc-12-cross-base (12.2.0-14cross1 Debian:12.12/oldstable [all])
Inst rustc-web [1.84.0] (1.85.0+dfsg3-1~deb12u3 Debian:12.12/oldstable, Debian-Security:12 [amd64]) []
Inst gcc-aarch64-linux-gnu (4:12.2.0-3 Debian:12.12/oldstable [amd64])
Conf rustc-web (1.85.0+dfsg3-1~deb12u3 Debian:12.12/oldstable [amd64])
"""


def test_the_oldest_rust_that_is_admitted_is_taken() -> None:
    assert aarch64.choose(MADISON, (1, 85)) == ("rustc-web", "1.85.0+dfsg3-1~deb12u3")
    assert aarch64.choose(MADISON, (1, 90)) == ("rustc-web", "1.96.0+dfsg1-1~deb12u2")
    assert aarch64.choose(MADISON, (1, 97)) is None
    assert aarch64.minimum() >= (1, 85)


def test_numbers_of_versions_compare_by_value() -> None:
    assert aarch64.numbers("4:12.2.0-3") == (12, 2, 0)
    assert aarch64.numbers("1.100.0") > aarch64.numbers("1.99")
    assert aarch64.numbers("unknown") == ()


def test_what_apt_would_install_is_named_with_its_version() -> None:
    assert aarch64.to_install(SIMULATED) == [
        "gcc-12-cross-base:all=12.2.0-14cross1",
        "rustc-web:amd64=1.85.0+dfsg3-1~deb12u3",
        "gcc-aarch64-linux-gnu:amd64=4:12.2.0-3",
    ]


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_the_workspace_compiles_for_arm64_and_the_probe_measures_under_emulation() -> None:
    done = subprocess.run(
        [sys.executable, "tools/aarch64.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    for clock in aarch64.CLOCKS:
        assert f"== --clock {clock}\nmachine: aarch64, implementer 0x" in done.stdout
    assert done.stdout.count("syscall.cost of getppid: ") == len(aarch64.CLOCKS)

"""Which packages tools/setup.sh wants, where there is no apt-get: it then names them, and changes nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout that has the script only, and programs that it needs itself."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "setup.sh", tmp_path / "tools")
    (tmp_path / "bin").mkdir()
    for name in ("bash", "dirname"):
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    return tmp_path


def missing(checkout: Path, purpose: str) -> list[str]:
    """Return the packages that are named as missing."""
    done = subprocess.run(
        ["bash", checkout / "tools" / "setup.sh", purpose],
        env={"PATH": str(checkout / "bin")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    reported, packages, remedy = line.split(": ", 3)[1:]
    assert (reported, remedy) == ("missing", "install them with this system's package manager")
    return packages.split()


@pytest.mark.parametrize("purpose", ["run", "test", "bench"])
def test_each_package_is_wanted_once(purpose: str, checkout: Path) -> None:
    expected = missing(checkout, purpose)
    assert len(expected) == len(set(expected))
    assert {"gcc", "make", "python3-venv"} <= set(expected)
    assert ("git" in expected) == (purpose != "run")


def test_a_virtual_environment_that_is_there_needs_no_package(checkout: Path) -> None:
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/true")
    assert missing(checkout, "run") == ["gcc", "make"]


def test_programs_of_the_administrator_are_found_by_others_too(checkout: Path) -> None:
    """Debian has /usr/sbin on the path of root alone."""
    name, package = "dnsmasq", "dnsmasq-base"
    if not Path("/usr/sbin", name).exists():
        pytest.skip(f"{name} is not installed")
    assert package not in missing(checkout, "test")

"""What is beside the Python of the package is in its wheel: maturin takes all that git does not ignore."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "python" / "oscope"
READ_AT_RUN_TIME = (
    "tools/explain/purposes.toml",
    "inspection.schema.json",
    "record.schema.json",
    "report/templates/report.html.j2",
    "report/view/static/view.js",
    "report/view/templates/base.html.j2",
    "trace/programs/syscalls.bt",
    "targets/kernel/modules/Kbuild",
)
"""One of each kind: what a wheel without them fails for."""


def data_files() -> list[Path]:
    return [
        path
        for path in sorted(PACKAGE.rglob("*"))
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
    ]


def test_the_package_has_what_is_read_at_run_time() -> None:
    found = {str(path.relative_to(PACKAGE)) for path in data_files()}
    assert found >= set(READ_AT_RUN_TIME)


def test_maturin_takes_the_whole_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["maturin"]
    assert ROOT / settings["python-source"] / settings["module-name"] == PACKAGE
    # Either would take files out of it, or need a list to be kept.
    assert not {"exclude", "python-packages", "include"} & set(settings)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_ignores_none_of_it() -> None:
    """What git ignores, maturin leaves out."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no working copy of git")
    names = "".join(f"{path}\0" for path in data_files())
    done = subprocess.run(
        ["git", "-C", ROOT, "check-ignore", "--no-index", "-z", "--stdin"],
        input=names,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")

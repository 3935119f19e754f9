"""Folders of Oscope's own: many processes make and remove them at the same time, and nothing is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cli_driver import ROOT
from oscope.model.errors import OscopeError
from oscope.targets import own_folders

PROCESSES = 6
MAKE = """
from oscope.targets.own_folders import own_folder

for _ in range(40):
    with own_folder() as (path, _):
        (path / "inner").mkdir()
        (path / "inner" / "file").write_text("content")
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where they lie, which is not there yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return own_folders.root()


def test_the_folder_that_they_lie_in_goes_with_the_last_of_them(root: Path) -> None:
    with own_folders.own_folder() as (first, _):
        with own_folders.own_folder() as (second, _):
            assert {path.name for path in root.iterdir()} == {first.name, second.name}
        assert list(root.iterdir()) == [first]
    assert not root.exists()


def test_one_that_an_earlier_version_left_empty_goes_with_the_next_command(root: Path) -> None:
    root.mkdir(parents=True)
    own_folders.remove_left(pytest.fail)
    assert not root.exists()


def test_what_is_not_oscopes_stays(root: Path) -> None:
    root.mkdir(parents=True)
    (root / "notes").mkdir()
    with own_folders.own_folder():
        pass
    own_folders.remove_left(pytest.fail)
    assert list(root.iterdir()) == [root / "notes"]


def test_the_folder_that_they_lie_in_may_go_while_it_is_made(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.mkdir(parents=True)

    def gone(place: Path) -> bool:
        place.rmdir()
        return False

    with monkeypatch.context() as removing:
        # What `Path.mkdir` calls where the folder exists.
        removing.setattr(Path, "is_dir", gone)
        with own_folders.own_folder() as (path, _):
            assert path.parent == root
    assert not root.exists()


def test_a_link_to_nowhere_is_refused(root: Path) -> None:
    root.parent.mkdir(parents=True)
    root.symlink_to(root.parent / "nowhere")
    with pytest.raises(OscopeError, match="cannot be made"), own_folders.own_folder():
        pass


def test_processes_that_make_and_remove_them_at_the_same_time_do_not_fail(root: Path) -> None:
    command = [sys.executable, "-c", MAKE]
    started = [
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT / "python")
        for _ in range(PROCESSES)
    ]
    assert [process.communicate(timeout=120)[1] for process in started] == [""] * PROCESSES
    assert [process.returncode for process in started] == [0] * PROCESSES
    assert not root.exists()

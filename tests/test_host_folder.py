"""Folders of connections to other hosts: gone at the end, left by a kill only until the next connection."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from oscope.targets.host.socket_folder import SocketFolder

MAKE = """
import signal, sys
from pathlib import Path
from oscope.targets.host.socket_folder import SocketFolder
folder = SocketFolder(Path(sys.argv[1]))
folder.words.write_text("said")
folder.socket.touch()
print(folder.path, flush=True)
signal.pause()
"""


def started(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """Return a process that has a folder, and the folder."""
    process = subprocess.Popen([sys.executable, "-c", MAKE, parent], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=300)


def test_it_is_this_users_alone_and_goes_with_all_that_is_in_it(tmp_path: Path) -> None:
    folder = SocketFolder(tmp_path)
    assert folder.path.parent == tmp_path
    assert folder.path.stat().st_mode & 0o777 == 0o700
    folder.words.write_text("said")
    folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_one_that_is_gone_already_is_no_error(tmp_path: Path) -> None:
    folder = SocketFolder(tmp_path)
    (folder.path / "lock").unlink()
    folder.path.rmdir()
    folder.remove()


def test_one_whose_owner_was_killed_is_removed_and_one_whose_owner_lives_is_not(tmp_path: Path) -> None:
    (dead, left), (alive, used) = started(tmp_path), started(tmp_path)
    try:
        assert left.is_dir()
        end(dead)
        own = SocketFolder(tmp_path)
        assert sorted(tmp_path.iterdir()) == sorted([used, own.path])
        assert sorted(path.name for path in used.iterdir()) == ["lock", "s", "words"]
    finally:
        end(alive)
    own.remove()
    SocketFolder(tmp_path).remove()
    assert list(tmp_path.iterdir()) == []


def without_lock(left: Path) -> None:
    (left / "lock").unlink()


def with_more(left: Path) -> None:
    (left / "notes").touch()


def with_a_folder(left: Path) -> None:
    (left / "notes").mkdir()


def open_to_others(left: Path) -> None:
    left.chmod(0o755)


def with_a_link_for_a_lock(left: Path) -> None:
    (left / "lock").rename(left.parent / "lock")
    (left / "lock").symlink_to(left.parent / "lock")


def of_another_name(left: Path) -> None:
    left.rename(left.with_name("other-ssh-folder"))


def behind_a_link(left: Path) -> None:
    left.rename(left.with_name("elsewhere"))
    left.symlink_to(left.with_name("elsewhere"))


def of_another_user(left: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(left, 65534, 65534)


@pytest.mark.parametrize(
    "change",
    [
        without_lock,
        with_more,
        with_a_folder,
        open_to_others,
        with_a_link_for_a_lock,
        of_another_name,
        behind_a_link,
        of_another_user,
    ],
)
def test_what_is_not_as_it_was_made_is_left_alone(tmp_path: Path, change: Callable[[Path], None]) -> None:
    process, left = started(tmp_path)
    end(process)
    change(left)
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    SocketFolder(tmp_path).remove()
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_file_of_such_a_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "oscope-ssh-file").write_text("mine")
    SocketFolder(tmp_path).remove()
    assert (tmp_path / "oscope-ssh-file").read_text() == "mine"

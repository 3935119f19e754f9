"""What the contract says is not there: locks between mounts, growth of a file that stays open."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from fs_desk import LIMIT_S, Desk
from fs_mount import missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

TAKE = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        getattr(fcntl, sys.argv[2])(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("held")
    else:
        print("free")
"""


def taken(file: Path, how: str) -> str:
    """Say whether another program finds the file's lock free or held."""
    words = [sys.executable, "-c", TAKE, str(file), how]
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout.strip()


@pytest.mark.parametrize("how", ["flock", "lockf"])
def test_locks_hold_among_the_programs_of_one_mount_only(how: str, desk: Desk) -> None:
    desk.mounted()
    second = desk.home / "second"
    second.mkdir()
    other = ["--cache", desk.home / "cache"]
    assert desk("mount", "-F", desk.server.config, desk.target, second, *other).code == 0
    try:
        with (desk.point / "file").open("r+b") as file:
            getattr(fcntl, how)(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert taken(desk.point / "file", how) == "held"
            assert taken(second / "file", how) == "free"
            assert taken(desk.there / "file", how) == "free"
    finally:
        assert desk("umount", second).code == 0
    desk.unmounted()


def test_a_file_that_stays_open_does_not_grow_with_the_server_s(desk: Desk) -> None:
    desk.mounted("--attribute-time", "0")
    with (desk.point / "file").open("rb") as file:
        assert file.read() == b"there before"
        with (desk.there / "file").open("ab") as there:
            there.write(b", and more")
        assert file.read() == b""
        with (desk.point / "file").open("rb") as again:
            assert again.read() == b"there before", "it shares the copy"
    assert (desk.point / "file").read_bytes() == b"there before, and more"
    desk.unmounted()

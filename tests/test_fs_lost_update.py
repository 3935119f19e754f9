"""Two writers of one file: whatever the second in which they write, neither loses what the other wrote."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fs_mount import recover
from fs_places import AT_ONCE
from fs_scene import mount
from ssh_server import SshServer
from waiting import wait_until

LARGE = 600_000
"""Bytes of what takes several requests to read."""

REWRITE = os.O_RDWR
EMPTY = os.O_WRONLY | os.O_TRUNC
FILES = pytest.mark.parametrize("files", [4, pytest.param(25, marks=pytest.mark.full)], ids="{} files".format)
"""Files of each case. Those of one case are written within about a second."""


@dataclass(frozen=True)
class Case:
    """How a file is opened, its bytes, and how much shorter the second writer's are."""

    flags: int
    size: int
    shorter: int

    def base(self) -> bytes:
        return b"b" * self.size

    def first(self) -> bytes:
        return b"1" * self.size

    def second(self) -> bytes:
        return b"2" * (self.size - self.shorter)

    def second_kept(self) -> bytes:
        """Return what the second writer leaves: the rest of the base too, unless it emptied the file."""
        return self.second() if self.flags == EMPTY else self.second() + b"b" * self.shorter


CASES = [Case(*one) for one in itertools.product((REWRITE, EMPTY), (4, LARGE), (0, 1))]


def until_age(path: Path, age_s: int) -> None:
    """Wait until so many seconds have begun since the one in which the file was written."""
    written = int(path.stat().st_mtime)
    wait_until(lambda: int(time.time()) >= written + age_s, f"{path} is {age_s} s old")


def new_second() -> None:
    """Wait until a second begins, so that what follows is within it."""
    now = int(time.time())
    wait_until(lambda: int(time.time()) > now, "the next second begins")


def contents(folder: Path, name: str) -> list[bytes]:
    """Return what the file and its conflict copies hold."""
    found = [path for path in folder.iterdir() if path.name.split(".conflict-")[0] == name]
    return sorted(path.read_bytes() for path in found)


def begin(path: Path, flags: int, content: bytes) -> Callable[[], None]:
    """Open a file and write it from its start; return what closes it."""
    descriptor = os.open(path, flags)
    os.pwrite(descriptor, content, 0)
    return lambda: os.close(descriptor)


@FILES
@pytest.mark.parametrize("age_s", range(4), ids="{} s old".format)
def test_of_two_mounts_that_write_one_file_neither_loses_the_others(
    age_s: int, files: int, fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    lost = []
    with (
        mount(fs_server, fs_folder, tmp_path / "one", *AT_ONCE) as one,
        mount(fs_server, fs_folder, tmp_path / "two", *AT_ONCE) as two,
    ):
        for cases in (CASES[::2], CASES[1::2]):
            todo = [(case, f"{CASES.index(case)}-{at}") for at in range(files) for case in cases]
            new_second()
            for case, name in todo:
                (fs_folder / name).write_bytes(case.base())
            for at, (case, name) in enumerate(todo):
                first, second = (one, two) if (at // len(cases)) % 2 else (two, one)
                if age_s == 0:
                    (fs_folder / name).write_bytes(case.base())
                until_age(fs_folder / name, age_s)
                close_first = begin(first.root / name, case.flags, case.first())
                close_second = begin(second.root / name, case.flags, case.second())
                close_first()
                close_second()
                if contents(fs_folder, name) != sorted([case.first(), case.second_kept()]):
                    lost.append((case, name))
        assert lost == []
        for at_end in (one, two):
            at_end.stop()


@FILES
@pytest.mark.parametrize("linked", [False, True], ids=["replaced", "in place"])
def test_a_change_on_the_server_itself_within_the_second_is_not_lost(
    linked: bool, files: int, fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    lost = []
    with mount(fs_server, fs_folder, tmp_path / "home", *AT_ONCE) as mounted_at:
        for number, case in enumerate(case for case in CASES if not case.shorter):
            new_second()
            for name in (f"{number}-{at}" for at in range(files)):
                path = mounted_at.root / name
                (fs_folder / name).write_bytes(case.base())
                if linked:
                    path.with_name(f"link-{name}").hardlink_to(path)
                close = begin(path, case.flags, case.second())
                (fs_folder / name).write_bytes(case.first())
                close()
                if contents(fs_folder, name) != [case.first(), case.second()]:
                    lost.append((case, name))
        assert lost == []
        mounted_at.stop()


def test_a_time_that_is_set_does_not_hide_a_change_of_the_second_before(
    fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    with mount(fs_server, fs_folder, tmp_path / "home", *AT_ONCE) as mounted_at:
        new_second()
        for number, flags in enumerate((REWRITE, EMPTY) * 4):
            name = f"file{number}"
            (fs_folder / name).write_bytes(b"base")
            descriptor = os.open(mounted_at.root / name, flags)
            (fs_folder / name).write_bytes(b"1111")
            os.utime(mounted_at.root / name, (1_000_000_000, 1_000_000_000))
            os.pwrite(descriptor, b"2222", 0)
            os.close(descriptor)
            assert contents(fs_folder, name) == [b"1111", b"2222"]
        mounted_at.stop()


@pytest.mark.parametrize("flags", [REWRITE, EMPTY], ids=["rewritten", "emptied"])
def test_what_is_recovered_after_a_kill_does_not_replace_a_change_of_the_same_second(
    flags: int, fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    home, path = tmp_path / "home", fs_folder / "file"
    with mount(fs_server, fs_folder, home, *AT_ONCE) as mounted_at:
        new_second()
        path.write_bytes(b"base")
        descriptor = os.open(mounted_at.root / "file", flags)
        os.pwrite(descriptor, b"2222", 0)
        path.write_bytes(b"1111")
        mounted_at.crash()
        with pytest.raises(OSError, match=r"."):
            os.close(descriptor)
    answer = recover(fs_server, fs_folder, home)
    assert answer.returncode == 0, answer.stderr
    assert path.read_bytes() == b"1111"
    assert contents(fs_folder, "file") == [b"1111", b"2222"]


@pytest.mark.parametrize("size", [4, LARGE], ids=["small", "large"])
def test_who_writes_alone_gets_no_conflict_however_fast(
    size: int, fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    with mount(fs_server, fs_folder, tmp_path / "home", *AT_ONCE) as mounted_at:
        for flags in (EMPTY | os.O_CREAT, REWRITE, EMPTY) * 7:
            expected = os.urandom(size)
            begin(mounted_at.root / "file", flags, expected)()
            assert (fs_folder / "file").read_bytes() == expected
        mounted_at.stop()
    assert [path.name for path in fs_folder.iterdir()] == ["file"]


def test_who_writes_after_another_has_closed_replaces_it_within_the_second(
    fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    with (
        mount(fs_server, fs_folder, tmp_path / "one", *AT_ONCE) as one,
        mount(fs_server, fs_folder, tmp_path / "two", *AT_ONCE) as two,
    ):
        for flags in (EMPTY | os.O_CREAT, REWRITE, EMPTY) * 5:
            for writer in (one, two):
                expected = os.urandom(6)
                begin(writer.root / "file", flags, expected)()
                assert (fs_folder / "file").read_bytes() == expected
                time_set = (writer.root / "file").stat().st_mtime_ns
                os.utime(writer.root / "file", ns=(time_set, time_set))
        assert [path.name for path in fs_folder.iterdir()] == ["file"]
        for at_end in (one, two):
            at_end.stop()

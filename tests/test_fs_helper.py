"""`oscope-fs mount --helper`: what only a server that runs `oscope-fs serve` has, and what SFTP has too."""

from __future__ import annotations

import json
import os
import random
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import BinaryIO

import pytest

from fs_mount import MountFailed, find_oscope_fs
from fs_places import AT_ONCE
from fs_scene import mount, refusal
from ssh_server import SshServer
from waiting import wait_until

LONG = ("--attribute-time", "1h")
"""So long that nothing is asked for again by itself."""
NOBODY = 65534
BOTH = pytest.mark.parametrize("has_helper", [False, True], ids=["SFTP", "helper"])


def helper(has_helper: bool = True) -> tuple[str, ...]:
    """Return the options of a mount whose server runs the program that is tested."""
    return (f"--helper={find_oscope_fs()}",) if has_helper else ()


def identity(path: Path) -> tuple[int, ...]:
    found = path.lstat()
    return (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_nlink, found.st_rdev)


def test_attributes_are_the_servers_to_the_nanosecond(
    fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    (fs_folder / "file").write_text("text")
    (fs_folder / "other").hardlink_to(fs_folder / "file")
    (fs_folder / "folder" / "inner").mkdir(parents=True)
    os.utime(fs_folder / "file", ns=(1_000_000_001, 2_000_000_002))
    with mount(fs_server, fs_folder, tmp_path / "home", *helper(), *AT_ONCE) as mounted_at:
        for name in ("file", "other", "folder"):
            assert identity(mounted_at.root / name) == identity(fs_folder / name)
        # Before 1970, and after what 32 bits hold.
        for times in ((-1_500_000_000, -1), ((1 << 33) * 10**9 + 5, 7)):
            os.utime(mounted_at.root / "file", ns=times)
            found = (fs_folder / "file").stat()
            assert (found.st_atime_ns, found.st_mtime_ns) == times
            assert identity(mounted_at.root / "file") == identity(fs_folder / "file")
        (mounted_at.root / "new").write_text("more")
        assert identity(mounted_at.root / "new") == identity(fs_folder / "new")
        assert (fs_folder / "new").stat().st_mtime_ns % 10**9 != 0


@BOTH
def test_special_files(has_helper: bool, fs_server: SshServer, fs_folder: Path, tmp_path: Path) -> None:
    kinds = {"fifo": stat.S_IFIFO, "socket": stat.S_IFSOCK}
    device = os.makedev(1, 3)
    if os.geteuid() == 0:
        kinds |= {"device": stat.S_IFCHR}
    with mount(fs_server, fs_folder, tmp_path / "home", *helper(has_helper)) as mounted_at:
        for name, kind in kinds.items():
            path = mounted_at.root / name
            number = device if kind == stat.S_IFCHR else 0
            if not has_helper:
                with pytest.raises(PermissionError) as error:
                    os.mknod(path, kind | 0o640, number)
                assert refusal(error) == "EPERM"
                continue
            os.mknod(path, kind | 0o640, number)
            there = (fs_folder / name).lstat()
            assert stat.S_IFMT(there.st_mode) == kind
            assert (path.lstat().st_mode, path.lstat().st_rdev) == (there.st_mode, number)
            Path(f"{path}-2").hardlink_to(path)
            assert path.lstat().st_nlink == there.st_nlink + 1
    assert sorted(path.name for path in fs_folder.iterdir()) == sorted(
        [*kinds, *(f"{name}-2" for name in kinds)] if has_helper else []
    )


def test_a_fifo_carries_bytes(fs_server: SshServer, fs_folder: Path, tmp_path: Path) -> None:
    with mount(fs_server, fs_folder, tmp_path / "home", *helper()) as mounted_at:
        os.mkfifo(mounted_at.root / "fifo")
        reader = subprocess.Popen(["cat", mounted_at.root / "fifo"], stdout=subprocess.PIPE)
        (mounted_at.root / "fifo").write_bytes(b"through the pipe")
        assert reader.communicate(timeout=300)[0] == b"through the pipe"


@BOTH
def test_what_another_user_makes_is_his(
    has_helper: bool, fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    fs_folder.chmod(0o777)
    groups = {"group": 12, "roots": 0}
    for name, number in groups.items():
        (fs_folder / name).mkdir()
        os.chown(fs_folder / name, 0, number)
        (fs_folder / name).chmod(0o2777)
    script = (
        "umask 022; mkdir folder; echo text > file; ln -s file link; "
        "for name in group roots; do : > $name/file; mkdir $name/folder; done"
    )
    options = ("--allow-other", *helper(has_helper))
    with mount(fs_server, fs_folder, tmp_path / "home", *options) as mounted_at:
        done = subprocess.run(
            ["/bin/sh", "-ec", script],
            cwd=mounted_at.root,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        (mounted_at.root / "of-root").write_text("")

    def owner(name: str) -> tuple[int, int]:
        found = (fs_folder / name).lstat()
        return found.st_uid, found.st_gid

    assert {owner(name) for name in ("folder", "file", "link")} == {(NOBODY, NOBODY)}
    for name, number in groups.items():
        assert {owner(f"{name}/file"), owner(f"{name}/folder")} == {(NOBODY, number)}
        assert (fs_folder / name / "folder").stat().st_mode & stat.S_ISGID
    assert owner("of-root") == (0, 0)


CHANGES: dict[str, Callable[[Path], object]] = {
    "create": lambda folder: (folder / "new").touch(),
    "mkdir": lambda folder: (folder / "made").mkdir(),
    "symlink": lambda folder: (folder / "link").symlink_to("x"),
    "link": lambda folder: (folder / "linked").hardlink_to(folder / "file"),
    "rename": lambda folder: (folder / "file").rename(folder / "renamed"),
    "rename away": lambda folder: (folder / "file").rename(folder.parent / "away"),
    "unlink": lambda folder: (folder / "file").unlink(),
    "rmdir": lambda folder: (folder / "inner").rmdir(),
}
OLD = (10**18, 10**18)


@BOTH
@pytest.mark.parametrize("change", CHANGES)
def test_a_folder_shows_its_own_change_at_once(
    has_helper: bool, change: str, fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    folder = fs_folder / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "file").touch()
    os.utime(folder, ns=OLD)
    with mount(fs_server, fs_folder, tmp_path / "home", *helper(has_helper), *LONG) as mounted_at:
        here = mounted_at.root / "folder"
        assert here.stat().st_mtime_ns == OLD[1]
        assert {path.name for path in here.iterdir()} == {"inner", "file"}
        CHANGES[change](here)
        there = folder.stat().st_mtime_ns
        assert there != OLD[1]
        assert here.stat().st_mtime_ns == (there if has_helper else there // 10**9 * 10**9)


WRITER = """
import pathlib, sys

file, text, rounds = pathlib.Path(sys.argv[1], "file"), sys.argv[2], int(sys.argv[3])
for number in range(rounds):
    with file.open("r+") as opened:
        print("opened", flush=True)
        sys.stdin.readline()
        opened.write(f"{text}{number:04}")
    print("closed", flush=True)
    sys.stdin.readline()
"""


def test_who_comes_between_comparison_and_replacement_loses_nothing(
    fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    """Two mounts close one file at the same moment, many times: SFTP has a round trip in between."""
    both = [mount(fs_server, fs_folder, tmp_path / name, *helper(), *AT_ONCE) for name in ("one", "two")]
    rounds = 60
    with both[0] as one, both[1] as two:
        (fs_folder / "file").write_text("old-0000")
        programs = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(each.root), text, str(rounds)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for each, text in ((one, "one-"), (two, "two-"))
        ]

        def step() -> None:
            for program in programs:
                assert program.stdout is not None
                assert program.stdout.readline()
            for program in programs:
                assert program.stdin is not None
                program.stdin.write("\n")
                program.stdin.flush()

        for number in range(rounds):
            step()
            step()
            left = {path.read_text() for path in fs_folder.iterdir()}
            assert {f"one-{number:04}", f"two-{number:04}"} <= left, f"round {number}: {sorted(left)[-4:]}"
        for program in programs:
            assert program.wait(60) == 0


def test_a_path_may_be_as_long_as_here(
    fs_server: SshServer, fs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "n" * 100
    with (
        mount(fs_server, fs_folder, tmp_path / "home", *helper()) as mounted_at,
        monkeypatch.context() as inside,
    ):
        inside.chdir(mounted_at.root)
        path = Path(*[name] * 40)
        for depth in range(1, 41):
            Path(*[name] * depth).mkdir()
        (path / "f").write_text("deep")
        assert (path / "f").read_text() == "deep"
        assert len(os.fsencode(path / "f")) + len(os.fsencode(fs_folder)) > 4095


def test_status_reports_what_serves(fs_server: SshServer, fs_folder: Path, tmp_path: Path) -> None:
    program = find_oscope_fs()
    for has_helper, served in ((False, "SFTP"), (True, f"{program} serve")):
        with mount(fs_server, fs_folder, tmp_path / str(has_helper), *helper(has_helper)) as mounted_at:
            words = [program, "status", mounted_at.root]
            text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            assert f"served by    {served}\n" in text
            found = subprocess.run([*words, "--json"], capture_output=True, text=True, check=True).stdout
            assert json.loads(found)["helper"] == (str(program) if has_helper else None)


@pytest.mark.parametrize("named", ["/nowhere/oscope-fs", "no such program", "/bin/false"])
def test_a_helper_that_is_not_there_is_one_line(
    named: str, fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    with (
        pytest.raises(MountFailed) as error,
        mount(fs_server, fs_folder, tmp_path / "home", f"--helper={named}"),
    ):
        pass
    (line,) = error.value.words.splitlines()
    assert error.value.status == 1
    assert "cannot connect" in line
    assert ";" in line


def test_any_client_of_sftp_can_use_it(fs_folder: Path, tmp_path: Path) -> None:
    """OpenSSH's own client, over a socket pair in place of ssh (`sftp -D`)."""
    (fs_folder / "file").write_text("text")
    batch = tmp_path / "batch"
    commands = ["get file got", "put got sent", "mkdir folder", "rename sent folder/sent", "ls -l folder"]
    batch.write_text("\n".join([f"cd {fs_folder}", f"lcd {tmp_path}", *commands, "chmod 600 file", "df"]))
    done = subprocess.run(
        ["sftp", "-b", batch, "-D", f"{find_oscope_fs()} serve"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "got").read_text() == (fs_folder / "folder" / "sent").read_text() == "text"
    assert stat.S_IMODE((fs_folder / "file").stat().st_mode) == 0o600


def test_the_helper_ends_with_its_connection(fs_server: SshServer, fs_folder: Path, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    words = [str(find_oscope_fs()), "serve"]
    with ours, subprocess.Popen(words, stdin=theirs, stdout=theirs) as program:
        theirs.close()
        ours.shutdown(socket.SHUT_WR)
        assert program.wait(60) == 0

    def serving() -> set[int]:
        # Other tests have servers with such parts: only those of this one count.
        found = subprocess.run(
            ["pgrep", "-f", "oscope-fs' serve|oscope-fs serve"], capture_output=True, text=True
        )
        return set(map(int, found.stdout.split())) & set(fs_server.processes())

    before = serving()
    with mount(fs_server, fs_folder, tmp_path / "home", *helper()) as mounted_at:
        assert serving() > before
        mounted_at.kill()
    wait_until(lambda: serving() <= before, "the server's part ends")


def test_a_file_that_is_written_to_keeps_its_access_control_list_and_other_names(
    fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    (fs_folder / "file").write_text("one")
    names = {b"user.kept": b"value", b"system.posix_acl_access": denied(NOBODY)}
    for name, value in names.items():
        os.setxattr(fs_folder / "file", name, value)
    (fs_folder / "linked").write_text("one")
    (fs_folder / "other").hardlink_to(fs_folder / "linked")
    with mount(fs_server, fs_folder, tmp_path / "home", *helper(), *AT_ONCE) as mounted_at:
        for name in ("file", "linked"):
            with (mounted_at.root / name).open("a") as file:
                file.write(", two")
        # Both sides change: ours goes beside, for the same eyes only.
        with (mounted_at.root / "file").open("a") as file:
            file.write(", ours")
            (fs_folder / "file").write_text("theirs")
    assert (fs_folder / "other").read_text() == "one, two"
    [beside] = fs_folder.glob("file.conflict-*")
    assert [(fs_folder / "file").read_text(), beside.read_text()] == ["theirs", "one, two, ours"]
    for path in (fs_folder / "file", beside):
        assert {name: os.getxattr(path, name) for name in names} == names


def denied(user: int) -> bytes:
    """Return an access control list that lets all read but this user (linux/posix_acl_xattr.h)."""
    undefined = 0xFFFF_FFFF
    entries = [(1, 6, undefined), (2, 0, user), (4, 4, undefined), (16, 4, undefined), (32, 4, undefined)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def test_a_small_file_is_filled_and_read_by_one_request_each(
    fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    requests, program = tmp_path / "requests", tmp_path / "helper"
    program.write_text(f'#!/bin/sh\ntee {requests} | {find_oscope_fs()} "$@"\n')
    program.chmod(0o755)
    content = random.Random(1).randbytes(32 << 10)
    (fs_folder / "theirs").write_bytes(content)
    with mount(fs_server, fs_folder, tmp_path / "home", f"--helper={program}") as mounted_at:
        (mounted_at.root / "ours").write_bytes(content)
        (mounted_at.root / "longer").write_bytes(content + b"x")
        assert (fs_folder / "ours").read_bytes() == content
        assert (fs_folder / "longer").read_bytes() == content + b"x"
        assert (mounted_at.root / "theirs").read_bytes() == content
        sent = requests.read_bytes()
        assert [sent.count(name) for name in (b"fill@oscope", b"whole@oscope")] == [1, 1]
        with (mounted_at.root / "both").open("wb") as file:
            (fs_folder / "both").write_bytes(b"theirs")
            file.write(b"ours")
        assert (fs_folder / "both").read_bytes() == b"theirs"
        assert [path.read_bytes() for path in fs_folder.glob("both.conflict-*")] == [b"ours"]


def test_two_mounts_that_fill_one_file_at_the_same_moment_both_keep_theirs(
    fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    with (
        mount(fs_server, fs_folder, tmp_path / "home", *helper(), *AT_ONCE) as here,
        mount(fs_server, fs_folder, tmp_path / "other", *helper(), *AT_ONCE) as there,
        ThreadPoolExecutor(2) as threads,
    ):
        for number in range(25):
            name, contents = f"file-{number}", [b"ours" * 25, b"theirs" * 50]
            with (here.root / name).open("xb") as ours, (there.root / name).open("r+b") as theirs:
                for file, content in zip((ours, theirs), contents, strict=True):
                    file.write(content)
                    file.flush()
                starting = Barrier(2)
                closed = [threads.submit(close_at, starting, file) for file in (ours, theirs)]
                for done in closed:
                    done.result()
            found = [path.read_bytes() for path in fs_folder.glob(f"{name}*")]
            assert sorted(found) == contents, f"file {number}"


def close_at(starting: Barrier, file: BinaryIO) -> None:
    starting.wait(timeout=60)
    file.close()

"""docs/reference/fs.md holds: one file opened twice, close-to-open, conflicts, mappings, names, times."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import fs_mount
from fs_mapping import SharedMapping
from fs_mount import recover
from fs_places import AT_ONCE
from fs_scene import mount, opened, refusal
from ssh_server import SshServer
from waiting import wait_until

BOTH_WAYS = pytest.mark.parametrize(
    "way", [(), ("--no-passthrough",)], ids=["as usual", "through the daemon"]
)


@BOTH_WAYS
def test_what_one_descriptor_writes_the_other_reads(
    way: tuple[str, ...], fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    (fs_folder / "file").write_bytes(b"old" * 1000)
    with mount(fs_server, fs_folder, tmp_path / "home", *way) as mounted_at:
        path = mounted_at.root / "file"
        with opened(path, os.O_RDWR) as writer, opened(path, os.O_RDONLY) as reader:
            assert os.write(writer, b"x" * 100) == 100
            assert os.read(reader, 100) == b"x" * 100
            assert os.read(reader, 3000) == (b"old" * 1000)[100:]
            with opened(path, os.O_WRONLY | os.O_APPEND) as third:
                os.write(third, b"end")
            assert os.pread(reader, 10, 3000) == b"end"
            # The third close has copied back what the first descriptor wrote as well.
            assert (fs_folder / "file").read_bytes() == b"x" * 100 + (b"old" * 1000)[100:] + b"end"
        mounted_at.stop()
    assert [path.name for path in fs_folder.iterdir()] == ["file"]


@BOTH_WAYS
def test_close_to_open_between_two_mounts(
    way: tuple[str, ...], fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    with (
        mount(fs_server, fs_folder, tmp_path / "one", *AT_ONCE, *way) as one,
        mount(fs_server, fs_folder, tmp_path / "two", *AT_ONCE, *way) as two,
    ):
        # Of one size and within one second: nothing but the promise tells them apart.
        for number in range(30):
            writer, reader = (one, two) if number % 2 else (two, one)
            expected = f"content {number:04}".encode()
            (writer.root / "file").write_bytes(expected)
            assert (reader.root / "file").read_bytes() == expected
        # Who has it open keeps his copy until he closes it.
        with opened(one.root / "file", os.O_RDONLY) as held:
            (two.root / "file").write_bytes(b"newer and longer than before")
            assert os.pread(held, 100, 0) == b"content 0029"
        assert (one.root / "file").read_bytes() == b"newer and longer than before"
        one.stop()
        two.stop()


@BOTH_WAYS
def test_where_both_sides_changed_both_are_kept(
    way: tuple[str, ...], fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    (fs_folder / "file").write_bytes(b"as it was")
    with mount(fs_server, fs_folder, tmp_path / "home", *way) as mounted_at:
        with opened(mounted_at.root / "file", os.O_RDWR) as descriptor:
            os.pwrite(descriptor, b"ours", 0)
            (fs_folder / "file").write_bytes(b"theirs, meanwhile")
        kept = [path for path in fs_folder.iterdir() if ".conflict-" in path.name]
        assert (fs_folder / "file").read_bytes() == b"theirs, meanwhile"
        assert [path.read_bytes() for path in kept] == [b"ourst was"]
        assert kept[0].name.startswith("file.conflict-")
        status = subprocess.run(
            [fs_mount.find_oscope_fs(), "status", mounted_at.root],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert kept[0].name in status.stdout + status.stderr
        assert kept[0].name in mounted_at.log_text()
        assert (mounted_at.root / "file").read_bytes() == b"theirs, meanwhile"
        mounted_at.stop()
    assert len(list(fs_folder.iterdir())) == 2


def test_a_conflict_that_only_recovery_finds_is_kept_too(
    fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    (fs_folder / "file").write_bytes(b"as it was")
    home = tmp_path / "home"
    with mount(fs_server, fs_folder, home) as mounted_at:
        descriptor = os.open(mounted_at.root / "file", os.O_RDWR)
        os.pwrite(descriptor, b"ours", 0)
        mounted_at.crash()
        (fs_folder / "file").write_bytes(b"theirs, meanwhile")
        with pytest.raises(OSError, match=r".") as error:
            os.close(descriptor)
        assert refusal(error) == "ENOTCONN"
    answer = recover(fs_server, fs_folder, home)
    assert answer.returncode == 0, answer.stderr
    kept = [path for path in fs_folder.iterdir() if path.name != "file"]
    assert (fs_folder / "file").read_bytes() == b"theirs, meanwhile"
    assert [path.read_bytes() for path in kept] == [b"ourst was"]
    assert kept[0].name in answer.stdout + answer.stderr


def test_a_file_removed_on_the_server_while_open_is_made_anew(
    fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    (fs_folder / "written").write_bytes(b"as it was")
    (fs_folder / "read").write_bytes(b"as it was")
    with mount(fs_server, fs_folder, tmp_path / "home", *AT_ONCE) as mounted_at:
        with (
            opened(mounted_at.root / "written", os.O_RDWR) as writer,
            opened(mounted_at.root / "read", os.O_RDONLY) as reader,
        ):
            (fs_folder / "written").unlink()
            (fs_folder / "read").unlink()
            os.pwrite(writer, b"ours", 0)
            assert os.pread(writer, 100, 0) == b"ourst was"
            assert os.pread(reader, 100, 0) == b"as it was"
        assert (fs_folder / "written").read_bytes() == b"ourst was"
        assert not (fs_folder / "read").exists()
        with pytest.raises(FileNotFoundError):
            (mounted_at.root / "read").read_bytes()
        mounted_at.stop()
    assert [path.name for path in fs_folder.iterdir()] == ["written"]


@BOTH_WAYS
def test_a_file_unlinked_here_while_open_is_not_copied_back(
    way: tuple[str, ...], fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    (fs_folder / "file").write_bytes(b"as it was")
    with mount(fs_server, fs_folder, tmp_path / "home", *way) as mounted_at:
        path = mounted_at.root / "file"
        with opened(path, os.O_RDWR) as descriptor:
            path.unlink()
            assert list(mounted_at.root.iterdir()) == []
            os.pwrite(descriptor, b"ours", 0)
            os.fsync(descriptor)
            assert os.pread(descriptor, 100, 0) == b"ourst was"
            assert list(fs_folder.iterdir()) == []
        # The name is free for another file meanwhile.
        with opened(path, os.O_RDWR | os.O_CREAT | os.O_EXCL) as descriptor:
            os.write(descriptor, b"first")
            path.unlink()
            path.write_bytes(b"second")
            os.write(descriptor, b"third")
        assert (fs_folder / "file").read_bytes() == b"second"
        mounted_at.stop()
    assert (fs_folder / "file").read_bytes() == b"second"


def test_what_a_mapping_stores_after_close_goes_back(
    fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    (fs_folder / "file").write_bytes(b"-" * 10_000)
    with mount(fs_server, fs_folder, tmp_path / "home") as mounted_at:
        with opened(mounted_at.root / "file", os.O_RDWR) as descriptor:
            mapping = SharedMapping(descriptor, 10_000)
        mapping.write(5000, b"synced")
        mapping.sync()
        # With passthrough the mapping is of the copy itself: it goes back soon, not before msync returns.
        wait_until(
            lambda: (fs_folder / "file").read_bytes()[5000:5006] == b"synced",
            "what msync wrote goes back",
        )
        mapping.write(9000, b"unmapped")
        mapping.close()
        wait_until(
            lambda: (fs_folder / "file").read_bytes()[9000:9008] == b"unmapped",
            "the mapping goes back",
        )
        mounted_at.stop()


@BOTH_WAYS
def test_truncation_by_name_goes_back_though_a_mapping_holds_the_file_open(
    way: tuple[str, ...], fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    (fs_folder / "file").write_bytes(b"x" * 5000)
    with mount(fs_server, fs_folder, tmp_path / "home", *way) as mounted_at:
        path = mounted_at.root / "file"
        (mounted_at.root / "other").hardlink_to(path)
        with opened(path, os.O_RDWR) as descriptor:
            mapping = SharedMapping(descriptor, 5000)
        for size, kept in ((9000, 5000), (100, 100), (0, 0), (6000, 0)):
            os.truncate(mounted_at.root / "other", size)
            # It has returned, so the server has it; nothing else will be closed that would see to it.
            assert (fs_folder / "file").read_bytes() == b"x" * kept + bytes(size - kept)
        mapping.close()
        mounted_at.stop()


@BOTH_WAYS
def test_a_time_that_is_set_is_not_overwritten_by_what_was_stored_through_a_mapping_before(
    way: tuple[str, ...], fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    (fs_folder / "file").write_bytes(b"x" * 5000)
    with mount(fs_server, fs_folder, tmp_path / "home", *way) as mounted_at:
        path = mounted_at.root / "file"
        with opened(path, os.O_RDWR) as descriptor:
            mapping = SharedMapping(descriptor, 5000)
            mapping.write(10, b"stored")
            os.utime(path, (1_100_000_000, 1_200_000_000))
            assert int(path.stat().st_mtime) == 1_200_000_000
        mapping.close()
        mounted_at.stop()
        there = fs_folder / "file"
        assert there.read_bytes()[8:18] == b"xxstoredxx"
        assert int(there.stat().st_mtime) == 1_200_000_000


def test_names_of_any_bytes_are_kept(fs_server: SshServer, fs_folder: Path, tmp_path: Path) -> None:
    names = [bytes([byte]) for byte in range(1, 256) if byte not in b"/."] + [b"\xff" * 255, b"..."]
    with mount(fs_server, fs_folder, tmp_path / "home") as mounted_at:
        at = os.fsencode(mounted_at.root)
        for name in names[:40] + names[-60:]:
            with opened(
                Path(os.fsdecode(at + b"/" + name)), os.O_WRONLY | os.O_CREAT | os.O_EXCL
            ) as descriptor:
                os.write(descriptor, name)
        expected = sorted(names[:40] + names[-60:])
        assert sorted(os.listdir(at)) == expected  # noqa: PTH208 (bytes)
        assert sorted(os.listdir(os.fsencode(fs_folder))) == expected  # noqa: PTH208
        mounted_at.stop()
    for name in expected:
        assert Path(os.fsdecode(os.fsencode(fs_folder) + b"/" + name)).read_bytes() == name


def test_times_modes_and_room_are_the_servers(fs_server: SshServer, fs_folder: Path, tmp_path: Path) -> None:
    (fs_folder / "file").write_bytes(b"x" * 5000)
    os.utime(fs_folder / "file", (1_000_000_000, 1_200_000_000))
    (fs_folder / "file").chmod(0o640)
    with mount(fs_server, fs_folder, tmp_path / "home") as mounted_at:
        path = mounted_at.root / "file"
        status = path.stat()
        assert (status.st_size, status.st_mode & 0o7777, int(status.st_mtime)) == (5000, 0o640, 1_200_000_000)
        os.utime(path, (1_100_000_000, 1_300_000_000))
        path.chmod(0o604)
        there = (fs_folder / "file").stat()
        assert (int(there.st_atime), int(there.st_mtime), there.st_mode & 0o7777) == (
            1_100_000_000,
            1_300_000_000,
            0o604,
        )
        if os.geteuid() == 0:
            os.chown(path, 12, 34)
            with opened(path, os.O_WRONLY | os.O_APPEND) as descriptor:
                os.write(descriptor, b"y")
            # Copying back keeps owner and mode.
            there = (fs_folder / "file").stat()
            assert (there.st_uid, there.st_gid, there.st_mode & 0o7777, there.st_size) == (
                12,
                34,
                0o604,
                5001,
            )
        here, there_room = os.statvfs(mounted_at.root), os.statvfs(fs_folder)
        assert here.f_blocks * here.f_frsize == there_room.f_blocks * there_room.f_frsize
        mounted_at.stop()


def test_what_was_closed_can_be_executed_on_the_server_at_once(
    fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    with mount(fs_server, fs_folder, tmp_path / "home") as mounted_at:
        for number in range(20):
            with opened(mounted_at.root / f"program{number}", os.O_WRONLY | os.O_CREAT, 0o755) as descriptor:
                os.write(descriptor, f"#!/bin/sh\necho {number}\n".encode())
            # Were it still open for writing there, this would be ETXTBSY.
            reported = subprocess.run(
                [fs_folder / f"program{number}"], capture_output=True, check=True, timeout=300
            )
            assert int(reported.stdout) == number
        mounted_at.stop()


def test_the_server_closes_what_nobody_uses_though_nothing_more_is_asked_of_it(
    fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    (fs_folder / "read").write_bytes(b"content")

    def held() -> list[str]:
        return [path for path in fs_server.open_files() if path.startswith(f"{fs_folder}/")]

    with mount(fs_server, fs_folder, tmp_path / "home") as mounted_at:
        with opened(mounted_at.root / "made", os.O_WRONLY | os.O_CREAT | os.O_EXCL):
            assert (mounted_at.root / "read").read_bytes() == b"content"
            wait_until(lambda: not held(), "the server closes its files")
        mounted_at.stop()

"""What goes wrong on the way: no room, no permission, no server; each told, and nothing lost."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fs_mount import Mount, MountFailed, mounted, recover, recover_words
from fs_scene import mount, opened, refusal
from ssh_server import SshServer
from waiting import wait_until

MIB = 1 << 20
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")


@contextlib.contextmanager
def small_disk(at: Path, size: int, *options: str) -> Iterator[Path]:
    """Mount a memory file system of `size` bytes."""
    at.mkdir()
    given = ",".join((f"size={size}", *options))
    subprocess.run(["mount", "-t", "tmpfs", "-o", given, "tmpfs", at], check=True, timeout=300)
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", at], check=True, timeout=300)


@as_root
def test_a_full_server_is_told_and_the_file_goes_back_once_there_is_room(
    fs_server: SshServer, tmp_path: Path
) -> None:
    expected = os.urandom(3 * MIB)
    with small_disk(tmp_path / "small", 4 * MIB) as fs_folder:
        (fs_folder / "filler").write_bytes(bytes(2 * MIB))
        (fs_folder / "file").write_bytes(b"as it was")
        with mount(fs_server, fs_folder, tmp_path / "home") as mounted_at:
            path = mounted_at.root / "file"
            descriptor = os.open(path, os.O_WRONLY)
            os.write(descriptor, expected)
            with pytest.raises(OSError, match=r".") as on_fsync:
                os.fsync(descriptor)
            with pytest.raises(OSError, match=r".") as on_close:
                os.close(descriptor)
            assert refusal(on_fsync) == refusal(on_close) == "ENOSPC"
            # On the server it is as it was, nothing half-written beside it; here it is as it was written.
            assert (fs_folder / "file").read_bytes() == b"as it was"
            assert {path.name for path in fs_folder.iterdir()} == {"filler", "file"}
            assert path.read_bytes() == expected
            (mounted_at.root / "filler").unlink()
            mounted_at.stop()
        assert (fs_folder / "file").read_bytes() == expected
        assert [path.name for path in fs_folder.iterdir()] == ["file"]


@as_root
@pytest.mark.parametrize("flags", [os.O_RDWR, os.O_WRONLY | os.O_TRUNC], ids=["rewritten", "emptied"])
def test_a_full_server_has_its_room_back_while_the_mount_goes_on(
    flags: int, fs_server: SshServer, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "small", 24 * MIB) as fs_folder:
        (fs_folder / "file").write_bytes(b"as it was")
        before = free_blocks(fs_folder)
        with mount(fs_server, fs_folder, tmp_path / "home") as mounted_at:
            for name, how in (("file", flags), ("new", os.O_WRONLY | os.O_CREAT)):
                descriptor = os.open(mounted_at.root / name, how)
                os.write(descriptor, bytes(64 * MIB))
                with pytest.raises(OSError, match=r".") as error:
                    os.close(descriptor)
                assert refusal(error) == "ENOSPC"
                # What the server took of it was under a temporary name: removed, and closed.
                wait_until(lambda: free_blocks(fs_folder) >= before, "the server has its room back")
                (mounted_at.root / name).unlink()
            mounted_at.stop()
        assert list(fs_folder.iterdir()) == []


def free_blocks(folder: Path) -> int:
    """Return how much room there is on the file system of a folder."""
    return os.statvfs(folder).f_bfree


@as_root
def test_what_a_full_server_did_not_take_is_recovered_later(fs_server: SshServer, tmp_path: Path) -> None:
    expected = os.urandom(3 * MIB)
    home = tmp_path / "home"
    with small_disk(tmp_path / "small", 4 * MIB) as fs_folder:
        (fs_folder / "filler").write_bytes(bytes(2 * MIB))
        with mount(fs_server, fs_folder, home) as mounted_at:
            with pytest.raises(OSError, match=r".") as error:
                (mounted_at.root / "file").write_bytes(expected)
            assert refusal(error) == "ENOSPC"
            mounted_at.crash()
        left = recover(fs_server, fs_folder, home)
        assert left.returncode != 0
        assert "file" in left.stdout + left.stderr
        (fs_folder / "filler").unlink()
        done = recover(fs_server, fs_folder, home)
        assert done.returncode == 0, done.stderr
        assert (fs_folder / "file").read_bytes() == expected
        assert [path.name for path in fs_folder.iterdir()] == ["file"]


def test_a_file_that_the_cache_has_no_room_for_is_refused_and_the_others_go_on(
    fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    (fs_folder / "large").write_bytes(bytes(8 * MIB))
    small = {f"small{number}": os.urandom(MIB) for number in range(8)}
    for name, content in small.items():
        (fs_folder / name).write_bytes(content)
    with mount(fs_server, fs_folder, tmp_path / "home", "--cache-size", "4M") as mounted_at:
        with pytest.raises(OSError, match=r".") as error:
            (mounted_at.root / "large").read_bytes()
        assert refusal(error) == "ENOSPC"
        # Together they are larger than the cache: those that nobody has open make room.
        for name, content in [*small.items(), *small.items()]:
            assert (mounted_at.root / name).read_bytes() == content
        mounted_at.stop()
    held = sum(path.stat().st_size for path in (tmp_path / "home/cache/copies").iterdir())
    assert held <= 4 * MIB


def test_open_files_are_never_taken_from_the_cache(
    fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    for number in range(6):
        (fs_folder / f"file{number}").write_bytes(bytes([number]) * MIB)
    with mount(fs_server, fs_folder, tmp_path / "home", "--cache-size", "4M") as mounted_at:
        with contextlib.ExitStack() as stack:
            held: list[int] = []

            def hold(number: int) -> None:
                held.append(stack.enter_context(opened(mounted_at.root / f"file{number}", os.O_RDONLY)))

            for number in range(3):
                hold(number)
            # What the cache keeps beside the copies may take of the fourth one's room.
            with contextlib.suppress(OSError):
                hold(3)
            with pytest.raises(OSError, match=r".") as error:
                hold(4)
            assert refusal(error) == "ENOSPC"
            for number, descriptor in enumerate(held):
                assert os.pread(descriptor, 2 * MIB, 0) == bytes([number]) * MIB
        assert (mounted_at.root / "file5").read_bytes() == bytes([5]) * MIB
        mounted_at.stop()


@as_root
def test_a_permission_that_is_lost_in_between_is_told_and_nothing_is_lost(
    fs_server: SshServer, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with small_disk(tmp_path / "small", 16 * MIB) as fs_folder:
        (fs_folder / "file").write_bytes(b"as it was")
        with mount(fs_server, fs_folder, home) as mounted_at:
            descriptor = os.open(mounted_at.root / "file", os.O_WRONLY)
            # A child that closes what it inherits would have it copied back before.
            subprocess.run(["mount", "-o", "remount,ro", fs_folder], check=True, timeout=300)
            os.write(descriptor, b"ours")
            with pytest.raises(OSError, match=r".") as error:
                os.close(descriptor)
            assert refusal(error) in ("EROFS", "EACCES", "EPERM")
            assert (mounted_at.root / "file").read_bytes() == b"ourst was"
            subprocess.run(["mount", "-o", "remount,rw", fs_folder], check=True, timeout=300)
            mounted_at.stop()
        assert (fs_folder / "file").read_bytes() == b"ourst was"


@as_root
def test_after_a_reboot_what_was_not_acknowledged_is_kept_beside(
    fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (fs_folder / "file").write_bytes(b"as it was")
    (fs_folder / "synced").write_bytes(b"as it was")
    with mount(fs_server, fs_folder, home) as mounted_at:
        torn = os.open(mounted_at.root / "file", os.O_RDWR)
        whole = os.open(mounted_at.root / "synced", os.O_RDWR)
        os.pwrite(torn, b"torn", 0)
        os.pwrite(whole, b"sync", 0)
        os.fsync(whole)
        mounted_at.crash()
        for descriptor in (torn, whole):
            with pytest.raises(OSError, match=r".") as error:
                os.close(descriptor)
            assert refusal(error) == "ENOTCONN"
    answer = recover_after_reboot(fs_server, fs_folder, home)
    assert answer.returncode == 0, answer.stderr
    assert (fs_folder / "file").read_bytes() == b"as it was"
    assert (fs_folder / "synced").read_bytes() == b"synct was"
    beside = [path for path in fs_folder.iterdir() if path.name not in ("file", "synced")]
    assert [(path.name[:14], path.read_bytes()) for path in beside] == [("file.conflict-", b"tornt was")]


REBOOT = """
import os, subprocess, sys
subprocess.run(["mount", "--bind", sys.argv[1], "/proc/sys/kernel/random/boot_id"], check=True, timeout=300)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Run a program that sees another boot_id; in a mount name space of its own nobody else does."""


def recover_after_reboot(
    fs_server: SshServer, fs_folder: Path, home: Path
) -> subprocess.CompletedProcess[str]:
    """Run recover as after a reboot."""
    boot = home / "boot_id"
    boot.write_text("00000000-0000-4000-8000-000000000000\n")
    words = [sys.executable, "-c", REBOOT, boot, *recover_words(fs_server, fs_folder, home)]
    return subprocess.run(
        ["unshare", "--mount", "--propagation", "slave", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_without_the_server_cached_files_are_read_and_the_rest_fails_in_time(
    fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    (fs_folder / "cached").write_bytes(b"here")
    (fs_folder / "other").write_bytes(b"there")
    with mount(fs_server, fs_folder, tmp_path / "home", "--timeout", "6s") as mounted_at:
        with opened(mounted_at.root / "cached", os.O_RDWR) as descriptor:
            fs_server.stop()
            try:
                assert os.pread(descriptor, 10, 0) == b"here"
                os.pwrite(descriptor, b"HERE", 0)
                for act in (
                    lambda: (mounted_at.root / "other").read_bytes(),
                    lambda: (mounted_at.root / "new").mkdir(),
                    lambda: os.fsync(descriptor),
                ):
                    with pytest.raises(OSError, match=r".") as error:
                        act()
                    assert refusal(error) == "EIO"
                assert os.pread(descriptor, 10, 0) == b"HERE"
            finally:
                fs_server.start()
            # The connection is made again with back-off: by itself, or when it is asked for.
            wait_until(
                lambda: readable(mounted_at.root / "other"), "the connection is made again", limit_s=30
            )
        assert (fs_folder / "cached").read_bytes() == b"HERE"
        assert (mounted_at.root / "other").read_bytes() == b"there"
        mounted_at.stop()


def readable(path: Path) -> bool:
    """Tell whether a file can be read just now."""
    with contextlib.suppress(OSError):
        return path.read_bytes() is not None
    return False


def test_two_mounts_of_one_cache_are_refused(fs_server: SshServer, fs_folder: Path, tmp_path: Path) -> None:
    with mount(fs_server, fs_folder, tmp_path / "home") as first:
        words = [*first.words]
        words[words.index(str(first.root))] = str(tmp_path / "other")
        with pytest.raises(MountFailed) as error:
            Mount(words, tmp_path / "other", tmp_path / "other.log").start()
        assert error.value.status == 1
        assert "in use" in error.value.words
        assert str(first.pid) in error.value.words
        first.stop()


@as_root
def test_a_mount_waits_for_one_that_was_unmounted_and_is_still_copying_back(
    fs_server: SshServer, fs_folder: Path, tmp_path: Path
) -> None:
    with mount(fs_server, fs_folder, tmp_path / "home") as first:
        os.kill(first.pid, signal.SIGSTOP)
        # As umount(8) does, which does not wait for the process, but first asks it for the attributes.
        assert ctypes.CDLL(None, use_errno=True).umount2(bytes(first.root), 0) == 0
        second = Mount(first.words, first.root, tmp_path / "second.log")
        later = threading.Timer(1.0, os.kill, (first.pid, signal.SIGCONT))
        later.start()
        try:
            with mounted(second):
                (second.root / "file").write_text("second")
        finally:
            later.join()
    assert (fs_folder / "file").read_text() == "second"


@as_root
def test_room_that_the_server_does_not_have_is_not_promised(fs_server: SshServer, tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "small", 4 * MIB) as fs_folder,
        mount(fs_server, fs_folder, tmp_path / "home") as mounted_at,
        (mounted_at.root / "file").open("wb") as file,
    ):
        os.posix_fallocate(file.fileno(), 0, MIB)
        with pytest.raises(OSError, match=r".") as error:
            os.posix_fallocate(file.fileno(), 0, 8 * MIB)
        assert refusal(error) == "ENOSPC"
        file.close()
        assert (fs_folder / "file").stat().st_size == MIB


@as_root
def test_the_log_and_the_status_follow_a_file_that_has_no_room(fs_server: SshServer, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", 4 * MIB) as fs_folder:
        (fs_folder / "filler").write_bytes(bytes(3 * MIB))
        with mount(fs_server, fs_folder, tmp_path / "home") as mounted_at:
            for name in ("removed", "renamed", "replaced", "replacing"):
                with pytest.raises(OSError, match=r".") as error:
                    (mounted_at.root / name).write_bytes(bytes(2 * MIB))
                assert refusal(error) == "ENOSPC"
            (mounted_at.root / "removed").unlink()
            (mounted_at.root / "renamed").rename(mounted_at.root / "other")
            (mounted_at.root / "replacing").rename(mounted_at.root / "replaced")
            assert failing(mounted_at) == ["other", "replaced"]
            (mounted_at.root / "filler").write_bytes(b"")
            (mounted_at.root / "filler").unlink()
            for name in ("other", "replaced"):
                os.close(os.open(mounted_at.root / name, os.O_WRONLY))
                (mounted_at.root / name).write_bytes(b"")
            assert failing(mounted_at) == []
            mounted_at.stop()
        log = mounted_at.log_text()
        after_all = re.findall(r"(\S+) is copied back after all", log)
        assert sorted(after_all) == ["other", "replaced"]
        removed = re.findall(r"(\S+) was removed before it was copied back", log)
        assert sorted(removed) == ["removed", "replaced"]


def failing(mounted_at: Mount) -> list[str]:
    """Return what `oscope-fs status` says could not be copied back."""
    words = [mounted_at.words[0], "status", str(mounted_at.root), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
    return sorted(failure["path"] for failure in json.loads(done.stdout)["failures"])

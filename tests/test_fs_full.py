"""A full server, counted: rounds of filling and freeing, and of refusing each step of copying back."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fs_mount
import fs_refusing
from campaigns import rounds
from fs_full import KIB, REFUSALS, ROOM, Rounds
from fs_holding import SFTP_SERVER
from fs_mount import find_oscope_fs
from fs_places import AT_ONCE
from fs_refusing import STEPS
from fs_scene import mount
from ssh_server import SshServer, privilege_separation
from test_fs_trouble import as_root, small_disk

ROUNDS = rounds(40, full=1000)
INODES = 60
QUOTA_DISK = 256 << 20
METADATA = 1 << 20
"""What btrfs reserves at most for the names and blocks of a file, beside its content."""
HELPED = pytest.mark.parametrize("helped", [False, True], ids=["sftp", "helper"])


def helper(helped: bool) -> list[object]:
    return [f"--helper={find_oscope_fs()}"] if helped else []


@as_root
@pytest.mark.timeout(3600)
@HELPED
def test_rounds_of_filling_and_freeing_lose_nothing(
    helped: bool, fs_server: SshServer, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "small", 12 << 20, f"nr_inodes={INODES}") as fs_folder:

        @contextlib.contextmanager
        def filled(rng: random.Random, size: int) -> Iterator[None]:
            """Leave room for a part of the file, or no inode for its temporary file."""
            if rng.random() < 0.25:
                fillers = [fs_folder / f"filler{number}" for number in range(os.statvfs(fs_folder).f_ffree)]
                for filler in fillers:
                    filler.touch()
            else:
                fillers = [fs_folder / "filler"]
                room = os.statvfs(fs_folder)
                free = rng.randrange(size // room.f_frsize + 2)
                fillers[0].write_bytes(bytes((room.f_bfree - free) * room.f_frsize))
            try:
                yield
            finally:
                for filler in fillers:
                    filler.unlink()

        with mount(fs_server, fs_folder, tmp_path / "home", *AT_ONCE, *helper(helped)) as mounted_at:
            course = Rounds(mounted_at, fs_server, fs_folder, ROOM)
            course.run_all(ROUNDS, filled)
        print(f"{ROUNDS} rounds, {course.refused} refused, {course.removed} of them removed")
        assert course.refused > ROUNDS // 5


def btrfs(*words: object) -> str:
    done = subprocess.run(
        ["btrfs", *map(str, words)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


@contextlib.contextmanager
def quota_disk(at: Path) -> Iterator[Path]:
    """Mount an empty btrfs on `at`; return a folder in it that has a quota of its own."""
    image = at.with_suffix(".image")
    with image.open("wb") as file:
        file.truncate(QUOTA_DISK)
    subprocess.run(["mkfs.btrfs", "-q", image], check=True, stdout=subprocess.DEVNULL, timeout=300)
    at.mkdir()
    done = subprocess.run(["mount", "-o", "loop", image, at], check=False, timeout=300)
    if done.returncode and "btrfs" not in Path("/proc/filesystems").read_text():
        pytest.skip("this kernel has no btrfs")
    done.check_returncode()
    try:
        btrfs("quota", "enable", at)
        btrfs("subvolume", "create", at / "served")
        btrfs("quota", "rescan", "-w", at)
        yield at / "served"
    finally:
        subprocess.run(["umount", "-l", at], check=True, timeout=300)
        image.unlink()


def allow(folder: Path, more: int | None) -> None:
    """Have the folder's quota allow so many bytes more than there are; None: as many as the disk has."""
    # What was removed counts until then.
    btrfs("filesystem", "sync", folder)
    # Asked above the folder: a change of its quota would need room in it.
    group, used = btrfs("qgroup", "show", "--raw", "-f", folder).split("\n")[-2].split()[:2]
    limit = "none" if more is None else int(used) + more
    btrfs("qgroup", "limit", limit, group, folder.parent)


@as_root
@pytest.mark.skipif(
    shutil.which("mkfs.btrfs") is None, reason="needs mkfs.btrfs: apt-get install btrfs-progs"
)
@pytest.mark.timeout(3600)
@HELPED
def test_rounds_of_a_quota_that_is_used_up_lose_nothing(
    helped: bool, fs_server: SshServer, tmp_path: Path
) -> None:
    with quota_disk(tmp_path / "small") as folder:

        @contextlib.contextmanager
        def used_up(rng: random.Random, size: int) -> Iterator[None]:
            """Leave room for a part of the file, or not even for its name."""
            allow(folder, rng.randrange(size + METADATA))
            try:
                yield
            finally:
                allow(folder, None)

        with mount(fs_server, folder, tmp_path / "home", *AT_ONCE, *helper(helped)) as mounted_at:
            # As below, by SFTP alone no reason is given.
            course = Rounds(mounted_at, fs_server, folder, {errno.EDQUOT, errno.EIO, errno.EBUSY})
            course.lingers = True
            course.run_all(ROUNDS, used_up)
        print(f"{ROUNDS} rounds, {course.refused} refused, {course.removed} of them removed")
        assert course.refused > ROUNDS // 5
        assert errno.EDQUOT in course.errors or not helped


@pytest.fixture(scope="module", params=[False, True], ids=["sftp", "helper"])
def refusing(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SshServer, Path]]:
    """Run an sshd whose SFTP server refuses what the file `refuse` in the folder says."""
    if lack := fs_mount.missing():
        pytest.skip(lack)
    if not Path(SFTP_SERVER).exists():
        pytest.skip(f"{SFTP_SERVER} is not there: apt-get install openssh-sftp-server")
    keys, orders = tmp_path_factory.mktemp("keys"), tmp_path_factory.mktemp("orders")
    real = [str(find_oscope_fs()), "serve"] if request.param else [SFTP_SERVER]
    with privilege_separation(), contextlib.closing(SshServer(keys)) as server:
        settings = keys / "sshd_config"
        words = " ".join([sys.executable, "-I", "-S", fs_refusing.__file__, str(orders), *real])
        lines = settings.read_text().splitlines()
        changed = [f"Subsystem sftp {words}" if line.startswith("Subsystem") else line for line in lines]
        settings.write_text("\n".join([*changed, ""]))
        server.start()
        yield server, orders


@pytest.mark.timeout(3600)
def test_rounds_of_refusing_each_step_lose_nothing(
    refusing: tuple[SshServer, Path], fs_folder: Path, tmp_path: Path
) -> None:
    server, orders = refusing
    steps = dict.fromkeys(STEPS, 0)

    @contextlib.contextmanager
    def refused(rng: random.Random, size: int) -> Iterator[None]:
        """Refuse one step, a write of the middle too."""
        # The last one takes longer: what could not be removed is tried again after two seconds.
        step = rng.choice(STEPS if rng.random() < 0.1 else STEPS[:-1])
        steps[step] += 1
        course.lingers = step == STEPS[-1]
        first = rng.randrange(size // (32 * KIB) + 1) if step == "write" else 0
        order = orders / "order"
        order.write_text(f"{step},{first},{rng.choice(REFUSALS)}")
        order.rename(orders / "refuse")
        try:
            yield
        finally:
            (orders / "refuse").unlink()

    with mount(server, fs_folder, tmp_path / "home", *AT_ONCE) as mounted_at:
        # By SFTP alone no reason is given; a rename that nothing explains is taken for one of a mount point.
        course = Rounds(mounted_at, server, fs_folder, {*REFUSALS, errno.EBUSY})
        course.run_all(ROUNDS, refused, lambda: f", {steps}")
    print(f"{ROUNDS} rounds, {course.refused} refused, {course.removed} of them removed; {steps}")
    assert course.refused > ROUNDS // 5

"""Mounts by a user who is not root, on a server that lets him do what his modes say and no more."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import fs_mount
from fs_mount import MountFailed
from fs_scene import refusal
from fs_user import Scene, lack, scene

FUSE_SETTINGS = Path("/etc/fuse.conf")
needs_fuse = pytest.mark.skipif(lack() is not None, reason=str(lack()))


@pytest.fixture
def by_nobody() -> Iterator[Scene]:
    """Give a server and a user who is not root."""
    missing = fs_mount.missing()
    if os.geteuid() != 0:
        missing = "only root can become another user"
    elif shutil.which("fusermount3") is None:
        missing = "fusermount3 is not there: apt-get install fuse3"
    if missing:
        pytest.skip(missing)
    with scene() as found:
        yield found


@needs_fuse
def test_who_is_not_root_mounts_reads_and_writes_and_root_is_kept_out(by_nobody: Scene) -> None:
    user, folder = by_nobody.user, by_nobody.folder
    (folder / "there").write_bytes(b"readable by all")
    (folder / "of root").mkdir()
    with by_nobody.mount("home") as mount:
        assert user((mount.root / "there").read_bytes) == b"readable by all"
        user((mount.root / "new").write_bytes, b"by nobody")
        assert (folder / "new").read_bytes() == b"by nobody"
        assert (folder / "new").stat().st_uid == folder.stat().st_uid != 0
        with pytest.raises(OSError, match=r".") as error:
            user((mount.root / "of root/new").write_bytes, b"not here")
        assert refusal(error) == "EACCES"
        assert list((folder / "of root").iterdir()) == []
        with pytest.raises(OSError, match=r".") as error:
            list(mount.root.iterdir())
        assert refusal(error) == "EACCES"
        mount.stop()


@needs_fuse
def test_a_permission_that_is_lost_while_open_is_told_and_nothing_is_lost(by_nobody: Scene) -> None:
    user, folder = by_nobody.user, by_nobody.folder
    path = folder / "file"
    path.write_bytes(b"as it was")
    for made in (folder, path):
        shutil.chown(made, "nobody")
    with by_nobody.mount("home") as mount:
        descriptor = user(os.open, mount.root / "file", os.O_WRONLY)
        user(os.write, descriptor, b"ours")
        # Nothing may be made in it, and so nothing be renamed in it.
        folder.chmod(0o555)
        for act in (os.fsync, os.close):
            with pytest.raises(OSError, match=r".") as error:
                user(act, descriptor)
            assert refusal(error) == "EACCES"
        assert path.read_bytes() == b"as it was"
        assert user((mount.root / "file").read_bytes) == b"ourst was"
        # Not readable and not writable himself: nor is what nobody has open.
        (folder / "other").write_bytes(b"not for nobody")
        (folder / "other").chmod(0o600)
        with pytest.raises(OSError, match=r".") as error:
            user((mount.root / "other").read_bytes)
        assert refusal(error) == "EACCES"
        folder.chmod(0o755)
        mount.stop()
    assert path.read_bytes() == b"ourst was"
    assert {found.name for found in folder.iterdir()} == {"file", "other"}


@needs_fuse
def test_a_mount_that_its_user_has_in_use_stays_mounted(by_nobody: Scene) -> None:
    user = by_nobody.user
    (by_nobody.folder / "file").write_bytes(b"there")
    with by_nobody.mount("home") as mount:
        descriptor = user(os.open, mount.root / "file", os.O_RDONLY)
        words = [str(by_nobody.program), "umount", str(mount.root)]
        environment = os.environ | {"XDG_CACHE_HOME": str(by_nobody.home / "home/caches")}
        answer = user(subprocess.run, words, env=environment, capture_output=True, text=True, check=False)
        assert (answer.returncode, answer.stdout) == (1, "")
        assert f"{mount.root} is busy and stays mounted: it is used by" in answer.stderr
        # The reason is that of the program that asks the kernel for this user.
        assert f"fusermount3: failed to unmount {mount.root}: Device or resource busy" in answer.stderr
        assert len(answer.stderr.splitlines()) == 1
        assert user((mount.root / "file").read_bytes) == b"there"
        user(os.close, descriptor)
        mount.stop()


@needs_fuse
def test_others_are_let_in_only_where_the_settings_of_fuse_let_them(by_nobody: Scene) -> None:
    settings = FUSE_SETTINGS.read_text().splitlines() if FUSE_SETTINGS.exists() else []
    if "user_allow_other" in settings:
        with by_nobody.mount("home", "--allow-other") as mount:
            assert list(mount.root.iterdir()) == []
            mount.stop()
        return
    with pytest.raises(MountFailed) as error, by_nobody.mount("home", "--allow-other"):
        pass
    assert "put user_allow_other in /etc/fuse.conf" in error.value.words


def test_others_are_let_in_as_the_modes_say_where_root_mounts_for_them(by_nobody: Scene) -> None:
    user, folder = by_nobody.user, by_nobody.folder
    (folder / "all").write_bytes(b"for all")
    (folder / "root").write_bytes(b"for root")
    (folder / "root").chmod(0o600)
    (folder / "own").write_bytes(b"before")
    shutil.chown(folder / "own", "nobody")
    with by_nobody.mount_by_root("home", "--allow-other") as mount:
        assert user((mount.root / "all").read_bytes) == b"for all"
        user((mount.root / "own").write_bytes, b"after")
        assert (folder / "own").read_bytes() == b"after"
        for act in (
            lambda: user((mount.root / "root").read_bytes),
            lambda: user((mount.root / "all").write_bytes, b"no"),
            lambda: user(os.chmod, mount.root / "all", 0o777),
        ):
            with pytest.raises(OSError, match=r".") as error:
                act()
            assert refusal(error) in ("EACCES", "EPERM")
        mount.stop()
    assert (folder / "all").read_bytes() == b"for all"


@pytest.mark.skipif(not needs_fuse.args[0], reason="/dev/fuse is open to all, as it should be")
def test_a_device_that_is_for_root_alone_is_told(by_nobody: Scene) -> None:
    with pytest.raises(MountFailed) as error, by_nobody.mount("home"):
        pass
    assert error.value.status == 1
    assert "chmod 666 /dev/fuse" in error.value.words

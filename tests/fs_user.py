"""A mount by a user who is not root: `nobody`, with a key of its own, and a process that acts as he."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from fs_mount import Mount, find_oscope_fs, mounted, oscope_fs
from ssh_server import ALIAS, SshServer, running

NOBODY = "nobody"
LIMIT_S = 60.0
FUSE = Path("/dev/fuse")
OPEN_TO_ALL = 0o006
WITH_DEVICE = 'mount --make-private /dev && mount --bind "$0" /dev/fuse && exec "$@"'
"""Lets a command see a device of its own as /dev/fuse; what it mounts elsewhere is there for all."""
P = ParamSpec("P")
T = TypeVar("T")


def lack() -> str | None:
    """Say why a user who is not root can mount nothing here, if so."""
    if not FUSE.exists():
        return "there is no /dev/fuse"
    if is_open_to_all():
        return None
    command = ("findmnt", "--noheadings", "--output", "PROPAGATION", "--target", tempfile.gettempdir())
    propagation = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    if os.geteuid() == 0 and propagation == "shared":
        return None
    return "/dev/fuse is for root alone here: run the tests by `make test`, which lets a user have one"


def is_open_to_all() -> bool:
    """Tell whether any user may open /dev/fuse, as on nearly all systems."""
    return FUSE.stat().st_mode & OPEN_TO_ALL == OPEN_TO_ALL


def with_device(home: Path) -> list[str]:
    """Return what a command begins with that can open /dev/fuse whoever it becomes; nothing if none can."""
    if is_open_to_all() or lack() is not None:
        return []
    node = home / "fuse"
    if not node.exists():
        os.mknod(node, stat.S_IFCHR | 0o600, FUSE.stat().st_rdev)
        node.chmod(0o666)
    return ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", WITH_DEVICE, str(node)]


class User:
    """A process of that user, in which a test does what a program would; it keeps what it opens."""

    def __init__(self) -> None:
        """Start it."""
        self._process = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), become_nobody)

    def __call__(self, act: Callable[P, T], *words: P.args, **named: P.kwargs) -> T:
        """Do it there. Raises what it raises."""
        return self._process.submit(act, *words, **named).result(LIMIT_S)

    def end(self) -> None:
        """End it."""
        self._process.shutdown()


def become_nobody() -> None:
    """Give up all that root may do."""
    user = pwd.getpwnam(NOBODY)
    os.setgroups([])
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)


class Scene:
    """A server, a folder on it that is the user's, and the user."""

    def __init__(self, home: Path, server: SshServer, user: User) -> None:
        """Make the folder, and settings for ssh by which the user logs in as himself."""
        self.home = home
        self.user = user
        self._server = server
        self.folder = self._own(home / "served")
        self._key = home / "key"
        shutil.copyfile(server.folder / "user", self._key)
        self._key.chmod(0o600)
        shutil.chown(self._key, NOBODY)
        settings = []
        for line in server.config.read_text().splitlines():
            word = line.split(maxsplit=1)[0]
            ours = {"User": f"  User {NOBODY}", "IdentityFile": f"  IdentityFile {self._key}"}
            settings.append(ours.get(word, line))
        self.config = home / "config"
        self.config.write_text("\n".join([*settings, ""]))
        # Where the tests' own program lies others may not be let in.
        self.program = shutil.copy(find_oscope_fs(), home / "oscope-fs")

    def _own(self, path: Path) -> Path:
        path.mkdir()
        shutil.chown(path, NOBODY)
        return path

    @contextlib.contextmanager
    def mount(self, name: str, *options: object) -> Iterator[Mount]:
        """Have the user mount the folder, with a cache and a mount point of his own."""
        group = pwd.getpwnam(NOBODY).pw_gid
        home = self._own(self.home / name)
        as_user = ["setpriv", f"--reuid={NOBODY}", f"--regid={group}", "--clear-groups"]
        as_user += ["env", f"XDG_CACHE_HOME={home / 'caches'}", self.program]
        root = self._own(home / "mnt")
        words = [*with_device(self.home), *as_user, "mount", "-F", self.config]
        words += [f"{ALIAS}:{self.folder}", root, "--cache", home / "cache", "-f", *options]
        with mounted(Mount(words, root, home / "log", [*as_user, "umount", root])) as mount:
            yield mount

    @contextlib.contextmanager
    def mount_by_root(self, name: str, *options: object) -> Iterator[Mount]:
        """Have root mount it, who logs in as root; the user can reach the mount point."""
        home = self._own(self.home / name)
        with mounted(oscope_fs(self._server, self.folder, home, *options)) as mount:
            yield mount


@contextlib.contextmanager
def scene() -> Iterator[Scene]:
    """Have it all; none of it is there after the block."""
    # Only its owner may enter pytest's folders.
    with tempfile.TemporaryDirectory(prefix="oscope-fs-user-") as name:
        home = Path(name)
        home.chmod(0o755)
        keys = home / "keys"
        keys.mkdir()
        user = User()
        try:
            with running(keys) as server:
                yield Scene(home, server, user)
        finally:
            user.end()

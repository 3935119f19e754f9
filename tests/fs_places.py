"""The places where courses of random operations are run: a plain folder, and mounts of a server's folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fs_mount import Mount, mounted, oscope_fs, sshfs
from ssh_server import SshServer

AT_ONCE = ("--attribute-time", "0s")
"""With it, what another client does is seen at once."""


@dataclass
class Plain:
    """A plain folder, which is its own server."""

    folder: Path
    links: bool = True
    elsewhere: bool = True

    @property
    def root(self) -> Path:
        """The folder."""
        return self.folder

    @property
    def server(self) -> Path:
        """The folder itself."""
        return self.folder

    def again(self) -> None:
        """Nothing is mounted."""


@dataclass
class Mounted:
    """A mounted folder."""

    mount: Mount
    server: Path
    elsewhere: bool
    links: bool = False

    @property
    def root(self) -> Path:
        """The mount point."""
        return self.mount.root

    def again(self) -> None:
        """Unmount in order and mount again, with the same cache."""
        self.mount.stop()
        self.mount.start()


@contextlib.contextmanager
def by_oscope_fs(server: SshServer, home: Path, folder: Path, *options: object) -> Iterator[Mounted]:
    """Mount `folder` of the server by oscope-fs; `home` has to be new."""
    home.mkdir()
    with mounted(oscope_fs(server, folder, home, *options)) as mount:
        yield Mounted(mount, folder, elsewhere=options[:2] == AT_ONCE)


@contextlib.contextmanager
def by_sshfs(server: SshServer, home: Path, folder: Path, *options: object) -> Iterator[Mounted]:
    """Mount it by sshfs."""
    home.mkdir()
    with mounted(sshfs(server, folder, home, *options)) as mount:
        yield Mounted(mount, folder, elsewhere=False)

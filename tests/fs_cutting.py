"""An sshd whose SFTP server holds still amid a write, at a moment that a test chooses; see `fs_holding`."""

from __future__ import annotations

import contextlib
import enum
import sys
from collections.abc import Iterator
from pathlib import Path

import fs_holding
from ssh_server import SshServer, privilege_separation
from waiting import wait_until

LIMIT_S = 60.0


class Moment(enum.Enum):
    """How far the server has got with a write, and with what was sent along with it."""

    NOTHING = "nothing"
    PART = "part"
    """Half of the bytes are in the file."""
    CONTENT = "content"
    """All bytes are, but neither mode nor times are set."""
    ALL = "all"
    """Mode and times are set too: the answers alone are missing."""


class Cutting:
    """The side of the test: says when to hold still, and waits for it."""

    def __init__(self, server: SshServer, folder: Path) -> None:
        """Take a server and the folder through which it is told."""
        self.server = server
        self._moment, self._held = folder / "moment", folder / "held"

    def hold(self, moment: Moment) -> None:
        """Have the next write held."""
        self._held.unlink(missing_ok=True)
        self._moment.write_text(moment.value)

    def wait(self) -> None:
        """Return when it is. Raises TimeoutError."""
        wait_until(self._held.exists, "a write that is held")


@contextlib.contextmanager
def cutting_server(folder: Path) -> Iterator[Cutting]:
    """Run an sshd with that as its subsystem; none of it runs after the block."""
    keys, orders = folder / "keys", folder / "orders"
    for path in (keys, orders):
        path.mkdir()
    with privilege_separation(), contextlib.closing(SshServer(keys)) as server:
        settings = keys / "sshd_config"
        ours = f"Subsystem sftp {sys.executable} -I -S {fs_holding.__file__} {orders}"
        lines = settings.read_text().splitlines()
        assert sum(line.startswith("Subsystem") for line in lines) == 1
        changed = [ours if line.startswith("Subsystem") else line for line in lines]
        settings.write_text("\n".join([*changed, ""]))
        server.start()
        yield Cutting(server, orders)

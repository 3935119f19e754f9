"""A real sshd of our own, with its own keys and settings on a free port, and the settings to reach it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from waiting import wait_until

HOST = "127.0.0.1"
ALIAS = "oscope-server"
"""The name by which `SshServer.config` knows the server."""
SSHD = "/usr/sbin/sshd"
LIMIT_S = 30.0
_PRIVILEGE_SEPARATION = Path("/run/sshd")
"""Without this folder, sshd does not start as root."""


def listens(port: int) -> bool:
    """Say whether a program listens at this TCP port: to connect would be a connection that it serves."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(fields[1].endswith(f":{port:04X}") and fields[3] == "0A" for fields in map(str.split, lines))


def free_port() -> int:
    """Return a port of the loopback device that nobody uses just now."""
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port


CHEAP = "KexAlgorithms curve25519-sha256\n"
"""The default resists quantum computers, at the price of CPU time for each of some thousand connections."""


class SshServer:
    """An sshd that is started, cut, frozen and stopped at will; `running` gives one that none outlives."""

    def __init__(self, folder: Path) -> None:
        """Make keys and settings in `folder`, which has to be empty."""
        self.folder = folder
        # Bound but never listening, with SO_REUSEADDR as sshd's own socket: nobody else is given the port
        # while the server is stopped.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind((HOST, 0))
        self.port: int = self._reserved.getsockname()[1]
        self.config = folder / "ssh_config"
        """Settings for ssh, scp and sshfs (`-F`), under the host name ALIAS."""
        self._settings = folder / "sshd_config"
        self._program: subprocess.Popen[bytes] | None = None
        for name in ("host", "user"):
            _call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name)
        known = folder / "known"
        known.write_text(f"[{HOST}]:{self.port} {(folder / 'host.pub').read_text()}")
        self.config.write_text(
            f"Host {ALIAS}\n  HostName {HOST}\n  Port {self.port}\n"
            f"  User {pwd.getpwuid(os.geteuid()).pw_name}\n"
            f"  IdentityFile {folder / 'user'}\n  IdentitiesOnly yes\n  BatchMode yes\n"
            f"  UserKnownHostsFile {known}\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n"
        )
        self._settings.write_text(
            f"Port {self.port}\nListenAddress {HOST}\nHostKey {folder / 'host'}\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {folder / 'user.pub'}\nStrictModes no\nPermitRootLogin prohibit-password\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups 100\n"
            "Subsystem sftp internal-sftp\n"
            f"{CHEAP}"
        )
        self._forgive()

    def _forgive(self) -> None:
        """Where this sshd punishes an address for connections that were cut (9.8 on), have it not do so."""
        plain = self._settings.read_text()
        self._settings.write_text(f"{plain}PerSourcePenalties no\n")
        with privilege_separation():
            known = subprocess.run(
                [SSHD, "-t", "-f", self._settings], capture_output=True, timeout=LIMIT_S, check=False
            )
        if known.returncode != 0:
            self._settings.write_text(plain)

    def start(self) -> None:
        """Start it, on the same port each time; return when it listens."""
        assert self._program is None
        with (self.folder / "sshd.log").open("ab") as log:
            # In a session of its own, what stops the tests does not stop the server first.
            self._program = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", self._settings], stdout=log, stderr=log, start_new_session=True
            )
        try:
            wait_until(lambda: listens(self.port), "sshd", self._program, limit_s=LIMIT_S, interval_s=0.002)
        except (TimeoutError, AssertionError) as error:
            words = (self.folder / "sshd.log").read_text(errors="replace").splitlines()[-1:]
            self.stop()
            raise RuntimeError(f"sshd does not listen on port {self.port}: {' '.join(words)}") from error

    def stop(self) -> None:
        """End it and every connection; stopped already is well."""
        program, self._program = self._program, None
        if program is None:
            return
        below = _family(program.pid)
        program.kill()
        program.wait(LIMIT_S)
        _signal([*below, *_family(program.pid)], signal.SIGKILL)

    def close(self) -> None:
        """End it, and give the port up: it cannot be started again."""
        self.stop()
        self._reserved.close()

    def cut(self) -> None:
        """End every connection at once; new ones are taken."""
        _signal(self.processes(), signal.SIGKILL)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Have the server and its connections do nothing while the block runs; nothing is cut."""
        assert self._program is not None
        members = [self._program.pid, *self.processes()]
        _signal(members, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(members, signal.SIGCONT)

    def processes(self) -> list[int]:
        """Return what serves connections just now."""
        return [] if self._program is None else _family(self._program.pid)

    def open_files(self) -> list[str]:
        """Return the paths of what the processes that serve connections have open just now."""
        assert self._program is not None
        found: list[str] = []
        # Any of them may end or close meanwhile.
        with contextlib.suppress(OSError):
            for pid in self.processes():
                for entry in Path(f"/proc/{pid}/fd").iterdir():
                    with contextlib.suppress(OSError):
                        found.append(str(entry.readlink()))
        return found

    def connections(self) -> int:
        """Return how many processes serve connections just now."""
        return len(self.processes())


@contextlib.contextmanager
def running(folder: Path) -> Iterator[SshServer]:
    """Run a server with its keys and settings in `folder`; none of it runs after the block."""
    with privilege_separation(), contextlib.closing(SshServer(folder)) as server:
        server.start()
        yield server


@contextlib.contextmanager
def privilege_separation() -> Iterator[None]:
    """Have the folder that sshd wants as root, and leave none behind that was not there and nobody needs.

    sshd looks for it at each connection. Who needs it holds a shared lock (flock(2)) on it, the tests of
    `oscope-fs` as well.
    """
    if os.geteuid() != 0:
        yield
        return
    handle, made = _hold_folder()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if made:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _PRIVILEGE_SEPARATION.rmdir()
        os.close(handle)


def _hold_folder() -> tuple[int, bool]:
    """Return a descriptor that holds the folder, and whether it was made."""
    while True:
        made = not _PRIVILEGE_SEPARATION.exists()
        # Who made it may take it away meanwhile.
        with contextlib.suppress(FileNotFoundError):
            _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
            handle = os.open(_PRIVILEGE_SEPARATION, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(handle, fcntl.LOCK_SH)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), _PRIVILEGE_SEPARATION.stat()):
                    return handle, made
            os.close(handle)


def _family(pid: int) -> list[int]:
    found: list[int] = []
    # Any of them may end meanwhile.
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *_family(child)]
    return found


def _signal(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def _call(*words: str | Path) -> None:
    subprocess.run(list(words), check=True, timeout=60, stdin=subprocess.DEVNULL)

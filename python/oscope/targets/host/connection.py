"""One connection to a host by the system's ssh, over which everything there is done.

The connection is a master of ssh's multiplexing (ssh_config(5), ControlMaster) whose socket lies in a folder
of this user alone. It is no other program's, and the kernel ends it with this process. Its end is the end of
all that runs over it: sshd ends with the connection, and the kernel signals to the probe its parent's end.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

from oscope.model.errors import OscopeError, ProbeError
from oscope.model.host import Host
from oscope.targets.guest.boot import guarded
from oscope.targets.host.socket_folder import SocketFolder

CONNECT_LIMIT_S = 20
_START_LIMIT_S = 3 * CONNECT_LIMIT_S
"""ssh's own limit holds for each of a host's addresses."""
_CALL_LIMIT_S = 60.0
_END_LIMIT_S = 5.0
_NOTICE_S = 1.0
_ANSWER_LIMIT_S = 10.0
_LOOK_S = 0.02
_OPTIONS = (
    # A question to the user would wait in a session without a terminal.
    "BatchMode=yes",
    f"ConnectTimeout={CONNECT_LIMIT_S}",
    # A host that has gone away is noticed after half a minute.
    "ServerAliveInterval=10",
    "ServerAliveCountMax=3",
    "ControlPersist=no",
    "LogLevel=ERROR",
    # What a user's configuration may ask for beside a login, and no measurement needs.
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "Tunnel=no",
    "EscapeChar=none",
)


class Connection:
    """A connection to one host, made when it is first needed, and anew after it was lost."""

    def __init__(self, host: Host) -> None:
        """Nothing is connected yet."""
        self.host = host
        self._folder: SocketFolder | None = None
        self._master: subprocess.Popen[bytes] | None = None

    def command(self, script: str) -> tuple[str, ...]:
        """Return the command that runs `script`, a constant of this program, by the host's sh; connect first.

        ssh joins its arguments with spaces and has the user's login shell read them. So the script is one
        quoted word that sh, csh and fish read alike; it must hold no quote, no exclamation mark and no line
        break. What is started takes the login shell's place, so that its parent is sshd. Raises ProbeError.
        """
        if set(script) & set("'!\n\\"):
            raise ValueError(f"a script for a host holds what shells read differently: {script!r}")
        self.connect()
        return guarded(self._words("-o", "ControlMaster=no", last=f"exec sh -c {shlex.quote(script)}"))

    def call(
        self, script: str, *, sent: Path | None = None, limit_s: float = _CALL_LIMIT_S
    ) -> subprocess.CompletedProcess[bytes]:
        """Run `script` on the host with the file `sent` as its input. Raises ProbeError where ssh fails."""
        command = self.command(script)
        with contextlib.ExitStack() as stack:
            stdin = subprocess.DEVNULL if sent is None else stack.enter_context(sent.open("rb"))
            try:
                answer = subprocess.run(
                    command,
                    stdin=stdin,
                    capture_output=True,
                    timeout=limit_s,
                    check=False,
                    start_new_session=True,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                self.close()
                raise ProbeError(
                    f"{self.host.name} did not answer ({error.__class__.__name__} after {limit_s:g} s)",
                    remedy=f"see whether `ssh {self.host.address} true` ends",
                ) from error
        if answer.returncode == 255:
            raise self._failure(answer.stderr)
        return answer

    def answers(self) -> bool:
        """Say whether the connection is there, or was closed here, and its host answers."""
        if self._master is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                # What runs over a connection that was lost may notice before the connection itself has ended.
                self._master.wait(_NOTICE_S)
                return False
        try:
            return self.call(":", limit_s=_ANSWER_LIMIT_S).returncode == 0
        except ProbeError:
            return False

    def connect(self) -> None:
        """Make the connection, unless it is there. Raises ProbeError where the host cannot be reached."""
        if self._master is not None and self._master.poll() is None:
            return
        self.close()
        self._folder = SocketFolder()
        words = self._folder.words
        try:
            with words.open("wb") as stderr:
                self._master = subprocess.Popen(
                    guarded(self._words("-M", "-N")),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    start_new_session=True,
                )
        except OSError as error:
            raise ProbeError(f"ssh does not start ({error})", remedy="install openssh-client") from error
        deadline = time.monotonic() + _START_LIMIT_S
        # The socket is made once the host has accepted the user.
        while not self._socket.exists():
            if self._master.poll() is not None:
                output = words.read_bytes()
                self.close()
                raise self._failure(output)
            if time.monotonic() > deadline:
                self.close()
                raise self._failure(b"no answer in time")
            time.sleep(_LOOK_S)

    def end(self) -> None:
        """End the connection, and with it all that runs over it. Safe in a signal handler."""
        if self._master is not None:
            with contextlib.suppress(ProcessLookupError):
                self._master.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """End the connection, and wait for that."""
        master, self._master = self._master, None
        if master is not None:
            with contextlib.suppress(ProcessLookupError):
                master.send_signal(signal.SIGTERM)
            try:
                master.wait(_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                master.kill()
                master.wait()
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    @property
    def _socket(self) -> Path:
        if self._folder is None:
            raise RuntimeError("the connection has no folder before it is made")
        return self._folder.socket

    def _words(self, *options: str, last: str | None = None) -> list[str]:
        program = shutil.which("ssh")
        if program is None:
            raise OscopeError("ssh is not here", remedy="install openssh-client")
        words = [program, "-T", "-S", str(self._socket)]
        if self.host.ssh_config is not None:
            words += ["-F", self.host.ssh_config]
        for option in _OPTIONS:
            words += ["-o", option]
        return [*words, *options, "--", self.host.address, *([] if last is None else [last])]

    def _failure(self, output: bytes) -> ProbeError:
        lines = output.decode(errors="replace").strip().splitlines()
        why = lines[-1].strip() if lines else "it ended without a word"
        changed = any("IDENTIFICATION HAS CHANGED" in line for line in lines)
        remedy = f"see what `ssh {self.host.address} true` says"
        if changed:
            why = "its host key has changed"
            remedy = f"find out why, and only then remove the old key (ssh-keygen -R {self.host.address})"
        elif "Permission denied" in why:
            remedy = "ssh is not asked for passwords here: use a key, or ssh-agent"
        return ProbeError(f"{self.host.name} cannot be reached by ssh: {why}", remedy=remedy)

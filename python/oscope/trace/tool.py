"""A tracing tool beside a process: in a session of its own, and never longer than the laboratory."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from oscope.model.errors import OscopeError
from oscope.trace.tracer import TraceUnavailable

ATTACH_LIMIT_S = 20.0
DETACH_LIMIT_S = 60.0
"""A tool that was asked to stop writes out first what it holds."""
LARGEST_RECORD_BYTES = 4 * 2**30
_NUDGE_S = 0.2
_FREE_SHARE = 0.5
_LONGEST_WORDS = 1 << 16


class Tool:
    """One process of a tracing tool. What it says is kept; its record is a file without a name."""

    def __init__(self, name: str, package: str) -> None:
        """Raise TraceUnavailable where no program `name` (of the Debian package `package`) is installed."""
        path = shutil.which(name)
        if path is None:
            install = f"apt-get install {package}"
            remedy = install if os.geteuid() == 0 else f"sudo {install}"
            raise TraceUnavailable(f"{name} is not installed", remedy=remedy)
        self.name = name
        self.path = path
        self.record: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - released by `release`.
        free = shutil.disk_usage(tempfile.gettempdir()).free
        self.largest_bytes = min(LARGEST_RECORD_BYTES, int(free * _FREE_SHARE))
        self.environment = {"LC_ALL": "C"}
        """Variables set for the tool beside this process's own."""
        self.nudged = False
        """Whether it needs more than one signal to stop."""
        self._words = b""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def record_name(self) -> str:
        """The record as a file name that this process and the tool can open."""
        return f"/proc/self/fd/{self.record.fileno()}"

    @property
    def pid(self) -> int | None:
        """The running tool's process id; None before it is started."""
        return None if self._process is None else self._process.pid

    @property
    def status(self) -> int | None:
        """Its exit status, below 0 the signal that killed it; None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def words(self) -> str:
        """What it has said on standard error."""
        return self._words.decode(errors="replace")

    def start(
        self, arguments: Sequence[str], *, prefix: Sequence[str] = (), pass_fds: Sequence[int] = ()
    ) -> None:
        """Start the tool, by the program `prefix` if given; TraceUnavailable where it does not start."""
        # The kernel ends it with the thread that started it, however that ends (prctl(2), PR_SET_PDEATHSIG).
        # A record that grows too long ends the tool, not the room on the disk (setrlimit(2), RLIMIT_FSIZE).
        guard = ("setpriv", "--pdeathsig", "KILL", "prlimit", f"--fsize={self.largest_bytes}", "--core=0")
        try:
            self._process = subprocess.Popen(
                [*guard, *prefix, self.path, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=(self.record.fileno(), *pass_fds),
                start_new_session=True,
                env=os.environ | self.environment,
            )
        except OSError as error:
            raise TraceUnavailable(
                f"{self.name} does not start ({error})", remedy="apt-get install util-linux"
            ) from error

    def wait_for_words(self, pattern: str) -> bool:
        """Wait until standard error has `pattern`; False where the tool ended or `ATTACH_LIMIT_S` passed."""
        deadline = time.monotonic() + ATTACH_LIMIT_S
        while not re.search(pattern, self.words):
            if not self._hear(deadline - time.monotonic()):
                return False
        return True

    def alive(self) -> bool:
        """Return whether the tool runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """Have the tool stop and wait for its end. Raises OscopeError where it had died, or does not end."""
        if self._process is None or self._process.poll() is not None:
            raise self.death()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + DETACH_LIMIT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            self._hear(_NUDGE_S)
            if self.nudged:
                # bpftrace 0.17 heeds SIGINT once its wait is interrupted, which a stop does as well.
                self._process.send_signal(signal.SIGSTOP)
                self._process.send_signal(signal.SIGCONT)
        try:
            status = self._process.wait(0.1)
        except subprocess.TimeoutExpired:
            self.kill()
            raise OscopeError(
                f"{self.name} did not end within {DETACH_LIMIT_S:g} s, and was killed"
            ) from None
        # strace kills itself by the signal that ended it, once it has detached and reported its summary.
        if status not in (0, -signal.SIGINT):
            raise self.death()

    def kill(self) -> None:
        """End the tool at once and release the record; never raises."""
        with contextlib.suppress(OSError):
            if self._process is not None:
                if self._process.poll() is None:
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
                if self._process.stderr is not None:
                    self._process.stderr.close()
        with contextlib.suppress(OSError):
            self.record.close()

    def death(self) -> OscopeError:
        """Return the error for a tool that ended before it was asked to."""
        while self._process is not None and self._hear(0.1):
            pass
        words = [line.strip() for line in self.words.splitlines() if line.strip()]
        last_words = f"; its last words: {words[-1]}" if words else ""
        if self.record_bytes() >= self.largest_bytes:
            return OscopeError(
                f"{self.name} stopped at {self.largest_bytes} bytes of record",
                remedy="measure less at a time, or make room in the temporary folder",
            )
        return OscopeError(f"{self.name} ended early, with status {self.status}{last_words}")

    def record_bytes(self) -> int:
        """Return how long the record is."""
        return os.fstat(self.record.fileno()).st_size

    def _hear(self, patience_s: float) -> bool:
        """Take in some of standard error; False at its end or after `patience_s`."""
        stderr = None if self._process is None else self._process.stderr
        if stderr is None or stderr.closed or patience_s <= 0:
            return False
        if not select.select([stderr], [], [], patience_s)[0]:
            return False
        chunk = os.read(stderr.fileno(), 1 << 16)
        self._words = (self._words + chunk)[-_LONGEST_WORDS:]
        return bool(chunk)


def process_exists(pid: int) -> bool:
    """Return whether there is such a process, be it another user's."""
    return Path(f"/proc/{pid}").is_dir()

"""A program of ours that speaks in lines: started, heard line by line, and ended with all its children."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from oscope.model.errors import OscopeError, ProbeError

_LOOK_S = 0.5
"""A signal handler shortens a wait by at most this."""
_NAP_S = 0.01
"""How often it is looked for the end of a program whose end the kernel does not report."""
_LONGEST_LINE = 16 * 2**20
_LAST_WORDS = 5
_FRAME = re.compile(r'File "(.+)", line (\d+), in (.+)')
_REST = 4096
"""Bytes kept of an unfinished line of standard error."""


class Child:
    """A running program, in a session of its own: a Ctrl-C at the terminal reaches the laboratory only."""

    subject = "the probe"
    """What messages call it."""
    goodbye_limit_s = 10.0
    """How long it may take to end once it is asked to: it may have things to undo first."""
    busy_patience = 1
    """How many times as long it may be silent while it computes: beside other load, that takes longer."""
    start_remedy = "build it anew with `make setup`"
    """How to fix that it does not start."""
    death_remedy: str | None = None
    """How to find out why it died."""

    def __init__(
        self, command: Sequence[str | Path], *, stdin: int, folder: str | Path | None = None
    ) -> None:
        """Start `command`; ProbeError if it does not start. `stdin` is as of subprocess.Popen.

        It runs in `folder`; None: in this process's.
        """
        self._terminated_at: float | None = None
        self._cpu_ticks: int | None = None
        """Those that it had when last looked at in a silence that is too long."""
        self._words: deque[str] = deque(maxlen=_LAST_WORDS)
        self._unread = {"stdout": b"", "stderr": b""}
        try:
            self._process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                cwd=folder,
            )
        except OSError as error:
            raise ProbeError(
                f"{self.subject} {command[0]} does not start ({error})",
                remedy=self.start_remedy,
            ) from error
        self._selector = selectors.DefaultSelector()
        for name in ("stdout", "stderr"):
            self._selector.register(getattr(self._process, name), selectors.EVENT_READ, name)

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its process group."""
        return self._process.pid

    @property
    def terminated(self) -> bool:
        """Whether it was asked to end."""
        return self._terminated_at is not None

    def lines(self, silence_limit_s: float | None) -> tuple[list[bytes], bool]:
        """Wait for whole lines of standard output; return them, and whether the output has ended.

        Raises ProbeError, and kills it, where it says nothing for `silence_limit_s` (None: it may wait for
        others), does not end in time once it is asked to, or writes a line without end.
        """
        heard, self._cpu_ticks = time.monotonic(), None
        while True:
            for key, _ in self._selector.select(_LOOK_S):
                chunk = os.read(key.fd, 1 << 16)
                if key.data == "stderr":
                    self._hear(chunk)
                    continue
                if not chunk:
                    return [], True
                if lines := self._cut(chunk):
                    return lines, False
            self._check_silence(heard, silence_limit_s)

    def terminate(self) -> None:
        """Tell it to end in good order. Safe in a signal handler."""
        self._terminated_at = time.monotonic()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it and all its children at once, and release everything."""
        self._reap()
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def wait(self) -> int:
        """Return its exit status once its output has ended; ProbeError where a signal killed it.

        Children of its that are still there are ended.
        """
        if not self.ends_within(self.goodbye_limit_s):
            self.give_up(f"did not end within {self.goodbye_limit_s:g} s of its last word")
        status = self._reap()
        words = self.last_words()
        if status < 0:
            self.kill()
            raise ProbeError(
                f"{self.subject} was killed by {_signal_name(-status)}{words}", remedy=self.death_remedy
            )
        return status

    def ends_within(self, limit_s: float) -> bool:
        """Say whether it ends within that time. Its children may still be there."""
        if limit_s > 0 and not self._has_ended():
            self._await_end(limit_s)
        return self._has_ended()

    def _has_ended(self) -> bool:
        """Say whether it has ended, without waiting for it: its group stays its own."""
        if self._process.returncode is not None:
            return True
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            # Another thread has waited for it meanwhile.
            return True

    def _await_end(self, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        try:
            ended = os.pidfd_open(self.pid)
            try:
                with selectors.DefaultSelector() as selector:
                    selector.register(ended, selectors.EVENT_READ)
                    selector.select(limit_s)
            finally:
                os.close(ended)
        except OSError:
            # No descriptor is left, or the kernel or a filter of system calls refuses it.
            while not self._has_ended() and time.monotonic() < deadline:
                time.sleep(_NAP_S)

    def _reap(self) -> int:
        """End it and all its children, and return its exit status."""
        if self._process.returncode is None:
            # The group is still its own, also where it has ended: it has not been waited for.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        return self._process.wait()

    def last_words(self) -> str:
        """Return what it last said to people, to be put behind a message; empty if nothing."""
        self._drain_words()
        return (
            f"; its last words: {_exception(self._words) or ' / '.join(self._words)}" if self._words else ""
        )

    def fail(self) -> NoReturn:
        """Wait for its end, and raise OscopeError with the reason and the remedy that it reported."""
        self.wait()
        words = self.last_words().removeprefix("; its last words: ").replace("oscope-probe: ", "")
        message, _, remedy = words.partition("; ")
        raise OscopeError(message or f"{self.subject} ended without a word", remedy=remedy or None)

    def doing(self) -> str:
        """Say what a silent process's threads are at, such as `D in folio_wait_bit`: waiting for a device."""
        found = []
        with contextlib.suppress(OSError):
            for thread in sorted(Path(f"/proc/{self.pid}/task").iterdir()):
                state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
                place = (thread / "wchan").read_text().strip("\0\n")
                found.append(f"{state} in {place}" if place not in ("", "0") else state)
        return f"; its threads: {', '.join(found)}" if found else ""

    def give_up(self, what: str, doing: str = "") -> NoReturn:
        """Kill it and raise ProbeError: it did `what`, while `doing`."""
        words = self.last_words()
        self.kill()
        raise ProbeError(f"{self.subject} {what} and was killed{doing}{words}", remedy=self.remedy_for(what))

    def remedy_for(self, what: str) -> str | None:
        """Return how to fix that it did `what`; None where only its author could."""
        del what
        return None

    def _check_silence(self, heard: float, limit_s: float | None) -> None:
        now = time.monotonic()
        if self._terminated_at is not None and now - self._terminated_at > self.goodbye_limit_s:
            self.give_up(f"did not end within {self.goodbye_limit_s:g} s of being asked to")
        if limit_s is not None and now - heard > limit_s:
            before, self._cpu_ticks = self._cpu_ticks, _cpu_ticks(self.pid)
            if before is None:
                return
            limit_s *= self.busy_patience if self._cpu_ticks > before else 1
            if now - heard > limit_s:
                self.give_up(f"was silent for {limit_s:.3g} s", self.doing())

    def _cut(self, chunk: bytes) -> list[bytes]:
        *lines, rest = (self._unread["stdout"] + chunk).split(b"\n")
        self._unread["stdout"] = rest
        if len(rest) > _LONGEST_LINE:
            self.give_up("wrote a line without end")
        return [line for line in lines if line.strip()]

    def _hear(self, chunk: bytes) -> None:
        """Keep the last lines of standard error."""
        if not chunk:
            with contextlib.suppress(KeyError):
                self._selector.unregister(self._process.stderr)  # type: ignore[arg-type]
            return
        *lines, rest = (self._unread["stderr"] + chunk).split(b"\n")
        self._unread["stderr"] = rest[-_REST:]
        self._words.extend(text for line in lines if (text := line.decode(errors="replace").strip()))

    def _drain_words(self) -> None:
        """Read what is left of standard error, without waiting for more."""
        stderr = self._process.stderr
        if stderr is None or stderr.closed:
            return
        os.set_blocking(stderr.fileno(), False)
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(stderr.fileno(), 1 << 16):
                self._hear(chunk)
        if rest := self._unread["stderr"].decode(errors="replace").strip():
            self._words.append(rest)
            self._unread["stderr"] = b""


def _exception(words: Sequence[str]) -> str:
    """Return the exception that a Python traceback ends with, and where it was raised; empty: it is none."""
    frames = [match for word in words if (match := _FRAME.fullmatch(word))]
    if not frames or _FRAME.fullmatch(words[-1]):
        return ""
    file, line, function = frames[-1].groups()
    return f"{words[-1]} ({file}, line {line}, in {function})"


def _cpu_ticks(pid: int) -> int:
    """Return the CPU time of a process and of its children that have ended, in ticks (proc_pid_stat(5))."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    # utime, stime, cutime and cstime are the fields 14 to 17; what is split here begins with the third.
    return sum(map(int, fields[11:15]))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

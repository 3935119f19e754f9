"""A command that waits before its first instruction until it is watched, and has the terminal to itself."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import NoReturn

from oscope.model.errors import OscopeError, UsageError

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""What is meant for the command while it runs."""
STANDARD_OUTPUT, STANDARD_ERROR = 1, 2
_PYTHON_IGNORES = (signal.SIGPIPE, signal.SIGXFSZ)
_PR_SET_PDEATHSIG = 1
_PR_SET_PTRACER = 0x59616D61
_SI_USER = 0
_LOOK_S = 0.1
"""How often the command's end is looked for, should the signal of it have gone to another thread."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    """As `os.waitstatus_to_exitcode` has it: below 0, the signal that killed it."""
    time_s: float
    """From letting it go to its end."""

    @property
    def exit_code(self) -> int:
        """The code that a shell would tell: 128 and the number of the signal, where one killed it."""
        return self.status if self.status >= 0 else 128 - self.status

    def __str__(self) -> str:
        """In words."""
        if self.status >= 0:
            return f"ended with status {self.status}"
        try:
            return f"was killed by {signal.Signals(-self.status).name}"
        except ValueError:
            return f"was killed by signal {-self.status}"


class WaitingCommand:
    """A child that is to become a command. While that runs, signals to this process are the command's.

    The terminal sends its signals to the whole foreground group, the command too: they are not sent on.
    """

    def __init__(self, words: Sequence[str], *, quiet: bool = False) -> None:
        """`words`: the program and its arguments. Raises UsageError where there is no such program.

        `quiet`: its standard output goes to standard error, since this process needs its own.
        """
        self._words = list(words)
        self._quiet = quiet
        self._program = find_program(self._words)
        self.pid = 0
        self._ended = False
        self._open: list[int] = []

    def __enter__(self) -> WaitingCommand:
        """Make the child. If it is never let go it ends by itself, and it ends with this process."""
        libc = ctypes.CDLL(None, use_errno=True)
        gate, self._gate = os.pipe()
        self._failure, failure = os.pipe()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._gate)
            os.close(self._failure)
            _become(
                self._program,
                self._words,
                (gate, failure),
                lambda: _leave_standard_output(leave=self._quiet) and _tie(libc, parent),
            )
        os.close(gate)
        os.close(failure)
        self._open = [self._gate, self._failure]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the command where it has not ended."""
        if not self._ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        for descriptor in self._open:
            os.close(descriptor)

    def run(self) -> Ended:
        """Let the command go and wait for its end. Raises OscopeError where it could not be started."""
        former = signal.pthread_sigmask(signal.SIG_BLOCK, (*_SIGNALS, signal.SIGCHLD))
        # Another thread of this process may be given a signal in place of this one: it has its own mask.
        handlers = {number: signal.signal(number, _pass_over) for number in _SIGNALS}
        try:
            begun = time.monotonic()
            os.write(self._gate, b"x")
            status = self._wait()
            took_s = time.monotonic() - begun
            # What came for the command as it ended is not for this process either.
            while signal.sigtimedwait(_SIGNALS, 0):
                pass
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, former)
            for number, handler in handlers.items():
                signal.signal(number, handler)
        if error_number := os.read(self._failure, 16):
            raise OscopeError(
                f"{self._program} does not start ({os.strerror(int(error_number))})",
                remedy="name a program of this machine; a script begins with #! and its interpreter",
            )
        return Ended(status, took_s)

    def _wait(self) -> int:
        """Send signals on until the command has ended; return its status."""
        while True:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self._ended = True
                return os.waitstatus_to_exitcode(status)
            found = signal.sigtimedwait((*_SIGNALS, signal.SIGCHLD), _LOOK_S)
            if found is None:
                continue
            # A code above 0 is the kernel's: of the terminal, whose whole foreground group has the signal.
            if found.si_signo != signal.SIGCHLD and found.si_code <= _SI_USER:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, found.si_signo)


def _pass_over(number: int, frame: FrameType | None) -> None:
    """Do nothing: the command is given the signal in another way."""
    del number, frame


def find_program(words: Sequence[str]) -> str:
    """Return the path of the program that `words` begin with. Raises UsageError where it cannot be run."""
    if not words or not words[0]:
        raise UsageError("no command is named", remedy="write it at the end: oscope trace -- COMMAND ARG…")
    name = words[0]
    found = shutil.which(name)
    if found is not None:
        return found
    path = Path(name)
    if "/" not in name:
        raise UsageError(
            f"{name}: there is no such command on the PATH", remedy="check its name, or name its path"
        )
    if path.is_dir():
        raise UsageError(f"{name} is a folder", remedy="name a program in it")
    if path.exists():
        raise UsageError(f"{name} may not be executed", remedy=f"chmod +x {name}, or name a program")
    raise UsageError(f"{name}: there is no such file", remedy="check the path")


def _become(program: str, words: list[str], pipes: tuple[int, int], tie: Callable[[], bool]) -> NoReturn:
    """In the child: wait at the gate, then be the program; tell the errno of what fails."""
    gate, failure = pipes
    try:
        for number in _PYTHON_IGNORES:
            signal.signal(number, signal.SIG_DFL)
        # An end without a word: whoever would have let this go is gone.
        if tie() and os.read(gate, 1):
            os.execve(program, words, os.environ)  # noqa: S606 - no shell is wanted.
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    finally:
        os._exit(127)


def _leave_standard_output(*, leave: bool) -> bool:
    """Have what goes to standard output go to standard error, and be lost where that is closed; True."""
    if leave:
        try:
            os.dup2(STANDARD_ERROR, STANDARD_OUTPUT)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), STANDARD_OUTPUT)
    return True


def _tie(libc: ctypes.CDLL, parent: int) -> bool:
    """Have the kernel end this process with its parent; False where that is gone already."""
    # Yama lets ancestors alone trace a process, where it is so set: the tracer is the parent's child as well.
    libc.prctl(_PR_SET_PTRACER, parent, 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    return os.getppid() == parent

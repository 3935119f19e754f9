"""The terminal that a person sits at: raw while a session is recorded, and restored also after a kill."""

from __future__ import annotations

import contextlib
import os
import signal
import termios
import tty
from collections.abc import Iterator


@contextlib.contextmanager
def raw(terminal: int) -> Iterator[None]:
    """Have `terminal` pass every key on as it is typed, and put it back as it was.

    A process of its own waits for this one to end, and puts the terminal back where this one was killed.
    """
    former = termios.tcgetattr(terminal)
    reading, writing = os.pipe2(os.O_CLOEXEC)
    guard = os.fork()
    if guard == 0:
        _guard(terminal, former, reading, writing)
    os.close(reading)
    tty.setraw(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, former)
        os.kill(guard, signal.SIGKILL)
        os.waitpid(guard, 0)
        os.close(writing)


def _guard(terminal: int, former: list[object], reading: int, writing: int) -> None:
    """Put `terminal` back once nobody else has the pipe open. Never returns."""
    try:
        # In a session of its own no key ends it, nor does the end of the terminal's, and no job control stops
        # it from changing the terminal.
        os.setsid()
        os.close(writing)
        os.closerange(3, reading)
        os.read(reading, 1)
        termios.tcsetattr(terminal, termios.TCSADRAIN, former)  # type: ignore[arg-type]
    finally:
        os._exit(0)

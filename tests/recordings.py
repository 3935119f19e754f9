"""Makes recordings as a person would, in a terminal, with keys; and shows what a real one shows of them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import secrets
import select
import shutil
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from waiting import wait_until

LIMIT_S = 60.0
_PASTE = re.compile(rb"\x1b\[\?2004(?:h|l\r)")
"""What bash sends around a line, so that the terminal tells it of pasted text."""


@dataclass
class Person:
    """Somebody at a terminal in which a program runs."""

    pid: int
    terminal: int
    seen: bytes = b""

    def wait_for(self, text: bytes, after: int = 0) -> int:
        """Look at the terminal until it has shown `text`; return how much it has shown then."""

        def is_shown() -> bool:
            found = text in _PASTE.sub(b"", self.seen[after:])
            assert found or self._look(), (text, self.seen[after:])
            return found

        wait_until(is_shown, f"{text!r} on the terminal", limit_s=LIMIT_S)
        return len(self.seen)

    def type(self, keys: bytes, until: bytes) -> None:
        """Press keys, and wait for what they bring about."""
        before = len(self.seen)
        os.write(self.terminal, keys)
        self.wait_for(until, before)

    def resize(self, columns: int, rows: int) -> None:
        """Give the window another size."""
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def finish(self) -> int:
        """Wait for the program's end and return its exit status."""
        wait_until(lambda: not self._look(), "the end of the program", limit_s=LIMIT_S)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _look(self) -> bool:
        if not select.select([self.terminal], [], [], 1.0)[0]:
            return True
        try:
            self.seen += os.read(self.terminal, 1 << 16)
        except OSError:
            return False
        return True


@contextlib.contextmanager
def at_terminal(
    command: Sequence[str], folder: Path, variables: Mapping[str, str], columns: int = 80, rows: int = 24
) -> Iterator[Person]:
    """Start `command` in a terminal of this size."""
    program = shutil.which(command[0])
    assert program is not None, command
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.chdir(folder)
            # Before the program looks.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
            os.execve(program, list(command), dict(variables))  # noqa: S606
        finally:
            os._exit(127)
    person = Person(pid, terminal)
    try:
        yield person
    finally:
        os.close(terminal)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


class Tmux:
    """A real terminal: a tmux of our own, whose pane gets bytes as they are."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._socket = folder
        self._settings = folder / "tmux.conf"
        self._settings.write_text("set -g status off\nset -g history-limit 200000\nset -g allow-rename off\n")

    def show(self, content: bytes, columns: int, rows: int, *, joined: bool = True) -> list[str]:
        """Return what there is to see, lines above the screen included, once it got `content`."""
        stream = self._folder / "stream"
        mark = secrets.token_hex(8)
        stream.write_bytes(content + f"\x1b]2;{mark}\x07".encode())
        feed = f"stty raw -echo; cat '{stream}'; exec sleep 1000"
        # A server takes its time to end: each has a socket of its own.
        self._socket = self._folder / mark
        try:
            self._run("new-session", "-d", "-x", str(columns), "-y", str(rows), feed)
            wait_until(
                lambda: self._run("display-message", "-p", "#{pane_title}").strip() == mark, "the content"
            )
            # -J joins what was wrapped, and keeps blank ends.
            words = ["-J"] if joined else []
            return trimmed(self._run("capture-pane", "-p", *words, "-S", "-"))
        finally:
            self._run("kill-server")

    def _run(self, *words: str) -> str:
        own = {name: value for name, value in os.environ.items() if not name.startswith("TMUX")}
        done = subprocess.run(
            ["tmux", "-S", self._socket, "-f", self._settings, *words],
            capture_output=True,
            timeout=LIMIT_S,
            check=True,
            env=own | {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color"},
        )
        return done.stdout.decode()


def trimmed(text: str) -> list[str]:
    """Return the lines without their blank ends, and without blank lines at the end."""
    lines = [line.rstrip() for line in text.rstrip("\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def content_of(typescript: bytes) -> bytes:
    """Return what the terminal got, of what `script` recorded."""
    return typescript.partition(b"\n")[2].rpartition(b"\nScript done on ")[0]

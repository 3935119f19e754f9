"""`oscope transfer receive` and `send` as two processes of the command itself, in a trusted network."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_driver import Answer, CommandLine

LIMIT_S = 60.0
TRUSTED = ("--trusted-network",)
_NEWS = re.compile(r"oscope: (listening on \S+:\d+|\S+:\d+ sends)")


class Command:
    """An `oscope transfer` that runs; its standard error is read meanwhile."""

    def __init__(self, oscope: CommandLine, *words: str) -> None:
        self.process = oscope.start("transfer", *words)
        self._heard: list[str] = []
        self._news = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._hear, daemon=True)
        self._thread.start()

    def wait_for(self, text: str) -> str:
        """Return the first line on standard error that has `text`; fails where none comes."""
        with self._news:
            self._news.wait_for(lambda: self._ended or any(text in line for line in self._heard), LIMIT_S)
            found = [line for line in self._heard if text in line]
        assert found, f"no {text!r} in {self._heard}"
        return found[0]

    def listening(self) -> tuple[str, int]:
        """Return where it listens, once it does."""
        address = self.wait_for("listening on ").split()[-1]
        host, _, port = address.rpartition(":")
        return host, int(port)

    def interrupt(self, number: int = signal.SIGINT) -> None:
        """Send a signal to the command alone."""
        self.process.send_signal(number)

    def end(self) -> Answer:
        """Wait for its end; subprocess.TimeoutExpired, once it is killed, where it hangs."""
        assert self.process.stdout is not None
        try:
            code = self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self._thread.join(LIMIT_S)
        with self.process.stdout as stream:
            return Answer(code, stream.read(), "".join(self._heard))

    def _hear(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            for line in stream:
                with self._news:
                    self._heard.append(line)
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


class Pair:
    """Receives into `into`, one transfer each time it is asked to send."""

    def __init__(self, oscope: CommandLine) -> None:
        self.oscope = oscope
        self.into = oscope.folder / "into"
        self.into.mkdir()
        self._commands: list[Command] = []

    def receiver(self, *words: str, once: bool = True) -> Command:
        """Start a receiver on a free port."""
        single = ("--once",) if once else ()
        return self.start("receive", *single, "--listen", "127.0.0.1:0", "--into", str(self.into), *words)

    def start(self, *words: str) -> Command:
        """Start `oscope transfer WORDS`; it is killed at the end of the test."""
        verb, *rest = words
        command = Command(self.oscope, verb, *TRUSTED, *rest)
        self._commands.append(command)
        return command

    def move(self, *words: str, receiver: tuple[str, ...] = ()) -> tuple[Answer, Answer]:
        """Send as `words` say, and return how sender and receiver ended."""
        waiting = self.receiver(*receiver)
        host, port = waiting.listening()
        sender = self.start("send", *words, f"{host}:{port}")
        return sender.end(), waiting.end()

    def close(self) -> None:
        """Kill what runs still."""
        for command in self._commands:
            with contextlib.suppress(ProcessLookupError):
                command.process.kill()
            command.process.wait()


@pytest.fixture
def pair(probe: Path, tmp_path: Path) -> Iterator[Pair]:
    """Give a sender and a receiver a folder, in which both run."""
    folder = tmp_path / "work"
    folder.mkdir()
    found = Pair(CommandLine(folder, {"OSCOPE_PROBE": str(probe)}))
    yield found
    found.close()


def error_of(answer: Answer) -> str:
    """Return the one error of a command that failed; notes stand before it."""
    assert answer.code == 1, answer
    assert answer.out == "", answer
    lines = [line for line in answer.err.splitlines() if not _NEWS.fullmatch(line)]
    (line,) = lines
    return line


def put(folder: Path, name: str, content: bytes) -> Path:
    """Write a file and the folders above it."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path

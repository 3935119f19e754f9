"""A real `oscope view` for tests: its process, and requests to it that follow no redirect."""

from __future__ import annotations

import contextlib
import http.client
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import fake_probe
from cli_driver import CommandLine, described

TIME_LIMIT_S = 60


@dataclass(frozen=True)
class Reply:
    """What the server answered."""

    status: int
    headers: dict[str, str]
    """Names in lower case."""
    text: str


@dataclass
class Viewed:
    """A running server."""

    process: subprocess.Popen[str]
    address: str
    """As it was printed, with the token."""

    @property
    def host(self) -> str:
        return urlsplit(self.address).netloc

    @property
    def root(self) -> str:
        return f"http://{self.host}"

    @property
    def token(self) -> str:
        return self.address.rpartition("token=")[2]

    @property
    def cookie(self) -> str:
        return f"oscope_view_{self.host.rpartition(':')[2]}={self.token}"

    def ask(self, target: str, method: str = "GET", *, known: bool = True, **headers: str) -> Reply:
        """Send one request, with the cookie if `known`; the target goes out as it is."""
        connection = http.client.HTTPConnection(self.host, timeout=TIME_LIMIT_S)
        with contextlib.closing(connection):
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            sent = {"Host": self.host} | ({"Cookie": self.cookie} if known else {}) | headers
            for name, value in sent.items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            body = answer.read()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, found, "" if "content-encoding" in found else body.decode())

    def page(self, target: str) -> str:
        """Return the text of a page that is there."""
        answer = self.ask(target)
        assert answer.status == 200, answer
        return answer.text

    def stop(self, number: int = signal.SIGINT) -> tuple[int, str, str]:
        """End the server by a signal; return its exit code, standard output and standard error."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=TIME_LIMIT_S)
        return self.process.returncode, out, err


@contextlib.contextmanager
def viewing(oscope: CommandLine, *words: str) -> Iterator[Viewed]:
    """Start `oscope view WORDS`, without a browser, and end it."""
    process = oscope.start("view", "--no-browser", *words)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        address = process.stdout.readline().strip()
        if re.fullmatch(r"http://127\.0\.0\.1:\d+/\S*\?token=[\w-]{43}", address) is None:
            process.kill()
            pytest.fail(f"no address: {address!r} {process.stderr.read()}")
        yield Viewed(process, address)
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=TIME_LIMIT_S)


MEASURE = ("run", "syscall.cost", "--set", "call=getppid,read", "--set", "style=loop", "--reps", "6")
CHANGED_AT = 5
"""Runs of the store of `fill` before its level changes."""


def command_in(folder: Path) -> CommandLine:
    """Return the command line with the fake probe, and a store of its own in `folder`."""
    program = folder / "fake-probe"
    program.write_text(f"#!{sys.executable} -IS\n{Path(fake_probe.__file__).read_text()}")
    program.chmod(0o755)
    for name in ("state", "here", "oscope-state"):
        (folder / name).mkdir()
    return CommandLine(
        folder / "here",
        {
            "OSCOPE_PROBE": str(program),
            "OSCOPE_STORE": str(folder / "oscope.db"),
            "OSCOPE_STATE": str(folder / "oscope-state"),
            "FAKE_PROBE_STATE": str(folder / "state"),
            "FAKE_PROBE_DESCRIBE": described(),
        },
    )


def fill(oscope: CommandLine) -> None:
    """Store ten runs of one machine, the later ones with twice the time, and one of another machine."""
    for _ in range(2 * CHANGED_AT):
        assert oscope(*MEASURE).code == 0
    multiply(oscope, oscope.runs()[CHANGED_AT:], 2)
    assert oscope(*MEASURE, FAKE_PROBE_MACHINE="f" * 16).code == 0


def multiply(oscope: CommandLine, runs: Sequence[str], factor: int) -> None:
    """Have the headline metric of stored runs be so many times what was measured."""
    with contextlib.closing(sqlite3.connect(oscope.environment["OSCOPE_STORE"])) as database, database:
        database.executemany(
            """
            UPDATE sample SET "values" = json_set("values", '$[0]', ? * json_extract("values", '$[0]'))
            WHERE point_id IN (SELECT id FROM point WHERE run_id = ?)
            """,
            [(factor, run) for run in runs],
        )


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with the runs of `fill`; tests work on copies."""
    oscope = command_in(tmp_path_factory.mktemp("filled"))
    fill(oscope)
    return Path(oscope.environment["OSCOPE_STORE"])


@pytest.fixture(scope="module")
def stored(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """Give the command line with these runs."""
    oscope = command_in(tmp_path_factory.mktemp("viewed"))
    shutil.copy(filled, oscope.environment["OSCOPE_STORE"])
    return oscope


@pytest.fixture(scope="module")
def viewed(stored: CommandLine) -> Iterator[Viewed]:
    """Run `oscope view` on it."""
    with viewing(stored) as running:
        yield running

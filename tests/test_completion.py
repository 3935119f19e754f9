"""Completion at the Tab key of real shells, each set up by `oscope --install-completion`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from cli_driver import COST, CommandLine
from oscope.assignments import DOCUMENTS

SHELLS = {
    # The machine's own settings stay out where a shell can be told so.
    "bash": ["--noprofile", "-i"],
    "zsh": ["-d", "-i"],
    "fish": ["-i"],
}
TIME_LIMIT_S = 120
TAB = "\t"
LINE_START = "\x01"
"""Ctrl-A: the cursor goes to the beginning of the line."""
LINE_END = "\x05"
"""Ctrl-E: the cursor goes to the end of the line."""
LAST = "last-word"
"""A shell may print the words in parts: they are complete once this one follows."""


class Terminal:
    """An interactive shell in a terminal, whose home is `home` and on whose path `oscope` is."""

    def __init__(self, shell: str, home: Path) -> None:
        variables = {name: text for name, text in os.environ.items() if name != "ZDOTDIR"} | {
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_DATA_HOME": str(home / ".local" / "share"),
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "TERM": "xterm",
            "LC_ALL": "C.UTF-8",
        }
        self._child: pexpect.spawn[str] = pexpect.spawn(
            str(shutil.which(shell)),
            SHELLS[shell],
            env=variables,
            cwd=str(home),
            encoding="utf-8",
            dimensions=(50, 200),
            timeout=TIME_LIMIT_S,
        )
        self.run("printf '<%s>' ready", "<ready>")

    def run(self, keys: str, shown: str) -> None:
        """Type these keys and Enter, and wait for what is then printed."""
        self._child.send(f"{keys}\r")
        self._child.expect_exact(shown)

    def words(self, line: str) -> list[str]:
        """Type the beginning of a line and Tab; return the words that the line has then."""
        self._child.send(f"{line}{TAB}{LINE_START}printf '<%s>' {LINE_END} {LAST}\r")
        self._child.expect(rf"<oscope>((?:<[^<>%]*>)+)<{LAST}>")
        return str(self._child.match.group(1))[1:-1].split("><")

    def close(self) -> None:
        """End the shell."""
        self._child.close(force=True)


@pytest.fixture(scope="module", params=SHELLS)
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the home of a person who has switched completion on, by the name of the shell."""
    if shutil.which(request.param) is None:
        pytest.fail(f"{request.param} is missing: run `make setup`")
    home = tmp_path_factory.mktemp("home") / str(request.param)
    (home / "bin").mkdir(parents=True)
    command = home / "bin" / "oscope"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m oscope "$@"\n')
    command.chmod(0o755)
    before = Terminal(home.name, home)
    before.run("oscope --install-completion", f"{home.name} completion installed in")
    before.run("printf '<%s>' written", "<written>")
    before.close()
    return home


@pytest.fixture
def terminal(home: Path) -> Iterator[Terminal]:
    opened = Terminal(home.name, home)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("oscope assi", ["assignment"]),
        ("oscope run sysc", ["run", "syscall"]),
        ("oscope run syscall.co", ["run", "syscall.cost"]),
        ("oscope kernel ab process.cr", ["kernel", "ab", "process.create"]),
        ("oscope run syscall.cost --qui", ["run", "syscall.cost", "--quick"]),
        ("oscope compare last --form", ["compare", "last", "--format"]),
        ("oscope compare last --format js", ["compare", "last", "--format", "json"]),
        ("oscope show la", ["show", "last"]),
        (f"oscope assignment {DOCUMENTS[1].key[:2]}", ["assignment", DOCUMENTS[1].key]),
    ],
)
def test_the_first_tab_completes(line: str, completed: list[str], terminal: Terminal) -> None:
    assert terminal.words(line) == completed


def test_ids_of_runs_complete(home: Path, oscope: CommandLine) -> None:
    assert oscope(*COST).code == 0
    [run] = oscope.runs()
    terminal = Terminal(home.name, home)
    try:
        assert terminal.words(f"oscope show {run[:6]}") == ["show", run]
    finally:
        terminal.close()


def test_what_cannot_be_completed_is_a_file(home: Path, terminal: Terminal) -> None:
    (home / "capture.pcap").touch()
    assert terminal.words("oscope dhcp read capt") == ["dhcp", "read", "capture.pcap"]

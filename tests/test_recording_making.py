"""`oscope session record`: the recording, the exit code, and the terminal that is left as it was."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from cli_driver import CommandLine
from recordings import LIMIT_S, at_terminal
from waiting import wait_until, wait_until_gone

RECORD = (sys.executable, "-m", "oscope", "session", "record")


@pytest.fixture
def session(probe: Path, tmp_path: Path) -> CommandLine:
    folder = tmp_path / "session"
    folder.mkdir()
    return CommandLine(folder, {"OSCOPE_PROBE": str(probe)})


def read(session: CommandLine, name: str = "a.cast") -> tuple[dict[str, Any], str]:
    header, *events = map(json.loads, (session.folder / name).read_text().splitlines())
    return header, "".join(event[2] for event in events if event[1] == "o")


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 128 + signal.SIGTERM), ("echo said; exit 3", 3)],
)
def test_the_exit_code_is_the_commands(command: str, code: int, session: CommandLine) -> None:
    answer = session("session", "record", "a.cast", "--", "sh", "-c", command)
    assert (answer.code, answer.err) == (code, "")
    assert read(session)[1].encode() == answer.out.encode().replace(b"\n", b"\r\n") or answer.out == ""


def test_input_that_is_no_terminal_is_passed_on(session: CommandLine) -> None:
    with session.start("session", "record", "a.cast", "--", "cat", stdin=subprocess.PIPE) as process:
        process.communicate("from a pipe\n", timeout=LIMIT_S)
    assert process.returncode == 0
    assert read(session)[1].count("from a pipe\r\n") == 2  # Its echo, and what cat made of it.


def test_the_header_tells_the_command_and_the_size(session: CommandLine) -> None:
    own = session.all_variables({"TERM": "xterm"})
    command = (*RECORD, "a.cast", "--", "stty", "size")
    with at_terminal(command, session.folder, own, 50, 20) as person:
        assert person.finish() == 0
    header, output = read(session)
    assert (header["width"], header["height"], header["command"]) == (50, 20, "stty size")
    assert output == "20 50\r\n"


def test_a_new_size_of_the_window_is_passed_on_and_kept(session: CommandLine) -> None:
    command = (*RECORD, "a.cast", "--", "sh", "-c", "echo ready; read x; stty size")
    with at_terminal(command, session.folder, session.all_variables({}), 50, 20) as person:
        person.wait_for(b"ready")
        person.resize(70, 30)
        cast = session.folder / "a.cast"
        wait_until(lambda: '"r", "70x30"' in cast.read_text(), "the new size in the recording")
        person.type(b"\r", b"30 70")
        assert person.finish() == 0


def test_what_cannot_be_recorded_leaves_no_file(session: CommandLine) -> None:
    answer = session("session", "record", "a.cast", "--", "no-such-program")
    assert answer.code == 2
    assert "no-such-program cannot be started" in answer.err
    assert not (session.folder / "a.cast").exists()
    (session.folder / "a.cast").write_text("precious")
    answer = session("session", "record", "a.cast", "--", "true")
    assert answer.code == 2
    assert "is there already" in answer.err
    assert (session.folder / "a.cast").read_text() == "precious"
    assert session("session", "record", "nowhere/a.cast", "--", "true").code == 2


def test_what_runs_on_in_the_background_is_not_waited_for(session: CommandLine) -> None:
    answer = session("session", "record", "a.cast", "--", "sh", "-c", "trap '' HUP; sleep 1000 & echo $!")
    assert answer.code == 0
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(answer.out), signal.SIGKILL)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_the_terminal_is_put_back_however_it_ends(how: signal.Signals, session: CommandLine) -> None:
    # The shell outlives what is killed, and keeps the terminal.
    script = f"read x; {' '.join(RECORD)} a.cast -- sh -c 'echo ready; exec sleep 1000'; echo code=$?; read x"
    with at_terminal(("sh", "-c", script), session.folder, session.all_variables({})) as person:
        before = termios.tcgetattr(person.terminal)
        person.type(b"\n", b"ready")
        assert termios.tcgetattr(person.terminal) != before
        (recorder,) = map(int, Path(f"/proc/{person.pid}/task/{person.pid}/children").read_text().split())
        below = [
            int(child) for child in Path(f"/proc/{recorder}/task/{recorder}/children").read_text().split()
        ]
        os.kill(recorder, how)
        person.wait_for(f"code={128 + how}".encode())
        wait_until(lambda: termios.tcgetattr(person.terminal) == before, "the terminal as it was")
        wait_until_gone(below)
    assert read(session)[1] == "ready\r\n"


def test_what_is_typed_unseen_is_not_kept(session: CommandLine) -> None:
    command = (*RECORD, "a.cast", "--", "sh", "-c", "stty -echo; echo ready; read word; echo thanks")
    with at_terminal(command, session.folder, session.all_variables({})) as person:
        person.wait_for(b"ready")
        person.type(b"secret-word\r", b"thanks")
        assert person.finish() == 0
    assert "secret-word" not in (session.folder / "a.cast").read_text()

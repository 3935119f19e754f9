"""The exit code of a command that runs another one: that one's, or 128 and the signal that killed it."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from cli_driver import CommandLine
from recordings import at_terminal

RUNNERS = {
    "record": ("session", "record", "new.cast", "--"),
    "explain": ("explain", "-o", "report.txt", "--"),
    "trace": ("trace", "--counts", "--"),
}
KILLED_BY_CTRL_C = 128 + signal.SIGINT
needs_bpftrace = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("bpftrace") is None,
    reason="tracing needs root and bpftrace: apt install bpftrace, and run the tests as root",
)


@pytest.fixture
def command(probe: Path, tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe)})


@pytest.mark.parametrize("runner", ["record", "explain", pytest.param("trace", marks=needs_bpftrace)])
@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 7", 7), ("exit 130", 130), ("kill -INT $$", KILLED_BY_CTRL_C)],
    ids=["7", "130", "SIGINT"],
)
def test_the_exit_code_is_the_commands(runner: str, script: str, code: int, command: CommandLine) -> None:
    answer = command(*RUNNERS[runner], "sh", "-c", script)
    assert answer.code == code
    assert "oscope: interrupted" not in answer.err


def test_ctrl_c_at_the_terminal_of_a_recording_is_the_commands(command: CommandLine) -> None:
    oscope = (sys.executable, "-m", "oscope", *RUNNERS["record"])
    words = (*oscope, "sh", "-c", "echo ready; exec sleep 1000")
    with at_terminal(words, command.folder, command.all_variables({})) as person:
        person.wait_for(b"ready")
        person.type(b"\x03", b"^C")
        assert person.finish() == KILLED_BY_CTRL_C


def test_a_recording_that_a_signal_ends_tells_it(command: CommandLine) -> None:
    words = (*RUNNERS["record"], "sh", "-c", "echo ready; exec sleep 1000")
    with command.start(*words) as running:
        assert running.stdout is not None
        assert running.stdout.readline().strip() == "ready"
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (KILLED_BY_CTRL_C, "")

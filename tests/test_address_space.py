"""A limit of the address space (`ulimit -v`) is told as what it is, and not as a Ctrl-C or a bug."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cli_driver import ROOT, CommandLine

TOLD = "oscope: out of address space: the limit here is "
MEBIBYTE = 2**20
SCRIPT = """
import re, resource, sys
from pathlib import Path
from oscope.cli.errors import print_error
used = 1024 * int(re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
room = int(sys.argv[1])
if room:
    resource.setrlimit(resource.RLIMIT_AS, (used + room, used + room))
print_error({error}, verbose=False)
"""


@pytest.mark.parametrize(
    ("error", "room", "reported"),
    [
        ("KeyboardInterrupt()", 0, "oscope: interrupted"),
        ("KeyboardInterrupt()", 512 * MEBIBYTE, "oscope: interrupted"),
        ("ImportError('libx.so: failed to map segment from shared object')", 512 * MEBIBYTE, TOLD),
        ("ImportError('no module x')", 512 * MEBIBYTE, "oscope: ImportError: no module x"),
        ("MemoryError()", 8 * MEBIBYTE, TOLD),
        ("MemoryError()", 0, "oscope: out of memory"),
        ("ValueError('x')", 8 * MEBIBYTE, "oscope: ValueError: x"),
    ],
)
def test_what_came_of_a_limit_is_told_so(error: str, room: int, reported: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("{error}", error), str(room)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT / "python")},
    )
    (line,) = done.stderr.splitlines()
    assert line.startswith(reported)


@pytest.mark.parametrize("mebibytes", [64, 200, 260, 293])
def test_a_command_that_has_too_little_is_neither_interrupted_nor_broken(
    mebibytes: int, stored: CommandLine
) -> None:
    limited = CommandLine(
        stored.folder, stored.environment, ("prlimit", f"--as={mebibytes * MEBIBYTE}", "--core=0")
    )
    answer = limited("show", "last")
    if answer.code != 0:
        assert answer.code == 1
        (line,) = answer.err.splitlines()
        assert line.startswith(TOLD)


@pytest.fixture(scope="module")
def stored(real_probe: Path, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """Return a command line with a run in its store."""
    folder = tmp_path_factory.mktemp("limited")
    command = CommandLine(
        folder, {"OSCOPE_PROBE": str(real_probe), "OSCOPE_STORE": str(folder / "oscope.db")}
    )
    answer = command("run", "syscall.cost", "--set", "call=getppid", "--reps", "2")
    assert answer.code == 0, answer.err
    return command

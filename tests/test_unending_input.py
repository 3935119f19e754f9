"""Files that a command reads to their end: what is no regular file may have none, and is refused at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli_driver import CommandLine

READERS = {
    "dhcp": ("dhcp", "read"),
    "explain": ("explain", "--strace"),
    "import": ("import",),
    "session": ("session", "clean"),
    "timing": ("session", "clean", "text", "--timing"),
}
LIMIT_S = 60


def ended(words: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess[str]:
    """Carry out a command line, which has to end by itself, in a process of its own."""
    command = CommandLine(folder, {"OSCOPE_STORE": str(folder / "oscope.db")})
    return subprocess.run(
        [sys.executable, "-m", "oscope", *words],
        cwd=folder,
        env=command.all_variables({}),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("name", "kind"), [("/dev/zero", "a device"), ("/dev/urandom", "a device"), ("pipe", "a FIFO")]
)
def test_what_may_have_no_end_is_refused(reader: str, name: str, kind: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text").write_text("shown\n")
    done = ended((*READERS[reader], name), tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert f"{name} is {kind}, not a regular file" in line


def test_a_pipe_of_the_shell_is_read(tmp_path: Path) -> None:
    words = f"'{sys.executable}' -m oscope session clean <(printf 'shown\\r\\n')"
    environment = CommandLine(tmp_path).all_variables({})
    done = subprocess.run(
        ["bash", "-c", words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "shown\n"), done.stderr

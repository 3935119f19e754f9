"""What `oscope transfer` refuses: each refusal names the cause and what helps, and leaves nothing behind."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_driver import CommandLine
from transfer_pair import Pair, error_of


@pytest.fixture
def pair(real_probe: Path, tmp_path: Path) -> Iterator[Pair]:
    folder = tmp_path / "work"
    folder.mkdir()
    found = Pair(CommandLine(folder, {"OSCOPE_PROBE": str(real_probe)}))
    yield found
    found.close()


def test_a_request_that_is_wrong_makes_no_folder(pair: Pair) -> None:
    words = ("transfer", "receive", "--into", "in9")
    answer = pair.oscope(*words, "--listen", "127.0.0.1:0", "--key", "/nonexistent/k")
    assert (answer.code, answer.out) == (2, "")
    (line,) = answer.err.splitlines()[-1:]
    assert "the key file /nonexistent/k cannot be made (No such file or directory)" in line
    assert "name a file in a folder that is there" in line
    with socket.create_server(("127.0.0.1", 0)) as taken:
        host, port = taken.getsockname()
        line = error_of(pair.oscope(*words, "--listen", f"{host}:{port}", "--key", "k9"))
    assert "in use" in line
    assert not (pair.oscope.folder / "in9").exists()
    assert not (pair.oscope.folder / "k9").exists()

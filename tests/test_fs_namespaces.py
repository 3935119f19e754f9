"""A mount that another mount namespace has too: it is ended if nobody uses it there, else all say why."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fs_desk import LIMIT_S, Desk, only_line
from fs_mount import is_mounted, missing
from waiting import wait_until

pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may copy a mount namespace"),
]


@contextmanager
def elsewhere(script: str) -> Iterator[subprocess.Popen[str]]:
    """Run a script of the shell in a mount namespace of its own, until it has said a line and further."""
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def test_a_mount_that_another_namespace_does_not_use_is_ended(desk: Desk) -> None:
    desk.mounted()
    (desk.point / "file").write_bytes(b"written here")
    with elsewhere(f"echo ready; read line; cat {desk.point}/file 2>&1") as other:
        answer = desk("umount", desk.point)
        line = only_line(answer, 0)
        assert f"{other.pid} (sh)" in line
        assert "ENOTCONN" in line
        desk.is_quiet()
        assert (desk.there / "file").read_bytes() == b"written here"
        out, _ = other.communicate("go on\n", LIMIT_S)
        assert "not connected" in out
    assert desk("status", "--json").out == "[]\n"
    desk.mounted()
    desk.unmounted()


def test_a_mount_that_another_namespace_uses_goes_on_and_all_say_why(desk: Desk) -> None:
    desk.mounted()
    cache = Path(str(desk.status()["cache"]))
    with elsewhere(f"exec < {desk.point}/file; echo ready; exec sleep {LIMIT_S}") as other:
        wait_until(
            lambda: Path(f"/proc/{other.pid}/comm").read_text() == "sleep\n", "it is the program that waits"
        )
        who = f"{other.pid} (sleep)"
        remedy = f"nsenter -t {other.pid} -m umount {desk.point}"
        for words in (
            ["umount", desk.point, "--timeout", "2s"],
            ["umount", desk.point],
            ["recover", "--cache", cache],
            ["mount", "--timeout", "1s", "-F", desk.server.config, desk.target, desk.point],
        ):
            line = only_line(desk(*words), 1)
            assert "nothing is left to copy back" in line
            assert who in line
            assert remedy in line
        found = desk.status()
        assert found["state"] == "ending"
        # A mount namespace of another test may hold it too.
        assert who in found["held_by"]
        assert f"that of process {who}" in desk("status", desk.point).out
        assert not is_mounted(desk.point)
    wait_until(desk.nothing_runs, "the process ends with the last namespace")
    assert desk("status", "--json").out == "[]\n"


def test_what_is_written_elsewhere_is_copied_back_before_the_end(desk: Desk) -> None:
    desk.mounted()
    with elsewhere(
        f"exec 3> {desk.point}/file; echo ready; read line; echo late >&3; exec 3>&-; exec sleep 60"
    ) as other:
        line = only_line(desk("umount", desk.point, "--timeout", "1s"), 1)
        assert "not yet copied back: file" in line
        assert f"{other.pid} (sh)" in line
        assert other.stdin is not None
        other.stdin.write("go on\n")
        other.stdin.flush()
        wait_until(lambda: (desk.there / "file").read_bytes() == b"late\n", "it is copied back")
    wait_until(desk.nothing_runs, "the process ends")

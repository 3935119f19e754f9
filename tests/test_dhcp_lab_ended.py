"""The DHCP lab that is ended before its end: that nothing of it is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from cli_driver import CommandLine
from dhcp_played import SCENARIOS, needs_lab
from waiting import wait_until

PATIENCE_S = 60


@pytest.fixture
def oscope(real_probe: Path, tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path, {"OSCOPE_PROBE": str(real_probe), "COLUMNS": "80"})


def descendants(root: int) -> set[int]:
    """Return the processes that a process has started, and theirs."""
    children: dict[int, set[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), set()).add(int(path.parent.name))
    found, left = set(), {root}
    while left:
        left = {child for process in left for child in children.get(process, ())} - found
        found |= left
    return found


def namespaces(processes: set[int], kind: str) -> set[str]:
    """Return the namespaces of a kind that processes are in."""
    found = set()
    for process in processes:
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/{process}/ns/{kind}"))  # noqa: PTH115 (no file has that name)
    return found


def lab_files() -> set[str]:
    """Return what the lab has in a folder of the machine that it covers with a file system of its own."""
    return {name for name in os.listdir("/dev/shm") if name in SCENARIOS}  # noqa: PTH208, S108


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_of_a_lab_that_is_ended(number: int, oscope: CommandLine) -> None:
    needs_lab()
    assert not lab_files()
    lab = oscope.start("dhcp", "lab", "lost", "-o", "kept")
    assert lab.stderr is not None
    for line in lab.stderr:
        if "the second client asks" in line:
            break
    # The server's, those of both clients, and ours, in which the stage is itself.
    wait_until(lambda: len(namespaces(descendants(lab.pid), "net")) == 4, "all hosts are there")
    processes = descendants(lab.pid)
    # Namespaces of networks are kept by processes and by mounts, and these mounts by processes.
    assert len(namespaces(processes, "mnt") - namespaces({os.getpid()}, "mnt")) == 1
    lab.send_signal(number)
    lab.communicate(timeout=PATIENCE_S)
    assert lab.returncode != 0
    wait_until(lambda: not any(Path(f"/proc/{one}").exists() for one in processes), "all have ended")
    assert not (oscope.folder / "kept").exists()
    assert not lab_files()
    links = json.loads(
        subprocess.run(["ip", "-j", "link"], capture_output=True, check=True, timeout=300).stdout
    )
    assert not {"lan", "client", "second", "server"} & {link["ifname"] for link in links}

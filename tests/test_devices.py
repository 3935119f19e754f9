"""`oscope devices` over programs that hold known devices open, and beside lsof."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli_driver import CommandLine, as_nobody
from oscope.tools.inventory.device_names import identify
from waiting import wait_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="making devices needs root")

HOLDER = """\
import ctypes, mmap, os, pty, sys, threading
held = {"null": os.open("/dev/null", os.O_WRONLY), "zero": os.open("/dev/zero", os.O_RDWR)}
held["urandom"] = os.open("/dev/urandom", os.O_RDONLY)
held["full"] = os.open("/dev/full", os.O_PATH)
held["master"], held["slave"] = pty.openpty()
for path in sys.argv[1:]:
    held[path] = os.open(path, os.O_RDONLY)
    os.unlink(path)
mapped = os.open("/dev/zero", os.O_RDONLY)
# Private: a shared mapping of zero is memory, and no device.
area = mmap.mmap(mapped, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)
os.close(mapped)
thread = threading.Thread(target=sys.stdin.read)
thread.start()
print(repr(held), flush=True)
if "leader" in os.environ.get("ENDS", ""):
    ctypes.CDLL(None).syscall(60, 0)
thread.join()
"""


@pytest.fixture
def oscope(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@contextmanager
def holder(
    *paths: str, prefix: Sequence[str] = (), **environment: str
) -> Iterator[tuple[int, dict[str, int]]]:
    """Start a program that holds devices, and give its process id and its descriptors by name."""
    with subprocess.Popen(
        [*prefix, sys.executable, "-c", HOLDER, *paths],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        assert process.stdout is not None
        try:
            yield process.pid, eval(process.stdout.readline())  # noqa: S307 (its own words)
        finally:
            process.kill()


def held_by(oscope: CommandLine, pid: int) -> dict[int | None, tuple[str, str, str, bool]]:
    """Return path, name, mode of each descriptor of a process that is a device, and whether it is deleted."""
    answer = oscope("devices", "--json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert found["schema"] == "oscope.devices/1"
    return {
        one["descriptor"]: (device["path"], device["name"], one["mode"], device["deleted"])
        for device in found["devices"]
        for one in device["held"]
        if one["pid"] == pid
    }


def test_descriptors_have_their_modes_and_names(oscope: CommandLine) -> None:
    with holder() as (pid, held):
        found = held_by(oscope, pid)
        terminal = str(Path(f"/proc/{pid}/fd/{held['slave']}").readlink())
    assert found[held["null"]] == ("/dev/null", "null", "w", False)
    assert found[held["zero"]] == ("/dev/zero", "zero", "rw", False)
    assert found[held["urandom"]] == ("/dev/urandom", "urandom", "r", False)
    assert found[held["full"]] == ("/dev/full", "full", "path", False)
    assert found[held["master"]][1:] == ("ptmx", "rw", False)
    assert found[held["slave"]] == (terminal, terminal.removeprefix("/dev/"), "rw", False)
    assert found[None] == ("/dev/zero", "zero", "r", False)


def test_a_process_whose_first_thread_ended_is_seen(oscope: CommandLine) -> None:
    with holder(ENDS="leader") as (pid, held):
        wait_until(
            lambda: "State:\tZ" in Path(f"/proc/{pid}/status").read_text(), "the end of the first thread"
        )
        found = held_by(oscope, pid)
    assert found[held["urandom"]] == ("/dev/urandom", "urandom", "r", False)


@needs_root
def test_deleted_devices_are_told(oscope: CommandLine, tmp_path: Path) -> None:
    path = str(tmp_path / "odd name")
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    with holder(path) as (pid, held):
        found = held_by(oscope, pid)
        table = oscope("devices", COLUMNS="200").out
    assert found[held[path]] == (path, "null", "r", True)
    assert "(deleted) = null" in " ".join(table.split())


@needs_root
def test_devices_of_other_mount_namespaces_are_told(oscope: CommandLine, tmp_path: Path) -> None:
    hidden = tmp_path / "inside"
    hidden.mkdir()
    script = f'mount -t tmpfs none {hidden} && mknod {hidden}/own c 1 5 && exec "$@"'
    with holder(
        f"{hidden}/own", prefix=("unshare", "--mount", "--propagation", "slave", "sh", "-c", script, "sh")
    ) as (pid, held):
        found = held_by(oscope, pid)
    assert found[held[f"{hidden}/own"]][1] == "zero"
    assert not list(hidden.iterdir())


@needs_root
@pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="the kernel has no FUSE")
def test_a_file_system_whose_server_does_not_answer_holds_nothing_up(
    oscope: CommandLine, tmp_path: Path
) -> None:
    at = tmp_path / "stuck"
    at.mkdir()
    server_program = Path(__file__).with_name("stuck_fuse.py")
    words = ("unshare", "--mount", "--propagation", "slave", sys.executable, server_program, at)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        pid, descriptor = map(int, server.stdout.readline().split())
        try:
            server.send_signal(signal.SIGSTOP)
            stopped = held_by(oscope, pid)
            # Who asks in the usual way waits in vain: the file system is stuck indeed.
            with pytest.raises(subprocess.TimeoutExpired):
                subprocess.run(["stat", "-L", f"/proc/{pid}/fd/{descriptor - 1}"], timeout=1, check=False)
            server.kill()
            server.wait(timeout=300)
            dead = held_by(oscope, pid)
        finally:
            server.kill()
            os.kill(pid, signal.SIGKILL)
    assert stopped == dead == {descriptor: ("/dev/null", "null", "w", False)}


@pytest.mark.alone
@pytest.mark.skipif(shutil.which("lsof") is None, reason="lsof is not installed")
def test_lsof_agrees(oscope: CommandLine) -> None:
    with holder() as (pid, _):
        ours = held_by(oscope, pid)
        reported = subprocess.run(
            ["lsof", "-w", "-p", str(pid), "-F", "ftn"],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        ).stdout
    theirs: dict[int, str] = {}
    descriptor, kind = "", ""
    for line in reported.splitlines():
        if line[0] == "f":
            descriptor = line[1:]
        elif line[0] == "t":
            kind = line[1:]
        elif line[0] == "n" and descriptor.isdigit() and kind in ("CHR", "BLK"):
            theirs[int(descriptor)] = line[1:]
    assert len(theirs) >= 6
    assert {number: one[0] for number, one in ours.items() if number is not None} == theirs


@needs_root
def test_without_root_it_is_told_how_many_were_not_readable(real_probe: Path) -> None:
    with as_nobody(real_probe) as oscope:
        answer = oscope("devices", "--json")
        found: dict[str, Any] = json.loads(answer.out)
    assert answer.code == 0
    assert found["unreadable"] > 0
    assert f"could not be looked at: {found['unreadable']}: run it as root" in answer.err


def test_all_gives_a_row_for_each_descriptor(oscope: CommandLine) -> None:
    with holder() as (pid, held):
        rows = oscope("devices", "--all", COLUMNS="200").out.splitlines()
    own = [row for row in rows if f" {pid}: " in row]
    assert any(row.rstrip().endswith(f"{pid}: {held['urandom']}") for row in own)
    assert len(own) >= len(held)


def test_numbers_of_this_machine_are_known() -> None:
    """Every device node of /dev has the name that it is found under, or at least a purpose."""
    wrong = []
    for path in sorted(Path("/dev").iterdir()):
        found = path.lstat()
        if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
            kind = "char" if stat.S_ISCHR(found.st_mode) else "block"
            reported = identify(kind, os.major(found.st_rdev), os.minor(found.st_rdev))  # type: ignore[arg-type]
            if reported.name != path.name:
                wrong.append((path.name, reported))
    assert wrong == []
    assert identify("char", 137, 4).name == "pts/260"
    assert identify("char", 511, 99).name == "unknown"

"""Guests that run commands for real: their kernel's modules at hand, and two of them on one network."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from cli_driver import CommandLine
from oscope.model.errors import OscopeError, UsageError
from oscope.model.guest import Guest
from oscope.targets.guest import initramfs, pair
from oscope.targets.kernel import Kernel
from waiting import wait_until

LISTEN = """
import socket
with socket.create_server(("10.0.2.1", 7000)) as server:
    print("listening", flush=True)
    taken, peer = server.accept()
    print(peer[0], sum(iter(lambda: len(taken.recv(1 << 16)), 0)))
    taken.close()
"""
CONNECT = """
import socket, time
while True:
    try:
        taken = socket.create_connection(("10.0.2.1", 7000), 30)
        break
    except OSError:
        # The other guest or its program does not answer yet; the time limit ends what never does.
        time.sleep(0.1)
taken.sendall(bytes(300000))
# A guest is switched off when its command ends, with what its kernel has not sent yet.
taken.shutdown(socket.SHUT_WR)
taken.recv(1)
print("sent")
"""
PYTHON = ("python3", "-ISc")


@pytest.fixture
def command(real_probe: Path, tmp_path: Path) -> CommandLine:
    """Give the command line, in a folder of its own, with the built probe."""
    folder = tmp_path / "here"
    folder.mkdir()
    return CommandLine(folder, {"OSCOPE_PROBE": str(real_probe)})


def two(kernel: Kernel) -> Guest:
    return Guest(kernel.id, "wall", 1, 512 << 20)


def test_two_guests_talk_and_each_has_the_modules_of_its_kernel(
    base_kernel: Kernel, command: CommandLine
) -> None:
    """The peer's command begins when there is somebody to talk to; it fails, and so does the whole."""
    assert base_kernel.modules_folder is not None
    files = sorted(file.name for file in base_kernel.modules_folder.glob("*.ko"))
    assert files
    load = f"for file in {initramfs.MODULES}/*.ko; do insmod $file || exit 9; done; ls -1 /sys/module >&2"
    first = ("sh", "-c", f"{load}; exec {shlex.join((*PYTHON, LISTEN))}")
    peer = ("sh", "-c", f"ls -1 {initramfs.MODULES} >&2; {shlex.join((*PYTHON, CONNECT))}; exit 3")
    words = ("kernel", "boot", base_kernel.id, "--cpus", "1", "--memory", "512M", "--time-limit", "230s")
    answer = command(*words, "--peer", shlex.join(peer), "--", *first)
    assert answer.code == 3, answer.err
    assert answer.out.splitlines() == ["listening", "10.0.2.2 300000"]
    reported = answer.err.splitlines()
    assert {file.removesuffix(".ko") for file in files} <= set(reported)
    assert {*(f"10.0.2.2: {file}" for file in files), "10.0.2.2: sent"} <= set(reported)


def test_where_one_guest_dies_the_other_is_ended_and_both_consoles_are_told(
    base_kernel: Kernel, probe: Path
) -> None:
    del probe
    panic = ("sh", "-c", "echo c > /proc/sysrq-trigger")
    with pytest.raises(OscopeError) as caught:
        pair.run(two(base_kernel), (("sleep", "1000"), panic), lambda *_: None, 280)
    reported = str(caught.value)
    assert "the guest 10.0.2.2 ended before the command did: its kernel panicked" in reported
    assert "sysrq triggered crash" in reported
    assert "; the guest 10.0.2.1: the console" in reported
    assert not children(os.getpid()), "a guest is left behind"


def test_ctrl_c_ends_both_guests_while_they_boot(base_kernel: Kernel, command: CommandLine) -> None:
    words = ("kernel", "boot", base_kernel.id, "--cpus", "1", "--peer", "sleep 1000")
    with command.start(*words, "--", "sleep", "1000", stdin=subprocess.DEVNULL) as started:
        wait_until(lambda: len(children(started.pid)) >= 2, "two emulators")
        guests = children(started.pid)
        started.send_signal(signal.SIGINT)
        _, err = started.communicate(timeout=300)
    assert started.returncode != 0
    assert "Traceback" not in err
    wait_until(lambda: not any(map(alive, guests)), "the end of both emulators")


def children(parent: int) -> list[str]:
    """Return the processes that this one started and that run a guest with a network."""
    return [
        file.parent.name
        for file in Path("/proc").glob("[0-9]*/stat")
        if has_network(file.parent.name) and parent_of(file.parent.name) == parent
    ]


def has_network(number: str) -> bool:
    try:
        words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"qemu" in words[0] and b"-netdev" in words


def parent_of(number: str) -> int | None:
    try:
        return int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def alive(number: str) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_dry_run_shows_both_guests(base_kernel: Kernel, command: CommandLine) -> None:
    answer = command("kernel", "boot", base_kernel.id, "--dry-run", "--peer", "uname -r", "--", "true")
    one, other = map(shlex.split, answer.out.splitlines())
    assert answer.code == 0
    assert sum(a != b for a, b in zip(one, other, strict=True)) > 0
    assert any("mac=52:54:00:00:02:01" in word for word in one)
    assert any("mac=52:54:00:00:02:02" in word for word in other)


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        (("--peer", ""), "--peer names no command"),
        (("--peer", "sh -c 'open"), "No closing quotation"),
        (("--peer", "true", "--clock", "instructions"), "no time in common"),
    ],
)
def test_a_peer_that_cannot_be_is_a_usage_error(
    options: tuple[str, ...], reported: str, base_kernel: Kernel, command: CommandLine
) -> None:
    answer = command("kernel", "boot", base_kernel.id, *options, "--", "true")
    (line,) = answer.errors
    assert answer.code == 2
    assert reported in line


def test_guests_that_count_instructions_are_refused(base_kernel: Kernel) -> None:
    with pytest.raises(UsageError, match="no time in common"):
        pair.run(Guest(base_kernel.id, "instructions", 1), (["true"], ["true"]), lambda *_: None)

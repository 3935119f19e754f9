"""Other programs that move files over TCP, each timed from its start until both its sides have ended."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

LIMIT_S = 300.0
HOST = "127.0.0.1"
SSHD = "/usr/sbin/sshd"
_LISTENING = "0A"
_PRIVILEGE_SEPARATION = Path("/run/sshd")
"""Without this folder, sshd does not start as root."""


def free_port() -> int:
    """Return a port of the loopback device that nobody uses just now."""
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def wait_for_port(port: int) -> None:
    """Wait until somebody listens, without connecting: a server for one connection would take that for it."""
    end = time.monotonic() + LIMIT_S
    wanted = f":{port:04X}"
    while time.monotonic() < end:
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1].endswith(wanted) and fields[3] == _LISTENING:
                return
        time.sleep(0.0005)
    raise RuntimeError(f"nobody listens on port {port}")


def run_all(*programs: subprocess.Popen[Any]) -> None:
    """Wait for the end of all; RuntimeError where one fails or takes too long."""
    try:
        for program in programs:
            if program.wait(LIMIT_S) != 0:
                raise RuntimeError(f"{program.args!r} ended with {program.returncode}")
    finally:
        for program in programs:
            if program.poll() is None:
                program.kill()
                program.wait()


def iperf3(size: int) -> tuple[float, float]:
    """Return the seconds of both commands, and bytes a second as the receiver reports; it touches no file."""
    port = free_port()
    begin = time.monotonic()
    server = subprocess.Popen(
        ["iperf3", "-s", "-1", "-B", HOST, "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for_port(port)
    client = subprocess.Popen(
        ["iperf3", "-c", HOST, "-p", str(port), "-n", str(size), "-J"], stdout=subprocess.PIPE, text=True
    )
    told, _ = client.communicate(timeout=LIMIT_S)
    run_all(server, client)
    took = time.monotonic() - begin
    end = json.loads(told)["end"]
    if end["sum_sent"]["bytes"] < size:
        raise RuntimeError(f"iperf3 sent {end['sum_sent']['bytes']} bytes")
    return took, end["sum_received"]["bits_per_second"] / 8


def socat(source: Path, into: Path) -> float:
    """Return the seconds of both commands, with socat's own block size."""
    port = free_port()
    begin = time.monotonic()
    receiver = subprocess.Popen(
        ["socat", "-u", f"TCP-LISTEN:{port},bind={HOST},reuseaddr", f"CREATE:{into / source.name}"]
    )
    wait_for_port(port)
    sender = subprocess.Popen(["socat", "-u", f"OPEN:{source},rdonly", f"TCP:{HOST}:{port}"])
    run_all(sender, receiver)
    return time.monotonic() - begin


def tar_and_netcat(source: Path, into: Path) -> float:
    """Return the seconds of `tar | nc` and `nc | tar`."""
    port = free_port()
    begin = time.monotonic()
    heard = subprocess.Popen(
        ["nc.openbsd", "-l", HOST, str(port)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    unpack = subprocess.Popen(["tar", "-xf", "-", "-C", into], stdin=heard.stdout)
    wait_for_port(port)
    pack = subprocess.Popen(["tar", "-cf", "-", "-C", source.parent, source.name], stdout=subprocess.PIPE)
    said = subprocess.Popen(["nc.openbsd", "-N", HOST, str(port)], stdin=pack.stdout)
    for program in (heard, pack):
        # The other end of the pipe has it now; it must be the last one to hold it.
        assert program.stdout is not None
        program.stdout.close()
    run_all(pack, said, heard, unpack)
    return time.monotonic() - begin


@contextlib.contextmanager
def ssh_server(folder: Path) -> Iterator[Callable[[Path, Path], float]]:
    """Run an sshd of our own, its keys and settings in `folder`; give `scp -r`, which returns seconds."""
    port = free_port()
    for name in ("host", "user"):
        _call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name)
    config = folder / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress {HOST}\nHostKey {folder / 'host'}\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {folder / 'user.pub'}\nStrictModes no\nPermitRootLogin prohibit-password\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nSubsystem sftp internal-sftp\n"
    )
    known = folder / "known"
    known.write_text(f"[{HOST}]:{port} {(folder / 'host.pub').read_text()}")
    options = (
        "IdentitiesOnly=yes",
        "BatchMode=yes",
        f"UserKnownHostsFile={known}",
        "StrictHostKeyChecking=yes",
    )
    words = ["scp", "-q", "-r", "-F", "none", "-P", str(port), "-i", str(folder / "user")]
    words += [word for option in options for word in ("-o", option)]

    def copy(source: Path, into: Path) -> float:
        begin = time.monotonic()
        run_all(subprocess.Popen([*words, str(source), f"{getpass.getuser()}@{HOST}:{into}"]))
        return time.monotonic() - begin

    with _privilege_separation(), (folder / "sshd.log").open("wb") as log:
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", config], stdout=log, stderr=log)
        try:
            wait_for_port(port)
            yield copy
        finally:
            server.terminate()
            server.wait(LIMIT_S)


@contextlib.contextmanager
def _privilege_separation() -> Iterator[None]:
    """Have the folder that sshd wants as root, and leave none behind that was not there."""
    if os.geteuid() != 0 or _PRIVILEGE_SEPARATION.exists():
        yield
        return
    _PRIVILEGE_SEPARATION.mkdir(mode=0o755)
    try:
        yield
    finally:
        _PRIVILEGE_SEPARATION.rmdir()


def _call(*words: str | Path) -> None:
    subprocess.run(list(words), check=True, timeout=60, stdin=subprocess.DEVNULL)


def pair(
    receive: Sequence[object], send: Sequence[object], hear: Callable[[str], str | None]
) -> tuple[float, str, str]:
    """Run `receive`, and `send` with the address that `hear` finds in a line of the first instead of `{}`.

    Return the seconds of both, and what each printed.
    """
    begin = time.monotonic()
    receiver = subprocess.Popen(
        [str(word) for word in receive], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert receiver.stdout is not None
    address = None
    while address is None:
        line = receiver.stdout.readline()
        if not line:
            receiver.wait(LIMIT_S)
            raise RuntimeError(f"{receiver.args!r} ended with {receiver.returncode} before it listened")
        address = hear(line)
    sender = subprocess.Popen(
        [str(word).replace("{}", address) for word in send], stdout=subprocess.PIPE, text=True
    )
    told, _ = sender.communicate(timeout=LIMIT_S)
    heard, _ = receiver.communicate(timeout=LIMIT_S)
    took = time.monotonic() - begin
    run_all(sender, receiver)
    return took, told, heard

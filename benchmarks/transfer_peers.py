"""Other programs that move files over TCP, each timed from its start until both its sides have ended."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ssh_server import ALIAS, HOST, free_port, listens, running
from waiting import wait_until

LIMIT_S = 300.0
_BLOCK = 1 << 18
_LISTENING_ON = re.compile(r"listening on (\S+)")


def told_address(line: str) -> str | None:
    """Return where `oscope transfer receive` listens, if this line of it says so."""
    found = _LISTENING_ON.search(line)
    return None if found is None else found[1]


class Together:
    """Programs that run at the same time: none outlives the block, and none LIMIT_S."""

    def __init__(self) -> None:
        self._programs: list[subprocess.Popen[Any]] = []
        # Whoever waits for a program, or for its words, is woken by its end.
        self._alarm = threading.Timer(LIMIT_S, self._kill)

    def __enter__(self) -> Together:
        """Begin the time limit."""
        self._alarm.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what still runs, and wait for it."""
        self._alarm.cancel()
        self._kill()
        for program in self._programs:
            program.wait()
            for stream in (program.stdin, program.stdout):
                if stream is not None:
                    stream.close()

    def start(self, *words: object, **streams: Any) -> subprocess.Popen[Any]:
        """Start a program; `streams` as of subprocess.Popen."""
        program = subprocess.Popen([str(word) for word in words], **streams)
        self._programs.append(program)
        return program

    def wait(self) -> None:
        """Wait for the end of all; RuntimeError where one fails or took too long."""
        for program in self._programs:
            if program.wait() != 0:
                raise RuntimeError(f"{program.args!r} ended with {program.returncode}")

    def _kill(self) -> None:
        for program in self._programs:
            program.kill()


def wait_for_port(port: int, program: subprocess.Popen[Any]) -> None:
    """Wait until `program` listens; connecting would be the one connection that some of them serve."""
    # The time to look again is part of what is measured: 0.5 ms.
    wait_until(lambda: listens(port), f"{program.args!r}", program, limit_s=LIMIT_S, interval_s=0.0005)


def iperf3(size: int, *options: str) -> tuple[float, float]:
    """Return the seconds of both commands, and bytes a second as the receiver reports; it touches no file."""
    port = free_port()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    begin = time.monotonic()
    with Together() as programs:
        server = programs.start("iperf3", "-s", "-1", "-B", HOST, "-p", port, **quiet)
        wait_for_port(port, server)
        words = ("iperf3", "-c", HOST, "-p", port, "-n", size, "-J", *options)
        output, _ = programs.start(*words, stdout=subprocess.PIPE, text=True).communicate()
        programs.wait()
        took = time.monotonic() - begin
    end = json.loads(output)["end"]
    if end["sum_sent"]["bytes"] < size:
        raise RuntimeError(f"iperf3 sent {end['sum_sent']['bytes']} bytes")
    return took, end["sum_received"]["bits_per_second"] / 8


def socat(source: Path, into: Path) -> float:
    """Return the seconds of both commands, with socat's own block size."""
    port = free_port()
    begin = time.monotonic()
    with Together() as programs:
        listen = f"TCP-LISTEN:{port},bind={HOST},reuseaddr"
        receiver = programs.start("socat", "-u", listen, f"CREATE:{into / source.name}")
        wait_for_port(port, receiver)
        programs.start("socat", "-u", f"OPEN:{source},rdonly", f"TCP:{HOST}:{port}")
        programs.wait()
        return time.monotonic() - begin


def netcat(source: Path, into: Path) -> float:
    """Return the seconds of both commands: no names, no check and no key, as people use it for speed."""
    port = free_port()
    begin = time.monotonic()
    with Together() as programs, source.open("rb") as file, (into / source.name).open("wb") as written:
        words = ("nc.openbsd", "-l", HOST, port)
        receiver = programs.start(*words, stdin=subprocess.DEVNULL, stdout=written)
        wait_for_port(port, receiver)
        programs.start("nc.openbsd", "-N", HOST, port, stdin=file, stdout=subprocess.DEVNULL)
        programs.wait()
        return time.monotonic() - begin


def tar_and_netcat(source: Path, into: Path) -> float:
    """Return the seconds of `tar | nc` and `nc | tar`."""
    port = free_port()
    begin = time.monotonic()
    with Together() as programs:
        piped = {"stdout": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        heard = programs.start("nc.openbsd", "-l", HOST, port, **piped)
        programs.start("tar", "-xf", "-", "-C", into, stdin=heard.stdout)
        wait_for_port(port, heard)
        pack = programs.start("tar", "-cf", "-", "-C", source.parent, source.name, **piped)
        programs.start("nc.openbsd", "-N", HOST, port, stdin=pack.stdout)
        for program in (heard, pack):
            # The other end of the pipe has it now; it must be the last one to hold it.
            assert program.stdout is not None
            program.stdout.close()
        programs.wait()
        return time.monotonic() - begin


def write(size: int, into: Path) -> float:
    """Return the seconds of one process that writes `size` bytes to new pages, from a hot buffer."""
    block = os.urandom(_BLOCK)
    begin = time.monotonic()
    with (into / "written").open("wb", buffering=0) as file:
        left = size
        while left:
            left -= file.write(block[:left])
    return time.monotonic() - begin


@contextlib.contextmanager
def ssh_server(folder: Path) -> Iterator[Callable[[Path, Path], float]]:
    """Run an sshd of our own, its keys and settings in `folder`; give `scp -r`, which returns seconds."""
    with running(folder) as server:

        def copy(source: Path, into: Path) -> float:
            begin = time.monotonic()
            with Together() as programs:
                programs.start("scp", "-q", "-r", "-F", server.config, source, f"{ALIAS}:{into}")
                programs.wait()
                return time.monotonic() - begin

        yield copy


def pair(
    receive: Sequence[object], send: Sequence[object], hear: Callable[[str], str | None]
) -> tuple[float, str]:
    """Run `receive`, and `send` with the address that `hear` finds in a line of the first instead of `{}`.

    Return the seconds of both, and what the sender printed.
    """
    begin = time.monotonic()
    with Together() as programs:
        receiver = programs.start(*receive, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert receiver.stdout is not None
        address = None
        while address is None:
            line = receiver.stdout.readline()
            if not line:
                raise RuntimeError(f"{receiver.args!r} ended with {receiver.wait()} before it listened")
            address = hear(line)
        words = (str(word).replace("{}", address) for word in send)
        output, _ = programs.start(*words, stdout=subprocess.PIPE, text=True).communicate()
        receiver.communicate()
        programs.wait()
        return time.monotonic() - begin, output

"""A transfer beside iperf3 over a long line: 1 Gbit/s, a round trip of 100 ms, one packet of 1,000 lost.

Both have one connection and the system's own congestion control. The line is a program between two TUN
devices (`line.c`), since netem is a module that many kernels lack.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bars import Bar, Bench, Figure, NotMeasured, Part, faster, ratio
from measuring import BIN, compile_c, interleaved
from transfer_peers import pair, told_address

RTT_MS, MBIT, LOSS_PPM, QUEUE_MS = 100, 1000, 1000, 100
THERE = "10.99.0.2"
"""The receiver's address (line.c)."""
NEEDS = ("iperf3", "nsenter")
WHERE = "1 Gbit/s, 100 ms, 0.1 % lost"
REPORTED = Bar(f"{WHERE}: oscope transfer / iperf3, as both report", least=0.9, needs=NEEDS)
COMMANDS = Bar(f"{WHERE}: oscope transfer / iperf3, both commands", needs=NEEDS)
LIMIT_S = 30


@dataclass(frozen=True)
class Line:
    """Two namespaces, and what starts a program in either."""

    sender: tuple[str, ...]
    receiver: tuple[str, ...]


@contextlib.contextmanager
def line() -> Iterator[Line]:
    """Run a line; it is gone with the block, and with this process."""
    if not Path("/dev/net/tun").exists():
        raise NotMeasured("this kernel has no TUN devices: modprobe tun")
    words = [str(each) for each in (compile_c("line"), RTT_MS, MBIT, LOSS_PPM, QUEUE_MS)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as carrying:
        assert carrying.stdin is not None
        assert carrying.stdout is not None
        try:
            fields = carrying.stdout.readline().split()
            if len(fields) != 3:
                raise RuntimeError(f"the line ended with {carrying.wait(LIMIT_S)}")
            pid, *spaces = fields
            yield Line(*(("nsenter", f"--net=/proc/{pid}/fd/{each}") for each in spaces))
        finally:
            carrying.stdin.close()
            carrying.wait(LIMIT_S)


@dataclass
class Sides:
    """A file and where it goes; what both sides report of it, in bytes a second."""

    source: Path
    into: Path
    key: Path
    reported: dict[str, list[float]] = field(default_factory=lambda: {"oscope": [], "iperf3": []})

    def oscope(self) -> float:
        """Send the file; return the seconds of both commands."""
        arrived = self.into / self.source.name
        arrived.unlink(missing_ok=True)
        transfer, key = (BIN / "oscope", "transfer"), ("--key", self.key)
        listen = ("--once", "--listen", f"{THERE}:0", "--into", self.into)
        with line() as over:
            took, output = pair(
                (*over.receiver, *transfer, "receive", *key, *listen),
                (*over.sender, *transfer, "send", *key, "--json", "-", self.source, "{}"),
                told_address,
            )
        if arrived.read_bytes() != self.source.read_bytes():
            raise RuntimeError(f"{arrived} is not {self.source}")
        tally = json.loads(output)["receiver"]
        self.reported["oscope"].append(tally["bytes"] / (tally["time_ns"] / 1e9))
        return took

    def iperf3(self) -> float:
        """Send as many bytes; return the seconds of both commands."""
        size = self.source.stat().st_size
        with line() as over:
            took, output = pair(
                (*over.receiver, "iperf3", "-s", "-1", "--forceflush"),
                (*over.sender, "iperf3", "-c", "{}", "-n", size, "-J"),
                lambda output_line: THERE if "listening" in output_line else None,
            )
        self.reported["iperf3"].append(json.loads(output)["end"]["sum_received"]["bits_per_second"] / 8)
        return took


def race(bench: Bench) -> Iterator[Figure]:
    """Send interleaved."""
    size = bench.pick(1 << 20, 64 << 20, 256 << 20)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        source, into, key = (folder / each for each in ("file", "into", "key"))
        source.write_bytes(os.urandom(size))
        into.mkdir()
        key.touch(mode=0o600)
        key.write_text(os.urandom(32).hex())
        sides = Sides(source, into, key)
        took = interleaved({"oscope": sides.oscope, "iperf3": sides.iperf3}, bench.pick(1, 3, 7))
    ours, peer = sides.reported["oscope"], sides.reported["iperf3"]
    yield ratio(REPORTED, ours, peer, f"of {sum(peer) / len(peer) / 2**20:.1f} MiB/s")
    yield faster(COMMANDS, took["iperf3"], took["oscope"])


PARTS = (
    Part(
        "A file of 256 MiB from memory to memory over the line, authenticated, encrypted and verified, and "
        "as many bytes by iperf3, which does none of these; interleaved, each over a line of its own.",
        (REPORTED, COMMANDS),
        race,
        short_s=None,
        full_s=300,
        needs=NEEDS,
        root=True,
    ),
)

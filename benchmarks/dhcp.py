"""`oscope dhcp` over a large capture, of which one packet in a thousand is DHCP, beside tcpdump."""

from __future__ import annotations

import random
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from bars import Bar, Bench, Figure, Part, ratio
from measuring import BIN, interleaved, peak_memory

SIZES = {"large": 1300, "small": 120}
"""Most bytes of the packets that are no DHCP; of small ones there are ten times as many."""
SHARE = 1000
"""One packet in so many is DHCP."""
TIMES = {
    size: Bar(f"dhcp: time over tcpdump's, {size} packets", most=2, needs=("tcpdump",)) for size in SIZES
}
MEMORY = {size: Bar(f"dhcp: memory, {size} packets", "MiB", most=200) for size in SIZES}
_MAGIC = b"\x63\x82\x53\x63"


def frame(protocol: int, ports: tuple[int, int], payload: bytes) -> bytes:
    """Return a packet on Ethernet; a TCP header is as long as it is read here."""
    inside = struct.pack(">HHHH", *ports, 8 + len(payload), 0) + payload
    head = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, 20 + len(inside), 1, 0, 64, protocol, 0, b"\n\0\0\1", b"\n\0\0\2"
    )
    return bytes.fromhex("020000000002020000000001") + b"\x08\x00" + head + inside


def discover(client: int) -> bytes:
    """Return a DISCOVER of one of many clients."""
    address = struct.pack(">HI", 0x0200, client)
    fixed = struct.pack(">BBBBIHH16x", 1, 1, 6, 0, client, 0, 0) + address + bytes(202)
    return frame(17, (68, 67), fixed + _MAGIC + bytes([53, 1, 1, 255]) + bytes(60))


def make(path: Path, size: int, largest: int) -> int:
    """Write a capture of `size` bytes, its other packets of up to `largest` bytes; return how many DHCP."""
    numbers = random.Random(1)
    others = [frame(6, (443, 50000), numbers.randbytes(numbers.randint(20, largest))) for _ in range(500)]
    written = count = found = 0
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
        while written < size:
            is_one = count % SHARE == SHARE // 2
            packet = discover(count) if is_one else numbers.choice(others)
            record = struct.pack("<IIII", count // 1000, count % 1000 * 1000, len(packet), len(packet))
            written += file.write(record + packet)
            count += 1
            found += is_one
    return found


def tcpdump(path: Path) -> float:
    """Return the seconds that tcpdump takes to find the same packets."""
    started = time.perf_counter()
    words: list[str | Path] = ["tcpdump", "-nn", "-r", path, "port 67 or port 68"]
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=600)
    return time.perf_counter() - started


def ours(path: Path) -> float:
    """Return the seconds that `oscope dhcp` takes, from its start to its end."""
    started = time.perf_counter()
    subprocess.run([BIN / "oscope", "dhcp", path], stdout=subprocess.DEVNULL, check=True, timeout=600)
    return time.perf_counter() - started


def memory(path: Path, found: int) -> int:
    """Return the most memory of the command and its child, added up, in bytes, and check what it found."""
    words = [str(BIN / "oscope"), "dhcp", str(path)]
    with tempfile.TemporaryFile() as out, subprocess.Popen(words, stdout=out) as process:
        peak = peak_memory(process)
        out.seek(0)
        headline = out.readline().decode().split(" DHCP ")[0]
    if process.returncode != 0 or int("".join(filter(str.isdigit, headline))) != found:
        raise RuntimeError(f"oscope dhcp found {headline} messages, not {found}")
    return peak


def captures(bench: Bench) -> Iterator[Figure]:
    """Measure with large packets and with small ones, of which there are ten times as many."""
    path = bench.folder / "capture"
    for size, largest in SIZES.items():
        found = make(path, bench.pick(1 << 20, 1 << 30, 1 << 30), largest)
        peak = memory(path, found)
        if not TIMES[size].lacks:
            sides = {"ours": partial(ours, path), "tcpdump": partial(tcpdump, path)}
            took = interleaved(sides, bench.pick(1, 7, 11))
            yield ratio(TIMES[size], took["ours"], took["tcpdump"], f"{np.median(took['ours']):.2f} s")
        yield Figure(MEMORY[size], peak / 2**20)


PARTS = (
    Part(
        "`oscope dhcp` over a capture of 1 GiB, of which one packet in a thousand "
        "is DHCP, beside `tcpdump 'port 67 or port 68'`; interleaved rounds. Memory is of the command and "
        "its child.",
        (*TIMES.values(), *MEMORY.values()),
        captures,
        short_s=70,
        full_s=200,
    ),
)

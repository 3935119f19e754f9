"""`oscope dhcp` over a capture of 1 GiB, of which one packet in a thousand is DHCP, beside tcpdump."""

from __future__ import annotations

import random
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bars import BIN, Bar, interleaved, peak_memory, ratio

SIZE = 1 << 30
SHARE = 1000
"""One packet in so many is DHCP."""
ROUNDS = 7
MOST_TIMES = 2.0
MOST_MEMORY = 200 << 20
PLACE = Path("/var/tmp")  # noqa: S108 - it does not fit into memory file systems everywhere.
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


def make(path: Path, largest: int) -> int:
    """Write a capture of `SIZE` bytes, its other packets of up to `largest` bytes; return how many DHCP."""
    numbers = random.Random(1)
    others = [frame(6, (443, 50000), numbers.randbytes(numbers.randint(20, largest))) for _ in range(500)]
    written = count = found = 0
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
        while written < SIZE:
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
    words = ["tcpdump", "-nn", "-r", path, "port 67 or port 68"]
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
        told = out.readline().decode().split(" DHCP ")[0]
    if process.returncode != 0 or int("".join(filter(str.isdigit, told))) != found:
        raise RuntimeError(f"oscope dhcp found {told} messages, not {found}")
    return peak


def bars() -> Iterator[Bar]:
    """Measure with large packets and with small ones, of which there are ten times as many."""
    for name, largest in (("large", 1300), ("small", 120)):
        with tempfile.TemporaryDirectory(dir=PLACE, prefix="oscope-dhcp-") as folder:
            path = Path(folder) / "capture"
            found = make(path, largest)
            peak = memory(path, found)
            took = interleaved({"ours": lambda p=path: ours(p), "tcpdump": lambda p=path: tcpdump(p)}, ROUNDS)
        middle, low, high = ratio(took["ours"], took["tcpdump"])
        text = f"{middle:.2f} [{low:.2f}, {high:.2f}], {np.median(took['ours']):.2f} s"
        yield Bar(
            f"dhcp: 1 GiB of {name} packets, times tcpdump's time",
            text,
            f"at most {MOST_TIMES}",
            met=middle <= MOST_TIMES,
        )
        yield Bar(
            f"dhcp: memory for 1 GiB of {name} packets",
            f"{peak / 2**20:.0f} MiB",
            f"at most {MOST_MEMORY >> 20} MiB",
            met=peak <= MOST_MEMORY,
        )

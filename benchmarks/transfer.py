"""Transfers beside iperf3, socat, nc, scp and tar, the cost of verification, and what is left after faults.

The bars are for `oscope transfer` as people run it, into an ordinary memory file system with pages of 4 KiB.
Every command is timed from its start until both its sides have ended. Also reported: when a sender's first
byte arrives; the engine alone (oscope-probe); the times that both sides report, without the start of
programs; a memory file system of huge pages; and how fast one process writes new pages there, which no
receiver exceeds.
The last figure is the least time of any transfer on this machine: the CPU time that the network (iperf3
without a copy at the sender), new pages and the hashes of both sides need, with all CPUs busy throughout. A
bar beyond that cannot be met here.
"""

from __future__ import annotations

import contextlib
import filecmp
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from bars import Bar, Bench, Figure, Part, faster, lacking, median, ratio
from measuring import BIN, interleaved
from module_run import cpu_seconds
from oscope.probe.locate import find_probe
from transfer_course import Course
from transfer_ours import Ours
from transfer_peers import iperf3, netcat, socat, ssh_server, tar_and_netcat, write
from wire_faults import KINDS, plan

SIZE = 1 << 30
FILES = 10_000
SMALL = 1 << 10
FAULTS = 200
Kind = Literal["4K", "huge"]
PEERS = {"iperf3": 1.0, "socat": 5.0, "nc": 1.0, "scp": 5.0}
"""How many times as fast as each `oscope transfer --trusted-network` is to be."""
ENCRYPTED = {"nc": 1.0, "scp": 3.0}
"""The same of `oscope transfer` with a key: authenticated, encrypted and verified, by its default (XXH3)."""
PEER_PROGRAMS = {
    "iperf3": ("iperf3",),
    "iperf3 -Z": ("iperf3",),
    "socat": ("socat",),
    "nc": ("nc.openbsd",),
    "scp": ("scp",),
    "scp -r": ("scp",),
    "tar | nc | tar": ("tar", "nc.openbsd"),
}


def bars_of(kind: Kind) -> dict[tuple[str, str], Bar]:
    """Return the bars of a large file; nothing is wanted with huge pages."""
    judged, where = kind == "4K", "1 GiB" if kind == "4K" else "1 GiB to huge pages"
    found = {}
    for peer, least in PEERS.items():
        needs = PEER_PROGRAMS[peer]
        for side, what, least_ratio in (
            ("command", "oscope transfer", least if judged else None),
            ("encrypted", "oscope transfer, encrypted", ENCRYPTED.get(peer) if judged else None),
            ("encrypted, BLAKE3", "oscope transfer, encrypted, with BLAKE3", None),
            ("command, XXH3", "oscope transfer with XXH3", None),
            ("engine", "engine alone", None),
        ):
            found[side, peer] = Bar(f"{where}, {what} / {peer}", least=least_ratio, needs=needs)
        needs = (*needs, "iperf3")
        found["least", peer] = Bar(f"{where}, the least that it takes here / {peer}", needs=needs)
    for digest, name in (("blake3", "BLAKE3"), ("xxh3", "XXH3")):
        most = 15 if judged and digest == "blake3" else None
        found["cost", digest] = Bar(f"{where}: what {name} costs", "%", most=most)
    written = "one process that only writes"
    found["reported", "written"] = Bar(f"{where}, oscope transfer, as reported / {written}")
    needs = ("iperf3",)
    found["reported", "iperf3"] = Bar(f"{where}, oscope transfer / iperf3, as both report", needs=needs)
    found["reported engine", "iperf3"] = Bar(f"{where}, engine alone / iperf3, as both report", needs=needs)
    found["iperf3", "written"] = Bar(f"{where}, iperf3, as reported / {written}", needs=needs)
    return found


LARGE = {kind: bars_of(kind) for kind in ("4K", "huge")}
SMALL_FILES = {
    (side, peer): Bar(f"{FILES:,} files of 1 KiB, {what} / {peer}", least=least, needs=PEER_PROGRAMS[peer])
    for side, what, least_ratio in (
        ("command", "oscope transfer", (10, 1)),
        ("engine", "engine alone", (None, None)),
    )
    for peer, least in zip(("scp -r", "tar | nc | tar"), least_ratio, strict=True)
}
START = Bar("oscope transfer send: from the command to its first byte", "ms", most=30)
WRONG = Bar("transfers with a fault: wrong, hung or not completed", least=0, most=0)
AGAIN = Bar("transfers with a fault: what was right is moved again", least=0, most=0)


class Places:
    """Sources in the page cache, and memory file systems for what arrives."""

    def __init__(self, folder: Path, size: int, files: int) -> None:
        self.size = size
        self.large = folder / "large"
        with self.large.open("wb") as file:
            for block in range(size >> 20):
                file.write(random.Random(block).randbytes(1 << 20))
        self.small = folder / "small"
        self.small.mkdir()
        for number in range(files):
            (self.small / f"{number:05}").write_bytes(random.Random(number).randbytes(SMALL))
        # What is written back meanwhile would take time from whatever is measured then.
        os.sync()
        self._folder = folder

    @contextlib.contextmanager
    def destination(self, *, huge: bool = False) -> Iterator[Path]:
        """Give an empty folder in memory: in /dev/shm, or as root on a mount of its own of huge pages."""
        if not huge:
            with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
                yield Path(name)
            return
        into = self._folder / "into"
        into.mkdir()
        options = f"size={2 * self.size},huge=always"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", into], check=True, timeout=30)
        try:
            yield into
        finally:
            # What somebody still has open is not to stay mounted where the folder above is removed.
            if subprocess.run(["umount", into], check=False, timeout=30).returncode != 0:
                subprocess.run(["umount", "-l", into], check=True, timeout=30)
            into.rmdir()


def cleared(into: Path, move: Callable[[], float], spent: list[float]) -> Callable[[], float]:
    """Return `move` such that it finds the folder empty; its CPU seconds are added to `spent`."""

    def once() -> float:
        for each in into.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        before = cpu_seconds()
        took = move()
        spent.append(cpu_seconds() - before)
        return took

    return once


def compare_moved(source: Path, into: Path) -> None:
    """Raise RuntimeError where what arrived is not what was sent."""
    arrived = into / source.name
    if source.is_dir():
        names = sorted(path.name for path in source.iterdir())
        matches, wrong, failed = filecmp.cmpfiles(source, arrived, names, shallow=False)
        if wrong or failed or len(matches) != len(names):
            raise RuntimeError(f"{len(wrong) + len(failed)} files are wrong")
    elif not filecmp.cmp(source, arrived, shallow=False):
        raise RuntimeError(f"{arrived} is not {source}")


def race(
    source: Path, into: Path, sides: dict[str, Callable[[], float]], files: Sequence[str], rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the interleaved seconds of all sides, and their CPU seconds; `files`: those that move files.

    Each is tried once before.
    """
    spent: dict[str, list[float]] = {name: [] for name in sides}
    sides = {name: cleared(into, side, spent[name]) for name, side in sides.items()}
    for name, side in sides.items():
        side()
        if name in files:
            compare_moved(source, into)
    took = interleaved(sides, rounds)
    return took, {name: values[1:] for name, values in spent.items()}


@contextlib.contextmanager
def made(bench: Bench) -> Iterator[Places]:
    """Make the sources."""
    with tempfile.TemporaryDirectory() as folder:
        yield Places(Path(folder), bench.pick(16 << 20, SIZE, SIZE), bench.pick(20, FILES, FILES))


def large(kind: Kind, bench: Bench) -> Iterator[Figure]:
    """Move one large file; `huge`: to a memory file system of huge pages."""
    places = bench.shared(made)
    source, bars = places.large, LARGE[kind]
    network: list[float] = []

    def without_files() -> float:
        took, reported = iperf3(places.size)
        network.append(reported)
        return took

    with (
        places.destination(huge=kind == "huge") as into,
        tempfile.TemporaryDirectory() as keys,
        ssh_server(Path(keys)) as scp,
    ):
        ours = Ours(source, into)
        sides: dict[str, Callable[[], float]] = {
            "command": ours.command,
            "encrypted": lambda: ours.command(key=Path(keys) / "transfer.key"),
            "encrypted, BLAKE3": lambda: ours.command("blake3", Path(keys) / "transfer.key"),
            "command, XXH3": lambda: ours.command("xxh3"),
            "command, unverified": lambda: ours.command("none"),
            "engine": ours.engine,
            "iperf3": without_files,
            "iperf3 -Z": lambda: iperf3(places.size, "-Z")[0],
            "socat": lambda: socat(source, into),
            "nc": lambda: netcat(source, into),
            "scp": lambda: scp(source, into),
            "written": lambda: write(places.size, into),
        }
        sides = {name: side for name, side in sides.items() if not lacking(PEER_PROGRAMS.get(name, ()))}
        files = [name for name in sides if name not in ("iperf3", "iperf3 -Z", "written")]
        took, spent = race(source, into, sides, files, bench.pick(1, 5, 9))
    # The first of each was the trial.
    reported = {name: values[1:] for name, values in ours.reported.items()}
    for peer in (peer for peer in PEERS if peer in took):
        yield faster(bars["command", peer], took[peer], took["command"])
        yield faster(bars["encrypted", peer], took[peer], took["encrypted"])
        yield faster(bars["encrypted, BLAKE3", peer], took[peer], took["encrypted, BLAKE3"])
        yield faster(bars["command, XXH3", peer], took[peer], took["command, XXH3"])
        yield faster(bars["engine", peer], took[peer], took["engine"])
        if "iperf3 -Z" in took:
            yield faster(bars["least", peer], took[peer], least_time(spent))
    for digest in ("blake3", "xxh3"):
        yield _cost(bars["cost", digest], reported["none"], reported[digest])
    written = [places.size / seconds for seconds in took["written"]]
    yield _throughput(bars["reported", "written"], reported["blake3"], written)
    if network:
        yield _throughput(bars["reported", "iperf3"], reported["blake3"], network[1:])
        yield _throughput(bars["reported engine", "iperf3"], reported["engine"], network[1:])
        yield _throughput(bars["iperf3", "written"], network[1:], written)


def least_time(spent: dict[str, list[float]]) -> list[float]:
    """Return the seconds, of each round, that a verified transfer takes with all CPUs busy throughout."""
    cpus = len(os.sched_getaffinity(0))
    needs = zip(
        spent["iperf3 -Z"],
        spent["written"],
        spent["command"],
        spent["command, unverified"],
        strict=True,
    )
    return [
        (network + pages + max(verified - unverified, 0.0)) / cpus
        for network, pages, verified, unverified in needs
    ]


def _cost(bar: Bar, without: list[float], verified: list[float]) -> Figure:
    """Give which share of the throughput, as the commands report it, verification takes."""
    return median(bar, [100 * (1 - one / other) for one, other in zip(verified, without, strict=True)])


def _throughput(bar: Bar, ours: list[float], peer: list[float]) -> Figure:
    """Compare bytes a second."""
    return ratio(bar, ours, peer, f"of {np.median(peer) / 2**30:.2f} GiB/s")


def start(bench: Bench) -> Iterator[Figure]:
    """Time a sender from its start until its first byte is there."""
    took = []
    with tempfile.NamedTemporaryFile() as file, socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        command = [str(BIN / "oscope"), "transfer", "send", "--trusted-network", str(file.name), address]
        for _ in range(bench.pick(2, 20, 50)):
            begin = time.monotonic()
            with subprocess.Popen(command, stderr=subprocess.DEVNULL) as sender:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1)
                    took.append((time.monotonic() - begin) * 1e3)
                sender.wait()
    yield median(START, took)


def small(bench: Bench) -> Iterator[Figure]:
    """Move many small files; not to huge pages, of which each file would take a whole one."""
    places = bench.shared(made)
    source = places.small
    with (
        places.destination() as into,
        tempfile.TemporaryDirectory() as keys,
        ssh_server(Path(keys)) as scp,
    ):
        ours = Ours(source, into)
        sides: dict[str, Callable[[], float]] = {
            "command": ours.command,
            "engine": ours.engine,
            "scp -r": lambda: scp(source, into),
            "tar | nc | tar": lambda: tar_and_netcat(source, into),
        }
        sides = {name: side for name, side in sides.items() if not lacking(PEER_PROGRAMS.get(name, ()))}
        took, _ = race(source, into, sides, list(sides), bench.pick(1, 5, 9))
    for (side, peer), bar in SMALL_FILES.items():
        if peer in took:
            yield faster(bar, took[peer], took[side])


def faults(bench: Bench) -> Iterator[Figure]:
    """Transfers that are cut, falsified, stalled, killed or out of room, and resumed."""
    kinds = KINDS if os.geteuid() == 0 else tuple(kind for kind in KINDS if kind != "fill")
    count = bench.pick(2, 40, FAULTS)
    bad: Counter[str] = Counter()
    prefixes = resumed = 0
    with tempfile.TemporaryDirectory() as folder:
        course = Course(find_probe(), Path(folder))
        for seed, kind in plan(count, kinds):
            outcome = course.run(seed, kind)
            prefixes += outcome.left > 0
            resumed += outcome.left > 0 and outcome.resumed(course.total)
            if outcome.problems:
                bad[kind] += 1
                print(f"  {outcome}", file=sys.stderr)
    counts = ", ".join(f"{number} {kind}" for kind, number in bad.items())
    yield Figure(WRONG, bad.total(), detail=f"of {count} ({', '.join(kinds)}){': ' if bad else ''}{counts}")
    yield Figure(AGAIN, prefixes - resumed, detail=f"of {prefixes} that had left something right")


PARTS = (
    Part(
        "A file of 1 GiB: every command is timed from its start until both its sides have ended, into a "
        "memory file system of pages of 4 KiB; interleaved rounds. *As reported* leaves out how long "
        "programs take to start. *The least* is what the network, new pages and the hashes need of the CPUs.",
        tuple(LARGE["4K"].values()),
        partial(large, "4K"),
        short_s=80,
        full_s=180,
        needs=("sshd", "scp"),
    ),
    Part(
        "10,000 files of 1 KiB, in the same way.",
        tuple(SMALL_FILES.values()),
        small,
        short_s=60,
        full_s=100,
        needs=("sshd", "scp"),
    ),
    Part(
        "One start of the command after the other, to a receiver that only listens.",
        (START,),
        start,
        short_s=2,
        full_s=5,
    ),
    Part(
        "Transfers of which a side is killed, the wire fails or the destination is full, then run again "
        "without a fault.",
        (WRONG, AGAIN),
        faults,
        short_s=40,
        full_s=250,
    ),
    Part(
        "The file of 1 GiB to a memory file system of huge pages.",
        tuple(LARGE["huge"].values()),
        partial(large, "huge"),
        short_s=None,
        full_s=180,
        needs=("sshd", "scp"),
        root=True,
        smoke=False,
    ),
)

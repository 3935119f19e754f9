"""Transfers beside iperf3, socat, scp and tar, the cost of verification, and what is left after faults.

Judged is `oscope transfer` as people run it, into an ordinary memory file system, whose pages are of 4 KiB:
every command is timed from its start until both its sides have ended, two starts of Python among them. Told
beside that: the engine alone (oscope-probe), what both sides report themselves, which leaves out how long
programs take to start, a memory file system of huge pages, and how fast one process writes new pages there,
which no receiver is faster than. And the least time that any transfer takes on this machine: what the network
(iperf3 without a copy at the sender), new pages and the hashes of both sides need of its CPUs, all of
which are busy throughout. A bar beyond that cannot be met here.
"""

from __future__ import annotations

import contextlib
import filecmp
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bars import BIN, ROOT, Bar, at_least, faster, interleaved, ratio
from oscope.locate import find_probe
from transfer_peers import iperf3, pair, socat, ssh_server, tar_and_netcat, write

sys.path.insert(0, str(ROOT / "tests"))

from transfer_course import Course
from wire_faults import KINDS, plan

SIZE = 1 << 30
FILES = 10_000
SMALL = 1 << 10
ROUNDS = 9
FAULTS = 200
MOST_COST = 0.15
_LISTENING = re.compile(r"listening on (\S+)")


class Places:
    """Sources in the page cache, and memory file systems for what arrives."""

    def __init__(self, folder: Path) -> None:
        self.large = folder / "large"
        with self.large.open("wb") as file:
            for block in range(SIZE >> 20):
                file.write(random.Random(block).randbytes(1 << 20))
        self.small = folder / "small"
        self.small.mkdir()
        for number in range(FILES):
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
        options = f"size={2 * SIZE},huge=always"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", into], check=True, timeout=30)
        try:
            yield into
        finally:
            # What somebody still has open is not to stay mounted where the folder above is removed.
            if subprocess.run(["umount", into], check=False, timeout=30).returncode != 0:
                subprocess.run(["umount", "-l", into], check=True, timeout=30)
            into.rmdir()


class Ours:
    """Our transfers into one folder; keeps what each reported itself, bytes a second."""

    def __init__(self, source: Path, into: Path) -> None:
        self._source = source
        self._into = into
        self.reported: dict[str, list[float]] = {}

    def engine(self) -> float:
        """Return the seconds of the probe's two verbs."""
        took, told = pair(
            [find_probe(), "receive", "--once", "--listen", "127.0.0.1:0", "--into", self._into],
            [find_probe(), "send", "{}", self._source],
            _address,
        )
        events = [json.loads(line) for line in told.splitlines()]
        (done,) = (event for event in events if event["event"] == "done")
        self._keep("engine", done["here"])
        return took

    def command(self, digest: str = "blake3") -> float:
        """Return the seconds of the two commands, two starts of Python among them."""
        oscope = (BIN / "oscope", "transfer")
        less = ["--no-verify"] if digest == "none" else []
        verify = less or ["--digest", digest]
        took, told = pair(
            [*oscope, "receive", "--once", *less, "--listen", "127.0.0.1:0", "--into", self._into],
            [*oscope, "send", "--json", "-", *verify, self._source, "{}"],
            _told_address,
        )
        self._keep(digest, json.loads(told)["sender"])
        return took

    def _keep(self, name: str, tally: dict[str, Any]) -> None:
        self.reported.setdefault(name, []).append(tally["bytes"] / (tally["time_ns"] / 1e9))


def _address(line: str) -> str | None:
    event = json.loads(line)
    address: str | None = event["address"] if event["event"] == "listening" else None
    return address


def _told_address(line: str) -> str | None:
    found = _LISTENING.search(line)
    return None if found is None else found[1]


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


def cpu_seconds() -> float:
    """Return what this process and its children that have ended used of the CPUs."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


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
    source: Path, into: Path, sides: dict[str, Callable[[], float]], files: Sequence[str]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the seconds of all sides in turns, and those of the CPUs; `files`: those that move files.

    Each is tried once before.
    """
    spent: dict[str, list[float]] = {name: [] for name in sides}
    sides = {name: cleared(into, side, spent[name]) for name, side in sides.items()}
    for name, side in sides.items():
        side()
        if name in files:
            compare_moved(source, into)
    took = interleaved(sides, ROUNDS)
    return took, {name: values[1:] for name, values in spent.items()}


def large(places: Places, *, huge: bool) -> Iterator[Bar]:
    """One file of 1 GiB; nothing is judged with huge pages."""
    network: list[float] = []

    def without_files() -> float:
        took, reported = iperf3(SIZE)
        network.append(reported)
        return took

    source = places.large
    with (
        places.destination(huge=huge) as into,
        tempfile.TemporaryDirectory() as keys,
        ssh_server(Path(keys)) as scp,
    ):
        ours = Ours(source, into)
        sides: dict[str, Callable[[], float]] = {
            "command": ours.command,
            "command, XXH3": lambda: ours.command("xxh3"),
            "command, unverified": lambda: ours.command("none"),
            "engine": ours.engine,
            "iperf3": without_files,
            "iperf3 -Z": lambda: iperf3(SIZE, "-Z")[0],
            "socat": lambda: socat(source, into),
            "scp": lambda: scp(source, into),
            "written": lambda: write(SIZE, into),
        }
        files = [name for name in sides if name not in ("iperf3", "iperf3 -Z", "written")]
        took, spent = race(source, into, sides, files)
    # The first of each was the trial.
    reported = {name: values[1:] for name, values in ours.reported.items()}
    where = "1 GiB to huge pages" if huge else "1 GiB"
    least_s = least_time(spent)
    for peer, least in (("iperf3", 1.0), ("socat", 5.0), ("scp", 5.0)):
        wanted = None if huge else least
        yield faster(f"{where}, oscope transfer / {peer}", took[peer], took["command"], wanted)
        yield faster(f"{where}, the least that it takes here / {peer}", took[peer], least_s, None)
    yield _cost(f"{where}: what BLAKE3 costs", reported["none"], reported["blake3"], judged=not huge)
    yield _cost(f"{where}: what XXH3 costs", reported["none"], reported["xxh3"], judged=False)
    for peer in ("iperf3", "socat", "scp"):
        yield faster(f"{where}, oscope transfer with XXH3 / {peer}", took[peer], took["command, XXH3"], None)
        yield faster(f"{where}, engine alone / {peer}", took[peer], took["engine"], None)
    for name, values in (("oscope transfer", reported["blake3"]), ("engine alone", reported["engine"])):
        yield throughput(f"{where}, {name} / iperf3, as both report", values, network[1:], None)
    written = [SIZE / seconds for seconds in took["written"]]
    for name, values in (("oscope transfer", reported["blake3"]), ("iperf3", network[1:])):
        yield throughput(
            f"{where}, {name}, as it reports / one process that only writes", values, written, None
        )


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


def _cost(name: str, without: list[float], verified: list[float], *, judged: bool) -> Bar:
    """Tell which share of the throughput, as the commands report it, verification takes."""
    middle, low, high = ratio(verified, without)
    text = f"{1 - middle:.1%} [{1 - high:.1%}, {1 - low:.1%}]"
    wanted = f"at most {MOST_COST:.0%}" if judged else "told only"
    return Bar(name, text, wanted, met=not judged or 1 - middle <= MOST_COST)


def small(places: Places) -> Iterator[Bar]:
    """10,000 files of 1 KiB; not to huge pages, of which each file would take a whole one."""
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
        took, _ = race(source, into, sides, list(sides))
    where = f"{FILES:,} files of 1 KiB"
    for peer, least in (("scp -r", 10.0), ("tar | nc | tar", 1.0)):
        yield faster(f"{where}, oscope transfer / {peer}", took[peer], took["command"], least)
    for peer in ("scp -r", "tar | nc | tar"):
        yield faster(f"{where}, engine alone / {peer}", took[peer], took["engine"], None)


def throughput(name: str, ours: list[float], peer: list[float], least: float | None) -> Bar:
    """Compare bytes a second."""
    middle, low, high = ratio(ours, peer)
    text = f"{middle:.2f} [{low:.2f}, {high:.2f}] of {np.median(peer) / 2**30:.2f} GiB/s"
    return at_least(name, text, middle, least)


def faults() -> Iterator[Bar]:
    """Transfers that are cut, falsified, stalled, killed or out of room, and gone on with."""
    kinds = KINDS if os.geteuid() == 0 else tuple(kind for kind in KINDS if kind != "fill")
    bad: Counter[str] = Counter()
    prefixes = resumed = 0
    with tempfile.TemporaryDirectory() as folder:
        course = Course(find_probe(), Path(folder))
        for seed, kind in plan(FAULTS, kinds):
            outcome = course.run(seed, kind)
            prefixes += outcome.left > 0
            resumed += outcome.left > 0 and outcome.resumed(course.total)
            if outcome.problems:
                bad[kind] += 1
                print(f"  {outcome}", file=sys.stderr)
    told = ", ".join(f"{count} {kind}" for kind, count in bad.items())
    name = f"{FAULTS} faults ({', '.join(kinds)}): wrong, hung or not completed"
    yield Bar(name, f"{bad.total()} {told}".strip(), "0", met=not bad)
    yield Bar(
        "of those that had left something right: none of it moved again",
        f"{resumed} of {prefixes}",
        "all",
        met=resumed == prefixes > 0,
    )


def bars() -> Iterator[Bar]:
    """Everything of this module."""
    with tempfile.TemporaryDirectory() as folder:
        places = Places(Path(folder))
        yield from large(places, huge=False)
        yield from small(places)
        if os.geteuid() == 0:
            yield from large(places, huge=True)
        else:
            print("  a memory file system of huge pages needs root: nothing is told of it", file=sys.stderr)
    yield from faults()

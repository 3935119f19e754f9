"""Transfers beside iperf3, socat, scp and tar, the cost of verification, and what is left after faults.

Every program is timed from its start until both its sides have ended. Where it reports a throughput itself,
that is compared too: it leaves out how long the programs take to start.
"""

from __future__ import annotations

import contextlib
import filecmp
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bars import BIN, ROOT, Bar, interleaved, ratio
from oscope.locate import find_probe
from transfer_peers import iperf3, pair, socat, ssh_server, tar_and_netcat

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
    def destination(self, *, huge: bool) -> Iterator[Path]:
        """Give an empty folder in memory; with huge pages only as root, else what /dev/shm has."""
        if not huge or os.geteuid() != 0:
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
            subprocess.run(["umount", into], check=True, timeout=30)
            into.rmdir()


class Ours:
    """Our transfers into one folder; keeps what each reported itself, bytes a second."""

    def __init__(self, source: Path, into: Path) -> None:
        self._source = source
        self._into = into
        self.reported: dict[str, list[float]] = {}

    def probe(self, digest: str = "blake3") -> float:
        """Return the seconds of the two verbs."""
        less = ("--no-verify",) if digest == "none" else ()
        took, told, _ = pair(
            [find_probe(), "receive", "--once", *less, "--listen", "127.0.0.1:0", "--into", self._into],
            [find_probe(), "send", "--digest", digest, "{}", self._source],
            _address,
        )
        events = [json.loads(line) for line in told.splitlines()]
        (done,) = (event for event in events if event["event"] == "done")
        self._keep(f"probe {digest}", done["here"])
        return took

    def command(self) -> float:
        """Return the seconds of the two commands, two starts of Python among them."""
        oscope = (BIN / "oscope", "transfer")
        took, told, _ = pair(
            [*oscope, "receive", "--once", "--listen", "127.0.0.1:0", "--into", self._into],
            [*oscope, "send", "--json", "-", self._source, "{}"],
            _told_address,
        )
        self._keep("command", json.loads(told)["sender"])
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


def cleared(into: Path, move: Callable[[], float]) -> Callable[[], float]:
    """Return `move` such that it finds the folder empty, outside what is timed."""

    def once() -> float:
        for each in into.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        return move()

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
    source: Path, into: Path, sides: dict[str, Callable[[], float]], files: Sequence[str]
) -> dict[str, list[float]]:
    """Return the seconds of all sides in turns, each once tried before; `files`: those that move files."""
    sides = {name: cleared(into, side) for name, side in sides.items()}
    for name, side in sides.items():
        side()
        if name in files:
            compare_moved(source, into)
    return interleaved(sides, ROUNDS)


def large(places: Places, *, huge: bool) -> Iterator[Bar]:
    """One file of 1 GiB."""
    network: list[float] = []

    def without_files() -> float:
        took, reported = iperf3(SIZE)
        network.append(reported)
        return took

    source = places.large
    where = "1 GiB" if huge else "1 GiB, pages of 4 KiB"
    with (
        places.destination(huge=huge) as into,
        tempfile.TemporaryDirectory() as keys,
        ssh_server(Path(keys)) as scp,
    ):
        ours = Ours(source, into)
        sides: dict[str, Callable[[], float]] = {
            "probe": ours.probe,
            "unverified": lambda: ours.probe("none"),
            "command": ours.command,
            "iperf3": without_files,
        }
        if huge:
            sides |= {"socat": lambda: socat(source, into), "scp": lambda: scp(source, into)}
        files = [name for name in sides if name != "iperf3"]
        took = race(source, into, sides, files)
    # The first of each was the trial.
    reported = {name: values[1:] for name, values in ours.reported.items()}
    yield throughput(
        f"{where} verified / iperf3, as both report",
        reported["probe blake3"],
        network[1:],
        1.0 if huge else None,
    )
    yield faster(
        f"{where} verified / iperf3, whole commands", took["iperf3"], took["probe"], 1.0 if huge else None
    )
    if not huge:
        return
    for peer in ("socat", "scp"):
        yield faster(f"{where} verified / {peer}, whole commands", took[peer], took["probe"], 5.0)
    for peer in ("iperf3", "socat", "scp"):
        yield faster(
            f"{where} verified by oscope transfer / {peer}, whole commands", took[peer], took["command"], None
        )
    middle, low, high = ratio(reported["probe blake3"], reported["probe none"])
    text = f"{1 - middle:.1%} [{1 - high:.1%}, {1 - low:.1%}]"
    yield Bar(f"{where}: what verification costs", text, "at most 15 %", met=1 - middle <= MOST_COST)


def small(places: Places) -> Iterator[Bar]:
    """10,000 files of 1 KiB."""
    source = places.small
    with (
        places.destination(huge=False) as into,
        tempfile.TemporaryDirectory() as keys,
        ssh_server(Path(keys)) as scp,
    ):
        ours = Ours(source, into)
        sides: dict[str, Callable[[], float]] = {
            "probe": ours.probe,
            "command": ours.command,
            "scp -r": lambda: scp(source, into),
            "tar | nc | tar": lambda: tar_and_netcat(source, into),
        }
        took = race(source, into, sides, list(sides))
    for peer, least in (("scp -r", 10.0), ("tar | nc | tar", 1.0)):
        yield faster(
            f"10,000 files of 1 KiB verified / {peer}, whole commands", took[peer], took["probe"], least
        )
        yield faster(
            f"10,000 files of 1 KiB by oscope transfer / {peer}, whole commands",
            took[peer],
            took["command"],
            None,
        )


def faster(name: str, peer: list[float], ours: list[float], least: float | None) -> Bar:
    """Compare seconds: how many times as fast ours is; without `least` it is only told."""
    middle, low, high = ratio(peer, ours)
    text = f"{middle:.2f} [{low:.2f}, {high:.2f}], {np.median(ours):.3f} s beside {np.median(peer):.3f} s"
    return _bar(name, text, middle, least)


def throughput(name: str, ours: list[float], peer: list[float], least: float | None) -> Bar:
    """Compare bytes a second."""
    middle, low, high = ratio(ours, peer)
    text = f"{middle:.2f} [{low:.2f}, {high:.2f}] of {np.median(peer) / 2**30:.2f} GiB/s"
    return _bar(name, text, middle, least)


def _bar(name: str, text: str, middle: float, least: float | None) -> Bar:
    wanted = "told only" if least is None else f"at least {least}"
    return Bar(name, text, wanted, met=least is None or middle >= least)


def faults() -> Iterator[Bar]:
    """Transfers that are cut, falsified, stalled, killed or out of room, and gone on with."""
    kinds = KINDS if os.geteuid() == 0 else tuple(kind for kind in KINDS if kind != "fill")
    bad: Counter[str] = Counter()
    prefixes = resumed = 0
    with tempfile.TemporaryDirectory() as folder:
        course = Course(find_probe(), Path(folder))
        for seed, kind in plan(FAULTS, kinds):
            outcome = course.run(seed, kind)
            prefixes += outcome.had_prefix
            resumed += outcome.had_prefix and outcome.resumed
            if outcome.problems:
                bad[kind] += 1
                print(f"  {outcome}", file=sys.stderr)
    told = ", ".join(f"{count} {kind}" for kind, count in bad.items())
    name = f"{FAULTS} faults ({', '.join(kinds)}): wrong, hung or not completed"
    yield Bar(name, f"{bad.total()} {told}".strip(), "0", met=not bad)
    yield Bar(
        "of those that had left a part: gone on from it",
        f"{resumed} of {prefixes}",
        "all",
        met=resumed == prefixes > 0,
    )


def bars() -> Iterator[Bar]:
    """Everything of this module."""
    with tempfile.TemporaryDirectory() as folder:
        places = Places(Path(folder))
        yield from large(places, huge=True)
        yield from large(places, huge=False)
        yield from small(places)
    yield from faults()

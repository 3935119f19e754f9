"""oscope-fs beside sshfs, scp and the local file system, and what random operations, kills and cuts leave.

One server on loopback serves all. The local file, the caches and what scp writes are on one file system.
What is not written back yet would take time from whatever is measured next: `sync` before each.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from bars import ROOT, Bar, at_least, compile_c, faster, interleaved, ratio
from ssh_server import ALIAS, SshServer, running

sys.path.insert(0, str(ROOT / "tests"))

import fs_kills
import fs_small
from fs_course import run
from fs_mount import LIMIT_S, Mount, missing, mounted, oscope_fs, sshfs
from fs_places import AT_ONCE, by_oscope_fs

SIZE = 512 << 20
ROUNDS = 9
READS = 20_000
OPERATIONS = 100_000
COURSE = 1000
KILLS = 200
HUGE = (4 << 30) + (1 << 20)
_WAYS: tuple[tuple[str, ...], ...] = ((), AT_ONCE, (), (*AT_ONCE, "--no-passthrough"))


class Place:
    """A server, its folder with a large file, the same file beside it, and mounts."""

    def __init__(self, server: SshServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.served = folder / "served"
        self.served.mkdir()
        self.local = folder / "local"
        with self.local.open("wb") as file:
            for block in range(SIZE >> 20):
                file.write(random.Random(block).randbytes(1 << 20))
        shutil.copyfile(self.local, self.served / "large")
        self._count = itertools.count()

    def home(self) -> Path:
        """Give a new folder for a mount."""
        path = self.folder / f"home{next(self._count)}"
        path.mkdir()
        return path

    @contextlib.contextmanager
    def fresh(self) -> Iterator[Mount]:
        """Mount by oscope-fs with an empty cache, which is removed afterwards."""
        home = self.home()
        with mounted(oscope_fs(self.server, self.served, home)) as mount:
            yield mount
            mount.stop()
        shutil.rmtree(home)


def _read(path: Path) -> float:
    """Return the seconds of open, reading it all, close."""
    return _told("all", path)


def _random_reads(path: Path) -> float:
    """Return 4 KiB reads a second in the open file, of which they touch less than a sixth."""
    return _told("random", path, READS, random.randrange(1 << 30))


def _told(*words: object) -> float:
    os.sync()
    program = [str(word) for word in (compile_c("file_reads"), *words)]
    return float(subprocess.run(program, check=True, capture_output=True, timeout=LIMIT_S * 5).stdout)


def large(place: Place) -> Iterator[Bar]:
    """Read a large file for the first time, again, and at random places."""
    with contextlib.ExitStack() as stack:
        mounts = {
            "ours": oscope_fs(place.server, place.served, place.home()),
            "sshfs": sshfs(place.server, place.served, place.home()),
            "sshfs -o auto_cache": sshfs(place.server, place.served, place.home(), "-o", "auto_cache"),
        }
        paths = {name: stack.enter_context(mounted(mount)).root / "large" for name, mount in mounts.items()}
        paths["local"] = place.local
        for path in paths.values():
            _read(path)
        took = interleaved({name: partial(_read, path) for name, path in paths.items()}, ROUNDS)
        yield from _second(took)
        rates = interleaved({name: partial(_random_reads, path) for name, path in paths.items()}, ROUNDS)
        yield from _at_random(rates)
    yield first(place)


def _second(took: dict[str, list[float]]) -> Iterator[Bar]:
    what = f"second read of {SIZE >> 20} MiB, oscope-fs"
    yield faster(f"{what} / local", took["local"], took["ours"], 0.8)
    yield faster(f"{what} / sshfs", took["sshfs"], took["ours"], 20.0)
    yield faster(f"{what} / sshfs -o auto_cache", took["sshfs -o auto_cache"], took["ours"], None)


def _at_random(rates: dict[str, list[float]]) -> Iterator[Bar]:
    for peer, least in (("local", 0.5), ("sshfs", 5.0), ("sshfs -o auto_cache", None)):
        middle, low, high = ratio(rates["ours"], rates[peer])
        measured = f"{np.median(rates['ours']):,.0f} beside {np.median(rates[peer]):,.0f} a second"
        text = f"{middle:.2f} [{low:.2f}, {high:.2f}], {measured}"
        yield at_least(f"random 4 KiB reads in an open file, oscope-fs / {peer}", text, middle, least)


def first(place: Place) -> Bar:
    """Read the large file through a mount that has nothing of it yet, beside scp of it."""

    def ours() -> float:
        with place.fresh() as mount:
            return _read(mount.root / "large")

    def scp() -> float:
        copy = place.folder / "copied"
        copy.unlink(missing_ok=True)
        os.sync()
        begin = time.monotonic()
        words = ["scp", "-q", "-F", str(place.server.config), f"{ALIAS}:{place.served / 'large'}", str(copy)]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL, timeout=LIMIT_S * 5)
        return time.monotonic() - begin

    took = interleaved({"ours": ours, "scp": scp}, ROUNDS)
    return faster("first read of it, open included, oscope-fs / scp", took["scp"], took["ours"], 1.0)


def small(place: Place) -> Iterator[Bar]:
    """Write small files and read them back: on a disk that others do not slow down, and on this one."""
    what = f"{fs_small.FILES} small files written and read, oscope-fs / sshfs"
    took = fs_small.on_a_journal(place.home(), ROUNDS)
    yield faster(f"{what}, on ext4 with a journal", took["sshfs"], took["ours"], 1.0)
    took = fs_small.measure(place.server, place.home(), ROUNDS, stay=False)
    yield faster(f"{what}, on this disk, each round's removed", took["sshfs"], took["ours"], None)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def huge(place: Place) -> Bar:
    """Append to a file of more than 4 GiB through a mount; the server has every byte of it then."""
    marks = {0: b"begin", (4 << 30) - 3: b"across", HUGE - 3: b"end"}
    path = place.served / "huge"
    with path.open("wb") as file:
        for offset, mark in marks.items():
            file.seek(offset)
            file.write(mark)
    with place.fresh() as mount, (mount.root / "huge").open("r+b") as file:
        found = all(_at(file, offset, len(mark)) == mark for offset, mark in marks.items())
        file.seek(0, os.SEEK_END)
        file.write(b"appended")
    with path.open("rb") as file:
        kept = all(_at(file, offset, len(mark)) == mark for offset, mark in marks.items())
        kept = kept and _at(file, HUGE, 100) == b"appended"
    path.unlink()
    text = f"read {'right' if found else 'WRONG'}, written back {'right' if kept else 'WRONG'}"
    return Bar("a file of 4 GiB and 1 MiB, appended to", text, "right", met=found and kept)


def _at(file: object, offset: int, size: int) -> bytes:
    return os.pread(file.fileno(), size, offset)  # type: ignore[attr-defined]


def model(server: SshServer) -> Bar:
    """Random operations against the model and the server's own folder."""
    done, differences = 0, 0
    begin = time.monotonic()
    for number, options in enumerate(_WAYS):
        # The server's folder in memory: what is judged is what it does, and a disk would only make it wait.
        # The cache not: there is no passthrough in memory.
        with (
            tempfile.TemporaryDirectory(dir="/dev/shm") as name,
            tempfile.TemporaryDirectory() as home,
        ):
            folder = _made(Path(name) / "served")
            with by_oscope_fs(server, Path(home) / "home", folder, *options) as place:
                share = (number + 1) * OPERATIONS // len(_WAYS)
                for seed in itertools.count(1000 * number):
                    if done >= share or differences >= 5:
                        break
                    verdict = run(place, seed, COURSE)
                    done += verdict.operations
                    if verdict.difference:
                        differences += 1
                        print(f"  {options}: {verdict}", file=sys.stderr)
                place.mount.stop()
    took = time.monotonic() - begin
    return Bar(
        "random operations against a model and the server's folder",
        f"{done:,} operations in {took:.0f} s, {differences} differences",
        f"{OPERATIONS:,}, 0",
        met=done >= OPERATIONS and not differences,
    )


def kills(server: SshServer) -> Bar:
    """Kills and cuts at random points of a load."""
    bad: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        for seed, kind in fs_kills.plan(KILLS):
            home = Path(name) / str(seed)
            outcome = fs_kills.run(server, home, seed, kind)
            if outcome.problems:
                bad[kind] += 1
                print(f"  {outcome}", file=sys.stderr)
            shutil.rmtree(home)
    told = ", ".join(f"{count} {kind}" for kind, count in bad.items())
    kinds = ", ".join(dict.fromkeys(fs_kills.KINDS))
    name = f"{KILLS} kills and cuts ({kinds}): lost, torn or left over"
    return Bar(name, f"{bad.total()} {told}".strip(), "0", met=not bad)


def bars() -> Iterator[Bar]:
    """Everything of this module."""
    if lack := missing():
        raise RuntimeError(lack)
    for program, package in (("sshfs", "sshfs"), ("mkfs.ext4", "e2fsprogs")):
        if shutil.which(program) is None:
            raise RuntimeError(f"{program} is not there: apt-get install {package}")
    if os.geteuid() != 0:
        raise RuntimeError("only root may make the disk of the small files: run it as root")
    with (
        tempfile.TemporaryDirectory() as keys,
        tempfile.TemporaryDirectory() as folder,
        running(Path(keys)) as server,
    ):
        place = Place(server, Path(folder))
        parts: tuple[Callable[[], Iterator[Bar]], ...] = (lambda: large(place), lambda: small(place))
        for part in parts:
            yield from part()
        yield huge(place)
        yield model(server)
        yield kills(server)

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
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

import fs_kills
import fs_small
from bars import Bar, Bench, Figure, NotMeasured, Part, faster, ratio
from fs_course import run
from fs_mount import LIMIT_S, Mount, missing, mounted, oscope_fs, sshfs
from fs_places import AT_ONCE, by_oscope_fs
from measuring import compile_c, interleaved
from ssh_server import ALIAS, SshServer, running

SIZE = 512 << 20
READS = 20_000
OPERATIONS = 100_000
COURSE = 1000
KILLS = 200
HUGE = (4 << 30) + (1 << 20)
FILES = fs_small.FILES
LOCAL, SSHFS, CACHED = "local", "sshfs", "sshfs -o auto_cache"
AGAIN = {
    peer: Bar(f"second read of a large file, oscope-fs / {peer}", least=least)
    for peer, least in ((LOCAL, 0.8), (SSHFS, 20), (CACHED, None))
}
AT_RANDOM = {
    peer: Bar(f"random 4 KiB reads in an open file, oscope-fs / {peer}", least=least)
    for peer, least in ((LOCAL, 0.5), (SSHFS, 5), (CACHED, None))
}
FIRST = Bar("first read of a large file, open included, oscope-fs / scp", least=1)
_FILES = f"{FILES} small files written and read, oscope-fs / sshfs"
JOURNAL = Bar(f"{_FILES}, on ext4 with a journal", least=1)
HELPED = Bar(f"{_FILES}, on ext4 with a journal, oscope-fs with a helper on the server", least=1.2)
THIS_DISK = Bar(f"{_FILES}, on this disk, each round's removed")
APPENDED = Bar("a file of 4 GiB and 1 MiB, appended to: wrong places", least=0, most=0)
DIFFERENCES = Bar("random operations: differences from a model and the server's folder", least=0, most=0)
BAD = Bar("kills and cuts: lost, torn or left over", least=0, most=0)
_WAYS: tuple[tuple[str, ...], ...] = ((), AT_ONCE, (), (*AT_ONCE, "--no-passthrough"))


class Place:
    """A server, its folder with a large file, the same file beside it, and mounts."""

    def __init__(self, server: SshServer, folder: Path, size: int) -> None:
        self.server = server
        self.folder = folder
        self.served = folder / "served"
        self.served.mkdir()
        self.local = folder / "local"
        with self.local.open("wb") as file:
            for block in range(size >> 20):
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


def _random_reads(path: Path, reads: int) -> float:
    """Return 4 KiB reads a second in the open file, of which they touch less than a sixth."""
    return _told("random", path, reads, random.randrange(1 << 30))


def _told(*words: object) -> float:
    os.sync()
    program = [str(word) for word in (compile_c("file_reads"), *words)]
    return float(subprocess.run(program, check=True, capture_output=True, timeout=LIMIT_S * 5).stdout)


@contextlib.contextmanager
def serving(_: Bench) -> Iterator[SshServer]:
    """Run a server."""
    if lack := missing():
        raise NotMeasured(lack)
    with tempfile.TemporaryDirectory() as keys, running(Path(keys)) as server:
        yield server


@contextlib.contextmanager
def made(bench: Bench) -> Iterator[Place]:
    """Make the folders and the large file."""
    with tempfile.TemporaryDirectory() as folder:
        yield Place(bench.shared(serving), Path(folder), bench.pick(4 << 20, SIZE, SIZE))


def large(bench: Bench) -> Iterator[Figure]:
    """Read a large file again, and at random places."""
    place, rounds = bench.shared(made), bench.pick(1, 7, 9)
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
        took = interleaved({name: partial(_read, path) for name, path in paths.items()}, rounds)
        for peer, bar in AGAIN.items():
            yield faster(bar, took[peer], took["ours"])
        reads = bench.pick(50, READS // 4, READS)
        rates = interleaved(
            {name: partial(_random_reads, path, reads) for name, path in paths.items()}, rounds
        )
        for peer, bar in AT_RANDOM.items():
            text = f"{np.median(rates['ours']):,.0f} beside {np.median(rates[peer]):,.0f} a second"
            yield ratio(bar, rates["ours"], rates[peer], text)


def first(bench: Bench) -> Iterator[Figure]:
    """Read the large file through a mount that has nothing of it yet, beside scp of it."""
    place = bench.shared(made)

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

    took = interleaved({"ours": ours, "scp": scp}, bench.pick(1, 7, 9))
    yield faster(FIRST, took["scp"], took["ours"])


def small(bench: Bench) -> Iterator[Figure]:
    """Write small files and read them back: on a disk that others do not slow down, and on this one."""
    place, rounds, files = bench.shared(made), bench.pick(1, 5, 9), bench.pick(5, FILES, FILES)
    took = fs_small.on_a_journal(place.home(), rounds, files)
    yield faster(JOURNAL, took["sshfs"], took["ours"])
    yield faster(HELPED, took["sshfs"], took["helped"])
    took = fs_small.measure(place.server, place.home(), rounds, files, stay=False)
    yield faster(THIS_DISK, took["sshfs"], took["ours"])


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def huge(bench: Bench) -> Iterator[Figure]:
    """Append to a file of more than 4 GiB through a mount; the server has every byte of it then."""
    place = bench.shared(made)
    marks = {0: b"begin", (4 << 30) - 3: b"across", HUGE - 3: b"end"}
    path = place.served / "huge"
    with path.open("wb") as file:
        for offset, mark in marks.items():
            file.seek(offset)
            file.write(mark)
    with place.fresh() as mount, (mount.root / "huge").open("r+b") as file:
        wrong = sum(_at(file, offset, len(mark)) != mark for offset, mark in marks.items())
        file.seek(0, os.SEEK_END)
        file.write(b"appended")
    marks[HUGE] = b"appended"
    with path.open("rb") as file:
        wrong += sum(_at(file, offset, len(mark)) != mark for offset, mark in marks.items())
        wrong += os.fstat(file.fileno()).st_size != HUGE + len(marks[HUGE])
    path.unlink()
    yield Figure(APPENDED, wrong)


def _at(file: object, offset: int, size: int) -> bytes:
    return os.pread(file.fileno(), size, offset)  # type: ignore[attr-defined]


def model(bench: Bench) -> Iterator[Figure]:
    """Random operations against the model and the server's own folder."""
    server, operations = bench.shared(serving), bench.pick(80, 8000, OPERATIONS)
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
                share = (number + 1) * operations // len(_WAYS)
                for seed in itertools.count(1000 * number):
                    if done >= share or differences >= 5:
                        break
                    verdict = run(place, seed, min(COURSE, operations // len(_WAYS)))
                    done += verdict.operations
                    if verdict.difference:
                        differences += 1
                        print(f"  {options}: {verdict}", file=sys.stderr)
                place.mount.stop()
    took = time.monotonic() - begin
    yield Figure(DIFFERENCES, differences, detail=f"{done:,} operations in {took:.0f} s")


def kills(bench: Bench) -> Iterator[Figure]:
    """Kills and cuts at random points of a load."""
    server, count = bench.shared(serving), bench.pick(2, 24, KILLS)
    bad: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        for seed, kind in fs_kills.plan(count):
            home = Path(name) / str(seed)
            outcome = fs_kills.run(server, home, seed, kind)
            if outcome.problems:
                bad[kind] += 1
                print(f"  {outcome}", file=sys.stderr)
            shutil.rmtree(home)
    kinds = ", ".join(f"{number} {kind}" for kind, number in bad.items())
    yield Figure(BAD, bad.total(), detail=f"of {count}{': ' if bad else ''}{kinds}")


NEEDS = ("sshd", "sshfs", "scp")
PARTS = (
    Part(
        "A file of 512 MiB, which each mount has read before: read again, and 4 KiB at random places; "
        "interleaved rounds, one server on loopback, its folder, the caches and the local file on one disk.",
        (*AGAIN.values(), *AT_RANDOM.values()),
        large,
        short_s=60,
        full_s=120,
        needs=NEEDS,
    ),
    Part(
        "The file read through a mount with an empty cache, beside scp of it; interleaved rounds.",
        (FIRST,),
        first,
        short_s=35,
        full_s=60,
        needs=NEEDS,
    ),
    Part(
        f"{FILES} files of 4 KiB made, written and read again; interleaved rounds.",
        (JOURNAL, HELPED, THIS_DISK),
        small,
        short_s=25,
        full_s=70,
        needs=(*NEEDS, "mkfs.ext4"),
        root=True,
    ),
    Part(
        "A sparse file of 4 GiB and 1 MiB, read at its ends and appended to through a mount.",
        (APPENDED,),
        huge,
        short_s=None,
        full_s=60,
        needs=NEEDS,
        smoke=False,
    ),
    Part(
        "Random operations on a mount, after each of which it is compared with a model and the server's "
        "folder.",
        (DIFFERENCES,),
        model,
        short_s=30,
        full_s=500,
        needs=NEEDS,
    ),
    Part(
        f"Kills and cuts ({', '.join(dict.fromkeys(fs_kills.KINDS))}) at random points of a load: rounds "
        "after which something acknowledged is lost, torn or left over.",
        (BAD,),
        kills,
        short_s=60,
        full_s=500,
        needs=NEEDS,
    ),
)

"""Small files made, written and read again through oscope-fs and sshfs, where deleted ones cost nothing.

A file in oscope-fs is three files: the server's, the copy and its record. In sshfs it is one. So the time
that the disk's file system takes to make a file counts three times. ext4 without a journal skips, one by one,
each inode that was deleted within the last minute, or within five if its block is not yet written
(`recently_deleted`, fs/ext4/ialloc.c). Files that any program deleted on that disk can make a creation take
a hundred times as long, which says nothing of the programs compared. So they are compared on an ext4 with a
journal, the default of mke2fs, where nothing is removed until the end: people who make files have mostly not
just removed others. The folder's own file system is measured and reported too, with the files of each round
removed.

`on_a_journal` starts this module as a program in its own mount namespace: nothing stays mounted, however it
ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from measuring import ROOT, interleaved

sys.path.insert(0, str(ROOT / "tests"))

from fs_mount import find_oscope_fs, mounted, oscope_fs, sshfs
from ssh_server import SshServer, running

FILES = 200
SIZE = 4 << 10
DISK = 1 << 30
LIMIT_S = 600.0

Took = dict[str, list[float]]
"""Seconds of each round: of "ours", of "helped", which has a helper on the server, and of "sshfs"."""


def measure(server: SshServer, folder: Path, rounds: int, files: int, *, stay: bool) -> Took:
    """Make, write and read the files in a new folder each round; with `stay` none is removed meanwhile."""
    helper = f"--helper={find_oscope_fs()}"
    sides = {
        "ours": oscope_fs(server, _made(folder / "by-oscope-fs"), _made(folder / "home-oscope-fs")),
        "helped": oscope_fs(server, _made(folder / "helped"), _made(folder / "home-helped"), helper),
        "sshfs": sshfs(server, _made(folder / "by-sshfs"), _made(folder / "home-sshfs")),
    }
    contents = [random.Random(number).randbytes(SIZE) for number in range(files)]

    def once(root: Path) -> float:
        place = Path(tempfile.mkdtemp(dir=root))
        os.sync()
        begin = time.monotonic()
        for number, content in enumerate(contents):
            (place / str(number)).write_bytes(content)
        for number, content in enumerate(contents):
            if (place / str(number)).read_bytes() != content:
                raise RuntimeError(f"{place / str(number)} is not what was written")
        took = time.monotonic() - begin
        if not stay:
            shutil.rmtree(place)
        return took

    with contextlib.ExitStack() as stack:
        roots = {name: stack.enter_context(mounted(mount)).root for name, mount in sides.items()}
        return interleaved({name: partial(once, root) for name, root in roots.items()}, rounds)


def on_a_journal(folder: Path, rounds: int, files: int) -> Took:
    """Measure on a new ext4 with a journal in a file in `folder`. Only root may."""
    words = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        sys.executable,
        __file__,
        folder,
        rounds,
        files,
    ]
    output = subprocess.run(
        [str(word) for word in words], stdout=subprocess.PIPE, check=True, timeout=LIMIT_S
    ).stdout
    took: Took = json.loads(output)
    return took


def main(folder: Path, rounds: int, files: int) -> None:
    """Measure on a disk of our own in `folder`, in a mount namespace that is ours; print what it took."""
    image, disk = folder / "disk", _made(folder / "mounted")
    with image.open("wb") as file:
        file.truncate(DISK)
    # Its tables are written now, and not by a thread of the kernel while it is measured.
    now = "lazy_itable_init=0,lazy_journal_init=0"
    _call("mkfs.ext4", "-q", "-O", "has_journal", "-E", now, image)
    _call("mount", "-o", "loop", image, disk)
    try:
        with tempfile.TemporaryDirectory() as keys, running(Path(keys)) as server:
            took = measure(server, disk, rounds, files, stay=True)
    finally:
        _call("umount", "--lazy", disk)
        image.unlink()
        disk.rmdir()
    print(json.dumps(took))


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _call(*words: str | Path) -> None:
    subprocess.run(list(words), check=True, timeout=60, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

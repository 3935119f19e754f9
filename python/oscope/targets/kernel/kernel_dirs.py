"""Where sources, work trees, outputs and finished kernels are kept, and who may use them when."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from oscope.model.errors import OscopeError
from oscope.model.units import GIBIBYTE
from oscope.targets.kernel.listener import Listener

PATCHES = Path(__file__).parent / "patches"
CONFIGS = Path(__file__).parent / "configs"
MODULES = Path(__file__).parent / "modules"
ROOM_FOR_SOURCE = 2 * GIBIBYTE
"""Debian's source takes 1.5 GiB."""
ROOM = 2 * GIBIBYTE
"""What make writes for one configuration, and the kernel."""
ROOM_WITH_DEBUG = 8 * GIBIBYTE
UNFINISHED = ".unfinished"
"""Ends the name of a folder that gets its own name once it is whole."""


def cache() -> Path:
    """Return the folder of all that kernels need and that can be made anew: XDG_CACHE_HOME/oscope/kernel."""
    return platformdirs.user_cache_path("oscope") / "kernel"


def source(key: str) -> Path:
    """Return where a source is unpacked; nothing writes there afterwards."""
    return cache() / "source" / key


def tree(workshop: str) -> Path:
    """Return where the source is patched: what make reads."""
    return cache() / "tree" / workshop


def output(workshop: str, config: str) -> Path:
    """Return where make writes for a configuration; kept, so that the next build is short."""
    return cache() / "output" / f"{workshop}-{config}"


def built(kernel: str = "") -> Path:
    """Return where the kernel with this id is; without one, where all are."""
    return cache() / "built" / kernel


@contextlib.contextmanager
def alone(listener: Listener) -> Iterator[None]:
    """Wait until no other process builds; what one that was killed left unfinished is removed."""
    folder = cache()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise OscopeError(
            f"{folder} cannot be written ({error.strerror})", remedy="set XDG_CACHE_HOME to a folder that can"
        ) from error
    try:
        _lock(lock, listener)
        for left in (*folder.glob(f"*/*{UNFINISHED}"), *folder.glob("staging-*")):
            shutil.rmtree(left)
        yield
    finally:
        os.close(lock)


def _lock(lock: int, listener: Listener) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
        listener.note(f"waiting for the kernel build of process {holder}")
        # A build has its own limits, and Ctrl-C ends the waiting.
        fcntl.flock(lock, fcntl.LOCK_EX)
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def free(folder: Path) -> int:
    """Return the bytes that are free where `folder` is, or will be."""
    there = next(place for place in (folder, *folder.parents) if place.is_dir())
    return shutil.disk_usage(there).free


def check_room(folder: Path, needed: int, purpose: str) -> None:
    """Raise OscopeError unless `folder`, or where it will be, has room for `needed` bytes more."""
    room = free(folder)
    if room < needed:
        raise OscopeError(
            f"no room on disk: {purpose} needs {needed / GIBIBYTE:.1f} GiB in {folder}, "
            f"{room / GIBIBYTE:.1f} GiB are free",
            remedy="make room, or set XDG_CACHE_HOME to a folder that has it",
        )

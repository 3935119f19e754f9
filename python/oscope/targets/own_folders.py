"""Folders of Oscope's own that a run needs for a while, such as worktrees: gone later, even after a kill.

Each lies in the user's cache, and its lock is held as long as a process uses it: by the kernel, so that a
process that was killed holds it no more. The next command removes what nobody holds. The folder that they
lie in goes with the last of them. Nothing else is touched.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from oscope.model.errors import OscopeError, UsageError

_NAME = re.compile(r"oscope-[0-9a-f]{8}")
_LOCK = "lock"
_TRIES = 20
_PAUSE_S = 0.1


def root() -> Path:
    """Return where they all lie: XDG_CACHE_HOME/oscope/revisions."""
    # Each command looks there first: no library is loaded for it.
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser().absolute() / "oscope" / "revisions"


@contextlib.contextmanager
def own_folder(again: str | None = None) -> Iterator[tuple[Path, int]]:
    """Give a new folder for this user alone, and its lock's descriptor; remove all of it at the end.

    A child that is given the descriptor keeps the folder from being removed by others while it lives. `again`
    is the path that it had before, for a run that resumes. Raises OscopeError where it cannot be made or is
    in use, UsageError where `again` is none of these folders.
    """
    place = root()
    path = place / f"oscope-{os.urandom(4).hex()}" if again is None else Path(again)
    if path.parent != place or not _NAME.fullmatch(path.name):
        raise UsageError(
            f"the run used {path}, which is not in {place}", remedy="set XDG_CACHE_HOME as it was then"
        )
    try:
        with _alone(place, make=True):
            if path.exists():
                _remove_unused(path)
            path.mkdir(mode=0o700)
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
    except BlockingIOError:
        raise OscopeError(f"{path} is in use", remedy="wait for the other oscope, or end it") from None
    except OSError as error:
        raise OscopeError(
            f"{path} cannot be made ({error.strerror})", remedy="set XDG_CACHE_HOME to a folder of yours"
        ) from error
    try:
        yield path, lock
    finally:
        remove(path)
        os.close(lock)
        _remove_empty(place)


def remove(path: Path) -> None:
    """Remove a folder with all that is in it; OscopeError where something cannot be removed.

    A process that is being ended may still write there for a moment. The lock goes last: without it, what a
    kill leaves of the folder would be nobody's.
    """
    for last in (*[False] * _TRIES, True):
        try:
            for entry in sorted(path.iterdir()):
                if entry.name == _LOCK:
                    continue
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
            (path / _LOCK).unlink(missing_ok=True)
            path.rmdir()
        except FileNotFoundError:
            if not path.exists():
                return
        except OSError as error:
            if last:
                raise OscopeError(
                    f"{path} cannot be removed ({error.strerror})", remedy=f"remove {path} by hand"
                ) from error
            if isinstance(error, PermissionError):
                _open_up(path)
            time.sleep(_PAUSE_S)
        else:
            return


def _open_up(path: Path) -> None:
    """Have folders that a build made read-only, such as Go's module cache, give up their entries."""
    for folder, names, _ in os.walk(path):
        for name in names:
            inner = Path(folder, name)
            if not inner.is_symlink():
                inner.chmod(0o700)


def remove_left(notify: Callable[[str], None]) -> None:
    """Remove the folders that processes left which were killed; `notify` hears a line on each. Never raises.

    Where there is none, this costs the reading of one directory.
    """
    place = root()
    try:
        names = [path.name for path in place.iterdir()]
        if not names:
            _remove_empty(place)
        if not any(map(_NAME.fullmatch, names)):
            return
        with _alone(place):
            for path in sorted(place.iterdir()):
                if _NAME.fullmatch(path.name):
                    with contextlib.suppress(BlockingIOError):
                        _remove_unused(path)
                        notify(f"removed, left by a bench that was killed: worktrees in {path}")
        _remove_empty(place)
    except FileNotFoundError:
        return
    except (OSError, OscopeError) as error:
        notify(f"cannot remove the worktrees that a killed bench left: {error}")


def _remove_unused(path: Path) -> None:
    """Remove a folder; BlockingIOError where another has it, OscopeError where it is not as it was made."""
    found = path.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid != os.geteuid():
        raise BlockingIOError(errno.EWOULDBLOCK, "another user's", str(path))
    if not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o5777 != 0o700:
        raise OscopeError(f"{path} is not the folder that was made", remedy="look at it, and remove it")
    try:
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        # Killed just after it was made, by one who held the lock of all.
        path.rmdir()
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove(path)
    finally:
        os.close(lock)


def _remove_empty(place: Path) -> None:
    """Remove the folder that they all lie in, unless something is in it; never raises."""
    with contextlib.suppress(OSError), _alone(place):
        place.rmdir()


@contextlib.contextmanager
def _alone(place: Path, *, make: bool = False) -> Iterator[None]:
    """Keep others from making and removing folders meanwhile; it takes no longer than removing one.

    With `make` the folder that they lie in is made; else FileNotFoundError where it is not there.
    """
    descriptor = _locked(place, make=make)
    # Another process may have removed it before the lock was this one's.
    while not _is_there(place, descriptor):
        os.close(descriptor)
        descriptor = _locked(place, make=make)
    try:
        yield
    finally:
        os.close(descriptor)


def _locked(place: Path, *, make: bool) -> int:
    """Open a folder, and wait for its lock; return the descriptor, which the caller closes."""
    while True:
        if make:
            # It fails so also where another process removes the folder in the next moment.
            with contextlib.suppress(FileExistsError):
                place.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            if not make or place.is_symlink():
                raise
            continue
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor


def _is_there(place: Path, descriptor: int) -> bool:
    """Whether `descriptor` is that of the folder that has this path now."""
    try:
        return os.path.samestat(place.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False

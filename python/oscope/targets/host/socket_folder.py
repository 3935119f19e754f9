"""The private folder of a connection's socket: gone with it, or by the next connection after a kill.

The process that uses a folder holds the lock of a file in it. The kernel releases that at the process's end,
whatever it ends by. A folder whose lock nobody holds is left over. One without this file, another user's, or
one with other files in it was not made here, and is left alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "oscope-ssh-"
_LOCK = "lock"
_OWN = re.compile(r"lock(\.new)?|words|s(\.\w+)?")
"""Our files, and the socket under the name that ssh makes it by."""
_LONGEST_PARENT = 70
"""A socket's path has at most 107 bytes (unix(7)), and ssh adds some while it makes it."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class SocketFolder:
    """A new folder for this user alone."""

    def __init__(self, parent: Path | None = None) -> None:
        """Make it in `parent` (default: that of temporary files), and remove there what kills left."""
        parent = parent or _short_parent()
        _remove_left(parent)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        new = self.path / f"{_LOCK}.new"
        self._lock = os.open(new, _FILE | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Whoever finds a file of this name unlocked may remove the folder.
        new.rename(self.path / _LOCK)

    @property
    def socket(self) -> Path:
        """Where ssh makes its socket."""
        return self.path / "s"

    @property
    def words(self) -> Path:
        """Where ssh's standard error goes."""
        return self.path / "words"

    def remove(self) -> None:
        """Remove it with all that is in it."""
        try:
            # What removes old temporary files may have been quicker.
            with contextlib.suppress(FileNotFoundError), _opened(self.path, _FOLDER) as folder:
                _empty(folder)
                self.path.rmdir()
        finally:
            os.close(self._lock)


def _short_parent() -> Path:
    """Return the folder of temporary files, or /tmp where its path is too long for a socket in it."""
    usual = tempfile.gettempdir()
    return Path("/tmp" if len(os.fsencode(usual)) > _LONGEST_PARENT else usual)  # noqa: S108


def _remove_left(parent: Path) -> None:
    """Remove what killed processes left. What cannot be removed stays, and hinders no connection."""
    for path in parent.glob(f"{_PREFIX}*"):
        # BlockingIOError where its owner lives; others where it is none of ours, or another removes it too.
        with contextlib.suppress(OSError), _opened(path, _FOLDER) as folder:
            found = os.fstat(folder)
            if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != stat.S_IRWXU:
                continue
            with _opened(_LOCK, _FILE, folder) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if all(map(_OWN.fullmatch, _names(folder))):
                    _empty(folder)
                    path.rmdir()


def _empty(folder: int) -> None:
    """Remove all files, the lock last: without it, what a kill leaves would be nobody's."""
    for name in sorted(_names(folder), key=_LOCK.__eq__):
        os.unlink(name, dir_fd=folder)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


@contextlib.contextmanager
def _opened(path: Path | str, flags: int, folder: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, flags, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)

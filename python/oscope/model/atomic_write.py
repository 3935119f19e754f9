"""Writes a file whole or not at all, and never in the place of a device, a FIFO or a symbolic link."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from oscope.model.errors import OscopeError
from oscope.model.file_kinds import KINDS

DATABASE_START = b"SQLite format 3\0"
DATABASE_ENDS = ("-wal", "-shm", "-journal")
"""Of the names of files that belong to a database of SQLite (https://www.sqlite.org/tempfiles.html)."""
PROGRAM_STARTS = (b"\x7fELF", b"#!")
"""How an executable (elf(5)) or a script begins."""


def resolve_file(path: Path, *, alternative: str = "") -> Path:
    """Return the file that `path` names, symbolic links followed.

    Raises OscopeError unless a regular file can be written there; `alternative` ends its remedies. That the
    folder takes files is tried out with an empty one, which is removed: also root cannot write everywhere.
    """
    with _explaining(path, "written", "name another file"):
        return _resolve_file(path, alternative)


def resolve_output(path: Path, *, alternative: str = "") -> Path:
    """Return the file that `path` names, as `resolve_file` does, where all of it may be replaced.

    Raises OscopeError for a database of SQLite too, and for what belongs to one: stores are such, and what
    was measured would be gone. So for a program, such as the one that is measured.
    """
    real = resolve_file(path, alternative=alternative)
    databases = [
        real,
        *(Path(str(real).removesuffix(end)) for end in DATABASE_ENDS if real.name.endswith(end)),
    ]
    # As https://www.sqlite.org/fileformat.html, 1.3.
    if any(_start(database) == DATABASE_START for database in databases):
        raise OscopeError(f"{path} is a database, such as a store of runs", remedy="name another file")
    if _start(real).startswith(PROGRAM_STARTS):
        raise OscopeError(f"{path} is a program", remedy="name another file")
    return real


def _start(path: Path) -> bytes:
    """Return the first bytes of a file, as many as tell a database; none where it cannot be read."""
    try:
        # A FIFO would wait for its other end.
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(len(DATABASE_START))
    except OSError:
        return b""


def _resolve_file(path: Path, alternative: str) -> Path:
    found = _stat(path)
    real = path.resolve()
    if found is None:
        _check_parent(path, real)
        return real
    if stat.S_ISDIR(found.st_mode):
        raise OscopeError(f"{path} is a folder", remedy="name a file in it")
    # A link below /proc/PID/fd leads to a file that may have no name.
    if not stat.S_ISREG(found.st_mode) or not real.is_file():
        kind = KINDS.get(stat.S_IFMT(found.st_mode), "a file without a name")
        raise OscopeError(f"{path} is {kind}, not a regular file", remedy=f"name a regular file{alternative}")
    if any(_is_open_at(descriptor, found) for descriptor in (1, 2)):
        raise OscopeError(
            f"{path} is where standard output or standard error goes",
            remedy=f"name another file{alternative}",
        )
    _check_parent(path, real)
    if not os.access(real, os.W_OK, effective_ids=True) or not _may_rename(found, real.parent):
        raise OscopeError(f"{path} is not writable", remedy="name another file")
    return real


def resolve_folder(path: Path) -> Path:
    """Return the folder that `path` names, symbolic links followed.

    Raises OscopeError unless files can be written into it, or it can be made, which is tried out as above.
    """
    with _explaining(path, "used", "name a folder"):
        found = _stat(path)
        real = path.resolve()
        if found is None:
            _check_parent(path, real)
        elif not stat.S_ISDIR(found.st_mode):
            raise OscopeError(f"{path} is not a folder", remedy="name a folder")
        else:
            _check_access(path, real)
        return real


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Give a file that gets the name `path` once the block ends, and is gone where the block raises.

    A file that is replaced leaves its permissions to the new one. Raises OscopeError where it cannot be
    written.
    """
    real = resolve_output(path)
    with _explaining(path, "written", "check the folder, its permissions and its space"):
        descriptor, temporary = _make_temporary(real.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                _give_permissions(descriptor, real)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
    try:
        temporary.replace(real)
    except OSError as error:
        # Such as a file that is mounted, or that may not be changed (chattr +i): what was written is kept.
        raise OscopeError(
            f"{path} cannot be replaced ({error.strerror})", remedy=f"its content is in {temporary}"
        ) from error


def write_bytes(path: Path, content: bytes) -> None:
    """Put `content` into the file at `path`, whole or not at all. Raises OscopeError."""
    with atomic_write(path) as file:
        file.write(content)


@contextlib.contextmanager
def _explaining(path: Path, what: str, remedy: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OscopeError(f"{path} cannot be {what} ({error.strerror})", remedy=remedy) from error


def _stat(path: Path) -> os.stat_result | None:
    """Return what the path leads to; None where that is nothing."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _check_parent(path: Path, real: Path) -> None:
    folder = real.parent
    if not folder.is_dir():
        raise OscopeError(f"{path}: the folder {folder} does not exist", remedy=f"make it: mkdir -p {folder}")
    _check_access(path, folder)


def _check_access(path: Path, folder: Path) -> None:
    try:
        descriptor, temporary = _make_temporary(folder)
        os.close(descriptor)
        temporary.unlink()
    except OSError as error:
        raise OscopeError(
            f"{path}: the folder {folder} is not writable ({error.strerror})", remedy="name another place"
        ) from error


def _make_temporary(folder: Path) -> tuple[int, Path]:
    """Make an empty file for this user only; return its descriptor and its name."""
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=".oscope-")
    return descriptor, Path(name)


def _is_open_at(descriptor: int, found: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), found)
    return False


def _may_rename(found: os.stat_result, folder: Path) -> bool:
    """Say whether the folder lets this user replace the file: a sticky one only its owners (rename(2))."""
    parent = folder.stat()
    return not parent.st_mode & stat.S_ISVTX or os.geteuid() in (0, found.st_uid, parent.st_uid)


def _give_permissions(descriptor: int, real: Path) -> None:
    """Give a temporary file, which is its owner's only, the permissions that its name will have."""
    replaced = _stat(real)
    if replaced is None:
        os.fchmod(descriptor, 0o666 & ~_umask())
        return
    with contextlib.suppress(PermissionError):
        os.fchown(descriptor, replaced.st_uid, replaced.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(replaced.st_mode) & 0o777)


def _umask() -> int:
    """Return the process's mask of permissions, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask

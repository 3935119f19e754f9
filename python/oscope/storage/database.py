"""Opens the store's database and explains its errors: the only place that knows SQLite from PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from pathlib import Path
from typing import Any

import platformdirs
import sqlalchemy as sa

from oscope.model.errors import StoreError, StoreNameError, StoreUnavailableError, UsageError
from oscope.model.file_kinds import KINDS

_FULL = ("is on a full disk", "free some space there")
_CHECK = "check the permissions, or name another --store"
_READ_ONLY = ("cannot be written", _CHECK)
_AWAY = ("is not reachable", "")
_MEANINGS = (
    (
        r"not a database|malformed|unsupported file format",
        ("is not a readable database", "name another --store"),
    ),
    (r"database or disk is full|No space left", _FULL),
    (r"readonly database|read-only|permission denied", _READ_ONLY),
    (
        r"unable to open database file",
        ("cannot be opened", "check the path and its permissions, or name another --store"),
    ),
    (r"database is locked", ("is locked by another program", "wait for it to end, or name another --store")),
    (
        r"refused|could not translate host|timeout expired|does not exist|authentication failed",
        _AWAY,
    ),
    (
        r"connection (failed|is (lost|bad|closed))|closed the connection|administrator|starting up|shutting",
        _AWAY,
    ),
)


_SCHEMES = ("sqlite", "postgresql")
_DRIVER = "postgresql+psycopg"
"""For URLs that name no driver, for which SQLAlchemy would take another one."""


def named_store(place: str | Path | None) -> str | None:
    """Return the path or URL that `place`, else `OSCOPE_STORE`, names; None for the default store."""
    return str(place) if place is not None else os.environ.get("OSCOPE_STORE") or None


def locate(named: str | None) -> tuple[sa.URL, Path | None]:
    """Return the URL of the store, and its file if it is one. Nothing is made.

    `named` is a path or a URL; None stands for the user's data folder. Raises UsageError for what is no
    URL, StoreNameError for one of another scheme and for a path that can be no store, StoreError for such a
    default store.
    """
    if named is not None and "://" in named:
        try:
            url = sa.make_url(named)
        except sa.exc.ArgumentError as error:
            raise UsageError(
                f"{named!r} is not a database URL", remedy="write postgresql+psycopg://user@host/name"
            ) from error
        if url.drivername == "postgresql":
            url = url.set(drivername=_DRIVER)
        if url.get_backend_name() not in _SCHEMES:
            raise StoreNameError(
                f"there is no driver for {url.render_as_string()}",
                remedy="name a file, sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE",
            )
    else:
        path = Path(named).expanduser().absolute() if named is not None else _default_path()
        url = sa.URL.create("sqlite", database=str(path))
    file = Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None
    if file is not None:
        _check_kind(file, is_named=named is not None)
    return url, file


def _check_kind(file: Path, *, is_named: bool) -> None:
    """Raise StoreNameError, of the default store StoreError, where there is something else than a file."""
    error = StoreNameError if is_named else StoreError
    try:
        if is_named and not file.parent.is_dir():
            raise error(
                f"the store's folder {file.parent} does not exist", remedy="make it, or name another --store"
            )
        if file.is_dir():
            raise error(f"the store {file} is a folder", remedy="name a file in it")
        if file.exists() and not file.is_file():
            kind = KINDS.get(stat.S_IFMT(file.stat().st_mode), "no regular file")
            raise error(f"the store {file} is {kind}", remedy="name another --store")
    except PermissionError:
        raise error(f"the store {file} cannot be opened", remedy=_CHECK) from None


def locate_for(place: str | Path | None, *, make: bool, write: bool = False) -> tuple[sa.URL, Path | None]:
    """Return what `locate` does of the store at `place`, which this user may read, make, write as asked."""
    named = named_store(place)
    url, file = locate(named)
    if file is not None and named is not None:
        is_there = file.exists()
        if not (os.access(file, os.R_OK) if is_there else not make or _may_make(file)):
            raise StoreNameError(
                f"the store {file} cannot be {'read' if is_there else 'made'}", remedy=_CHECK
            )
    if write:
        check_writable(place, file)
    return url, file


def _may_make(file: Path) -> bool:
    return os.access(file.parent, os.W_OK | os.X_OK)


def check_writable(place: str | Path | None, file: Path | None) -> None:
    """Raise StoreNameError where `place` names a file that this user may not write."""
    if file is None or named_store(place) is None or not file.exists():
        return
    if _is_frozen(file) or not os.access(file, os.W_OK):
        raise StoreNameError(f"the store {file} {_READ_ONLY[0]}", remedy=_CHECK)


def _default_path() -> Path:
    return platformdirs.user_data_path("oscope") / "oscope.db"


def make_default_folder() -> None:
    """Make the folder of the default store. Raises StoreError where that cannot be."""
    folder = _default_path().parent
    check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unmakeable(folder, error.strerror) from error


def check_folder(folder: Path) -> None:
    """Raise StoreError where a store's folder is neither there nor could be made; nothing is made."""
    home = Path.home()
    if folder.is_relative_to(home) and not home.is_dir():
        # Root could make it, and would then have a home folder that nobody asked for.
        raise StoreError(f"the home folder {home} does not exist", remedy="set HOME, or name a --store")
    present = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not present.is_dir():
        raise _unmakeable(folder, f"{present} is a file")
    if not os.access(present, os.W_OK | os.X_OK):
        raise _unmakeable(folder, f"{present} is not writable")


def _unmakeable(folder: Path, why: str | None) -> StoreError:
    return StoreError(f"the folder {folder} cannot be made ({why})", remedy="name a --store elsewhere")


def address(url: sa.URL, file: Path | None) -> str:
    """Return what messages call the store; no password is in it."""
    return str(file or url.render_as_string(hide_password=True))


def without_password(place: str | Path | None) -> str | Path | None:
    """Return a store's path or URL as it may be printed, to be given again."""
    if not isinstance(place, str) or "://" not in place:
        return place
    return sa.make_url(place)._replace(password=None).render_as_string()


def empty_engine() -> sa.Engine:
    """Return the engine of a database in memory, which stands for a store that is not there."""
    return sa.create_engine("sqlite://")


def open_engine(url: sa.URL, file: Path | None, lock_limit_s: float, *, read_only: bool = False) -> sa.Engine:
    """Return an engine for `url`; StoreNameError where there is no such driver, StoreError where it lacks."""
    try:
        return _connect(url, file, lock_limit_s, read_only=read_only)
    except (sa.exc.ArgumentError, ImportError) as error:
        kind = StoreError if isinstance(error, ImportError) else StoreNameError
        raise kind(
            f"there is no driver for {address(url, file)} ({error})",
            remedy="in a clone: pip install '.[postgresql]'",
        ) from error


def _connect(url: sa.URL, file: Path | None, lock_limit_s: float, *, read_only: bool = False) -> sa.Engine:
    """Return an engine for `url`; ArgumentError or ImportError where SQLAlchemy knows no driver for it.

    With `read_only` the database itself refuses every write.
    """
    if url.get_backend_name() != "sqlite":
        return sa.create_engine(url, execution_options={"postgresql_readonly": True} if read_only else {})
    if file is not None and (read_only or _is_frozen(file)):
        frozen = {"immutable": "1"} if _is_frozen(file) else {}
        url = sa.URL.create("sqlite", database=file.as_uri(), query={"mode": "ro", **frozen, "uri": "true"})
    engine = sa.create_engine(url, connect_args={"timeout": lock_limit_s})

    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, _: object) -> None:
        # The driver would begin a transaction with the first write only: reads would see several states.
        connection.isolation_level = None
        with contextlib.closing(connection.cursor()) as cursor:
            # With a write-ahead log a commit costs one write, readers do not block the writer, and a killed
            # program loses nothing that was committed; synchronous=NORMAL leaves out the fsync, which only a
            # power failure can tell.
            if not read_only:
                cursor.execute("PRAGMA journal_mode = WAL")
            cursor.execute("PRAGMA synchronous = NORMAL")
            cursor.execute("PRAGMA foreign_keys = ON")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


def see_one_state(connection: sa.Connection) -> None:
    """Have all reads of a transaction that begins see one state, as SQLite's do."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")


def _is_frozen(file: Path) -> bool:
    """Say whether `file` is a store whose folder cannot be written, and that nobody else is writing.

    SQLite reads a database with a write-ahead log there only if it is declared not to change; it then reads
    no log, so there must not be one.
    """
    return file.is_file() and not os.access(file.parent, os.W_OK) and not Path(f"{file}-wal").exists()


def explain(error: Exception, where: str, file: Path | None) -> StoreError:
    """Return the error, in one line with its remedy, that stands for a database's `error`."""
    text = " ".join(str(getattr(error, "orig", None) or error).split())
    for pattern, (meaning, remedy) in _MEANINGS:
        if re.search(pattern, text, re.IGNORECASE):
            detail = "" if remedy else f" ({text})"
            kind = StoreUnavailableError if (meaning, remedy) == _AWAY else StoreError
            return kind(f"the store {where} {meaning}{detail}", remedy=remedy or None)
    # SQLite says only "disk I/O error" where it could not lengthen its shared-memory file.
    if file is not None and shutil.disk_usage(file.parent).free < 2**20:
        return StoreError(f"the store {where} {_FULL[0]}", remedy=_FULL[1])
    return StoreError(f"the store {where} cannot be used ({text})")

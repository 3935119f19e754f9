"""Keeps a run, or a fleet, from being measured by two programs at the same time."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from oscope.model.errors import BusyError, StoreError
from oscope.storage.store import Store

_WAIT_MS = 60_000
"""For so long who measures waits for other programs that write to its file, such as `oscope prune`."""


@contextlib.contextmanager
def hold(store: Store, name: str) -> Iterator[None]:
    """Hold the run or the fleet `name`. Raises BusyError where another program does.

    Where the store is a file, that is a program on this machine. It ends with the program, however that
    ends, and leaves no file.
    """
    file = ""
    with store.writing() as connection:
        in_database = connection.dialect.name == "postgresql"
        if not in_database:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {_WAIT_MS}")
            # Of a store in memory, which has no other user, the name is empty.
            file = next(iter(connection.exec_driver_sql("PRAGMA database_list")))[2]
    with _in_database(store, name) if in_database else _on_machine(file, name):
        yield


@contextlib.contextmanager
def _in_database(store: Store, name: str) -> Iterator[None]:
    """Hold an advisory lock of PostgreSQL, which ends with the connection."""
    key = sa.func.hashtextextended(name, 0)
    with store.writing() as connection:
        held = connection.scalar(sa.select(sa.func.pg_try_advisory_lock(key)))
    if not held:
        raise _busy(name)
    try:
        yield
    finally:
        # A connection that was lost holds nothing.
        with contextlib.suppress(StoreError), store.writing() as connection:
            connection.execute(sa.select(sa.func.pg_advisory_unlock(key)))


@contextlib.contextmanager
def _on_machine(file: str, name: str) -> Iterator[None]:
    """Hold an abstract socket (unix(7)), which ends with the program; a store in memory has no other user.

    Locks of the store's file are SQLite's, and closing a file releases them. A lock file of its own would
    need a folder that all users of the store can write.
    """
    if not file:
        yield
        return
    try:
        status = Path(file).stat()
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    except OSError as error:
        raise StoreError(f"{file}: {error.strerror}", remedy="see whether the store is there") from error
    with lock:
        try:
            lock.bind(f"\0oscope-{status.st_dev}-{status.st_ino}-{name}")
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise _busy(name) from None
            raise StoreError(f"holding {name}: {error.strerror}", remedy="allow Unix sockets") from error
        yield


def _busy(name: str) -> BusyError:
    return BusyError(f"{name} is being measured by another oscope", remedy="wait for it to end")

"""Keeps what a fleet measures on the controller until the database has it.

Where the store is a database server, a fleet is measured into a *spool*: a store of its own in a file of
SQLite, one for each fleet, whose rows a thread delivers (see `oscope.storage.delivery`). The server may be
away meanwhile, and the controller may be killed: the spool stays until all of it is delivered.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import platformdirs

from oscope.model.errors import StoreError, StoreUnavailableError, UsageError
from oscope.storage import fleets
from oscope.storage.database import locate
from oscope.storage.delivery import copy_calibrations, deliver
from oscope.storage.fleets import FleetEntry
from oscope.storage.store import Store

_ENDING = ".db"
_DIGITS = 16


def is_needed(place: str) -> bool:
    """Say whether the store at `place` is a server, which may be away; a file is as safe as a spool is."""
    return locate(place)[0].get_backend_name() != "sqlite"


def path_of(place: str, fleet: str) -> Path:
    """Return where the spool of a fleet lies."""
    return _folder(place) / f"{fleet}{_ENDING}"


def _folder(place: str) -> Path:
    """Return the folder of the spools of the store at `place`: one store's are not delivered to another."""
    # A password may change, and is part of no name.
    url = locate(place)[0].render_as_string(hide_password=True).replace(":***@", "@")
    name = hashlib.sha256(url.encode()).hexdigest()[:_DIGITS]
    return platformdirs.user_data_path("oscope") / "spool" / name


def make(place: str, fleet: str, fill: Callable[[Store], None]) -> None:
    """Make the spool of a new fleet, which `fill` has its runs stored in, and deliver those at once.

    Raises StoreError where the store at `place` or the spool fails; nothing is left then.
    """
    with Store.open(place) as store, _new(place, fleet) as spool:
        copy_calibrations(store, spool)
        fill(spool)
        for run in spool.fleet(fleet).runs:
            deliver(spool, store, run.run_id)


def find(place: str, text: str) -> str:
    """Return the id of the fleet that `text` means (see `fleets.choose`), of the store or with a spool here.

    Without the store only those that have a spool are found. Raises UsageError where none is meant.
    """
    waiting = [_read(path) for path in _spools(place)]
    try:
        with Store.read(place) as store:
            stored = store.fleets()
    except StoreUnavailableError:
        if not waiting:
            raise
        stored = ()
    known = {entry.id: entry for entry in (*stored, *waiting)}
    return fleets.choose([known[name] for name in sorted(known)], text).id


def take_up(place: str, fleet: str, notify: Callable[[str], None]) -> None:
    """Have the spool of a fleet as the store has it, to which others may have delivered meanwhile.

    What is left in the spool is delivered first, unless the store is away.
    """
    path = path_of(place, fleet)
    if path.exists():
        with contextlib.suppress(StoreUnavailableError), Store.open(place) as store:
            deliver_left(path, store, [run.run_id for run in _read(path).runs], notify)
    restore(place, fleet)


def restore(place: str, fleet: str) -> None:
    """Make the spool of a fleet that was delivered, or begun elsewhere, from the store; if there is none."""
    if path_of(place, fleet).exists():
        return
    with Store.read(place) as store:
        copy(store, place, fleet, [run.run_id for run in store.fleet(fleet).runs])


def copy(store: Store, place: str, name: str, run_ids: Iterable[str]) -> None:
    """Make the spool `name` of these runs, as the store at `place` has them."""
    with _new(place, name) as spool:
        copy_calibrations(store, spool)
        for run_id in run_ids:
            deliver(store, spool, run_id)


def deliver_left(path: Path, store: Store, run_ids: Iterable[str], notify: Callable[[str], None]) -> None:
    """Deliver a spool; where a run went on elsewhere meanwhile, keep a copy that nothing reads."""
    overtaken = False
    with Store.read(path) as left:
        for run_id in run_ids:
            try:
                deliver(left, store, run_id)
            except UsageError:
                overtaken = True
    if overtaken:
        aside = path.with_name(f"{path.stem}-{time.time_ns()}.kept")
        path.rename(aside)
        notify(f"measured on another machine meanwhile; what was in a spool here is kept in {aside}")


def waiting_in(place: str, fleet: str) -> Path | None:
    """Return the spool of a fleet that is not delivered whole; None where there is none."""
    path = path_of(place, fleet) if is_needed(place) else None
    return path if path is not None and path.exists() else None


def remove(place: str, fleet: str) -> None:
    """Remove a spool that was delivered."""
    path = path_of(place, fleet)
    for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        each.unlink(missing_ok=True)


@contextlib.contextmanager
def alone(place: str, fleet: str) -> Iterator[None]:
    """Keep other commands from measuring or delivering the fleet here. Raises UsageError where one does."""
    path = path_of(place, fleet).with_suffix(".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise UsageError(
                f"{fleet} is being measured by another oscope", remedy="wait for it to end"
            ) from None
        if os.fstat(lock).st_nlink:
            break
        # Another command has just ended, and removed it.
        os.close(lock)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(lock)


@contextlib.contextmanager
def _new(place: str, fleet: str) -> Iterator[Store]:
    """Give a new spool, which has its name once it is filled: a kill leaves no part of one."""
    path = path_of(place, fleet)
    unfinished = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for each in unfinished.parent.glob(f"{unfinished.name}*"):
            each.unlink()
    except OSError as error:
        raise StoreError(
            f"the spool {path} cannot be made ({error.strerror})", remedy="set XDG_DATA_HOME to a folder"
        ) from error
    try:
        with Store.open(unfinished) as spool:
            yield spool
        unfinished.rename(path)
    finally:
        for each in unfinished.parent.glob(f"{unfinished.name}*"):
            each.unlink()


def _spools(place: str) -> list[Path]:
    folder = _folder(place)
    return sorted(folder.glob(f"fleet-*{_ENDING}")) if folder.is_dir() else []


def _read(path: Path) -> FleetEntry:
    with Store.read(path) as spool:
        return spool.fleet(path.stem)

"""Reads what a command or a program names: a record file, else a run in the store."""

from __future__ import annotations

from pathlib import Path

from oscope.model.errors import UsageError
from oscope.model.samples import Columns, Results
from oscope.storage import record
from oscope.storage.store import Store


def read_named(name: str | Path, place: str | Path | None, *, columns: Columns = "all") -> Results:
    """Return the results of a record file, or of a run by its id, the start of it, or `last`.

    A record has all its columns. `last` is never a file: ./last is. Raises UsageError where there is neither.
    """
    path = Path(name)
    if name != "last" and path.is_file():
        return record.read(path)
    if isinstance(name, Path) or path.suffix == ".json" or len(path.parts) > 1:
        raise UsageError(
            f"there is no record file {name}", remedy="give a file written by --json, or a run (oscope runs)"
        )
    with Store.read(place) as opened:
        return opened.results(name, columns=columns)

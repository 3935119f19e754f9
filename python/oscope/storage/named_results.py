"""Reads what a command or a program names: a record file, else a run in the store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from oscope.model.errors import UsageError
from oscope.model.samples import Columns, Results
from oscope.storage import record
from oscope.storage.store import Store


def read_named(name: str | Path, place: str | Path | None, *, columns: Columns = "all") -> Results:
    """Return the results of a record file, or of a run by its id, the start of it, or `last`.

    A record has all its columns. `last` is never a file: ./last is. Raises UsageError where there is neither.
    """
    return read_several([name], place, columns=columns)[0]


def read_several(
    names: Sequence[str | Path], place: str | Path | None, *, columns: Columns = "all"
) -> list[Results]:
    """Return what `read_named` returns for each name. The store is opened once, and for runs alone."""
    found: list[Results] = []
    with ExitStack() as stack:
        store: Store | None = None
        for name in names:
            path = Path(name)
            if name != "last" and path.is_file():
                found.append(record.read(path))
                continue
            if isinstance(name, Path) or path.suffix == ".json" or len(path.parts) > 1:
                raise UsageError(
                    f"there is no record file {name}",
                    remedy="give a file written by --json, or a run (oscope runs)",
                )
            if store is None:
                store = stack.enter_context(Store.read(place))
            found.append(store.results(name, columns=columns))
    return found

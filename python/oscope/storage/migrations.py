"""Brings the tables of an older store to the layout of today: a sequence of statements for each database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from oscope.storage import schema

FIRST = schema.VERSION
"""The oldest layout that there is."""
_STEPS: Mapping[str, Sequence[Sequence[str]]] = {
    "sqlite": (),
    "postgresql": (
        # 1 -> 2. A look at the point for each row takes more than half of the time of a COPY. Points are made
        # with their run, and go with it.
        ("ALTER TABLE sample DROP CONSTRAINT IF EXISTS sample_point_id_fkey",),
    ),
}
"""Statements that lead from layout 1 to 2, from 2 to 3, and so on, by the database."""
_LOCK = 0x6F73636F7065
"""Key of the advisory lock that one program holds while it makes or changes the tables ("oscope")."""


def latest(connection: sa.Connection) -> int:
    """Return the version of the layout that this Oscope writes in a database of this kind."""
    return FIRST + len(_STEPS[connection.dialect.name])


def lock(connection: sa.Connection) -> None:
    """Wait until no other program makes or changes the tables; the lock ends with the transaction.

    SQLite's own locks of a file do that there.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))


def migrate(connection: sa.Connection, version: int) -> None:
    """Carry out what leads from `version` to the latest one, in the transaction of `connection`."""
    for statement in (each for step in _STEPS[connection.dialect.name][version - FIRST :] for each in step):
        connection.execute(sa.text(statement))
    if version != latest(connection):
        connection.execute(sa.update(schema.layout).values(version=latest(connection)))

"""Makes the tables of a store, and brings those of an older one to the layout of today.

What leads from a layout to the next is a sequence of statements for each database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable

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


def make_tables(connection: sa.Connection) -> None:
    """Make the tables in an empty database, in the transaction of `connection`."""
    lock(connection)
    for table in (schema.layout, *schema.metadata.sorted_tables):
        connection.execute(CreateTable(table, if_not_exists=True))
        for index in table.indexes:
            connection.execute(CreateIndex(index, if_not_exists=True))
    if connection.scalar(sa.select(schema.layout.c.version)) is not None:
        # Another program made them meanwhile.
        return
    connection.execute(sa.insert(schema.layout), {"version": FIRST})
    migrate(connection, FIRST)


def migrate(connection: sa.Connection, version: int) -> None:
    """Carry out what leads from `version` to the latest one, in the transaction of `connection`."""
    for statement in (each for step in _STEPS[connection.dialect.name][version - FIRST :] for each in step):
        connection.execute(sa.text(statement))
    if version != latest(connection):
        connection.execute(sa.update(schema.layout).values(version=latest(connection)))

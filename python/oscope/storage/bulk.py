"""Inserts many samples at once: in PostgreSQL by COPY, in SQLite by one prepared statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from oscope.model.errors import StoreError
from oscope.storage import schema


def check_run(connection: sa.Connection, run_id: str) -> None:
    """Keep others from deleting the run until the transaction ends; StoreError where it is not there.

    PostgreSQL has no foreign key from samples to points (see `migrations`); SQLite refuses them by its own.
    """
    if connection.dialect.name == "postgresql":
        query = sa.select(schema.run.c.id).where(schema.run.c.id == run_id)
        if connection.scalar(query.with_for_update(read=True, key_share=True)) is None:
            raise StoreError(f"the run {run_id} was deleted meanwhile", remedy="begin a new run")


SAMPLE = tuple(column.name for column in schema.sample.columns)
"""The columns of a sample, in the order of `insert_rows`; the point, its block and the repetition first."""
_ESCAPED = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
"""What PostgreSQL's text format for COPY has otherwise in a text."""
_WRITTEN = 1000
"""Rows that are handed to the driver at a time."""


def insert_samples(connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of the table `sample`, all of the same columns, in the transaction of `connection`.

    Raises the errors of SQLAlchemy, whichever way they are inserted.
    """
    if connection.dialect.name == "postgresql":
        names = list(rows[0])
        _copy(connection, names, [[row[name] for name in names] for row in rows])
    else:
        connection.execute(sa.insert(schema.sample), rows)


def insert_rows(connection: sa.Connection, rows: Sequence[Sequence[Any]]) -> None:
    """Insert samples that are given by the values of `SAMPLE`. Raises as `insert_samples` does."""
    if connection.dialect.name == "postgresql":
        _copy(connection, SAMPLE, rows)
    else:
        connection.execute(sa.insert(schema.sample), [dict(zip(SAMPLE, row, strict=True)) for row in rows])


def _copy(connection: sa.Connection, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from psycopg import Error, sql  # noqa: PLC0415 - of the extra `postgresql`

    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(schema.sample.name), sql.SQL(", ").join(map(sql.Identifier, names))
    )
    raw: Any = connection.connection
    dialect: Any = connection.dialect
    try:
        with raw.cursor() as cursor, cursor.copy(statement) as copy:
            for start in range(0, len(rows), _WRITTEN):
                copy.write("".join(map(_line, rows[start : start + _WRITTEN])))
    except Error as error:
        # SQLAlchemy neither sees the error of a driver's own call, nor notices that the connection is lost.
        if dialect.is_disconnect(error, raw.dbapi_connection, None):
            connection.invalidate(error)
        raise sa.exc.DBAPIError.instance("COPY sample", None, error, Error, dialect=dialect) from error


def _line(row: Sequence[Any]) -> str:
    """Return a row in PostgreSQL's text format for COPY."""
    return "\t".join(map(_field, row)) + "\n"


def _field(value: Any) -> str:
    if value is None:
        return "\\N"
    return value.translate(_ESCAPED) if isinstance(value, str) else repr(value)

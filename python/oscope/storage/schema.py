"""The tables of the store. Rows are only ever added, never changed, so that a record can be trusted."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Index, Integer, MetaData, String, Table, Text

VERSION = 1
"""Layout of the tables below. `oscope.storage.migrations` has what changed since, for each database."""

metadata = MetaData()

# SQLite numbers rows by itself only where the key is exactly INTEGER, PostgreSQL needs the wide type.
_Identity = BigInteger().with_variant(Integer, "sqlite")

layout = Table("oscope_schema", metadata, Column("version", Integer, primary_key=True, autoincrement=False))

run = Table(
    "run",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("started_ns", BigInteger, nullable=False, index=True),
    Column("plan", Text, nullable=False),
)

point = Table(
    "point",
    metadata,
    Column("id", _Identity, primary_key=True),
    Column("run_id", ForeignKey("run.id"), nullable=False),
    Column("experiment", String(200), nullable=False),
    Column("number", Integer, nullable=False),
    # JSON array: the names of the sample's values, metrics first, then covariates.
    Column("columns", Text, nullable=False),
    Index("point_of_run", "run_id", "experiment", "number", unique=True),
)

sample = Table(
    "sample",
    metadata,
    Column("point_id", _Identity, ForeignKey("point.id"), primary_key=True),
    Column("block", Integer, primary_key=True),
    Column("rep", Integer, primary_key=True),
    Column("process", Integer, nullable=False),
    Column("boot", Integer, nullable=False),
    Column("started_ns", BigInteger, nullable=False),
    Column("raw", BigInteger),
    Column("iterations", BigInteger, nullable=False),
    Column("correction", Double, nullable=False),
    Column("failed", Text),
    Column("values", Text, nullable=False),
    # The key is what samples are read by; without a second key SQLite keeps a point's samples side by side.
    sqlite_with_rowid=False,
)

event = Table(
    "event",
    metadata,
    Column("id", _Identity, primary_key=True),
    Column("run_id", ForeignKey("run.id"), nullable=False),
    Column("point_id", _Identity, ForeignKey("point.id")),
    Column("at_ns", BigInteger, nullable=False),
    Column("kind", String(20), nullable=False),
    # JSON: what it is depends on the kind (see oscope.storage.store).
    Column("data", Text, nullable=False),
    Index("event_of_run", "run_id", "id"),
)

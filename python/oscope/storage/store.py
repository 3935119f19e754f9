"""The store: every run with its plan, its samples and what happened to it, in SQLite or PostgreSQL.

Rows are only added: what happens to a run after it was made is an event (see `oscope.storage.schema`).
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson
import sqlalchemy as sa

from oscope.model.errors import StoreError, UsageError
from oscope.model.samples import Columns, Results
from oscope.planning.plan import Plan
from oscope.storage import bulk, fleets, migrations, schema
from oscope.storage.database import (
    address,
    check_folder,
    check_writable,
    empty_engine,
    explain,
    locate_for,
    make_default_folder,
    named_store,
    open_engine,
    see_one_state,
    without_password,
)
from oscope.storage.fleets import FleetEntry
from oscope.storage.reader import load_results
from oscope.storage.run_entry import UNFINISHED as UNFINISHED
from oscope.storage.run_entry import RunEntry as RunEntry
from oscope.storage.run_entry import entry_of

_LOCK_LIMIT_S = 10.0
_DRAWS = 8
"""Ids that are drawn for a run before the store is blamed."""


@dataclass(frozen=True)
class StoredEvent:
    """Something to be stored as an event."""

    kind: str
    data: object
    point_id: int | None = None


class Store:
    """An open store; a context manager."""

    place: str | Path | None = None
    """What `Store.open` was given, without a password; None: the default store."""

    def __init__(self, engine: sa.Engine, where: str, file: Path | None, *, reading: bool = False) -> None:
        """Take over `engine`; use `Store.open` or `Store.read` instead."""
        self._engine = engine
        self._where = where
        self.file = file
        with self.guard():
            try:
                self._connection = engine.connect()
                if reading and not self._tables():
                    self._connection.close()
                    engine.dispose()
                    self._engine = empty_engine()
                    self._connection = self._engine.connect()
                self._prepare(reading=reading)
            except BaseException:
                self._engine.dispose()
                raise

    @classmethod
    def open(cls, place: str | Path | None = None, *, lock_limit_s: float = _LOCK_LIMIT_S) -> Store:
        """Open the store at `place`, a path or a database URL; it is made if it is not there.

        Without one: `OSCOPE_STORE`, else `oscope.db` in the user's data folder. Raises StoreError.
        """
        if named_store(place) is None:
            make_default_folder()
        url, file = locate_for(place, make=True)
        store = cls(open_engine(url, file, lock_limit_s), address(url, file), file)
        store.place = without_password(place)
        return store

    @classmethod
    def read(
        cls,
        place: str | Path | None = None,
        *,
        lock_limit_s: float = _LOCK_LIMIT_S,
        read_only: bool = False,
    ) -> Store:
        """Open the store at `place` for reading: where it is not there yet, as an empty one that is not made.

        With `read_only` the database refuses every write: SQLite does not even clean up after a writer that
        was killed. Raises as `open` does.
        """
        url, file = locate_for(place, make=False)
        if file is not None and not (file.exists() and file.stat().st_size):
            return cls(empty_engine(), address(url, file), None)
        engine = open_engine(url, file, lock_limit_s, read_only=read_only)
        return cls(engine, address(url, file), file, reading=True)

    @staticmethod
    def check(place: str | Path | None = None) -> None:
        """Raise StoreError where no run can be stored at `place`; nothing is made, and no server is asked."""
        _, file = locate_for(place, make=True, write=True)
        if file is not None and not file.exists():
            check_folder(file.parent)

    def __enter__(self) -> Store:
        """Return the store itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Release the database."""
        with contextlib.suppress(sa.exc.DBAPIError):
            self._connection.close()
        self._engine.dispose()

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        """Turn the database's errors into StoreError."""
        try:
            yield
        except sa.exc.IntegrityError as error:
            raise StoreError(
                f"the store {self._where} has this sample already",
                remedy="is another oscope writing the same run?",
            ) from error
        except sa.exc.DBAPIError as error:
            raise explain(error, self._where, self.file) from error

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Give a connection whose reads all see one state of the store."""
        with self.writing() as connection:
            see_one_state(connection)
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Give a connection in a transaction, whose statements each see what others have committed."""
        with self.guard(), self._connection.begin():
            yield self._connection

    def create_run(self, plan: Plan, happenings: Sequence[StoredEvent] = ()) -> str:
        """Store a new run with all its points, and return its id: short, sortable by time, unique."""
        check_writable(self.place, self.file)
        with self.guard():
            # Of 65,536 pairs of runs that begin in one second, one draws the same id: a fleet begins many.
            for _ in range(_DRAWS - 1):
                with contextlib.suppress(sa.exc.IntegrityError):
                    return self._create_run(plan, happenings)
            return self._create_run(plan, happenings)

    def _create_run(self, plan: Plan, happenings: Sequence[StoredEvent]) -> str:
        """Store a new run as `create_run` does; sqlalchemy's IntegrityError where its id is taken."""
        now = time.time_ns()
        run_id = f"{datetime.fromtimestamp(now / 1e9, UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        covariates = [c.name for c in plan.covariates]
        points = [
            {
                "run_id": run_id,
                "experiment": experiment.name,
                "number": number,
                "columns": _dump([*experiment.metrics, *covariates]),
            }
            for experiment in plan.experiments
            for number in range(len(experiment.points))
        ]
        with self._connection.begin():
            self._connection.execute(
                sa.insert(schema.run), {"id": run_id, "started_ns": now, "plan": _dump(plan.to_object())}
            )
            if points:
                self._connection.execute(sa.insert(schema.point), points)
            self._add_events(run_id, [StoredEvent("status", UNFINISHED), *happenings])
        return run_id

    def add(
        self, run_id: str, samples: Sequence[Mapping[str, Any]], happenings: Sequence[StoredEvent] = ()
    ) -> None:
        """Commit samples (rows of the table `sample`) and events of a run together."""
        with self.writing() as connection:
            if samples:
                bulk.check_run(connection, run_id)
                bulk.insert_samples(connection, samples)
            self._add_events(run_id, happenings)

    def point_ids(self, run_id: str) -> dict[tuple[str, int], int]:
        """Return the key of each point of a run by experiment and number."""
        table = schema.point
        query = sa.select(table.c.experiment, table.c.number, table.c.id).where(table.c.run_id == run_id)
        with self.reading() as connection:
            return {(name, number): key for name, number, key in connection.execute(query)}

    def runs(self) -> tuple[RunEntry, ...]:
        """Return all runs, the oldest first."""
        run, point, sample, event = schema.run, schema.point, schema.sample, schema.event
        counts = sa.select(point.c.run_id, sa.func.count()).join_from(point, sample).group_by(point.c.run_id)
        statuses = (
            sa.select(event.c.run_id, event.c.data).where(event.c.kind == "status").order_by(event.c.id)
        )
        with self.reading() as connection:
            count: dict[str, int] = dict(connection.execute(counts).all())
            status = {run_id: orjson.loads(data) for run_id, data in connection.execute(statuses)}
            rows = connection.execute(sa.select(run).order_by(run.c.started_ns, run.c.id)).all()
        return tuple(entry_of(row, status[row.id], count.get(row.id, 0)) for row in rows)

    def calibration(self, machine: object) -> dict[str, Any] | None:
        """Return the newest calibration of `machine` (`environment.machine`) in brief, or None."""
        table = schema.event
        query = sa.select(table.c.data).where(table.c.kind == "calibration").order_by(table.c.id.desc())
        with self.reading() as connection:
            for data in connection.scalars(query):
                found: dict[str, Any] = orjson.loads(data)
                if found["machine"] == machine:
                    return found
        return None

    def imported(self, digest: str) -> str | None:
        """Return the newest run that was imported with this digest of its content, or None."""
        table = schema.event
        query = sa.select(table.c.run_id).where(table.c.kind == "environment", table.c.data.contains(digest))
        with self.reading() as connection:
            return connection.scalar(query.order_by(table.c.id.desc()).limit(1))

    @property
    def option(self) -> str:
        """What names this store to a command, a blank before it; empty for the default store."""
        return "" if self.place is None else f" --store {shlex.quote(str(self.place))}"

    def resolve(self, text: str) -> str:
        """Return the id of the run that `text` means: an id, the start of one, `last`, or as in `last~1`."""
        run = schema.run
        newest = sa.select(run.c.id).order_by(run.c.started_ns.desc(), run.c.id.desc())
        if before := re.fullmatch(r"last(?:~(\d{1,9}))?", text):
            query = newest.offset(int(before[1] or 0)).limit(1)
        else:
            query = newest.where(run.c.id.startswith(text, autoescape=True))
        with self.reading() as connection:
            found = list(connection.scalars(query))
            is_empty = not found and connection.scalar(newest.limit(1)) is None
        if text in found or len(found) == 1:
            return text if text in found else found[0]
        if not found:
            what = "the store has no run yet" if text == "last" else f"the store has no run {text!r}"
            known = f"`oscope runs{self.option}` lists those there are"
            raise UsageError(what, remedy="`oscope run` makes one" if is_empty else known)
        raise UsageError(
            f"{len(found)} runs begin with {text!r}", remedy=f"give more of the id, such as {found[0]}"
        )

    def fleets(self) -> tuple[FleetEntry, ...]:
        """Return the measurements of fleets, the oldest first."""
        with self.reading() as connection:
            return fleets.load(connection)

    def fleet(self, text: str) -> FleetEntry:
        """Return the fleet's measurement that `text` means: an id, the start of one, or `last`."""
        return fleets.choose(self.fleets(), text)

    def plan(self, run_id: str) -> Plan:
        """Return the plan of a run."""
        query = sa.select(schema.run.c.plan).where(schema.run.c.id == run_id)
        with self.reading() as connection:
            return Plan.from_object(orjson.loads(connection.execute(query).scalar_one()))

    def results(self, run_id: str, *, experiment: str | None = None, columns: Columns = "all") -> Results:
        """Return what was measured in a run (an id, its start, or `last`), or in one experiment of it.

        With `columns="metrics"` the covariates are left out but for what comparisons need (see
        `oscope.statistics.core_clock`), which takes half the time.
        """
        found = self.resolve(run_id)
        with self.reading() as connection:
            return load_results(connection, found, experiment, columns)

    def give_back(self) -> None:
        """Give the room of deleted rows back to the file system; PostgreSQL uses it again by itself.

        Raises StoreError, as where another program writes to the file for long. Use `retention.give_back`.
        """
        if self._connection.dialect.name == "sqlite":
            with self.guard(), contextlib.closing(self._connection.connection.cursor()) as cursor:
                try:
                    cursor.execute("VACUUM")
                except Exception as error:
                    raise explain(error, self._where, self.file) from error

    def _prepare(self, *, reading: bool) -> None:
        """Make the tables, or check that those there are ours; what is only read stays in an older layout."""
        version = self._version()
        if version is None:
            # Two programs may make them at the same moment; the one that comes second finds the work done.
            with contextlib.suppress(sa.exc.IntegrityError), self._connection.begin():
                migrations.make_tables(self._connection)
            version = self._version()
        latest = migrations.latest(self._connection)
        if version is not None and migrations.FIRST <= version < latest:
            if not reading:
                with self._connection.begin():
                    migrations.lock(self._connection)
                    found = self._connection.scalar(sa.select(schema.layout.c.version))
                    migrations.migrate(self._connection, int(found or version))
            return
        if version != latest:
            age = "newer" if version is not None and version > latest else "older"
            raise StoreError(
                f"the store {self._where} has layout {version}, {age} than this oscope's {latest}",
                remedy="use the oscope that made it, or name another --store",
            )

    def _version(self) -> int | None:
        """Return the version of the tables there are, or None where the database is empty."""
        present = self._tables()
        if schema.layout.name in present:
            with self._connection.begin():
                return self._connection.scalar(sa.select(schema.layout.c.version))
        if present - {table.name for table in schema.metadata.sorted_tables}:
            raise StoreError(f"{self._where} is a database of something else", remedy="name another --store")
        return None

    def _tables(self) -> set[str]:
        with self._connection.begin():
            return set(sa.inspect(self._connection).get_table_names())

    def _add_events(self, run_id: str, happenings: Sequence[StoredEvent]) -> None:
        rows = [
            {
                "run_id": run_id,
                "point_id": h.point_id,
                "at_ns": time.time_ns(),
                "kind": h.kind,
                "data": _dump(h.data),
            }
            for h in happenings
        ]
        if rows:
            self._connection.execute(sa.insert(schema.event), rows)


def _dump(data: object) -> str:
    return orjson.dumps(data, option=orjson.OPT_NON_STR_KEYS).decode()

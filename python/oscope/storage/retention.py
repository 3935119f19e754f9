"""Deletes runs that are older than somebody wants to keep, with their samples and events.

What belongs together is kept or deleted together: the runs of a fleet, and those whose blocks were
interleaved. A run that may be under way is kept, and so is the newest calibration of each machine.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson
import sqlalchemy as sa

from oscope.model.errors import BusyError
from oscope.storage import exclusive, schema
from oscope.storage.fleets import FLEET
from oscope.storage.store import RunEntry, Store

IDLE_S = timedelta(days=7).total_seconds()
"""An unfinished run into which nothing was stored for so long, beyond its own pauses, is not under way."""


@dataclass(frozen=True)
class Group:
    """Runs that are kept or deleted together, the oldest first."""

    runs: tuple[RunEntry, ...]
    last_event: int
    """Key of the newest event of any of them."""


def find_old(store: Store, age_s: float) -> tuple[Group, ...]:
    """Return the groups into which nothing was stored in the last `age_s` seconds, and that may go."""
    entries = {entry.id: entry for entry in store.runs()}
    with store.reading() as connection:
        newest = _newest(connection)
        calibrations = _calibrations(connection)
        groups = list(_groups(connection, entries))
        now = time.time_ns()
        return tuple(
            Group(tuple(entries[each] for each in group), max(newest[each][0] for each in group))
            for group in groups
            if not calibrations & set(group)
            and all(newest[each][1] < now - int(age_s * 1e9) for each in group)
            and not any(_may_be_under_way(connection, entries[each], newest[each][1], now) for each in group)
        )


def delete(store: Store, group: Group) -> bool:
    """Delete the runs of a group; False where something was stored into one of them meanwhile.

    All of them go, or none. Raises StoreError.
    """
    ids = [run.id for run in group.runs]
    point, sample, event, run = schema.point, schema.sample, schema.event, schema.run
    with store.writing() as connection:
        if connection.dialect.name == "postgresql":
            # Who writes to them meanwhile is waited for, and then seen.
            connection.execute(sa.select(run.c.id).where(run.c.id.in_(ids)).with_for_update())
        points = sa.select(point.c.id).where(point.c.run_id.in_(ids))
        # The first statement writes: SQLite lets no other program write from there on.
        connection.execute(sa.delete(sample).where(sample.c.point_id.in_(points)))
        latest = connection.scalar(sa.select(sa.func.max(event.c.id)).where(event.c.run_id.in_(ids)))
        if latest != group.last_event:
            connection.rollback()
            return False
        for table, column in ((event, event.c.run_id), (point, point.c.run_id), (run, run.c.id)):
            connection.execute(sa.delete(table).where(column.in_(ids)))
    return True


def give_back(store: Store) -> bool:
    """Give the room of deleted rows back; False where a run is being measured, which would have to wait."""
    with store.reading() as connection:
        if connection.dialect.name != "sqlite":
            # PostgreSQL uses the room again by itself.
            return True
    unfinished = [run.id for run in store.runs() if not run.has_ended]
    # Between two turns a fleet's runs are held by nobody.
    fleets = [
        fleet.id for fleet in store.fleets() if not {run.run_id for run in fleet.runs}.isdisjoint(unfinished)
    ]
    with contextlib.ExitStack() as stack:
        try:
            for name in (*fleets, *unfinished):
                stack.enter_context(exclusive.hold(store, name))
        except BusyError:
            return False
        store.give_back()
    return True


def _newest(connection: sa.Connection) -> dict[str, tuple[int, int]]:
    """Return the key and the time, in ns since 1970, of the newest event of each run."""
    table = schema.event
    query = sa.select(table.c.run_id, sa.func.max(table.c.id), sa.func.max(table.c.at_ns))
    return {run_id: (key, at) for run_id, key, at in connection.execute(query.group_by(table.c.run_id))}


def _calibrations(connection: sa.Connection) -> set[str]:
    """Return the runs that hold the newest calibration of a machine: later runs are judged by it."""
    table = schema.event
    query = sa.select(table.c.run_id, table.c.data).where(table.c.kind == "calibration").order_by(table.c.id)
    newest = {
        orjson.dumps(orjson.loads(data)["machine"]): run_id for run_id, data in connection.execute(query)
    }
    return set(newest.values())


def _groups(connection: sa.Connection, entries: Any) -> Iterator[Sequence[str]]:
    """Yield the ids of runs that belong together."""
    table = schema.event
    query = sa.select(table.c.run_id, table.c.kind, table.c.data).where(
        table.c.kind.in_((FLEET, "interleaved"))
    )
    leader = {run_id: run_id for run_id in entries}

    def find(run_id: str) -> str:
        while leader[run_id] != run_id:
            run_id = leader[run_id]
        return run_id

    fleets: dict[str, str] = {}
    for run_id, kind, text in connection.execute(query):
        data = orjson.loads(text)
        others = [fleets.setdefault(data["fleet"], run_id)] if kind == FLEET else data
        for other in others:
            if other in leader:
                leader[find(other)] = find(run_id)
    groups: dict[str, list[str]] = {}
    for run_id in entries:
        groups.setdefault(find(run_id), []).append(run_id)
    yield from groups.values()


def _may_be_under_way(connection: sa.Connection, entry: RunEntry, last_ns: int, now_ns: int) -> bool:
    """Say whether a run may be measured at this moment, by this program or another one."""
    if entry.status != "unfinished":
        return False
    point, sample, run = schema.point, schema.sample, schema.run
    query = sa.select(sa.func.max(sample.c.started_ns)).join(point, point.c.id == sample.c.point_id)
    sampled = connection.scalar(query.where(point.c.run_id == entry.id)) or 0
    plan = orjson.loads(connection.scalar(sa.select(run.c.plan).where(run.c.id == entry.id)) or "{}")
    idle_s = IDLE_S + (plan.get("spread_s") or 0.0)
    return max(last_ns, sampled) > now_ns - int(idle_s * 1e9)

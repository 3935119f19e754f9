"""The measurements of fleets that a store has: which runs belong to one, and how far each is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import sqlalchemy as sa

from oscope.model.errors import UsageError
from oscope.storage import schema

FLEET = "fleet"
"""Kind of the event by which a run belongs to a fleet's."""
FLEET_ROUND = "fleet_round"
"""Kind of the event by which a round of it is measured whole."""

GIVEN_UP = "given up by the fleet: "
"""Begins the note of a run whose host the fleet gave up; the reason follows."""


@dataclass(frozen=True)
class FleetRun:
    """The run of one host of a fleet."""

    run_id: str
    host: str
    rounds_done: int
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the host, in the fleet's file when the measurement began."""


@dataclass(frozen=True)
class FleetEntry:
    """A fleet's measurement: a run for each host."""

    id: str
    rounds: int
    runs: tuple[FleetRun, ...]


def load(connection: sa.Connection) -> tuple[FleetEntry, ...]:
    """Return the measurements of fleets, the oldest first."""
    table = schema.event
    query = (
        sa.select(table.c.run_id, table.c.kind, table.c.data)
        .where(table.c.kind.in_((FLEET, FLEET_ROUND)))
        .order_by(table.c.id)
    )
    members: dict[str, dict[str, Any]] = {}
    rounds: dict[str, int] = {}
    for run_id, kind, data in connection.execute(query):
        if kind == FLEET:
            members[run_id] = orjson.loads(data)
        else:
            rounds[run_id] = max(rounds.get(run_id, 0), orjson.loads(data))
    runs: dict[tuple[str, int], list[FleetRun]] = {}
    for run_id, member in members.items():
        host = member["host"]
        run = FleetRun(run_id, host["name"], rounds.get(run_id, 0), host.get("labels", {}))
        runs.setdefault((member["fleet"], member["rounds"]), []).append(run)
    return tuple(FleetEntry(*of_fleet, tuple(own)) for of_fleet, own in runs.items())


def choose(entries: Sequence[FleetEntry], text: str) -> FleetEntry:
    """Return the one that `text` means: an id, the start of one, or `last`. Raises UsageError."""
    if text == "last":
        matches = list(entries[-1:])
    else:
        matches = [entry for entry in entries if entry.id.startswith(text)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(f"{len(matches)} fleets begin with {text!r}", remedy="give more of the id")
    what = f"the store has no fleet {text!r}" if entries else "the store has no fleet's measurement yet"
    known = ", ".join(entry.id for entry in entries[-3:])
    raise UsageError(what, remedy=f"there is {known}" if known else "make one with oscope fleet run")

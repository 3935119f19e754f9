"""Measures a fleet into a store: by a spool where that is a server, which this process delivers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from oscope.model.host import Host
from oscope.planning.plan import Plan
from oscope.runner.fleet import spool
from oscope.runner.fleet.delivering import DELIVERY_LIMIT_S, INTERRUPTED_LIMIT_S, Delivering
from oscope.runner.fleet.engine import Engine, FleetOutcome, Notify, carry_out, create, new_name
from oscope.runner.fleet.turn_queue import check_labels
from oscope.storage import exclusive
from oscope.storage.database import locate
from oscope.storage.fleets import FleetEntry
from oscope.storage.store import Store


@dataclass(frozen=True)
class NewFleet:
    """What is to be measured."""

    plan: Plan
    hosts: Sequence[Host]
    rounds: int


def place_of(named: str | None) -> str:
    """Return where a worker finds the store: its file or URL. None: the store of the user."""
    url, file = locate(named or os.environ.get("OSCOPE_STORE") or None)
    return str(file) if file is not None else url.render_as_string(hide_password=False)


def measure_fleet(what: NewFleet | str, place: str, engine: Engine, notify: Notify) -> FleetOutcome:
    """Measure a new fleet, or what is missing of the one that a text means (see `fleets.choose`).

    `place` is the path or URL of the store. Raises UsageError for what cannot be measured, OscopeError
    without an engine, StoreError where the store fails, and at the start where it is away.
    """
    if engine.apart is not None and isinstance(what, NewFleet):
        check_labels((host.labels for host in what.hosts), engine.apart)
    if engine.scheduler is not None or not spool.is_needed(place):
        return _measure_directly(what, place, engine, notify)
    fleet = spool.find(place, what) if isinstance(what, str) else new_name()
    path = spool.path_of(place, fleet)
    with contextlib.ExitStack() as stack:
        stack.enter_context(spool.alone(place, fleet))
        if isinstance(what, NewFleet):
            _make_spool(place, fleet, what)
        else:
            spool.take_up(place, fleet, notify)
        store = stack.enter_context(Store.open(path))
        entry = store.fleet(fleet)
        _begin(entry, notify)
        run_ids = [run.run_id for run in entry.runs]
        delivering = stack.enter_context(Delivering(path, place, run_ids, notify))
        outcome = carry_out(entry, store, str(path), engine, notify)
        left = delivering.finish(INTERRUPTED_LIMIT_S if outcome.interrupted else DELIVERY_LIMIT_S)
        if left is None:
            store.close()
            spool.remove(place, fleet)
    return replace(outcome, undelivered=left)


def _make_spool(place: str, fleet: str, what: NewFleet) -> None:
    spool.make(place, fleet, lambda store: create(fleet, what.plan, what.hosts, what.rounds, store))


def _measure_directly(what: NewFleet | str, place: str, engine: Engine, notify: Notify) -> FleetOutcome:
    if isinstance(what, str):
        # Found by reading, which makes no store.
        with Store.read(place) as store:
            what = store.fleet(what).id
    with Store.open(place) as store:
        if isinstance(what, str):
            _deliver_waiting(store.fleet(what), place, store, notify)
            entry = store.fleet(what)
        else:
            fleet = new_name()
            create(fleet, what.plan, what.hosts, what.rounds, store)
            entry = store.fleet(fleet)
        with exclusive.hold(store, entry.id):
            _begin(entry, notify)
            return carry_out(entry, store, place, engine, notify)


def _deliver_waiting(entry: FleetEntry, place: str, store: Store, notify: Notify) -> None:
    """Deliver what waits in a spool of this controller, before others go on with the fleet."""
    path = spool.waiting_in(place, entry.id)
    if path is not None:
        with spool.alone(place, entry.id):
            spool.deliver_left(path, store, [run.run_id for run in entry.runs], notify)
            spool.remove(place, entry.id)


def _begin(entry: FleetEntry, notify: Notify) -> None:
    notify(f"{entry.id}: {len(entry.runs)} hosts, {entry.rounds} round{'' if entry.rounds == 1 else 's'}")

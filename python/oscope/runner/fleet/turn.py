"""One host's measurement of one round: what a worker of the engine does."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from oscope.model.errors import OscopeError, StoreError, StoreUnavailableError, UsageError
from oscope.planning.schedule import Share
from oscope.runner.execution import execute
from oscope.runner.fleet.turn_store import turn_store
from oscope.runner.stop_request import StopRequest
from oscope.storage.fleets import FLEET_ROUND
from oscope.storage.store import StoredEvent

_LOOK_S = 1.0


@dataclass(frozen=True)
class Turn:
    """What is asked of a worker. All of it is plain, since it may go to another machine."""

    store: str
    """Place of the store, which the worker reaches as well."""
    run_id: str
    host: str
    number: int
    """Of the round, from 1."""
    rounds: int
    stop: str
    """Name of the engine's event that ends all turns."""


@dataclass(frozen=True)
class TurnOutcome:
    """What came of a turn."""

    turn: Turn
    samples: int
    """Samples of the run in the store."""
    failures: tuple[str, ...] = ()
    """What was lost in the turn, a line each."""
    error: str | None = None
    """Why the turn ended before its round was measured."""
    retry: bool = False
    """Whether another try may do better."""
    interrupted: bool = False
    store_unavailable: bool = False
    """Whether it ended since the store was not reached."""
    notes: tuple[str, ...] = ()
    """What became of the worker's spool, a line each."""
    worker: str = ""
    """Address of who took it, on whose machine a spool may wait."""


def take(turn: Turn) -> TurnOutcome:
    """Measure what the host's run misses up to this round. Samples are stored as they come.

    It may be called again for the same turn, as where its worker died: what is stored is not repeated.
    """
    notes: list[str] = []
    found = _take(turn, notes.append)
    return replace(found, notes=tuple(notes), worker=load_engine().get_worker().address)


def _take(turn: Turn, notify: Callable[[str], None]) -> TurnOutcome:
    try:
        with (
            _stopping(turn.stop) as stopping,
            turn_store(turn.store, turn.run_id, notify, stopping.asked) as store,
        ):
            plan = store.plan(turn.run_id)
            outcome = execute(
                plan,
                store,
                resume=turn.run_id,
                share=Share(turn.number, turn.rounds),
                stop=stopping.request,
            )
            if outcome.status == "interrupted":
                return TurnOutcome(turn, outcome.samples, outcome.failures, interrupted=True)
            store.add(turn.run_id, (), [StoredEvent(FLEET_ROUND, turn.number)])
            return TurnOutcome(turn, outcome.samples, outcome.failures)
    except OscopeError as error:
        final = isinstance(error, UsageError | StoreError)
        unavailable = isinstance(error, StoreUnavailableError)
        return TurnOutcome(turn, 0, error=str(error), retry=not final, store_unavailable=unavailable)


class _Stopping:
    """Interrupts who measures once all turns are to end."""

    def __init__(self) -> None:
        self.request = StopRequest()
        self.asked = threading.Event()
        """Set once all turns are to end."""
        self.over = threading.Event()

    def ask(self) -> None:
        """Interrupt who measures, now or when it begins."""
        self.asked.set()
        self.request.interrupt()


def load_engine() -> Any:
    """Return Dask's module. Raises OscopeError where it is not installed."""
    try:
        import distributed  # noqa: PLC0415 - of the extra `fleet`, and a second to load
    except ImportError as error:
        raise OscopeError(
            "fleets are measured by Dask, which is not installed", remedy="in a clone: pip install '.[fleet]'"
        ) from error
    return distributed


@contextlib.contextmanager
def _stopping(name: str) -> Iterator[_Stopping]:
    """Look whether all turns are to end, for as long as the block lasts."""
    stopping = _Stopping()
    distributed = load_engine()
    event = distributed.Event(name, client=distributed.get_client())

    def look() -> None:
        while not stopping.over.is_set():
            try:
                asked = event.is_set()
            except Exception:  # noqa: BLE001 - whatever it is: an engine that is gone waits for no turn.
                asked = True
            if asked:
                stopping.ask()
                return
            stopping.over.wait(_LOOK_S)

    thread = threading.Thread(target=look, name="fleet-stop", daemon=True)
    thread.start()
    try:
        yield stopping
    finally:
        stopping.over.set()
        thread.join()

"""Where a turn stores its samples: the store itself, or a spool of the worker where a server may be away.

By default the workers of a fleet are threads of its command, and share the spool of that (see
`oscope.runner.fleet.spool`). A worker of another scheduler has one for each turn, of the run alone.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator

from oscope.model.errors import OscopeError, StoreUnavailableError, UsageError
from oscope.runner.fleet import spool
from oscope.runner.fleet.delivering import DELIVERY_LIMIT_S, INTERRUPTED_LIMIT_S, Delivering
from oscope.storage.store import Store


@contextlib.contextmanager
def turn_store(
    place: str, run_id: str, notify: Callable[[str], None], asked: threading.Event
) -> Iterator[Store]:
    """Give the store that a turn of the run is measured into, and have the store at `place` get all of it.

    `notify` hears what became of a spool, `asked` is set where the turn is to end. Raises
    StoreUnavailableError where the store is away at the beginning, or a while after the end: the spool
    stays, and the next turn of this run on this machine delivers it. Raises OscopeError where another worker
    of this machine measures the run.
    """
    if not spool.is_needed(place):
        with Store.open(place) as store:
            yield store
        return
    name = f"turn-{run_id}"
    path = spool.path_of(place, name)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(spool.alone(place, name))
        except UsageError as error:
            # A worker that has lost its scheduler ends soon.
            raise OscopeError(f"another worker measures the run {run_id}") from error
        _renew(place, name, run_id, notify)
        store = stack.enter_context(Store.open(path))
        delivering = stack.enter_context(Delivering(path, place, [run_id], notify))
        try:
            yield store
        finally:
            try:
                left = (
                    delivering.finish(INTERRUPTED_LIMIT_S)
                    if asked.is_set()
                    else delivering.finish(DELIVERY_LIMIT_S, asked)
                )
            except UsageError as error:
                # Whoever measures it again finds what is there.
                raise OscopeError(f"another worker measured the run {run_id} meanwhile") from error
        if left is not None:
            where = f"{path} on {os.uname().nodename}"
            raise StoreUnavailableError(
                f"up to {left.samples} samples are in {where} alone, and not delivered ({left.why})"
            )
        store.close()
        spool.remove(place, name)


def _renew(place: str, name: str, run_id: str, notify: Callable[[str], None]) -> None:
    """Deliver what an earlier turn left, and make the spool of what the store has."""
    path = spool.path_of(place, name)
    with Store.open(place) as store:
        if path.exists():
            spool.deliver_left(path, store, [run_id], notify)
            spool.remove(place, name)
        spool.copy(store, place, name, [run_id])

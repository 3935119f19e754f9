"""Delivers a fleet's spool to the store, in a thread, while the fleet is measured and a while after."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from oscope.model.errors import OscopeError, StoreError
from oscope.model.interruption import Interruption
from oscope.storage.delivery import counts, deliver
from oscope.storage.store import Store

DELIVERY_LIMIT_S = 90.0
"""For so long a store that is away is waited for once all is measured."""
INTERRUPTED_LIMIT_S = 10.0
_PAUSE_S = 1.0
_AWAY_PAUSE_S = 2.0
_IDLE_SHARE = 10
"""The thread rests for so many times as long as it works: looking for what is new reads the whole spool."""
_LOOK_S = 0.2


@dataclass(frozen=True)
class Undelivered:
    """What of a fleet is in its spool only."""

    samples: int
    """At most; the store may have some of them where it was not reached at all."""
    spool: Path
    why: str


class Delivering:
    """The thread; a context manager."""

    def __init__(
        self, spool: Path, place: str, run_ids: Sequence[str], notify: Callable[[str], None]
    ) -> None:
        """Deliver these runs of `spool` to the store at `place`; `notify` hears when it is away and back."""
        self._spool = spool
        self._place = place
        self._run_ids = run_ids
        self._notify = notify
        self._thread = threading.Thread(target=self._work, name="fleet-delivery", daemon=True)
        self._wake = threading.Event()
        self._ending = False
        self._abandoned = False
        self._target: Store | None = None
        self._done: dict[str, tuple[int, int]] = {}
        self._away: str | None = None
        self._kept = 0
        """Samples that were delivered since the store was away."""
        self._failure: Exception | None = None

    def __enter__(self) -> Delivering:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; what is not delivered stays in the spool."""
        self._ending = self._abandoned = True
        self._wake.set()

    def finish(self, limit_s: float, asked: threading.Event | None = None) -> Undelivered | None:
        """Wait until all that is in the spool is delivered, for so long or until a signal or `asked` says so.

        Returns what is left; None where nothing is. Raises UsageError where the store has other rows.
        """
        self._ending = True
        self._wake.set()
        given_up = asked or threading.Event()
        end = time.monotonic() + limit_s
        with Interruption(given_up.set):
            while self._thread.is_alive() and not given_up.is_set() and time.monotonic() < end:
                self._thread.join(_LOOK_S)
        if self._failure is not None:
            raise self._failure
        if not self._thread.is_alive():
            return None
        self._abandoned = True
        with Store.read(self._spool) as spool:
            kept = sum(samples for samples, _ in counts(spool, self._run_ids).values())
        known = sum(samples for samples, _ in self._done.values())
        return Undelivered(kept - known, self._spool, self._away or "it takes long")

    def _work(self) -> None:
        try:
            with Store.read(self._spool) as spool:
                self._deliver_all(spool)
        except Exception as error:  # noqa: BLE001 - raised by `finish`, in the thread that waits.
            self._failure = error
        finally:
            self._leave()

    def _deliver_all(self, spool: Store) -> None:
        """Deliver what is new, again and again, until nothing more comes and all is there."""
        while True:
            last, began = self._ending, time.monotonic()
            try:
                self._deliver_new(spool)
            except StoreError as error:
                self._hear_away(error)
                pause = _AWAY_PAUSE_S
            else:
                if last:
                    return
                pause = max(_PAUSE_S, _IDLE_SHARE * (time.monotonic() - began))
            if self._abandoned:
                return
            if last:
                self._wake.clear()
            self._wake.wait(pause)

    def _deliver_new(self, spool: Store) -> None:
        found = counts(spool, self._run_ids)
        for run_id, count in found.items():
            if self._done.get(run_id) == count:
                continue
            if self._target is None:
                self._target = Store.open(self._place)
            self._kept += deliver(spool, self._target, run_id)
            self._done[run_id] = count
        if self._away is not None and self._target is not None:
            self._away = None
            self._notify(f"the store is back: {self._kept} samples that waited in the spool were delivered")
        self._kept = 0

    def _hear_away(self, error: OscopeError) -> None:
        self._leave()
        if self._away is None:
            self._notify(f"{error.message}; samples are kept in {self._spool}, and delivered once it is back")
        self._away = error.message

    def _leave(self) -> None:
        if self._target is not None:
            self._target.close()
            self._target = None

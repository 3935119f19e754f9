"""Carries out a plan on a fleet: each host's measurement of a round is a task of Dask.

Workers run on controllers, never on a measured host: each drives its host over ssh. In each round the hosts
come in a random order of their own, so that the time of day is no host's property.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any

from oscope.model.errors import OscopeError, StoreError, UsageError
from oscope.model.host import Host
from oscope.model.interruption import Interruption
from oscope.planning.plan import Plan, on_host
from oscope.runner.fleet import hosts as fleet_file
from oscope.runner.fleet.delivering import Undelivered
from oscope.runner.fleet.turn import Turn, TurnOutcome, load_engine, take
from oscope.runner.fleet.turn_queue import TurnQueue, check_labels
from oscope.storage.fleets import FLEET, GIVEN_UP, FleetEntry, FleetRun
from oscope.storage.store import Store, StoredEvent

_LOOK_S = 0.5
_STORE_LIMIT_S = 600.0
"""For so long a store that workers cannot reach is waited for, without counting it as a try."""
_END_LIMIT_S = 60.0
"""A turn that is to end finishes the sample under way."""


@dataclass(frozen=True)
class Engine:
    """How the turns are carried out."""

    parallel: int
    """Hosts that are measured at the same time."""
    retries: int
    """Further tries of a round that failed."""
    scheduler: str | None = None
    """Address of a Dask scheduler; None: one of this process, with a thread for each host at a time."""
    apart: str | None = None
    """A label: hosts with the same value of it are not measured at the same time."""

    @classmethod
    def of(cls, parallel: int | None, retries: int, scheduler: str | None, *, rack_aware: bool) -> Engine:
        """Return how turns are carried out; `rack_aware`, one host of each rack at a time, sets no limit."""
        most = parallel or (fleet_file.MOST_PARALLEL if rack_aware else fleet_file.PARALLEL)
        return cls(most, retries, scheduler, fleet_file.RACK if rack_aware else None)


@dataclass
class HostOutcome:
    """How a host fared."""

    host: str
    run_id: str
    rounds: int = 0
    """Rounds that were measured whole."""
    samples: int = 0
    error: str | None = None
    """Why the last try failed, if the host was given up."""
    losses: list[str] = field(default_factory=list)
    """What was lost on the way, a line each."""


@dataclass(frozen=True)
class FleetOutcome:
    """How a fleet's run ended."""

    fleet: str
    rounds: int
    hosts: tuple[HostOutcome, ...]
    interrupted: bool
    undelivered: Undelivered | None = None
    """What the store has not yet."""

    def failure(self) -> OscopeError | None:
        """Return the error that the measurement ended with; None where all is measured and stored."""
        again = f"oscope fleet run --resume {self.fleet}"
        left = self.undelivered
        if left is not None:
            return OscopeError(
                f"up to {left.samples} samples of {self.fleet} are in {left.spool} alone, and not delivered "
                f"({left.why})",
                remedy=f"deliver them with {again}",
            )
        remedy = f"continue with {again}"
        if self.interrupted:
            return OscopeError(f"interrupted: {self.fleet} keeps what was measured", remedy=remedy)
        failed = [host for host in self.hosts if host.rounds < self.rounds]
        if not failed:
            return None
        names = ", ".join(host.host for host in failed)
        return OscopeError(f"not all was measured of {names}: {failed[0].error}", remedy=remedy)


Notify = Callable[[str], None]


def new_name() -> str:
    """Return an id for a fleet's measurement: sortable by time, unique."""
    return f"fleet-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


def create(fleet: str, plan: Plan, hosts: Sequence[Host], rounds: int, store: Store) -> None:
    """Make the runs of a fleet in the store, one for each host.

    Raises UsageError where the plan cannot be carried out on another host, or has fewer blocks than rounds.
    """
    load_engine()
    for experiment in plan.experiments:
        if experiment.blocks is None:
            raise UsageError("a fleet measures a number of samples", remedy="give --reps, not --precision")
        if experiment.blocks < rounds:
            raise UsageError(
                f"{experiment.name} has {experiment.blocks} blocks for {rounds} rounds",
                remedy=f"give --rounds {experiment.blocks} or fewer, or more --reps",
            )
    plans = [on_host(plan, host) for host in hosts]
    for own in plans:
        member = {"fleet": fleet, "host": own.host.to_object() if own.host else {}, "rounds": rounds}
        store.create_run(own, [StoredEvent(FLEET, member)])


def carry_out(entry: FleetEntry, store: Store, place: str, engine: Engine, notify: Notify) -> FleetOutcome:
    """Measure what the fleet's runs miss; `place` is how workers open the store, `notify` hears how it goes.

    A host that fails is tried again in the same round, and given up after that; the rest goes on. The first
    SIGINT or SIGTERM ends all in good order, with everything measured kept.
    """
    if engine.apart is not None:
        check_labels((run.labels for run in entry.runs), engine.apart)
    seed = store.plan(entry.runs[0].run_id).seed
    queue = TurnQueue(entry, place, seed, engine.apart)
    hosts = {run.run_id: HostOutcome(run.host, run.run_id, run.rounds_done) for run in entry.runs}
    asked: list[bool] = []
    with _client(engine) as client, Interruption(lambda: asked.append(True)):
        loop = _Loop(client, queue, engine, hosts, notify, asked)
        loop.run()
    outcome = FleetOutcome(entry.id, entry.rounds, tuple(hosts.values()), bool(asked))
    for host in outcome.hosts:
        # What may be in a worker's spool goes on where the store ends now.
        if host.rounds < entry.rounds and host.run_id not in loop.away:
            _store_end(host, store)
    return outcome


def _store_end(host: HostOutcome, store: Store) -> None:
    """Store how a run ended that is not whole. Where the store fails, that is why the host was given up."""
    status = "interrupted" if host.error is None else "failed"
    why = [] if host.error is None else [StoredEvent("note", f"{GIVEN_UP}{host.error}")]
    try:
        store.add(host.run_id, (), [*why, StoredEvent("status", status)])
    except StoreError as error:
        host.error = host.error or str(error)


@dataclass
class _Loop:
    """Gives turns to the engine, and hears what came of them."""

    client: Any
    queue: TurnQueue
    engine: Engine
    hosts: dict[str, HostOutcome]
    notify: Notify
    asked: list[bool]
    running: dict[Any, FleetRun] = field(default_factory=dict)
    turns: dict[Any, Turn] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    ending_at: float | None = None
    away: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Of runs whose last turn did not reach the store: since when, and the worker, which may have a spool."""

    def run(self) -> None:
        """Go on until no turn is left, or all are to end."""
        while self.running or (self.queue and not self.asked):
            if self.asked and self.ending_at is None:
                self._stop()
            self._give()
            for future in self._ended():
                self._hear(future)
            if self.ending_at is not None and time.monotonic() > self.ending_at:
                return
            if self.client.status == "closed":
                self._give_up()
                return

    def _give(self) -> None:
        while not self.asked and len(self.running) < self.engine.parallel:
            found = self.queue.next(self.running.values())
            if found is None:
                return
            run, turn = found
            _, worker = self.away.get(run.run_id, (0.0, None))
            future = self.client.submit(
                take,
                turn,
                pure=False,
                key=f"{turn.host}-{turn.number}-{secrets.token_hex(4)}",
                workers=worker,
                # Another where that one is gone.
                allow_other_workers=worker is not None,
            )
            self.running[future], self.turns[future] = run, turn

    def _ended(self) -> list[Any]:
        if not self.running:
            # All that is left waits to be tried again.
            time.sleep(_LOOK_S)
            return []
        # Cancelled where the scheduler is lost: the client tries to reach it again, and is closed after that.
        with contextlib.suppress(TimeoutError, CancelledError):
            load_engine().wait(list(self.running), timeout=_LOOK_S, return_when="FIRST_COMPLETED")
        return [future for future in self.running if future.done()]

    def _hear(self, future: Any) -> None:
        run, turn = self.running.pop(future), self.turns.pop(future)
        try:
            found: TurnOutcome = future.result()
        except CancelledError:
            found = TurnOutcome(turn, 0, error=self._lost, retry=True)
        except Exception as error:  # noqa: BLE001 - the engine hands on whatever a worker died of.
            found = TurnOutcome(
                turn, 0, error=f"its worker failed ({error or type(error).__name__})", retry=True
            )
        host = self.hosts[run.run_id]
        host.samples = max(host.samples, found.samples)
        host.losses += found.failures
        if not found.store_unavailable:
            self.away.pop(run.run_id, None)
        for line in found.notes:
            self.notify(f"{run.host}: {line}")
        for line in found.failures:
            self.notify(f"{run.host}: {line}")
        if found.interrupted:
            return
        if found.error is None:
            host.rounds = turn.number
            self.tries[run.run_id] = 0
            self.notify(
                f"{run.host}: round {turn.number} of {turn.rounds} is measured, {found.samples} samples"
            )
            self.queue.add(run, turn.number + 1)
            return
        tries = self.tries.get(run.run_id, 0) + 1
        self.tries[run.run_id] = tries
        waits = self._waits(run, found)
        again = (waits or (found.retry and tries <= self.engine.retries)) and not self.asked
        how = "waits" if waits and again else "failed"
        ending = "; it is tried again" if again else ""
        self.notify(f"{run.host}: round {turn.number} {how}: {found.error}{ending}")
        if again:
            self.queue.add(run, turn.number, tries)
        else:
            host.error = found.error

    def _waits(self, run: FleetRun, found: TurnOutcome) -> bool:
        """Say whether a turn failed for want of the store, and is to wait for it."""
        if not found.store_unavailable:
            return False
        since, _ = self.away.get(run.run_id, (time.monotonic(), ""))
        self.away[run.run_id] = since, found.worker
        return time.monotonic() - since < _STORE_LIMIT_S

    @property
    def _lost(self) -> str:
        return f"the Dask scheduler {self.engine.scheduler} was lost"

    def _give_up(self) -> None:
        """Give up all hosts that are not measured yet: nobody is left who could."""
        self.notify(self._lost)
        for run in (*self.running.values(), *self.queue.runs()):
            self.hosts[run.run_id].error = self._lost

    def _stop(self) -> None:
        self.notify("ending: each host finishes the sample under way")
        # Workers of a scheduler that is lost end by themselves.
        with contextlib.suppress(OSError):
            load_engine().Event(self.queue.stop, client=self.client).set()
        self.ending_at = time.monotonic() + _END_LIMIT_S


@contextlib.contextmanager
def _client(engine: Engine) -> Iterator[Any]:
    """Give a client of the scheduler that is named, or of one of this process alone."""
    distributed = load_engine()
    if engine.scheduler is not None:
        # What is lost is reported as a host's error; Dask would print tracebacks as well.
        for name in ("distributed", "tornado.application", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            client = distributed.Client(engine.scheduler, timeout=20)
        except (OSError, ValueError) as error:
            raise OscopeError(
                f"there is no Dask scheduler at {engine.scheduler} ({error})",
                remedy="see dask scheduler --help",
            ) from error
        with client:
            yield client
        return
    with contextlib.ExitStack() as stack:
        with warnings.catch_warnings():
            # Of a machine without a default route, whose address Dask does not need here.
            warnings.simplefilter("ignore", RuntimeWarning)
            # Threads: a turn waits for its host, and computes next to nothing here.
            cluster = distributed.LocalCluster(
                n_workers=1,
                threads_per_worker=engine.parallel,
                processes=False,
                dashboard_address=None,
                memory_limit=None,
                silence_logs=logging.CRITICAL,
            )
            stack.enter_context(cluster)
        yield stack.enter_context(distributed.Client(cluster))


__all__ = ["Engine", "FleetOutcome", "HostOutcome", "Notify", "carry_out", "create", "new_name"]

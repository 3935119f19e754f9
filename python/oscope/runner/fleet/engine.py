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
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oscope.model.errors import OscopeError, UsageError
from oscope.model.host import Host
from oscope.model.interruption import Interruption
from oscope.planning.plan import Plan, on_host
from oscope.runner.fleet.delivering import Undelivered
from oscope.runner.fleet.turn import Turn, TurnOutcome, load_engine, take
from oscope.storage.fleets import FLEET, FleetEntry, FleetRun
from oscope.storage.store import Happening, Store

_LOOK_S = 0.5
_FIRST_PAUSE_S = 2.0
"""Before a host is tried again; doubled each time."""
_MOST_PAUSE_S = 30.0
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


Tell = Callable[[str], None]


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
        store.create_run(own, [Happening(FLEET, member)])


def carry_out(entry: FleetEntry, store: Store, place: str, engine: Engine, tell: Tell) -> FleetOutcome:
    """Measure what the fleet's runs miss; `place` is how workers open the store, `tell` hears how it goes.

    A host that fails is tried again in the same round, and given up after that; the rest goes on. The first
    SIGINT or SIGTERM ends all in good order, with everything measured kept.
    """
    seed = store.plan(entry.runs[0].run_id).seed
    queue = _Queue(entry, place, seed)
    hosts = {run.run_id: HostOutcome(run.host, run.run_id, run.rounds_done) for run in entry.runs}
    asked: list[bool] = []
    with _client(engine) as client, Interruption(lambda: asked.append(True)):
        _Loop(client, queue, engine, hosts, tell, asked).run()
    outcome = FleetOutcome(entry.id, entry.rounds, tuple(hosts.values()), bool(asked))
    for host in outcome.hosts:
        if host.rounds < entry.rounds:
            status = "interrupted" if host.error is None else "failed"
            why = [] if host.error is None else [Happening("note", f"given up by the fleet: {host.error}")]
            store.add(host.run_id, (), [*why, Happening("status", status)])
    return outcome


class _Queue:
    """Turns that wait: by round, then in the round's own order of the hosts; failed ones come last in it."""

    def __init__(self, entry: FleetEntry, place: str, seed: int) -> None:
        self._entry = entry
        self._place = place
        self.stop = f"stop-{entry.id}-{secrets.token_hex(4)}"
        count = len(entry.runs)
        self._order = [
            np.random.default_rng([seed, number]).permutation(count) for number in range(entry.rounds)
        ]
        self._waiting: list[tuple[int, int, float, FleetRun]] = []
        for run in entry.runs:
            self.add(run, run.rounds_done + 1)

    def add(self, run: FleetRun, number: int, tries: int = 0) -> None:
        """Have a host take its turn in a round, if there is such a round."""
        if number > self._entry.rounds:
            return
        place = int(self._order[number - 1][self._entry.runs.index(run)])
        pause = min(_MOST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (tries - 1)) if tries else 0.0
        at = time.monotonic() + pause
        self._waiting.append((number, place + tries * len(self._entry.runs), at, run))

    def next(self) -> tuple[FleetRun, Turn] | None:
        """Take the first turn that need not wait any longer."""
        now = time.monotonic()
        ready = [each for each in self._waiting if each[2] <= now]
        if not ready:
            return None
        first = min(ready, key=lambda each: each[:2])
        self._waiting.remove(first)
        run = first[3]
        return run, Turn(self._place, run.run_id, run.host, first[0], self._entry.rounds, self.stop)

    def __bool__(self) -> bool:
        """Say whether a turn waits."""
        return bool(self._waiting)


@dataclass
class _Loop:
    """Gives turns to the engine, and hears what came of them."""

    client: Any
    queue: _Queue
    engine: Engine
    hosts: dict[str, HostOutcome]
    tell: Tell
    asked: list[bool]
    running: dict[Any, FleetRun] = field(default_factory=dict)
    turns: dict[Any, Turn] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    ending_at: float | None = None
    store_away_since: dict[str, float] = field(default_factory=dict)
    """Of hosts whose last turn did not reach the store."""

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

    def _give(self) -> None:
        while not self.asked and len(self.running) < self.engine.parallel and (found := self.queue.next()):
            run, turn = found
            future = self.client.submit(
                take, turn, pure=False, key=f"{turn.host}-{turn.number}-{secrets.token_hex(4)}"
            )
            self.running[future], self.turns[future] = run, turn

    def _ended(self) -> list[Any]:
        if not self.running:
            # All that is left waits to be tried again.
            time.sleep(_LOOK_S)
            return []
        with contextlib.suppress(TimeoutError):
            load_engine().wait(list(self.running), timeout=_LOOK_S, return_when="FIRST_COMPLETED")
        return [future for future in self.running if future.done()]

    def _hear(self, future: Any) -> None:
        run, turn = self.running.pop(future), self.turns.pop(future)
        try:
            found: TurnOutcome = future.result()
        except Exception as error:  # noqa: BLE001 - the engine hands on whatever a worker died of.
            found = TurnOutcome(
                turn, 0, error=f"its worker failed ({error or type(error).__name__})", retry=True
            )
        host = self.hosts[run.run_id]
        host.samples = max(host.samples, found.samples)
        host.losses += found.failures
        for line in found.failures:
            self.tell(f"{run.host}: {line}")
        if found.interrupted:
            return
        if found.error is None:
            host.rounds = turn.number
            self.tries[run.run_id] = 0
            self.store_away_since.pop(run.run_id, None)
            self.tell(
                f"{run.host}: round {turn.number} of {turn.rounds} is measured, {found.samples} samples"
            )
            self.queue.add(run, turn.number + 1)
            return
        tries = self.tries.get(run.run_id, 0) + 1
        self.tries[run.run_id] = tries
        again = (self._waits(run, found) or (found.retry and tries <= self.engine.retries)) and not self.asked
        self.tell(
            f"{run.host}: round {turn.number} failed: {found.error}{'; it is tried again' if again else ''}"
        )
        if again:
            self.queue.add(run, turn.number, tries)
        else:
            host.error = found.error

    def _waits(self, run: FleetRun, found: TurnOutcome) -> bool:
        """Say whether a turn failed for want of the store, and is to wait for it."""
        if not found.store_away:
            self.store_away_since.pop(run.run_id, None)
            return False
        since = self.store_away_since.setdefault(run.run_id, time.monotonic())
        return time.monotonic() - since < _STORE_LIMIT_S

    def _stop(self) -> None:
        self.tell("ending: each host finishes the sample under way")
        load_engine().Event(self.queue.stop, client=self.client).set()
        self.ending_at = time.monotonic() + _END_LIMIT_S


@contextlib.contextmanager
def _client(engine: Engine) -> Iterator[Any]:
    """Give a client of the scheduler that is named, or of one of this process alone."""
    distributed = load_engine()
    if engine.scheduler is not None:
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


__all__ = ["Engine", "FleetOutcome", "HostOutcome", "Tell", "carry_out", "create", "new_name"]

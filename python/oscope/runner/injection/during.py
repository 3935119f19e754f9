"""A run with injected interference: what was injected is stored with the run, which is marked."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from types import TracebackType
from typing import Any

from oscope.model.errors import OscopeError
from oscope.runner.active_run import ActiveRun
from oscope.runner.events import Happened
from oscope.runner.injection.injector import Injector, Phase
from oscope.runner.injection.spec import Injection
from oscope.targets.affinity import Placement


class Disturbing:
    """While entered, interference is injected as `wanted` says, if it says anything."""

    def __init__(self, wanted: Mapping[str, Any] | None, placement: Placement) -> None:
        """Nothing is started yet. `wanted` is an injection as a plan has it."""
        self._wanted = None if wanted is None else Injection.from_object(wanted)
        self._placement = placement
        self._since_ns = time.time_ns()
        self._injector: Injector | None = None
        self._listener: threading.Thread | None = None
        self._phases: list[Phase] = []
        self.failure: OscopeError | None = None
        """Why a cause ended before it was stopped, if one did."""

    def __enter__(self) -> Disturbing:
        """Start disturbing. Raises OscopeError where this machine or this user cannot."""
        if self._wanted is not None and self._wanted.causes:
            # The probes are children of this process.
            words = [*self._wanted.words(), "--probes-of", str(os.getpid())]
            with self._placement.starting():
                self._injector = Injector(words)
            self._listener = threading.Thread(target=self._listen, name="injection", daemon=True)
            self._listener.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop disturbing."""
        self._stop()

    @contextlib.contextmanager
    def of(self, run: ActiveRun) -> Iterator[None]:
        """Mark the run, have its requests inject what is theirs, and store the truth at its end.

        The truth is the event `injected`: where each cause acted, and its phases. OscopeError where a cause
        ended before the run did.
        """
        wanted = self._wanted
        if wanted is None:
            yield
            return
        run.note(wanted.warning)
        _mark(run, wanted.warning)
        since_ns = self._since_ns
        numbers = itertools.count()
        run.runner.make_inject = lambda: wanted.request(next(numbers), since_ns)
        try:
            yield
        finally:
            begun = None if self._injector is None else asdict(self._injector.begun)
            self._stop()
            phases = [asdict(phase) for phase in self._phases]
            run.append(Happened("injected", {"since_ns": since_ns, "injector": begun, "phases": phases}))
        if self.failure is not None:
            raise self.failure

    def _listen(self) -> None:
        injector = self._injector
        if injector is None:
            raise RuntimeError("nothing was started")
        try:
            for event in injector.events():
                if isinstance(event, Phase):
                    self._phases.append(event)
            injector.finish()
        except OscopeError as error:
            self.failure = error

    def _stop(self) -> None:
        if self._listener is None or self._injector is None:
            return
        self._injector.terminate()
        self._listener.join()
        self._injector.kill()
        self._listener = None


def _mark(run: ActiveRun, text: str) -> None:
    """Have every point tell it, wherever its figures are shown."""
    for points in run.state.points.values():
        for point in points:
            if text not in point.notes:
                run.store([Happened("note", text, point)])

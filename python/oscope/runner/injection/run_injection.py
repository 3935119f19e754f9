"""A run with injected interference: what was injected is stored with the run, which is marked."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any

from oscope.model.errors import OscopeError
from oscope.runner.injection.injector import Injector, Phase
from oscope.runner.injection.spec import Injection
from oscope.runner.point_state import PointState
from oscope.runner.run_events import RecordedEvent, note
from oscope.targets.affinity import Affinity


class RequestInjection:
    """What is injected into the measured regions of a run, a request at a time."""

    def __init__(self, spec: Injection, since_ns: int) -> None:
        """`since_ns` is when a drift began, by CLOCK_REALTIME."""
        self._spec = spec
        self._since_ns = since_ns
        self._numbers = itertools.count()

    def next(self) -> Mapping[str, object] | None:
        """Return what the next request injects; None: nothing."""
        return self._spec.request(next(self._numbers), self._since_ns)


class RunInjection:
    """While entered, interference is injected as `spec` says, if it says anything."""

    def __init__(self, spec: Mapping[str, Any] | None, affinity: Affinity) -> None:
        """Nothing is started yet. `spec` is an injection as a plan has it."""
        self._spec = None if spec is None else Injection.from_object(spec)
        self._affinity = affinity
        self._since_ns = time.time_ns()
        self.requests = None if self._spec is None else RequestInjection(self._spec, self._since_ns)
        self._injector: Injector | None = None
        self._listener: threading.Thread | None = None
        self._phases: list[Phase] = []
        self.failure: OscopeError | None = None
        """Why a cause ended before it was stopped, if one did."""

    def __enter__(self) -> RunInjection:
        """Start injecting. Raises OscopeError where this machine or this user cannot."""
        if self._spec is not None and self._spec.causes:
            # The probes are children of this process.
            words = [*self._spec.words(), "--probes-of", str(os.getpid())]
            with self._affinity.starting():
                self._injector = Injector(words)
            self._listener = threading.Thread(target=self._listen, name="injection", daemon=True)
            self._listener.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop injecting."""
        self._stop()

    def opening(self, points: Mapping[str, Sequence[PointState]]) -> Iterator[RecordedEvent]:
        """Mark the run, and every one of its points, wherever their figures are shown."""
        if self._spec is not None:
            yield note(self._spec.warning)
            for point in itertools.chain.from_iterable(points.values()):
                if self._spec.warning not in point.notes:
                    yield RecordedEvent("note", self._spec.warning, point)

    def closing(self) -> Iterator[RecordedEvent]:
        """Stop injecting, and yield the truth: where each cause acted, and its phases."""
        if self._spec is not None:
            begun = None if self._injector is None else asdict(self._injector.begun)
            self._stop()
            phases = [asdict(phase) for phase in self._phases]
            yield RecordedEvent("injected", {"since_ns": self._since_ns, "injector": begun, "phases": phases})

    def check(self) -> None:
        """Raise OscopeError where a cause ended before it was stopped."""
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

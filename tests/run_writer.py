"""Writes a run into a store event by event, as a runner's events are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oscope.planning.plan import Plan
from oscope.probe.wire import Sample
from oscope.runner.point_state import PointState
from oscope.runner.recorder import Recorder, rows
from oscope.runner.run_events import RecordedEvent, RunEvent, SamplesTaken
from oscope.runner.run_state import RunState
from oscope.storage.store import Store, StoredEvent


class RunWriter:
    """A new run, and where it stands."""

    def __init__(self, store: Store, plan: Plan, happenings: Sequence[StoredEvent] = ()) -> None:
        self.run_id = store.create_run(plan, happenings)
        self._state = RunState(plan, store.point_ids(self.run_id))
        self._recorder = Recorder(store, self.run_id)
        self.points = self._state.points

    def append(self, event: RunEvent) -> None:
        """Store an event, after the state has advanced by it."""
        self._state.apply(event)
        self._recorder.append(event)

    def add_samples(self, point: PointState, block: int, samples: Sequence[Sample]) -> SamplesTaken:
        """Store samples that came together; return the event."""
        event = self._state.samples_taken(point, block, samples)
        self.append(event)
        return event

    def add_event(self, kind: str, data: object) -> None:
        """Store something that happened to the run."""
        self.append(RecordedEvent(kind, data))

    def rows(self, point: PointState, block: int, samples: Sequence[Sample]) -> list[dict[str, Any]]:
        """Return the rows of samples that come next, which are not stored."""
        return rows(self._state.samples_taken(point, block, samples))

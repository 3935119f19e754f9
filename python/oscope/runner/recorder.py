"""Writes the events of a run into the store."""

from __future__ import annotations

from typing import Any

import orjson

from oscope.runner.run_events import RecordedEvent, RunEvent, SamplesTaken
from oscope.storage.store import Store, StoredEvent


class Recorder:
    """The run being written."""

    def __init__(self, store: Store, run_id: str) -> None:
        """Write into the run `run_id`, which is in the store."""
        self._store = store
        self.run_id = run_id

    def append(self, event: RunEvent) -> None:
        """Commit what happened. Raises StoreError."""
        match event:
            case SamplesTaken():
                new = event.new_columns
                happenings = [StoredEvent("columns", [*new], event.point.id)] if new else []
                self._store.add(self.run_id, rows(event), happenings)
            case RecordedEvent():
                point = None if event.point is None else event.point.id
                self._store.add(self.run_id, (), [StoredEvent(event.kind, event.data, point)])


def rows(event: SamplesTaken) -> list[dict[str, Any]]:
    """Return the rows of the samples in the store."""
    count = len(event.point.experiment.metrics)
    metrics, covariates = event.columns[:count], event.columns[count:]
    place = {"block": event.block, "process": event.process, "boot": event.boot}
    return [
        {
            "point_id": event.point.id,
            "rep": rep,
            **place,
            "started_ns": sample.started_ns,
            "raw": sample.raw,
            "iterations": sample.iterations,
            "correction": sample.correction,
            "failed": sample.failed,
            # map and dict.get run without the interpreter: this line is the store's bottleneck. Whole
            # numbers are as exact without their ".0", which takes a tenth of the room.
            "values": orjson.dumps(
                [*map(sample.metrics.get, metrics), *map(sample.covariates.get, covariates)]
            )
            .replace(b".0,", b",")
            .decode(),
        }
        for rep, sample in enumerate(event.samples, event.first_rep)
    ]

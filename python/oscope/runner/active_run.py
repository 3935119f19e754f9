"""A run that is being measured: what its runner yields is stored first, then shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from oscope.runner.point_state import PointState
from oscope.runner.progress import Listener, Progress
from oscope.runner.recorder import Recorder
from oscope.runner.run_events import InspectionBegan, RecordedEvent, RunEvent, SamplesTaken, TurnBegan
from oscope.runner.run_state import RunState


@dataclass(frozen=True)
class ActiveRun:
    """Where a run stands, where it is stored, and who follows it."""

    state: RunState
    recorder: Recorder
    listener: Listener

    def append(self, event: RunEvent) -> None:
        """Store an event, and report it to the listener. Raises StoreError."""
        self.recorder.append(event)
        match event:
            case TurnBegan() | SamplesTaken():
                self.listener.progress(self._progress(event.point, event.block))
            case InspectionBegan():
                self.listener.inspecting(event.name)
            case RecordedEvent(kind="note", point=PointState(), failure=False, shown=str(text)):
                self.listener.remark(text)
            case RecordedEvent(shown=str(text)):
                self.listener.note(text)

    def extend(self, events: Iterable[RunEvent]) -> None:
        """Store and report each event."""
        for event in events:
            self.append(event)

    def _progress(self, point: PointState, block: int) -> Progress:
        experiment = point.experiment
        return Progress(
            finished=self.state.finished,
            total=self.state.total,
            experiment=experiment.name,
            point=point.factors,
            block=block,
            blocks=experiment.blocks,
            again=self.state.again,
        )

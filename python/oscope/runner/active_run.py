"""A run that is being measured: what its runner yields is stored first, then shown."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import TypeVar

from oscope.runner.events import Happened, RunEvent, SamplesTaken, TurnBegan, note
from oscope.runner.point_runner import PointRunner
from oscope.runner.point_state import PointState
from oscope.runner.progress import Listener, Progress
from oscope.runner.recorder import Recorder
from oscope.runner.run_state import RunState

_Value = TypeVar("_Value")


@dataclass
class ActiveRun:
    """One side: who measures it, where it is stored, and who follows it."""

    runner: PointRunner
    state: RunState
    recorder: Recorder
    listener: Listener

    def append(self, event: RunEvent) -> None:
        """Store an event, and report it to the listener."""
        self.recorder.append(event)
        match event:
            case TurnBegan() | SamplesTaken():
                self._tell_progress(event.point, event.block)
            case Happened(shown=str(text)):
                about_point = event.kind == "note" and event.point is not None and not event.failure
                hear = (
                    getattr(self.listener, "remark", self.listener.note)
                    if about_point
                    else self.listener.note
                )
                hear(text)

    def store(self, events: Iterable[RunEvent]) -> None:
        """Store each event before the next is asked for."""
        for event in events:
            self.state.apply(event)
            self.append(event)

    def carry_out(self, events: Generator[RunEvent, None, _Value]) -> _Value:
        """Store each event before the next is asked for, and return what comes of them."""
        events = self.state.advance(events)
        while True:
            try:
                event = next(events)
            except StopIteration as end:
                value: _Value = end.value
                return value
            self.append(event)

    def note(self, text: str) -> None:
        """Store a note on the run, and show it."""
        self.store([note(text)])

    def _tell_progress(self, point: PointState, block: int) -> None:
        experiment = point.experiment
        self.listener.progress(
            Progress(
                finished=self.state.finished,
                total=self.state.total,
                experiment=experiment.name,
                point=point.factors,
                block=block,
                blocks=experiment.blocks,
                again=self.state.again,
            )
        )

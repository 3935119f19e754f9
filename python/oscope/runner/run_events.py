"""What happens in a run, as the runner yields it.

The state of a run (`oscope.runner.run_state`) has advanced by an event before the event is yielded. So events
are complete: who stores or shows them asks nothing of the runner, and changes nothing in it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from oscope.probe.wire import Sample
from oscope.runner.point_state import PointState

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class TurnBegan:
    """A point's turn began."""

    point: PointState
    block: int


@dataclass(frozen=True)
class SamplesTaken:
    """Samples of a point that came together (see `RunState.samples_taken`)."""

    point: PointState
    block: int
    samples: Sequence[Sample]
    first_rep: int
    """Number of the first one in its block."""
    process: int
    """Number of the probe process that took them, unique within the run."""
    boot: int
    """Number of the boot of the machine, 0 for the first one seen in the run."""
    columns: Sequence[str]
    """Names of the values in a sample's row: the metrics, then the covariates."""
    new_columns: Sequence[str] = ()
    """The last of them, which no earlier sample of the point had, such as a counter."""


@dataclass(frozen=True)
class ProcessBegan:
    """A fresh probe process is there, which the next samples are from."""

    environment: Mapping[str, Any]


@dataclass(frozen=True)
class RecordedEvent:
    """Something happened to the run, or to a point (see `oscope.storage.schema` for kinds and data)."""

    kind: str
    data: Any
    point: PointState | None = None
    shown: str | None = None
    """What a person reads of it, in one line."""
    failure: bool = False
    """Whether the run ends with exit status 1 for it."""


@dataclass(frozen=True)
class InspectionBegan:
    """An inspection began."""

    name: str


RunEvent = TurnBegan | SamplesTaken | ProcessBegan | InspectionBegan | RecordedEvent
Events = Generator[RunEvent, None, None]


def note(text: str, point: PointState | None = None, *, failure: bool = False) -> RecordedEvent:
    """Return a note on the run, or on a point, which a person reads as well."""
    return RecordedEvent("note", text, point, text if point is None else f"{point.label}: {text}", failure)


def note_once(text: str, point: PointState) -> Events:
    """Yield a note on a point that does not have it yet."""
    if text not in point.notes:
        yield note(text, point)


def seen(
    events: Generator[RunEvent, None, _Value], see: Callable[[RunEvent], None]
) -> Generator[RunEvent, None, _Value]:
    """Yield each event once it was seen; return what comes of them."""
    while True:
        try:
            event = next(events)
        except StopIteration as end:
            value: _Value = end.value
            return value
        see(event)
        yield event

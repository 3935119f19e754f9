"""What happens in a run, as the runner yields it: each is stored before the next is asked for.

A point's state changes only by what is stored (`Recorder.append`), so that a run which is resumed stands
where it stood.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oscope.planning.plan import PlannedExperiment
from oscope.probe.wire import Sample
from oscope.runner.point_state import PointState


@dataclass(frozen=True)
class TurnBegan:
    """A point's turn began."""

    point: PointState
    block: int


@dataclass(frozen=True)
class SamplesTaken:
    """Samples of a point that came together."""

    point: PointState
    block: int
    samples: Sequence[Sample]


@dataclass(frozen=True)
class ProcessBegan:
    """A fresh probe process is there, which the next samples are from."""

    environment: Mapping[str, Any]


@dataclass(frozen=True)
class GuestBooted:
    """A guest was booted for an experiment."""

    experiment: PlannedExperiment
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class Happened:
    """Something happened to the run, or to a point (see `oscope.storage.schema` for kinds and data)."""

    kind: str
    data: Any
    point: PointState | None = None
    shown: str | None = None
    """What a person reads of it, in one line."""
    failure: bool = False
    """Whether the run ends with exit status 1 for it."""


RunEvent = TurnBegan | SamplesTaken | ProcessBegan | GuestBooted | Happened


def note(text: str, point: PointState | None = None, *, failure: bool = False) -> Happened:
    """Return a note on the run, or on a point, which a person reads as well."""
    return Happened("note", text, point, text if point is None else f"{point.label}: {text}", failure)

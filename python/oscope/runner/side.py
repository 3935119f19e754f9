"""One of several sides that are measured together: what happens to it has its number."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from oscope.runner.point_runner import PointRunner
from oscope.runner.run_events import RunEvent

_Value = TypeVar("_Value")

SideEvent = tuple[int, RunEvent]
"""The number of a side, and what happened to its run."""
SideEvents = Generator[SideEvent, None, None]
Taken = Generator[SideEvent, None, bool]
"""What happens in a pass; its value is False where it was ended early."""


@dataclass(frozen=True)
class Side:
    """A side, and who measures it."""

    number: int
    runner: PointRunner

    def numbered(self, events: Generator[RunEvent, None, _Value]) -> Generator[SideEvent, None, _Value]:
        """Yield what happens to this side, once its state has advanced by it; return what comes of it."""
        advanced = self.runner.state.advance(events)
        while True:
            try:
                event = next(advanced)
            except StopIteration as end:
                value: _Value = end.value
                return value
            yield self.number, event


def is_interrupted(sides: Sequence[Side]) -> bool:
    """Say whether the run of any side is to end."""
    return any(side.runner.interrupted for side in sides)

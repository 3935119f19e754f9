"""How a run reports its progress: the protocol that a progress bar implements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from oscope.model.factors import Factors
from oscope.planning.plan import Plan


@dataclass(frozen=True)
class Progress:
    """Where a run stands, after samples were committed or a point's turn began."""

    finished: int
    """Samples in the store for this run."""
    total: int | None
    """Samples there will be; None where a precision decides."""
    experiment: str
    point: Factors
    """The factors of the point whose turn it is."""
    block: int
    """The block under way, counted from 0."""
    blocks: int | None
    """How many blocks this experiment has; None where a precision decides."""
    again: int = 0
    """Samples of the total that the plan has not: repetitions after interference."""


class Listener(Protocol):
    """Receives what a run does, on the thread that runs it; it must return at once."""

    def begin(self, run_id: str, plan: Plan) -> None:
        """Hear that the run is in the store under `run_id`, and that measuring begins."""

    def progress(self, progress: Progress) -> None:
        """Hear that the samples counted in `progress` are committed."""

    def inspecting(self, name: str) -> None:
        """Hear that the inspection `name` begins."""

    def note(self, text: str) -> None:
        """Hear something that a person should know, in one line."""

    def remark(self, text: str) -> None:
        """Hear a note on a point, in one line."""


class NullListener:
    """A listener that ignores everything."""

    def begin(self, run_id: str, plan: Plan) -> None:
        """Ignore it."""

    def progress(self, progress: Progress) -> None:
        """Ignore it."""

    def inspecting(self, name: str) -> None:
        """Ignore it."""

    def note(self, text: str) -> None:
        """Ignore it."""

    def remark(self, text: str) -> None:
        """Hear it as any other note."""
        self.note(text)

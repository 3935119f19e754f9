"""What a tracer is, what it gives, and how it reports its losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from oscope.model.errors import OscopeError
from oscope.model.formatting import format_count


class TraceUnavailable(OscopeError):  # noqa: N818 (it says what is the case; the point is skipped)
    """A machine that cannot trace so: the point is skipped, with the remedy."""


@dataclass(frozen=True)
class Losses:
    """What a tracer could not record. Figures beside losses are lower bounds."""

    ring: int = 0
    """Events that found the ring between kernel and tracer full."""
    map_full: Mapping[str, int] = field(default_factory=dict)
    """Updates that a full map refused, by the map's name: those that were seen, at least 1 where any was."""
    recursion: int = 0
    """Times that a program of the tracer was not run since another ran already on that CPU."""

    @property
    def any(self) -> bool:
        """Return whether anything was lost."""
        return bool(self.ring or self.recursion or any(self.map_full.values()))

    def describe(self) -> str:
        """Return what was lost, such as `3 events that found the ring full`; empty where nothing was."""
        parts = [
            *([f"{_events(self.ring)} that found the ring full"] if self.ring else []),
            *(
                f"{format_count(count)} update{'s' if count > 1 else ''} that the full map {name} refused"
                for name, count in self.map_full.items()
                if count
            ),
            *([f"{_events(self.recursion)} that came while a program ran"] if self.recursion else []),
        ]
        return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)

    @classmethod
    def from_object(cls, values: Mapping[str, Any]) -> Losses:
        """Return the losses that `to_object` gave; what is not among `values` was not lost."""
        return cls(values.get("ring", 0), values.get("map_full", {}), values.get("recursion", 0))

    def to_object(self) -> dict[str, Any]:
        """Return the losses as plain values for JSON."""
        return {"ring": self.ring, "map_full": dict(self.map_full), "recursion": self.recursion}


def _events(count: int) -> str:
    return f"{format_count(count)} event{'s' if count > 1 else ''}"


@dataclass(frozen=True)
class Tracing:
    """What a tracer gives when it is stopped."""

    readings: Mapping[int, Mapping[str, Any]]
    """A reading for each token that was met; a tracer that does not follow marks gives one, for 0."""
    losses: Losses


class Tracer(ABC):
    """Something that watches processes from outside. One object traces once: start, then stop or kill."""

    name: str
    """The level of the factor `tracer` that it was made for."""
    follows_marks: ClassVar[bool]
    """True: one start serves all probe processes, by their regions' marks. False: one start a process."""

    @abstractmethod
    def start(self, pid: int) -> None:
        """Attach, and return when the tracer works; `pid` is the process to trace, where marks do not tell.

        Raises TraceUnavailable where this machine cannot, OscopeError where the tracer dies.
        """

    @abstractmethod
    def alive(self) -> bool:
        """Return whether the tracer is still attached."""

    @abstractmethod
    def stop(self) -> Tracing:
        """Detach and return what was found. Raises OscopeError where the tracer died before."""

    @abstractmethod
    def kill(self) -> None:
        """Detach at once and release everything; never raises, and may be called at any time."""

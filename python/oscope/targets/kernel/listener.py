"""How a build reports its progress: the protocol that a progress bar implements."""

from __future__ import annotations

from typing import Protocol


class Listener(Protocol):
    """Receives what a build does, on the thread that builds; it must return at once."""

    def begin(self, doing: str, total: int | None) -> None:
        """Hear that `doing` begins, of `total` steps; None where nobody knows how many."""

    def progress(self, done: int) -> None:
        """Hear how many steps of it are done."""

    def note(self, text: str) -> None:
        """Hear something that a person should know, in one line."""


class NullListener:
    """A listener that ignores everything."""

    def begin(self, doing: str, total: int | None) -> None:
        """Ignore it."""

    def progress(self, done: int) -> None:
        """Ignore it."""

    def note(self, text: str) -> None:
        """Ignore it."""

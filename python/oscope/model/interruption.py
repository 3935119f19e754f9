"""Ctrl-C during a run: acted on in good order, instead of raised in the middle of a commit."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, ClassVar

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """While entered, the first SIGINT or SIGTERM calls `react`; a second one is handled as it was before.

    Of several that are entered, the last one alone reacts.
    """

    _entered: ClassVar[list[Interruption]] = []

    def __init__(self, react: Callable[[], None]) -> None:
        self._react = react
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        """Take over the signals; only the main thread can."""
        if threading.current_thread() is threading.main_thread():
            self._former = {number: signal.signal(number, self._handle) for number in _SIGNALS}
            self._entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Give the signals back."""
        if self in self._entered:
            self._restore()
            self._entered.remove(self)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        # A second signal ends the program, and is not the first one of an outer block.
        for entered in reversed(self._entered):
            entered._restore()
        self._react()

    def _restore(self) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former = {}


def raise_interrupt() -> None:
    """React by ending what is under way, where only an exception can: a wait for another program."""
    raise KeyboardInterrupt

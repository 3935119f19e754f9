"""Pauses between the blocks of a run, so that it lasts long enough to show how the machine drifts."""

from __future__ import annotations

import time

from oscope.runner.stop_request import StopRequest
from oscope.runner.stopping import Deadline

_LOOK_S = 0.1
"""How often a pause looks whether the run was interrupted."""


class Pauses:
    """Has the blocks of an experiment begin at equal distances, or at once where one is late."""

    def __init__(self, blocks: int, seconds: float) -> None:
        """Spread `blocks` over so many seconds."""
        self._step_s = seconds / max(blocks, 1)
        self._next_s: float | None = None

    def wait(self, stop: StopRequest, deadline: Deadline) -> None:
        """Wait until the next block's time has come, the deadline has passed, or the run is to end."""
        now = time.monotonic()
        planned = now if self._next_s is None else self._next_s
        while (left := planned - time.monotonic()) > 0 and not (stop.asked or deadline.passed):
            time.sleep(min(left, _LOOK_S))
        # A block that took longer than its share delays the next ones: none catches up by following sooner.
        self._next_s = max(now, planned) + self._step_s

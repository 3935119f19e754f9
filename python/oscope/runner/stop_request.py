"""The request that a run end early: made by a signal handler or another thread, seen by what measures."""

from __future__ import annotations

from oscope.probe.process import Probe


class StopRequest:
    """Begin no further turn, and have the process that measures give up what it does."""

    def __init__(self) -> None:
        self.asked = False
        """Whether the run is to end."""
        self._probe: Probe | None = None

    def interrupt(self) -> None:
        """End the run; safe in a signal handler, and from any thread."""
        self.asked = True
        if self._probe is not None:
            self._probe.terminate()

    def watch(self, probe: Probe | None) -> None:
        """Have a request end this process, which measures from now on; None: there is none."""
        self._probe = probe
        # A request may have come while it started.
        if self.asked and probe is not None:
            probe.terminate()

"""Keeps the laboratory off the CPU on which the probe measures."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar


class Affinity:
    """While entered, the laboratory's threads keep off the CPU that the probe pins itself to.

    The probe takes the highest CPU allowed to it. Storing samples and drawing a progress bar there would
    evict its caches and make it wait: the laboratory would measure itself. With a single CPU nothing can be
    done, and nothing is.
    """

    _entered: ClassVar[list[Affinity]] = []
    """Those that are entered, the outermost first: a run may begin while another one waits."""

    def __init__(self) -> None:
        self._allowed: set[int] = self._entered[0]._allowed if self._entered else os.sched_getaffinity(0)
        self._apart = self._allowed - {max(self._allowed)} or self._allowed

    def __enter__(self) -> Affinity:
        """Move all threads there are."""
        self._entered.append(self)
        _move(self._apart)
        return self

    def __exit__(self, *_: object) -> None:
        """Give them back what they were allowed."""
        self._entered.remove(self)
        if not self._entered:
            _move(self._allowed)

    def release(self, pid: int) -> None:
        """Allow a process all CPUs that this one was allowed, whatever others have left it."""
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(pid, self._allowed)

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Allow this thread everything for a moment, since a child inherits what its parent is allowed."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self._allowed)
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)


def _move(cpus: set[int]) -> None:
    for task in Path("/proc/self/task").iterdir():
        # A thread may have ended since the folder was read.
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), cpus)

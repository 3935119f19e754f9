"""Reads what a tracer writes, so fast that it never has to wait, and so seldom that it disturbs little."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections import Counter
from threading import Event, Thread
from typing import IO

_PIPE_BYTES = 2**20
"""What the tracer can write between two looks; where root may not have so much, 64 KiB."""
_PAUSE_S = 0.005


class Output(Thread):
    """A thread that reads lines until their end, and counts equal ones: of millions of events few differ."""

    def __init__(self, stream: IO[bytes], awaited: bytes) -> None:
        """Read from `stream`; `awaited` is the line that says that the tracer is attached."""
        super().__init__(name="tracer output", daemon=True)
        self._descriptor = stream.fileno()
        self._awaited = awaited
        self.lines: Counter[bytes] = Counter()
        """Each line, and how often it came. Whole once the thread has ended."""
        self.last_s = time.monotonic()
        """When something came last, by the monotonic clock."""
        self.attached = Event()
        """Set once the awaited line has come, or nothing more will."""
        with contextlib.suppress(PermissionError):
            fcntl.fcntl(stream, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def run(self) -> None:
        """Read to the end."""
        rest = b""
        while chunk := os.read(self._descriptor, _PIPE_BYTES):
            self.last_s = time.monotonic()
            *lines, rest = (rest + chunk).split(b"\n")
            self.lines.update(lines)
            if not self.attached.is_set() and self._awaited in self.lines:
                self.attached.set()
            time.sleep(_PAUSE_S)
        if rest:
            self.lines[rest] += 1
        self.lines.pop(b"", None)
        self.attached.set()

"""How many bytes a probe has read or written so far: it says nothing itself during a repetition."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

_COUNTERS = {"read": ("rchar", "read_bytes"), "write": ("wchar", "write_bytes")}
"""Through system calls, and from or to the device (proc_pid_io(5)). A mapping that is read shows in the
latter only, and not at all where the file is in the page cache."""


def moved(pid: int, direction: Literal["read", "write"]) -> Callable[[], int | None]:
    """Return a function for the bytes that process `pid` moves from now on; None where uncounted."""
    start = _counters(pid)

    def since() -> int | None:
        now = _counters(pid)
        growth = [now[name] - start[name] for name in _COUNTERS[direction] if name in now and name in start]
        return max(growth, default=None)

    return since


def _counters(pid: int) -> dict[str, int]:
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        # It has ended, or the kernel counts nothing.
        return {}
    return {name: int(value) for name, _, value in (line.partition(":") for line in lines)}

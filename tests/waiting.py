"""Waiting until something is true, which is what a test means when it sleeps."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
LIMIT_S = 120.0
"""Far longer than anything takes on a busy machine: a wait that reaches it waits for what does not come."""
INTERVAL_S = 0.01


def wait_until(
    condition: Callable[[], T],
    what: str,
    process: subprocess.Popen[Any] | None = None,
    *,
    limit_s: float = LIMIT_S,
    interval_s: float = INTERVAL_S,
) -> T:
    """Return the first true value of `condition`, called every 10 ms or `interval_s`.

    Raises:
        TimeoutError: it was not true within `limit_s`; the text says `what` was waited for.
        AssertionError: `process`, which was to make it true, has ended.

    """
    deadline = time.monotonic() + limit_s
    while not (value := condition()):
        assert process is None or process.poll() is None, f"{what}: the process has ended"
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {limit_s:g} s")
        time.sleep(interval_s)
    return value


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """Read what a command writes to standard error until a line has these words; return all that was read."""
    assert process.stderr is not None
    lines = [process.stderr.readline()]
    while words not in lines[-1]:
        assert lines[-1], process.communicate(timeout=LIMIT_S)
        lines.append(process.stderr.readline())
    return "".join(lines)


def unmount(folder: str | Path) -> None:
    """Unmount what is there: somebody who has just looked at it has it in use for a moment.

    Raises:
        TimeoutError: it cannot be unmounted.

    """
    command = ["umount", str(folder)]
    wait_until(
        lambda: subprocess.run(command, capture_output=True, check=False, timeout=300).returncode == 0,
        " ".join(command),
    )


def wait_until_gone(processes: Collection[int]) -> None:
    """Return when none of these processes exists; they are no children of this one.

    Raises:
        TimeoutError: one is left.

    """
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in processes), f"the end of {processes}")

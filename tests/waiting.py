"""Waiting for a thing to be so, which is what a test means when it sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LIMIT_S = 120.0
"""Far longer than anything takes on a busy machine: who reaches it waits for what does not come."""
INTERVAL_S = 0.01


def wait_until(true: Callable[[], T], what: str, limit_s: float = LIMIT_S) -> T:
    """Return the first true value that the call gives. Raises TimeoutError that says what was waited for."""
    deadline = time.monotonic() + limit_s
    while not (value := true()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {limit_s:g} s")
        time.sleep(INTERVAL_S)
    return value

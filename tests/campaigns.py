"""How many rounds a campaign has: a test that repeats one trial many times and counts what is lost."""

from __future__ import annotations

import os


def rounds(usual: int, full: int) -> int:
    """Return OSCOPE_TEST_ROUNDS if that is set, else `full` in a full test run, else `usual`."""
    if number := os.environ.get("OSCOPE_TEST_ROUNDS"):
        return int(number)
    return full if os.environ.get("OSCOPE_TEST_FULL") == "1" else usual

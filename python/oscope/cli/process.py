"""The command's process: how often it looks for garbage, and how it ends."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from typing import NoReturn

ALLOCATIONS = 50_000
"""Of objects, between two looks for garbage: at 700, as Python has it, 4 % of the time of `oscope show`."""


def begin() -> None:
    """Look for garbage less often than Python does, since start-up makes many objects that stay."""
    gc.set_threshold(ALLOCATIONS)


def end(code: int) -> NoReturn:
    """End the process as Py_FinalizeEx does (CPython, pylifecycle.c), but leave the objects to the kernel.

    Raises SystemExit where an output cannot be flushed: the interpreter then reports it, and exits with 120.
    Destroying all objects one by one takes 12 % of the CPU time of `oscope show`.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # Waits for the other threads.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            sys.exit(code)
    os._exit(code & 0xFF)

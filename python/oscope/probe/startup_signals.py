"""Ctrl-C while the command is still being loaded: a line, instead of the trace of a half-done import."""

from __future__ import annotations

import os
import signal
from types import FrameType


def hold() -> None:
    """End the process at a SIGINT from now on: nothing is made yet that had to be undone."""
    # Where it is ignored, as by nohup, it stays so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def release() -> None:
    """Have a SIGINT raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    del number, frame
    # An exception could be lost or altered by what is being imported. Standard error may be closed.
    try:
        os.write(2, b"oscope: interrupted\n")
    finally:
        os._exit(1)

"""`oscope fs`: becomes the program `oscope-fs`, whose help, errors and exit codes are its own."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated

import typer

from oscope.probe.locate import find_filesystem


def run(words: Annotated[list[str] | None, typer.Argument(metavar="VERB...")] = None) -> None:
    """Mount a folder of another host, unmount it, tell how it is, copy back what a kill left.

    The words are those of oscope-fs: mount, umount, status, recover, operations; see oscope fs --help.
    """
    program = find_filesystem()
    sys.stdout.flush()
    # Python ignores them, and what it becomes would inherit that.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    os.execv(program, [program.name, *(words or ["--help"])])  # noqa: S606 - no shell is what is wanted.

"""Long output through a pager, where standard output is a terminal; into a pipe it is only printed."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT = ("less", "-FRX")
"""It ends at once where one screen holds everything, keeps colours, and leaves the text on the screen."""


@contextlib.contextmanager
def paged(out: Console) -> Iterator[Console]:
    """Give a console to print to; what is longer than the screen then goes through the pager.

    The pager is `$PAGER`, else `less -FRX`; where it cannot be started the text is printed as it is.
    """
    if not out.is_terminal or out.stderr:
        yield out
        return
    from rich.console import Console  # noqa: PLC0415 - start-up: oscope list needs none of it

    buffer = io.StringIO()
    own = Console(
        file=buffer, force_terminal=True, width=out.width, highlight=False, markup=False, emoji=False
    )
    try:
        yield own
    finally:
        show(buffer.getvalue(), out.height)


def show(text: str, height: int) -> None:
    """Write a text to standard output, through the pager where it has more lines than `height`."""
    command = shlex.split(os.environ.get("PAGER", "")) or list(DEFAULT)
    if text.count("\n") < height or shutil.which(command[0]) is None:
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    # A reader that has seen enough closes the pipe; Ctrl-C is the pager's own.
    with contextlib.suppress(BrokenPipeError):
        process.communicate(text.encode(errors="replace"))
    while process.returncode is None:
        with contextlib.suppress(KeyboardInterrupt):
            process.wait()

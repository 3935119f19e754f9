"""A kernel build's progress on standard error: a bar on a terminal, else sparse lines, in CI only notes."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from oscope.cli.errors import note
from oscope.report import terminal
from oscope.targets.kernel.listener import Listener

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LINE_INTERVAL_S = 30.0
"""Between two plain lines; a first build takes minutes."""


@contextlib.contextmanager
def watching() -> Iterator[Listener]:
    """Give the listener that suits standard error; its bar is gone when the context is left."""
    if os.environ.get("CI"):
        yield Notes()
    elif sys.stderr.isatty():
        with _bar() as bar:
            yield Bar(bar)
    else:
        yield Lines()


class Notes:
    """Prints notes, and no progress."""

    def begin(self, doing: str, total: int | None) -> None:
        """Say nothing."""

    def progress(self, done: int) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Write the note as a line."""
        note(text)


class Lines(Notes):
    """Prints a line when a step begins, and its progress now and then."""

    def __init__(self) -> None:
        self._doing = ""
        self._total: int | None = None
        self._printed_at = 0.0

    def begin(self, doing: str, total: int | None) -> None:
        """Write what begins."""
        self._doing, self._total, self._printed_at = doing, total, time.monotonic()
        note(doing)

    def progress(self, done: int) -> None:
        """Write how far it is, if the last line is old."""
        now = time.monotonic()
        if now - self._printed_at >= LINE_INTERVAL_S:
            self._printed_at = now
            share = f"{min(done / self._total, 1):.0%}" if self._total else f"{done} files"
            note(f"{self._doing}: {share}")


class Bar(Notes):
    """Shows what goes on, how far it is, and the time left."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task: TaskID | None = None

    def begin(self, doing: str, total: int | None) -> None:
        """Put the bar back to its start."""
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(doing, total=total)

    def progress(self, done: int) -> None:
        """Move the bar."""
        if self._task is not None:
            self._bar.update(self._task, completed=done)


def _bar() -> Progress:
    console = terminal.console(to_standard_error=True)
    # Lines printed meanwhile go above the bar, unbroken.
    console.soft_wrap = True
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=16),
        TaskProgressColumn(show_speed=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        refresh_per_second=4,
    )

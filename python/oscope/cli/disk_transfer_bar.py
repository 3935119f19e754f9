"""A bar on standard error for a long reading or writing; only on a terminal, and only once it is long."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from oscope.model.formatting import Scale
from oscope.report import terminal

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress

SHORT_S = 0.5
"""What takes no longer has no bar."""
_REDRAWS_PER_S = 2
"""Every redraw takes time from what is measured."""


@contextlib.contextmanager
def bar(doing: str, total: int | None, moved: Callable[[], int | None]) -> Iterator[None]:
    """Show `doing`, how many bytes `moved` of `total`, and the time gone, until the context is left."""
    if not sys.stderr.isatty() or os.environ.get("CI"):
        yield
        return
    with _make_bar(doing, total, moved):
        yield


def _make_bar(doing: str, total: int | None, moved: Callable[[], int | None]) -> Progress:
    # Loaded before the measurement begins, not during it.

    begun = time.monotonic()
    console = terminal.console(to_standard_error=True)
    # Lines printed meanwhile go above the bar, unbroken.
    console.soft_wrap = True

    class Bar(Progress):
        """Looks how far it is each time it is drawn, so that no further thread is needed for that."""

        def get_renderable(self) -> RenderableType:
            if time.monotonic() - begun < SHORT_S:
                return ""
            done = moved()
            text = amount(done, total)
            # Without a total the bar only shows that something goes on.
            known = total if done else None
            self.update(task, total=known, completed=min(done or 0, total or 0), moved=text)
            return super().get_renderable()

    shown = Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=16),
        TextColumn("{task.fields[moved]}", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        refresh_per_second=_REDRAWS_PER_S,
    )
    task = shown.add_task(doing, total=None, moved="")
    return shown


def amount(done: int | None, total: int | None) -> str:
    """Tell how much is done: `1.23 of 4.00 GiB`; nothing where it is not known, or nothing moves."""
    if not done:
        return ""
    if total is None:
        return Scale.choose([done], [done / 10], "B").with_unit(done)
    scale = Scale.choose([total], [total / 10], "B")
    return f"{scale.text(min(done, total))} of {scale.with_unit(total)}"

"""How a transfer is drawn: its bar and its tables. They take rich, which a short transfer has no time for."""

from __future__ import annotations

from collections.abc import Sequence

import rich.progress
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

from oscope.cli.disk_transfer_bar import amount
from oscope.model.formatting import MISSING, format_count, format_value
from oscope.report import terminal
from oscope.tools.transfer.events import Descriptor, Done, Progress, Tally

_REDRAWS_PER_S = 4


class Bar:
    """A bar on standard error, which shows how far a transfer is."""

    def __init__(self, side: str) -> None:
        """Begin to show it; `side` is `sender` or `receiver`."""
        console = terminal.console(to_standard_error=True)
        # Lines printed meanwhile go above the bar, unbroken.
        console.soft_wrap = True
        self._bar = rich.progress.Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[moved]}", markup=False),
            TextColumn("{task.fields[files]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            refresh_per_second=_REDRAWS_PER_S,
        )
        doing = "sending" if side == "sender" else "receiving"
        self._task = self._bar.add_task(doing, total=None, moved="", files="")
        self._bar.start()

    def draw(self, progress: Progress) -> None:
        """Show how far it is now."""
        self._bar.update(
            self._task,
            total=progress.of_bytes or None,
            completed=progress.bytes,
            moved=amount(progress.bytes, progress.of_bytes),
            files=f"file {progress.files} of {progress.of_files}" if progress.of_files > 1 else "",
        )

    def stop(self) -> None:
        """Take it away."""
        self._bar.stop()


def print_figures(side: str, done: Done) -> None:
    """Print what a transfer took, as `side` knows it."""
    rows = _rows(side, done)
    tallies = [tally for _, tally in rows]
    columns = [
        ["side", *(side for side, _ in rows)],
        ["method", *(tally.method for tally in tallies)],
        terminal.aligned(["files", *(format_count(tally.files) for tally in tallies)]),
        terminal.aligned(["bytes", *(format_count(tally.bytes) for tally in tallies)]),
        terminal.aligned(["time", *(format_value(tally.time_ns / 1e9, None, "s") for tally in tallies)]),
        terminal.aligned(["throughput", *(_value(tally.bytes_per_s, "B/s") for tally in tallies)]),
        terminal.aligned(["CPU s/GiB", *(_plain(tally.cpu_s_per_gib) for tally in tallies)]),
        terminal.aligned(["calls", *(format_count(tally.calls) for tally in tallies)]),
        terminal.aligned(["switches", *(format_count(tally.switches) for tally in tallies)]),
    ]
    out = terminal.console()
    # A table in a file or a pipe is not cut to the width of a terminal that is not there.
    out.soft_wrap = True
    out.width = max(out.width, terminal.table_width(columns))
    out.print(terminal.grid(columns))
    here = done.here
    if here.skipped or here.bytes < here.total_bytes:
        out.print(
            f"{format_count(here.total_bytes)} bytes in all: {format_count(here.total_bytes - here.bytes)} "
            f"were there from before, {format_count(here.skipped)} whole files among them"
        )
    if done.digest is not None:
        out.print(f"{done.digest_kind} {done.digest}")


def print_descriptors(descriptors: Sequence[Descriptor]) -> None:
    """Print a table of the pages of a device's mapped area; nothing where there are none."""
    if not descriptors:
        return

    headings = list(descriptors[0].fields)
    columns = [
        terminal.aligned([heading, *(str(each.fields.get(heading, MISSING)) for each in descriptors)])
        for heading in headings
    ]
    out = terminal.console()
    out.width = max(out.width, terminal.table_width(columns))
    out.print(terminal.grid(columns))


def _rows(side: str, done: Done) -> list[tuple[str, Tally]]:
    other = "receiver" if side == "sender" else "sender"
    return [(side, done.here), *([] if done.there is None else [(other, done.there)])]


def _value(value: float | None, unit: str) -> str:
    return MISSING if value is None else format_value(value, None, unit)


def _plain(value: float | None) -> str:
    return MISSING if value is None else format_value(value, None, "")

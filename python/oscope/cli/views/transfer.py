"""What a transfer shows: a bar on standard error while it goes on, a table on standard output at its end."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from oscope.cli.disk_transfer_bar import amount
from oscope.cli.errors import note, tell
from oscope.model.errors import OscopeError
from oscope.model.formatting import MISSING, format_count, format_value
from oscope.report import terminal
from oscope.tools.transfer.events import Descriptor, Done, Key, Left, Progress, Tally

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

KEY_VARIABLE = "OSCOPE_TRANSFER_KEY"
"""Where a sender has the key from, unless by `--key`: others see a command's words, not its environment."""
SHORT_S = 0.5
"""What takes no longer has no bar."""
_REDRAWS_PER_S = 4


class Shown:
    """Shows one transfer after the other on the terminal."""

    def __init__(self, side: str, *, tables: bool = True) -> None:
        """`side`: `sender` or `receiver`, which this is; without `tables` only standard error is written."""
        self._side = side
        self._tables = tables
        self._begun = 0.0
        self._bar: Bar | None = None
        self._descriptors: list[Descriptor] = []
        self.is_complete = True
        """Whether nothing was left out."""

    def __enter__(self) -> Shown:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take a bar away that is left."""
        self._end()

    def listening(self, address: str) -> None:
        """Tell the address, with the port that was chosen."""
        note(f"listening on {address}")
        self._prepare()

    def key(self, key: Key) -> None:
        """Print what to type on the other host."""
        note("who has this key may send; on the other host:")
        print(
            f"{KEY_VARIABLE}={key.text} oscope transfer send FILE... {key.address}",
            file=sys.stderr,
            flush=True,
        )

    def met(self, peer: str) -> None:
        """Tell who connected, where that is news."""
        self._begun = time.monotonic()
        if self._side == "receiver":
            note(f"{peer} sends")
        self._prepare()

    def progress(self, progress: Progress) -> None:
        """Draw how far it is; only on a terminal, and only once it takes long."""
        if self._bar is None:
            if not sys.stderr.isatty() or os.environ.get("CI") or time.monotonic() - self._begun < SHORT_S:
                return
            self._bar = _make_bar(self._side)
            self._bar.start()

        self._bar.update(
            self._bar.task_ids[0],
            total=progress.of_bytes or None,
            completed=progress.bytes,
            moved=amount(progress.bytes, progress.of_bytes),
            files=f"file {progress.files} of {progress.of_files}" if progress.of_files > 1 else "",
        )

    def note(self, text: str) -> None:
        """Tell something beside the data."""
        note(text)

    def left(self, left: Left) -> None:
        """Name what was left out."""
        self.is_complete = False
        note(f"{left.name}: left out: {left.reason}")

    def descriptor(self, descriptor: Descriptor) -> None:
        """Keep it for the table at the end."""
        self._descriptors.append(descriptor)

    def done(self, done: Done) -> None:
        """Print what it took."""
        self._end()
        descriptors, self._descriptors = self._descriptors, []
        if self._tables:
            _print(_rows(self._side, done), done)
            _print_descriptors(descriptors)

    def failed(self, error: OscopeError) -> None:
        """Tell why one transfer of several failed."""
        self._end()
        self._descriptors = []
        tell(error, verbose=False)

    def _prepare(self) -> None:
        """Import what the table takes while the probe waits or works: what is short shall end soon."""
        if self._tables:
            importlib.import_module("oscope.report.terminal")

    def _end(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            with contextlib.suppress(BrokenPipeError):
                bar.stop()


def _make_bar(side: str) -> Bar:
    console = terminal.console(to_standard_error=True)
    # Lines printed meanwhile go above the bar, unbroken.
    console.soft_wrap = True
    bar = Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=16),
        TextColumn("{task.fields[moved]}", markup=False),
        TextColumn("{task.fields[files]}", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        refresh_per_second=_REDRAWS_PER_S,
    )
    bar.add_task("sending" if side == "sender" else "receiving", total=None, moved="", files="")
    return bar


def _rows(side: str, done: Done) -> list[tuple[str, Tally]]:
    other = "receiver" if side == "sender" else "sender"
    return [(side, done.here), *([] if done.there is None else [(other, done.there)])]


def _print(rows: Sequence[tuple[str, Tally]], done: Done) -> None:
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


def _print_descriptors(descriptors: Sequence[Descriptor]) -> None:
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


def _value(value: float | None, unit: str) -> str:
    return MISSING if value is None else format_value(value, None, unit)


def _plain(value: float | None) -> str:
    return MISSING if value is None else format_value(value, None, "")

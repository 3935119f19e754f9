"""What a transfer shows: a bar on standard error while it goes on, a table on standard output at its end."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

from oscope.cli.errors import note, tell
from oscope.model.errors import OscopeError
from oscope.tools.transfer.events import Descriptor, Done, Key, Left, Progress

if TYPE_CHECKING:
    from oscope.cli.views.transfer_drawing import Bar

KEY_VARIABLE = "OSCOPE_TRANSFER_KEY"
"""Where a sender has the key from, unless by `--key`: others see a command's words, not its environment."""
SHORT_S = 0.5
"""What takes no longer has no bar."""


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
            self._bar = _drawing().Bar(self._side)
        self._bar.draw(progress)

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
            drawing = _drawing()
            drawing.print_figures(self._side, done)
            drawing.print_descriptors(descriptors)

    def failed(self, error: OscopeError) -> None:
        """Tell why one transfer of several failed."""
        self._end()
        self._descriptors = []
        tell(error, verbose=False)

    def _prepare(self) -> None:
        """Import what the table takes while the probe waits or works: what is short shall end soon."""
        if self._tables:
            _drawing()

    def _end(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            with contextlib.suppress(BrokenPipeError):
                bar.stop()


def _drawing() -> ModuleType:
    from oscope.cli.views import transfer_drawing  # noqa: PLC0415 - start-up: rich

    return transfer_drawing

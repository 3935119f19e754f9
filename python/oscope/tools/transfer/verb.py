"""One process of `oscope-probe send` or `receive`: started, heard event by event, and ended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from types import TracebackType

from oscope.probe.child import Child
from oscope.probe.locate import find_probe
from oscope.tools.transfer.events import Event, parse_event


class Verb(Child):
    """A running verb."""

    goodbye_limit_s = 20.0
    """What it waits for before it ends may be a slow device."""

    def __init__(self, words: Sequence[str], *, reads_input: bool = False) -> None:
        """Start the probe with `words`, like `["receive", "--into", "here"]`; ProbeError if it does not.

        `reads_input`: it has the standard input of this process, to read a key from.
        """
        self.subject = f"oscope-probe {words[0]}"
        self.silence_limit_s: float | None = None
        """How long it may say nothing; None while it waits for others."""
        super().__init__(
            [find_probe(), *words], stdin=sys.stdin.fileno() if reads_input else subprocess.DEVNULL
        )

    def __enter__(self) -> Verb:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process if it runs still."""
        self.kill()

    def events(self) -> Iterator[Event]:
        """Yield what it says until its output ends. Raises ProbeError where it hangs or talks nonsense."""
        ended = False
        while not ended:
            lines, ended = self.lines(self.silence_limit_s)
            for line in lines:
                yield self._parse(line)

    def _parse(self, line: bytes) -> Event:
        try:
            return parse_event(line)
        except ValueError as error:
            self.give_up(f"broke the protocol ({error})")

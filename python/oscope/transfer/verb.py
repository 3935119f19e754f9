"""One process of `oscope-probe send` or `receive`: started, heard line by line, and ended."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import NoReturn

from oscope.errors import ProbeError
from oscope.locate import find_probe
from oscope.transfer.events import Event, parse_event

GOODBYE_LIMIT_S = 20.0
"""How long a verb may take to end once it is told to, or has said its last: a file is synced by nobody, but
what it waits for may be a slow device."""
_LOOK_S = 0.5
"""A signal handler shortens a wait by at most this."""
_LONGEST_LINE = 2**20
_LAST_WORDS = 5


class Verb:
    """A running verb, in a session of its own: a Ctrl-C at the terminal reaches the laboratory only."""

    def __init__(self, words: Sequence[str]) -> None:
        """Start the probe with `words`, like `["receive", "--into", "here"]`; ProbeError if it does not."""
        self._name = f"oscope-probe {words[0]}"
        self._words: deque[str] = deque(maxlen=_LAST_WORDS)
        self._rest = {"stdout": b"", "stderr": b""}
        self._terminated_at: float | None = None
        self.silence_limit_s: float | None = None
        """How long it may say nothing; None while it waits for others."""
        probe = find_probe()
        try:
            self._process = subprocess.Popen(
                [probe, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise ProbeError(
                f"the probe {probe} does not start ({error})", remedy="build it anew with `make setup`"
            ) from error
        self._selector = selectors.DefaultSelector()
        for name in ("stdout", "stderr"):
            self._selector.register(getattr(self._process, name), selectors.EVENT_READ, name)

    def __enter__(self) -> Verb:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process if it runs still."""
        self.kill()

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its process group."""
        return self._process.pid

    @property
    def terminated(self) -> bool:
        """Whether it was told to end."""
        return self._terminated_at is not None

    def events(self) -> Iterator[Event]:
        """Yield what it says until its output ends. Raises ProbeError where it hangs or talks nonsense."""
        heard = time.monotonic()
        while self._selector.get_map():
            for key, _ in self._selector.select(_LOOK_S):
                chunk = os.read(key.fd, 1 << 16)
                heard = time.monotonic()
                if not chunk:
                    self._selector.unregister(key.fileobj)
                for line in self._cut(key.data, chunk):
                    if key.data == "stdout":
                        yield self._parse(line)
                    else:
                        self._words.append(line.decode(errors="replace").strip())
            self._check(heard)

    def terminate(self) -> None:
        """Tell it to end in good order; `events` yields its last ones. Safe in a signal handler."""
        self._terminated_at = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Return its exit status once its output has ended; ProbeError where a signal killed it."""
        try:
            status = self._process.wait(GOODBYE_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._give_up(f"did not end within {GOODBYE_LIMIT_S:g} s of its last word")
        if status < 0:
            raise ProbeError(f"{self._name} was killed by {signal.Signals(-status).name}{self.last_words}")
        return status

    @property
    def last_words(self) -> str:
        """What it last said to people, to be put behind a message; empty if nothing."""
        return f"; its last words: {' / '.join(self._words)}" if self._words else ""

    def kill(self) -> None:
        """End it and all its children at once, and release everything."""
        if self._process.poll() is None:
            # The group still belongs to it: its leader has not been waited for.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._selector.close()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _cut(self, name: str, chunk: bytes) -> list[bytes]:
        *lines, self._rest[name] = (self._rest[name] + chunk).split(b"\n")
        if not chunk and self._rest[name]:
            lines.append(self._rest[name])
            self._rest[name] = b""
        if len(self._rest[name]) > _LONGEST_LINE:
            self._give_up("wrote a line without end")
        return [line for line in lines if line.strip()]

    def _parse(self, line: bytes) -> Event:
        try:
            return parse_event(line)
        except ValueError as error:
            self._give_up(f"broke the protocol ({error})")

    def _check(self, heard: float) -> None:
        now = time.monotonic()
        if self._terminated_at is not None and now - self._terminated_at > GOODBYE_LIMIT_S:
            self._give_up(f"did not end within {GOODBYE_LIMIT_S:g} s of being told to")
        if self.silence_limit_s is not None and now - heard > self.silence_limit_s:
            self._give_up(f"was silent for {self.silence_limit_s:g} s")

    def _give_up(self, what: str) -> NoReturn:
        words = self.last_words
        self.kill()
        raise ProbeError(f"{self._name} {what}, and was killed{words}")

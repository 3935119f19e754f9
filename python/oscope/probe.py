"""Talks to one probe process, and notices when it dies, hangs or talks nonsense."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import orjson

from oscope.catalogue import SCHEMA
from oscope.errors import ProbeError
from oscope.experiment import Level
from oscope.wire import Done, Event, Hello, Refusal, parse_event

HELLO_LIMIT_S = 60.0
"""The probe calibrates its clock and checks itself before it greets."""
_GOODBYE_LIMIT_S = 10.0
"""What a probe may take to undo what it changed, once told to end."""
_LONGEST_LINE = 16 * 2**20
_LAST_WORDS = 5


@dataclass(frozen=True)
class Request:
    """What the probe shall measure; the wire's request."""

    id: int
    workload: str
    params: Mapping[str, Level] = field(default_factory=dict)
    reps: int = 1
    warmup: int | None = None
    iterations: int | None = None
    min_time_ns: int = 1_000_000
    cpu: int | None = None
    time_limit_s: float | None = None

    def to_line(self) -> bytes:
        """Return the request as one line of JSON."""
        return orjson.dumps(self) + b"\n"


class Probe:
    """One probe process, in a session of its own: a Ctrl-C at the terminal reaches the laboratory only."""

    subject = "the probe"
    """What messages call it."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        hello_limit_s: float = HELLO_LIMIT_S,
        begun: Callable[[Probe], None] | None = None,
    ) -> None:
        """Start `command`, like `[path, "run"]`, and wait for its greeting; ProbeError where none comes.

        `begun` is given the probe before that, to terminate or kill it meanwhile.
        """
        self._words: deque[str] = deque(maxlen=_LAST_WORDS)
        self._unread = {"stdout": b"", "stderr": b""}
        self._terminated_at: float | None = None
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise ProbeError(
                f"{self.subject} {command[0]} does not start ({error})",
                remedy="build it anew with `make setup`",
            ) from error
        self._selector = selectors.DefaultSelector()
        for name in ("stdout", "stderr"):
            self._selector.register(getattr(self._process, name), selectors.EVENT_READ, name)
        try:
            if begun is not None:
                begun(self)
            self.hello = self._greet(hello_limit_s)
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Probe:
        """Return the probe itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        self.close()

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its process group."""
        return self._process.pid

    def run(self, request: Request, *, silence_limit_s: float) -> Iterator[tuple[Event, ...]]:
        """Send `request` and yield its events as they come, all that are there at a time.

        The last is `done` or `error`.

        Raises ProbeError where the probe dies, is silent for longer than `silence_limit_s` (it is killed), or
        breaks the protocol.
        """
        self._send(request.to_line())
        answered = False
        while not answered:
            lines, ended = self._lines(silence_limit_s)
            events = tuple(self._parse(line) for line in lines)
            for event in events:
                if answered:
                    self._broken("spoke on after the end of a request")
                self._check_owner(event, request)
                answered = isinstance(event, Done | Refusal)
            if events:
                yield events
            if ended and not answered:
                raise self._death()

    def terminate(self) -> None:
        """Tell the probe to end in good order; `run` yields its last events. Safe in a signal handler."""
        self._terminated_at = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Let the probe end, and kill it if it does not."""
        if self._process.poll() is None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            try:
                self._process.wait(_GOODBYE_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_GOODBYE_LIMIT_S)
        self.kill()

    def kill(self) -> None:
        """End the probe and all its children at once, and release everything."""
        if self._process.poll() is None:
            # The group still belongs to the probe: its leader has not been waited for.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _greet(self, limit_s: float) -> Hello:
        lines: list[bytes] = []
        ended = False
        while not lines and not ended:
            lines, ended = self._lines(limit_s)
        if not lines:
            raise self._death()
        event = self._parse(lines[0])
        if not isinstance(event, Hello) or len(lines) > 1:
            self._broken("did not greet first")
        if event.schema != SCHEMA:
            raise ProbeError(
                f"{self.subject} speaks {event.schema!r}, this laboratory {SCHEMA!r}",
                remedy="install both from one build",
            )
        return event

    def _send(self, line: bytes) -> None:
        stdin = self._process.stdin
        try:
            if stdin is None or stdin.write(line) != len(line):
                self._broken("takes no more requests")
        except (OSError, ValueError):
            raise self._death() from None

    def _lines(self, limit_s: float) -> tuple[list[bytes], bool]:
        """Wait for whole lines of standard output; return them, and whether the output has ended."""
        last_word = time.monotonic()
        while True:
            # A pause of at most a second, so that a termination asked for by a signal handler shortens the
            # limit.
            ready = self._selector.select(1.0)
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                if key.data == "stderr":
                    self._hear(chunk)
                    continue
                if not chunk:
                    return [], True
                lines = self._cut(chunk)
                if lines:
                    return lines, False
                if len(self._unread["stdout"]) > _LONGEST_LINE:
                    self._broken("wrote a line without end")
            self._check_silence(last_word, limit_s)

    def _check_silence(self, last_word: float, limit_s: float) -> None:
        now = time.monotonic()
        if self._terminated_at is not None and now - self._terminated_at > _GOODBYE_LIMIT_S:
            self.kill()
            raise ProbeError(
                f"{self.subject} did not end within {_GOODBYE_LIMIT_S:g} s of being told to, and was killed"
            )
        if now - last_word > limit_s:
            self._drain_words()
            doing = self._doing()
            words = self._last_words()
            self.kill()
            raise ProbeError(f"{self.subject} was silent for {limit_s:g} s and was killed{doing}{words}")

    def _cut(self, chunk: bytes) -> list[bytes]:
        *lines, self._unread["stdout"] = (self._unread["stdout"] + chunk).split(b"\n")
        return [line for line in lines if line.strip()]

    def _hear(self, chunk: bytes) -> None:
        """Keep the last lines of standard error."""
        if not chunk:
            with contextlib.suppress(KeyError):
                self._selector.unregister(self._process.stderr)  # type: ignore[arg-type]
            return
        *lines, rest = (self._unread["stderr"] + chunk).split(b"\n")
        self._unread["stderr"] = rest[-4096:]
        self._words.extend(text for line in lines if (text := line.decode(errors="replace").strip()))

    def _drain_words(self) -> None:
        """Read what is left of standard error, without waiting for more."""
        stderr = self._process.stderr
        if stderr is None or stderr.closed:
            return
        os.set_blocking(stderr.fileno(), False)
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(stderr.fileno(), 1 << 16):
                self._hear(chunk)
        if rest := self._unread["stderr"].decode(errors="replace").strip():
            self._words.append(rest)
            self._unread["stderr"] = b""

    def _doing(self) -> str:
        """Say what a silent process's threads are at, such as `D in folio_wait_bit`: waiting for a device."""
        found = []
        with contextlib.suppress(OSError):
            for thread in sorted(Path(f"/proc/{self.pid}/task").iterdir()):
                state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
                place = (thread / "wchan").read_text().strip("\0\n")
                found.append(f"{state} in {place}" if place not in ("", "0") else state)
        return f"; its threads: {', '.join(found)}" if found else ""

    def _last_words(self) -> str:
        """Return what is known of why it ends, to be put behind a message."""
        return f"; its last words: {' / '.join(self._words)}" if self._words else ""

    def _parse(self, line: bytes) -> Event:
        try:
            return parse_event(line)
        except ValueError as error:
            self._broken(f"broke the protocol ({error})")

    def _check_owner(self, event: Event, request: Request) -> None:
        if isinstance(event, Hello):
            self._broken("greeted twice")
        owner = event.request
        if owner != request.id and not (owner is None and isinstance(event, Refusal)):
            self._broken(f"answered request {owner} while {request.id} was under way")

    def _broken(self, what: str) -> NoReturn:
        self._drain_words()
        words = self._last_words()
        self.kill()
        raise ProbeError(f"{self.subject} {what}, and was killed{words}")

    def _death(self) -> ProbeError:
        """Return the error for a probe whose output ended before its answer."""
        try:
            self._process.wait(_GOODBYE_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._drain_words()
        status = self._process.returncode
        words = self._last_words()
        self.kill()
        if status < 0:
            return ProbeError(f"{self.subject} was killed by {_signal_name(-status)}{words}")
        return ProbeError(f"{self.subject} ended with status {status} before it had answered{words}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

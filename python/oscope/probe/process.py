"""Asks one probe process to measure, and notices when it talks nonsense."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from oscope.model.errors import ProbeError
from oscope.probe.catalogue import SCHEMA
from oscope.probe.child import Child
from oscope.probe.wire import Done, Event, Hello, Refusal, parse_event

HELLO_LIMIT_S = 60.0
"""The probe calibrates its clock and checks itself before it greets."""
SWAP_S = 300.0
"""How long the probe waits for another one's swap (crates/probe/src/pressure/swap.rs), or empties its own."""
COMMAND_LIMIT_S = 600.0
"""How long a command may take where no limit is asked for: the default of `command.run`."""


@dataclass(frozen=True)
class Request:
    """What the probe shall measure; the wire's request."""

    id: int
    workload: str
    params: Mapping[str, Any] = field(default_factory=dict)
    reps: int = 1
    warmup: int | None = None
    iterations: int | None = None
    min_time_ns: int = 1_000_000
    cpu: int | None = None
    time_limit_s: float | None = None
    inject: Mapping[str, object] | None = None
    """A delay to inject into the measured region on purpose."""

    def to_line(self) -> bytes:
        """Return the request as one line of JSON."""
        fields = dict(vars(self))
        if self.inject is None:
            del fields["inject"]
        return orjson.dumps(fields) + b"\n"


def goodbye_limit_s(request: Request) -> float:
    """Return how long the probe may take to end while it is at this: what it made has to be undone first."""
    limit_s = Child.goodbye_limit_s
    if request.params.get("cleanup"):
        # The user's own command, which may take as long as one that is measured.
        limit_s += float(request.params.get("timeout", COMMAND_LIMIT_S))
    return limit_s + (SWAP_S if uses_swap(request) else 0.0)


def uses_swap(request: Request) -> bool:
    """Say whether memory may be swapped out: the probe waits for another one's swap, and empties its own."""
    return request.workload == "memory.access" or request.params.get("kind") == "swap-in"


class Probe(Child):
    """One probe process that measures what it is asked to."""

    schema_remedy = "install both from one build"
    busy_patience = 5

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        hello_limit_s: float = HELLO_LIMIT_S,
        begun: Callable[[Probe], None] | None = None,
        folder: str | Path | None = None,
    ) -> None:
        """Start `command`, like `[path, "run"]`, and wait for its greeting; ProbeError where none comes.

        `begun` is given the probe before that, to terminate or kill it meanwhile. It runs in `folder`; None:
        in this process's.
        """
        super().__init__(command, stdin=subprocess.PIPE, folder=folder)
        try:
            if begun is not None:
                begun(self)
            self.hello = self._read_hello(hello_limit_s)
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Probe:
        """Return the probe itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process; what it measures is given up after an error, such as a KeyboardInterrupt."""
        if kind is not None:
            self.terminate()
        self.close()

    def run(self, request: Request, *, silence_limit_s: float) -> Iterator[tuple[Event, ...]]:
        """Send `request` and yield its events as they come, all that are there at a time.

        The last is `done` or `error`.

        Raises ProbeError where the probe dies, is silent for longer than `silence_limit_s` (it is killed), or
        breaks the protocol.
        """
        self.goodbye_limit_s = goodbye_limit_s(request)
        self._send(request.to_line())
        answered = False
        while not answered:
            lines, ended = self.lines(silence_limit_s)
            events = tuple(self._parse(line) for line in lines)
            for event in events:
                if answered:
                    self.give_up("spoke on after the end of a request")
                self._check_owner(event, request)
                answered = isinstance(event, Done | Refusal)
            if events:
                yield events
            if ended and not answered:
                raise self._death()

    def begin_renewal(self, program: Path | None = None) -> None:
        """Have the process give back what it has, and a fresh one take its place; ProbeError if it is gone.

        Only where `hello.renews`, and between requests; `finish_renewal` before the next request. The fresh
        process executes `program`, another build of the probe, only where `hello.renews_into`; None: the
        same.
        """
        asked = {"renew": True} if program is None else {"renew": True, "program": str(program.absolute())}
        self._send(orjson.dumps(asked) + b"\n")

    def finish_renewal(self) -> None:
        """Have the fresh process get ready, and wait for its greeting; ProbeError where none comes."""
        self._send(b"\n")
        self.hello = self._read_hello(HELLO_LIMIT_S)

    def is_out_of_reach(self) -> bool:
        """Say whether it is where it runs that was lost, and not the probe alone; no answer came from it."""
        return False

    def close(self) -> None:
        """Let the probe end, and kill it if it does not."""
        try:
            if self._process.stdin is not None and not self.ends_within(0):
                with contextlib.suppress(OSError):
                    self._process.stdin.close()
                if not self.ends_within(self.goodbye_limit_s):
                    self.terminate()
                    self.ends_within(self.goodbye_limit_s)
        finally:
            self.kill()

    def _read_hello(self, limit_s: float) -> Hello:
        lines: list[bytes] = []
        ended = False
        while not lines and not ended:
            lines, ended = self.lines(limit_s)
        if not lines:
            raise self._death()
        event = self._parse(lines[0])
        if not isinstance(event, Hello) or len(lines) > 1:
            self.give_up("did not greet first")
        if event.schema != SCHEMA:
            raise ProbeError(
                f"{self.subject} speaks {event.schema!r}, this laboratory {SCHEMA!r}",
                remedy=self.schema_remedy,
            )
        return event

    def _send(self, line: bytes) -> None:
        stdin = self._process.stdin
        try:
            if stdin is None or stdin.write(line) != len(line):
                self.give_up("takes no more requests")
        except (OSError, ValueError):
            raise self._death() from None

    def _parse(self, line: bytes) -> Event:
        try:
            return parse_event(line)
        except ValueError as error:
            self.give_up(f"broke the protocol ({error})")

    def _check_owner(self, event: Event, request: Request) -> None:
        if isinstance(event, Hello):
            self.give_up("greeted twice")
        owner = event.request
        if owner != request.id and not (owner is None and isinstance(event, Refusal)):
            self.give_up(f"answered request {owner} while {request.id} was under way")

    def _death(self) -> ProbeError:
        """Return the error for a probe whose output ended before its answer; a signal's is raised."""
        status = self.wait()
        words = self.last_words()
        self.kill()
        return ProbeError(
            f"{self.subject} ended with status {status} before it had answered{words}",
            remedy=self.death_remedy,
        )

"""The process that disturbs the machine, `oscope-probe inject`, and what it reports."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import orjson

from oscope.model.errors import OscopeError
from oscope.probe.child import Child
from oscope.probe.locate import find_probe

SCHEMA = "oscope.injection/1"
_BEGIN_LIMIT_S = 60.0


@dataclass(frozen=True)
class Phase:
    """A phase in which a cause was at work. Times are of CLOCK_REALTIME, as a sample's `started_ns`."""

    cause: str
    from_ns: int
    to_ns: int
    done: int
    """How much was done, in a unit of the cause's own; 0 is nothing."""


@dataclass(frozen=True)
class On:
    """A phase that has begun."""

    cause: str
    from_ns: int


@dataclass(frozen=True)
class Begun:
    """What is going to disturb, and where."""

    cpu: int
    seed: int
    on_s: float | None
    """None: all the time."""
    off_s: float | None
    places: tuple[dict[str, Any], ...]
    """`{"cause", "cpu", "place"}` of each."""


@dataclass(frozen=True)
class Ended:
    """The good end."""

    at_ns: int


Event = Begun | On | Phase | Ended


class Injector(Child):
    """A running injection. It ends with this process, and all its own processes with it."""

    subject = "the injector"
    goodbye_limit_s = 30.0

    def __init__(self, words: Sequence[str]) -> None:
        """Start the probe's verb with `words`, and wait until it begins to disturb.

        Raises OscopeError with its reason where it cannot, ProbeError where the probe does not start.
        """
        super().__init__([find_probe(), "inject", *words], stdin=subprocess.DEVNULL)
        self._waiting: list[bytes] = []
        try:
            first = next(self.events(_BEGIN_LIMIT_S), None)
            if not isinstance(first, Begun):
                self.fail()
        except BaseException:
            self.kill()
            raise
        self.begun: Begun = first

    def __enter__(self) -> Injector:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it if it runs still."""
        self.kill()

    def events(self, silence_limit_s: float | None = None) -> Iterator[Event]:
        """Yield its reports until it ends. Raises OscopeError where it failed, ProbeError for nonsense."""
        ended = False
        while not ended:
            if not self._waiting:
                self._waiting, ended = self.lines(silence_limit_s)
            while self._waiting:
                yield self._parse(self._waiting.pop(0))

    def finish(self) -> None:
        """Wait for its end once its output has ended; OscopeError where that was no good one."""
        if self.wait() != 0:
            self.fail()

    def _parse(self, line: bytes) -> Event:
        try:
            data = orjson.loads(line)
            return _READERS[data["event"]](data)
        except (ValueError, KeyError, TypeError) as error:
            self.give_up(f"broke the protocol ({error!r})")


def _failed(data: dict[str, Any]) -> Event:
    raise OscopeError(f"{data['cause']}: {data['message']}", remedy=data["remedy"])


_READERS: dict[str, Callable[[dict[str, Any]], Event]] = {
    "begun": lambda data: Begun(
        data["cpu"], data["seed"], data["on_s"], data["off_s"], tuple(data["causes"])
    ),
    "on": lambda data: On(data["cause"], data["from_ns"]),
    "off": lambda data: Phase(data["cause"], data["from_ns"], data["to_ns"], data["done"]),
    "failed": _failed,
    "ended": lambda data: Ended(data["at_ns"]),
}

"""Runs a command under tracers, and returns what they found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from oscope.model.errors import OscopeError
from oscope.trace.bpf import BpfTracer
from oscope.trace.command import Ended, WaitingCommand
from oscope.trace.syscall_events import EventTracer
from oscope.trace.tracer import Losses, Tracer, Tracing

SCHEMA = "oscope.trace/1"
Order = Literal["none", "each"]
"""Whether each call is printed in order."""


@dataclass(frozen=True)
class Traced:
    """What was found of a command."""

    command: tuple[str, ...]
    ended: Ended
    reading: Mapping[str, Any]
    """What all tracers together found: the contents of their readings."""
    losses: Losses
    kinds: tuple[str, ...] = ()
    """What `oscope bench --trace` would be asked for to trace the same."""

    def to_object(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return {
            "schema": SCHEMA,
            "command": list(self.command),
            "status": self.ended.status,
            "time_s": self.ended.time_s,
            "losses": self.losses.to_object(),
            **self.reading,
        }


def measure(command: Sequence[str], kinds: Sequence[str], order: Order, *, quiet: bool = False) -> Traced:
    """Run `command` once under a tracer of `kinds` and, where `order` wants it, one of each call in order.

    `quiet`: what it writes to standard output goes to standard error.
    """
    with (
        WaitingCommand(command, quiet=quiet) as waiting,
        _attached(_make(kinds, order), waiting.pid) as tracers,
    ):
        ended = waiting.run()
        try:
            found = [tracer.stop() for tracer in tracers]
        except OscopeError as error:
            error.message = f"{error.message}; the command {ended}, and what it did is not known"
            raise
    return Traced(tuple(command), ended, _together(found), _all_losses(found), tuple(kinds))


def _make(kinds: Sequence[str], order: Order) -> list[Tracer]:
    tracers: list[Tracer] = []
    if kinds:
        tracers.append(BpfTracer.of_family(kinds))
    if order == "each":
        tracers.append(EventTracer())
    return tracers


@contextmanager
def _attached(tracers: Sequence[Tracer], pid: int) -> Iterator[Sequence[Tracer]]:
    """Attach all tracers to `pid`; none is left attached, however this ends."""
    try:
        for tracer in tracers:
            tracer.start(pid)
        yield tracers
    finally:
        for tracer in tracers:
            tracer.kill()


def _together(found: Sequence[Tracing]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    names = []
    for tracing in found:
        for reading in tracing.readings.values():
            names.append(reading["tracer"])
            whole |= reading
    return whole | {"tracer": "+".join(dict.fromkeys(names))}


def _all_losses(found: Sequence[Tracing]) -> Losses:
    full: Counter[str] = Counter()
    for tracing in found:
        full.update(tracing.losses.map_full)
    return Losses(
        ring=sum(tracing.losses.ring for tracing in found),
        map_full=dict(full),
        recursion=sum(tracing.losses.recursion for tracing in found),
    )

"""Follows guests that run a command each: what they write, how they end, and when they are late."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

from oscope.model.errors import OscopeError
from oscope.model.units import format_duration
from oscope.targets.guest.boot import RunningGuest
from oscope.targets.guest.console import Console
from oscope.targets.guest.machine import BEGUN, NO_NETWORK

PATIENCE_S = 30.0
"""How long a guest may go on after the command of another one, with which it talks, has failed."""
_ENDING_LIMIT_S = 10.0
_LOOK_S = 1.0

Taker = Callable[[bytes], None]


@dataclass(frozen=True)
class Ended:
    """How a command in a guest ended."""

    status: int
    note: str | None
    """What a person should know of it, such as that memory ran out."""


@dataclass(frozen=True)
class Limits:
    """For how long guests are followed."""

    boot_s: float
    """Until the command begins."""
    all_s: float
    """Until all have ended."""


@dataclass
class Followed:
    """A guest under way, and who is given what its command writes."""

    name: str
    """What messages call it."""
    running: RunningGuest
    console: Console
    out: Taker
    err: Taker
    begun: bool = False
    ended: Ended | None = None

    def streams(self) -> list[tuple[IO[bytes], Taker]]:
        """Return what the guest writes to, each with its taker."""
        both = ((self.running.process.stdout, self.out), (self.running.process.stderr, self.err))
        return [(stream, taker) for stream, taker in both if stream is not None]

    def has_begun(self) -> bool:
        """Return whether the command has begun."""
        self.begun = self.begun or BEGUN in self.console.lines()
        return self.begun


def follow(guests: Sequence[Followed], limits: Limits, look: Callable[[], None] | None = None) -> list[Ended]:
    """Give the takers what the guests write until all have ended, and return how.

    `look` is called every now and then, at least once a second.

    Raises OscopeError where one ends before its command does, does not come to it, or is late; it reports
    the consoles of all. The caller is to kill what is then left.
    """
    start = time.monotonic()
    end = start + limits.all_s
    unread = {guest.name: len(guest.streams()) for guest in guests}
    with selectors.DefaultSelector() as selector:
        for guest in guests:
            for stream, taker in guest.streams():
                selector.register(stream, selectors.EVENT_READ, (guest, taker))
        while selector.get_map():
            for key, _ in selector.select(_LOOK_S):
                guest, taker = key.data
                if chunk := os.read(key.fd, 1 << 16):
                    taker(chunk)
                    continue
                selector.unregister(key.fileobj)
                unread[guest.name] -= 1
                if unread[guest.name] == 0:
                    guest.ended = _end(guest, guests, limits, end)
                    if guest.ended.status != 0:
                        end = min(end, time.monotonic() + PATIENCE_S)
            _check(guests, limits, start, end)
            if look is not None:
                look()
    return [guest.ended for guest in guests if guest.ended is not None]


def _end(guest: Followed, guests: Sequence[Followed], limits: Limits, end: float) -> Ended:
    """Wait for a guest that writes no more, and return how its command ended."""
    try:
        guest.running.process.wait(max(_ENDING_LIMIT_S, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise _late(guest, guests, limits) from None
    number = guest.console.status.read_text().strip() if guest.console.status.exists() else ""
    if not number.isdigit():
        raise OscopeError(f"{guest.name} ended before the command did: {_explain(guest, guests)}")
    return Ended(int(number), _note(guest, int(number)))


def _note(guest: Followed, status: int) -> str | None:
    """Return what a person should know of how the command ended."""
    shortage = guest.console.shortage()
    if shortage is not None:
        return f"{guest.name} ran out of memory: {shortage}"
    if status == NO_NETWORK and not guest.has_begun():
        return f"{guest.name} has no network: its kernel finds no card, or knows none of this kind"
    return None


def _check(guests: Sequence[Followed], limits: Limits, start: float, end: float) -> None:
    """Raise OscopeError where one of the guests that go on is late."""
    now = time.monotonic()
    for guest in guests:
        if guest.ended is not None:
            continue
        boot_s = min(limits.boot_s, limits.all_s)
        # Asked in each round: later the console may have said so much that the line is out of reach.
        if not guest.has_begun() and now - start > boot_s:
            raise OscopeError(
                f"{guest.name} did not come to the command within {boot_s:g} s and was killed: "
                f"{_explain(guest, guests)}"
            )
        if now > end:
            raise _late(guest, guests, limits)


def _late(guest: Followed, guests: Sequence[Followed], limits: Limits) -> OscopeError:
    failed = next((other for other in guests if other.ended is not None and other.ended.status != 0), None)
    if failed is not None and failed.ended is not None:
        return OscopeError(
            f"the command of {failed.name} ended with status {failed.ended.status}, but that of {guest.name} "
            f"went on for {PATIENCE_S:g} s more, and the guest was killed"
        )
    return OscopeError(
        f"the command did not end within {format_duration(limits.all_s)}, and {guest.name} was killed",
        remedy="give it longer with --time-limit",
    )


def _explain(guest: Followed, guests: Sequence[Followed]) -> str:
    """Say what the consoles tell, that of `guest` first."""
    others = [f"{other.name}: {other.console.explain()}" for other in guests if other is not guest]
    return "; ".join([guest.console.explain(), *others])

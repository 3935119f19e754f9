"""Two guests that share a network, and run a command each: the ends of a transfer under a kernel of choice.

QEMU carries their frames over a pair of sockets that it inherits: nobody else is on that network, no port or
file of this machine is taken, and where one guest ends the other sees its cable pulled.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Literal

from oscope.model.errors import UsageError
from oscope.model.guest import Guest
from oscope.targets.guest.accelerator import Choice
from oscope.targets.guest.boot import RunningGuest
from oscope.targets.guest.command import BOOT_LIMIT_S, TIME_LIMIT_S, machine
from oscope.targets.guest.console import Console
from oscope.targets.guest.guest_commands import Ended, Followed, Limits, Taker, follow
from oscope.targets.guest.machine import Link, Machine

Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[int, Stream, bytes], None]
"""Is given what a command wrote: which of the two (1 or 2), where to, and what."""

_STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")
_SETTLING_S = 5.0
"""What a first command that writes nothing is given to begin to listen."""
_SLOWER = 2
"""Two guests that boot at a time have half of this machine each."""


def machines(
    guest: Guest, commands: tuple[Sequence[str], Sequence[str]], folder: Path, *, trial: bool = True
) -> tuple[tuple[Machine, Machine], Choice]:
    """Return the machines for a dry run, and what runs them; both ends of their network are called 0.

    Raises what `run` raises before it boots.
    """
    _check(guest)
    made = [
        machine(
            guest,
            command,
            folder / f"console-{number}.log",
            folder / f"status-{number}",
            trial=trial,
            link=Link(0, number),
        )
        for number, command in enumerate(commands, start=1)
    ]
    return (made[0][0], made[1][0]), made[0][1]


def run(
    guest: Guest,
    commands: tuple[Sequence[str], Sequence[str]],
    on_output: OnOutput,
    limit_s: float = TIME_LIMIT_S,
    *,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
) -> tuple[Ended, Ended]:
    """Boot two guests, 10.0.2.1 and 10.0.2.2, run a command in each, and return how these ended.

    They boot at the same time. The second command begins once the first has written a line, such as that it
    listens, or has gone on for a while. `stdin` is that of the first command; the second has none. Where a
    command fails, the other has a while to end, too.

    Raises UsageError for guests that cannot talk, and OscopeError, with what both consoles said, where a
    guest ends before its command does, does not come to it, or runs for more than `limit_s`. No guest is
    left behind.
    """
    _check(guest)
    with contextlib.ExitStack() as stack:
        ends = socket.socketpair()
        for end in ends:
            stack.enter_context(end)
        consoles = [stack.enter_context(Console()) for _ in ends]
        links = [Link(end.fileno(), number) for number, end in enumerate(ends, start=1)]
        made = [
            machine(guest, command, console.path, console.status, link=link)
            for command, console, link in zip(commands, consoles, links, strict=True)
        ]
        followed = []
        for (whole, _), console, link, end in zip(made, consoles, links, ends, strict=True):
            first = link.number == 1
            running = RunningGuest(
                whole.command,
                console,
                stdin=stdin if first else subprocess.PIPE,
                # The one that reads from a terminal has to be in its foreground.
                own_group=not first,
                inherited=[link.descriptor],
            )
            stack.enter_context(running)
            # Held open here, too, the other guest would not see that this one ends.
            end.close()
            out, err = (_taker(on_output, link.number, stream) for stream in _STREAMS)
            name = f"the guest {link.address}"
            followed.append(Followed(name, running, console, out, err))
        choice = made[0][1]
        limits = Limits(_SLOWER * BOOT_LIMIT_S[choice.accelerator], limit_s)
        starter = _Starter(*followed)
        one, other = follow(followed, limits, starter.look)
    return one, other


class _Starter:
    """Has the second command begin when the first can be talked to."""

    def __init__(self, first: Followed, second: Followed) -> None:
        self._first, self._second = first, second
        self._take, first.out = first.out, self._hear
        self._heard = False
        self._begun_at: float | None = None
        self._done = False

    def _hear(self, chunk: bytes) -> None:
        self._heard = True
        self._take(chunk)

    def look(self) -> None:
        """Start it if it is time to."""
        if self._done or not (self._first.ended or self._first.has_begun()):
            return
        now = time.monotonic()
        self._begun_at = now if self._begun_at is None else self._begun_at
        if self._heard or self._first.ended or now - self._begun_at > _SETTLING_S:
            self._done = True
            stdin = self._second.running.process.stdin
            # A guest that has ended already is reported as ended.
            with contextlib.suppress(BrokenPipeError):
                if stdin is not None:
                    stdin.write(b"\n")
                    stdin.close()


def _check(guest: Guest) -> None:
    if guest.clock == "instructions":
        raise UsageError(
            "two guests that count their own instructions have no time in common",
            remedy="leave out --clock instructions",
        )


def _taker(on_output: OnOutput, number: int, stream: Stream) -> Taker:
    return lambda chunk: on_output(number, stream, chunk)

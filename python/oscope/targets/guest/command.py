"""Runs a command in a guest of virtme-ng: this machine's files, read only, under another kernel."""

from __future__ import annotations

import contextlib
import sys
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from oscope.model.errors import UsageError
from oscope.model.guest import Guest
from oscope.model.streams import write_now
from oscope.probe.locate import find_probe
from oscope.targets.guest import initramfs
from oscope.targets.guest.accelerator import Choice, choose
from oscope.targets.guest.boot import RunningGuest
from oscope.targets.guest.console import Console
from oscope.targets.guest.guest_commands import Ended, Followed, Limits, Taker, follow
from oscope.targets.guest.machine import Accelerator, Link, Machine, MachineSpec, for_command
from oscope.targets.kernel import Kernel, find

BOOT_LIMIT_S: dict[Accelerator, float] = {"kvm": 60.0, "tcg": 300.0}
"""virtme-ng's own first process takes 8 s on an idle machine by emulation, and minutes on a busy one."""
TIME_LIMIT_S = 3600.0
_MOST_OPTIONS = 2048
"""COMMAND_LINE_SIZE of x86, in bytes; virtme-ng puts the command there."""


def machine(
    guest: Guest,
    command: Sequence[str],
    console: Path,
    status: Path,
    *,
    trial: bool = True,
    link: Link | None = None,
) -> tuple[Machine, Choice]:
    """Return the machine that runs `command`, and what runs the machine; `trial` as of `choose`.

    With a `link` it has a network with another guest.

    Raises UsageError for a command that is too long, OscopeError where there can be no such guest.
    """
    kernel: Kernel = find(guest.kernel)
    choice = choose(guest.clock, kernel.image, initramfs.pack(find_probe(), ()), trial=trial)
    spec = MachineSpec(
        kernel.image,
        choice.accelerator,
        guest.clock,
        guest.cpus,
        guest.memory_bytes,
        console,
        kernel.modules_folder,
        link,
    )
    made = for_command(spec, command, status)
    length = sum(len(option.encode()) + 1 for option in made.kernel_options)
    if length > _MOST_OPTIONS:
        raise UsageError(
            f"the command takes {length} bytes of the kernel's command line, which has {_MOST_OPTIONS}",
            remedy="put it into a script, and name that",
        )
    return made, choice


def run(guest: Guest, command: Sequence[str], limit_s: float = TIME_LIMIT_S) -> Ended:
    """Run `command` in a guest, at this process's standard streams, and return how it ended.

    Raises OscopeError where the guest ends before the command does, does not come to it, or runs for more
    than `limit_s`.
    """
    with Console() as console:
        made, choice = machine(guest, command, console.path, console.status)
        with (
            terminal(),
            RunningGuest(made.command, console, stdin=sys.stdin.fileno(), own_group=False) as running,
        ):
            followed = Followed("the guest", running, console, out=taker(sys.stdout), err=taker(sys.stderr))
            [ended] = follow([followed], Limits(BOOT_LIMIT_S[choice.accelerator], limit_s))
    return ended


def taker(stream: TextIO) -> Taker:
    """Return what writes to `stream` at once."""
    return lambda chunk: write_now(stream, chunk)


@contextlib.contextmanager
def terminal() -> Iterator[None]:
    """Give the terminal its settings back: QEMU changes them, and may be killed."""
    if not sys.stdin.isatty():
        yield
        return
    settings = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)

"""Runs a command in a guest of virtme-ng: this machine's files, read only, under another kernel."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from oscope.errors import OscopeError, UsageError
from oscope.guest import initramfs
from oscope.guest.accelerator import Choice, choose
from oscope.guest.boot import RunningGuest
from oscope.guest.console import Console
from oscope.guest.guest import Guest
from oscope.guest.machine import BEGUN, Accelerator, Machine, Wanted, for_command
from oscope.kernel import Kernel, find
from oscope.locate import find_probe
from oscope.units import format_duration

_BOOT_LIMIT_S: dict[Accelerator, float] = {"kvm": 60.0, "tcg": 300.0}
"""virtme-ng's own first process takes 8 s on an idle machine by emulation, and minutes on a busy one."""
TIME_LIMIT_S = 3600.0
_ENDING_LIMIT_S = 10.0
_MOST_OPTIONS = 2048
"""COMMAND_LINE_SIZE of x86, in bytes; virtme-ng puts the command there."""


@dataclass(frozen=True)
class Ended:
    """How a command in a guest ended."""

    status: int
    note: str | None
    """What a person should know of it, such as that memory ran out."""


def machine(
    guest: Guest, command: Sequence[str], console: Path, status: Path, *, trial: bool = True
) -> tuple[Machine, Choice]:
    """Return the machine that runs `command`, and what runs the machine; `trial` as of `choose`.

    Raises UsageError for a command that is too long, OscopeError where there can be no such guest.
    """
    kernel: Kernel = find(guest.kernel)
    choice = choose(guest.clock, kernel.image, initramfs.pack(find_probe()), trial=trial)
    wanted = Wanted(kernel.image, choice.accelerator, guest.clock, guest.cpus, guest.memory_bytes, console)
    made = for_command(wanted, command, status)
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
    with Console() as console, tempfile.TemporaryDirectory(prefix="oscope-guest-") as folder:
        status = Path(folder) / "status"
        made, choice = machine(guest, command, console.path, status)
        with (
            _terminal(),
            RunningGuest(made.command, console, stdin=sys.stdin.fileno(), own_group=False) as running,
        ):
            _pass_on(running, console, _BOOT_LIMIT_S[choice.accelerator], limit_s)
        number = status.read_text().strip() if status.exists() else ""
        if not number.isdigit():
            raise OscopeError(f"the guest ended before the command did: {console.explain()}")
        shortage = console.shortage()
        return Ended(int(number), None if shortage is None else f"the guest ran out of memory: {shortage}")


def _pass_on(guest: RunningGuest, console: Console, boot_limit_s: float, limit_s: float) -> None:
    """Copy what the guest writes to this process's streams until it ends."""
    targets = {guest.process.stdout: sys.stdout, guest.process.stderr: sys.stderr}
    begun, start = False, time.monotonic()
    with selectors.DefaultSelector() as selector:
        for source in targets:
            if source is not None:
                selector.register(source, selectors.EVENT_READ, targets[source])
        while selector.get_map():
            for key, _ in selector.select(1.0):
                chunk = os.read(key.fd, 1 << 16)
                if not chunk:
                    selector.unregister(key.fileobj)
                    continue
                key.data.buffer.write(chunk)
                key.data.buffer.flush()
            begun = begun or BEGUN in console.lines()
            took = time.monotonic() - start
            if not begun and took > min(boot_limit_s, limit_s):
                guest.kill()
                raise OscopeError(
                    f"the guest did not come to the command within {min(boot_limit_s, limit_s):g} s and was "
                    f"killed: {console.explain()}"
                )
            if took > limit_s:
                raise _late(guest, limit_s)
    try:
        guest.process.wait(max(_ENDING_LIMIT_S, limit_s - (time.monotonic() - start)))
    except subprocess.TimeoutExpired:
        raise _late(guest, limit_s) from None


def _late(guest: RunningGuest, limit_s: float) -> OscopeError:
    guest.kill()
    return OscopeError(
        f"the command did not end within {format_duration(limit_s)}, and its guest was killed",
        remedy="give it longer with --time-limit",
    )


@contextlib.contextmanager
def _terminal() -> Iterator[None]:
    """Give the terminal its settings back: QEMU changes them, and may be killed."""
    if not sys.stdin.isatty():
        yield
        return
    settings = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)

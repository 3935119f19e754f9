"""`oscope kernel boot`: a command in a guest of virtme-ng, with this machine's files under another kernel."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from oscope.cli.errors import note
from oscope.cli.options import CheckedCommand, parse_option, whole_number
from oscope.model.errors import UsageError
from oscope.model.guest import CPUS, MOST_CPUS, Guest
from oscope.model.streams import write_now
from oscope.model.units import parse_bytes, parse_duration
from oscope.targets.guest import command as guest_command
from oscope.targets.guest import pair
from oscope.targets.guest.spec import resolve, room

if TYPE_CHECKING:
    from oscope.model.guest import Guest

_COMMAND = "oscope.command"
_DASHES = "--"


class BootCommand(CheckedCommand):
    """What follows `--` is the command for the guest, and no kernel, whatever it looks like."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Part the words at the first `--`, and parse those before it."""
        end = args.index(_DASHES) if _DASHES in args else len(args)
        ctx.meta[_COMMAND] = tuple(args[end + 1 :])
        return super().parse_args(ctx, args[:end])


def boot(
    context: typer.Context,
    kernel: Annotated[
        str | None,
        typer.Argument(
            metavar="[KERNEL]",
            help="Patches joined by +, an id of oscope kernel list, or an image. [default: base]",
        ),
    ] = None,
    cpus: Annotated[
        int | None,
        whole_number(
            "--cpus", least=1, most=MOST_CPUS, help="CPUs of the guest. [default: 2; 1 to count instructions]"
        ),
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", metavar="SIZE", help="Memory of the guest. [default: 1GiB]")
    ] = None,
    clock: Annotated[
        Literal["wall", "instructions"],
        typer.Option("--clock", help="Whether the guest's clock runs, or counts executed instructions."),
    ] = "wall",
    time_limit: Annotated[
        str, typer.Option("--time-limit", metavar="T", help="Kill the guest after this time.")
    ] = "1h",
    peer: Annotated[
        str | None,
        typer.Option(
            "--peer",
            metavar="COMMAND",
            help="Boot a second guest on the same network, and run this command there.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the QEMU command, and do nothing else.")
    ] = False,
) -> int:
    """Boot a kernel and run a command in the guest: oscope kernel boot my_precious -- uname -r.

    The guest has this machine's files, read only, and the command this command's standard streams and exit
    status. Oscope's kernel modules are in /run/oscope/modules. For a kernel that panics or hangs, the last
    lines of its console are printed.

    With --peer the guest has the address 10.0.2.1 and its peer 10.0.2.2, whose command begins once the first
    has written a line, or after a while. What it writes comes on standard error, each line behind its
    address; the exit status is that of the first command to fail.
    """
    command = context.meta.get(_COMMAND) or ()
    if not command:
        raise UsageError("no command to run in the guest", remedy="write it behind --, such as -- uname -r")

    limit_s = parse_option("--time-limit", parse_duration, time_limit)
    memory_bytes = room(None if memory is None else parse_option("--memory", parse_bytes, memory))
    guest = Guest(resolve(kernel), clock, CPUS[clock] if cpus is None else cpus, memory_bytes)
    if peer is not None:
        return _boot_pair(guest, (command, _words(peer)), limit_s, dry_run=dry_run)
    if dry_run:
        made, choice = guest_command.machine(guest, command, Path("console.log"), Path("status"), trial=False)
        note(f"accelerator {choice.accelerator}: {choice.why}")
        print(shlex.join(made.command))
        return 0
    ended = guest_command.run(guest, command, limit_s)
    if ended.note is not None:
        note(ended.note)
    return ended.status


def _words(peer: str) -> list[str]:
    """Return the words of the peer's command, quoted as for a shell."""
    try:
        words = shlex.split(peer)
    except ValueError as error:
        raise UsageError(f"--peer {peer!r}: {error}", remedy="close the quotation") from error
    if not words:
        raise UsageError("--peer names no command", remedy="name one, such as --peer 'uname -r'")
    return words


def _boot_pair(
    guest: Guest, commands: tuple[Sequence[str], Sequence[str]], limit_s: float, *, dry_run: bool
) -> int:
    if dry_run:
        made, choice = pair.machines(guest, commands, Path(), trial=False)
        note(f"accelerator {choice.accelerator}: {choice.why}")
        for machine in made:
            print(shlex.join(machine.command))
        return 0
    streams = _PairStreams()
    with guest_command.terminal():
        ended = pair.run(guest, commands, streams.take, limit_s, stdin=sys.stdin.fileno())
    streams.end()
    for one in ended:
        if one.note is not None:
            note(one.note)
    return next((one.status for one in ended if one.status != 0), 0)


class _PairStreams:
    """Passes on what two guests write: the first's as it is, the peer's line by line, marked as such."""

    _PEER = b"10.0.2.2: "

    def __init__(self) -> None:
        self._rest: dict[str, bytes] = {}

    def take(self, number: int, stream: str, chunk: bytes) -> None:
        """Pass on a chunk."""
        if number == 1:
            write_now(sys.stdout if stream == "stdout" else sys.stderr, chunk)
            return
        *lines, self._rest[stream] = (self._rest.get(stream, b"") + chunk).split(b"\n")
        for line in lines:
            self._write_line(line)

    def end(self) -> None:
        """Pass on what ended without a newline."""
        for line in filter(None, self._rest.values()):
            self._write_line(line)

    def _write_line(self, line: bytes) -> None:
        write_now(sys.stderr, self._PEER + line + b"\n")

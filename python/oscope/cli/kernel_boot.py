"""`oscope kernel boot`: a command in a guest of virtme-ng, with this machine's files under another kernel."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from oscope.cli.errors import note
from oscope.cli.quick import Command
from oscope.cli.request import parse_option
from oscope.errors import UsageError
from oscope.units import parse_bytes, parse_duration

_COMMAND = "oscope.command"
_DASHES = "--"


class BootCommand(Command):
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
        typer.Option("--cpus", metavar="N", help="CPUs of the guest. [default: 2; 1 to count instructions]"),
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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the QEMU command, and do nothing else.")
    ] = False,
) -> int:
    """Boot a kernel and run a command in the guest: oscope kernel boot my_precious -- uname -r.

    The guest has this machine's files, read only, and the command this command's standard streams and exit
    status. A kernel that panics or hangs is told of by its console's last lines.
    """
    command = context.meta.get(_COMMAND) or ()
    if not command:
        raise UsageError("no command to run in the guest", remedy="write it behind --, such as -- uname -r")
    from oscope.guest import CPUS, MEMORY_BYTES, Guest
    from oscope.guest import command as guest_command
    from oscope.guest.wanted import resolve

    memory_bytes = MEMORY_BYTES if memory is None else parse_option("--memory", parse_bytes, memory)
    guest = Guest(resolve(kernel), clock, CPUS[clock] if cpus is None else cpus, memory_bytes)
    limit_s = parse_option("--time-limit", parse_duration, time_limit)
    if dry_run:
        made, choice = guest_command.machine(guest, command, Path("console.log"), Path("status"), trial=False)
        note(f"accelerator {choice.accelerator}: {choice.why}")
        print(shlex.join(made.command))
        return 0
    ended = guest_command.run(guest, command, limit_s)
    if ended.note is not None:
        note(ended.note)
    return ended.status

"""`oscope trace`: what the kernel does for one command."""

from __future__ import annotations

import sys
from typing import Annotated

import orjson
import typer

from oscope.cli import trace_report, trace_session
from oscope.cli.destinations import Output, check_not_read, is_standard_output, output_file
from oscope.cli.errors import FAILED
from oscope.model import streams
from oscope.model.errors import UsageError
from oscope.report.terminal import console


def trace(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- COMMAND [ARG]...", help="The command, which is run once.", show_default=False
        ),
    ] = None,
    syscalls: Annotated[
        bool, typer.Option("--syscalls", help="System calls, their times and sizes. [default]")
    ] = False,
    counts: Annotated[bool, typer.Option("--counts", help="How often each system call is made.")] = False,
    sched: Annotated[bool, typer.Option("--sched", help="Context switches and wake-ups.")] = False,
    faults: Annotated[bool, typer.Option("--faults", help="Page faults.")] = False,
    events: Annotated[bool, typer.Option("--events", help="Each system call in order.")] = False,
    json_file: Annotated[
        Output | None,
        output_file(
            "--json", help="Write what was found; - is standard output, which the command then leaves."
        ),
    ] = None,
) -> int:
    """Trace a command and all that descends from it, from its first instruction on.

    The command has the terminal. Tables follow on standard error once it has ended. With --json - there are
    none, and what the command writes to standard output goes to standard error. The exit code is the
    command's, as a shell gives it, and 1 where nothing takes what was found.
    """
    if not command:
        raise UsageError("no command is named", remedy="write it at the end: oscope trace -- COMMAND ARG…")
    check_not_read({"--json": json_file}, *command)
    asked = {"counts": counts, "syscalls": syscalls, "sched": sched, "faults": faults}
    kinds = tuple(kind for kind, enabled in asked.items() if enabled)
    if not kinds and not events:
        kinds = ("syscalls",)

    quiet = is_standard_output(json_file)
    traced = trace_session.measure(command, kinds, "each" if events else "none", quiet=quiet)
    if json_file is not None:
        json_file.write(orjson.dumps(traced.to_object(), option=orjson.OPT_INDENT_2) + b"\n")
    if not quiet:
        trace_report.print_report(traced, console(to_standard_error=True))
    if json_file is None and streams.failure_of(sys.stderr) is not None:
        # The tables are the result, and are lost; there is nowhere left to say so.
        return FAILED
    return traced.ended.exit_code

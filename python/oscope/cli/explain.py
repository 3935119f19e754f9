"""`oscope explain`: the system calls of a program, phase by phase."""

from __future__ import annotations

import gc
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from oscope.cli.destinations import (
    STANDARD_OUTPUT,
    Output,
    check_distinct,
    check_not_read,
    is_standard_output,
    output_file,
)
from oscope.cli.errors import DONE
from oscope.cli.views.explain import Shown, print_report
from oscope.model.errors import OscopeError, UsageError
from oscope.model.file_kinds import check_readable_to_its_end
from oscope.report.terminal import console
from oscope.tools.explain import tracing
from oscope.tools.explain.explanation import explain as explained
from oscope.tools.explain.reading import read

if TYPE_CHECKING:
    from oscope.tools.explain.explanation import Explanation

FILE_WIDTH = 120
"""Characters in a line of tables that go to a file."""


def explain(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- COMMAND [ARG]...", help="The command, which is run once.", show_default=False
        ),
    ] = None,
    strace: Annotated[
        str | None,
        typer.Option("--strace", metavar="FILE|-", help="Explain what strace wrote, in place of a command."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show every call of every process, and tables in full.")
    ] = False,
    beside: Annotated[
        bool,
        typer.Option("--beside", help="Run the command once more, without strace, and tell its time."),
    ] = False,
    output: Annotated[
        Output | None,
        output_file("-o", "--output", help="Write the report to this file; - is standard output."),
    ] = None,
    json_file: Annotated[
        Output | None,
        output_file("--json", help="Write all that was found; - is standard output."),
    ] = None,
) -> int:
    """Explain the system calls of a program: its start phase by phase, what each call is for, and their sums.

    The command has the terminal; the report follows on standard output once it has ended, unless -o or
    --json - is given. With --json - what the command writes to standard output goes to standard error. The
    exit code is the command's, as a shell gives it; of a trace that is read, 0.
    """
    if command and not command[0]:
        raise UsageError("the command's name is empty", remedy="oscope explain -- COMMAND ARG…")
    if bool(command) == (strace is not None):
        raise UsageError(
            "name one thing to explain, a command or a trace",
            remedy="oscope explain -- COMMAND ARG…, or oscope explain --strace FILE",
        )
    if beside and strace is not None:
        raise UsageError("--beside runs a command, and --strace has none", remedy="leave one of them out")
    written = {"-o": output, "--json": json_file}
    check_distinct(written)
    check_not_read(written, strace, *command or ())
    # All that is made lives until the end: to look for garbage among 500 000 calls is in vain.
    gc.disable()
    quiet = is_standard_output(json_file)
    found = tracing.run(command, beside=beside, quiet=quiet) if command else _read(str(strace))
    if json_file is not None:
        _write_json(found, json_file)
    if output is not None or not is_standard_output(json_file):
        _report(found, everything, output)
    return DONE if found.run is None else found.run.ended.exit_code


def _read(name: str) -> Explanation:
    if name == STANDARD_OUTPUT:
        return _explain_input()
    check_readable_to_its_end(Path(name), given_as="--strace ", remedy="name a file that strace wrote, or -")
    try:
        with Path(name).open("rb") as file:
            return explained(read(file, name), name)
    except OSError as error:
        raise OscopeError(
            f"{name} cannot be read ({error.strerror})", remedy="name a file that strace -o FILE wrote"
        ) from error


def _explain_input() -> Explanation:
    try:
        return explained(read(sys.stdin.buffer, "standard input"), "standard input")
    except OSError as error:
        raise OscopeError(
            f"standard input cannot be read ({error.strerror})",
            remedy="name a file that strace -o FILE wrote",
        ) from error


def _write_json(found: Explanation, target: Output) -> None:
    # A damaged trace holds numbers beyond 64 bits, which orjson refuses. Indenting takes ten times as long.
    target.write(f"{json.dumps(found.to_object())}\n".encode())


def _report(found: Explanation, everything: bool, output: Output | None) -> None:
    shown = Shown(everything)
    if output is None or output.path is None:
        print_report(found, shown, console())
        return
    text = io.StringIO()
    out = Console(file=text, width=FILE_WIDTH, highlight=False, markup=False, emoji=False)
    print_report(found, shown, out)
    output.write(text.getvalue().encode(errors="backslashreplace"))

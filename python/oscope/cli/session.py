"""`oscope session`: what a person saw of a recorded terminal session, and recordings themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from oscope.cli.destinations import TO_STANDARD_OUTPUT, Output, check_not_read, new_file, output_file
from oscope.cli.errors import DONE, FAILED, note
from oscope.cli.options import EVERYWHERE, CommandGroup, parse_option
from oscope.model.errors import UsageError
from oscope.tools.recording import recorder
from oscope.tools.recording.clean import clean as write
from oscope.tools.recording.recording_events import Size

app = CommandGroup()


@app.callback(invoke_without_command=True)
def _begin(context: typer.Context) -> None:
    """Clean what script or asciinema recorded of a terminal, or make such a recording."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("clean", short_help="Write what a person saw of a recording.", epilog=EVERYWHERE)
def clean(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="What script or asciinema recorded; - is standard input.")
    ],
    target: Annotated[
        Output, output_file("--output", "-o", help="The file to write; - is standard output.")
    ] = TO_STANDARD_OUTPUT,
    timing: Annotated[
        str | None, typer.Option("--timing", metavar="T", help="The timing file that script wrote beside it.")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--size", metavar="CxR", help="Columns and rows at its beginning. [default: as recorded]"
        ),
    ] = None,
    marks: Annotated[
        Literal["lines", "none"],
        typer.Option("--marks", help="Whether lines frame the last screen of a full-screen program."),
    ] = "lines",
) -> int:
    """Write the text that a person saw: no escape sequences, titles, corrections or redraws.

    A terminal emulator interprets the recording. Of a full-screen program its last screen is left. Where the
    recording is damaged, what could be read is written, and the exit code is 1.
    """
    if not file:
        raise UsageError("FILE is empty", remedy="name a recording, or - for standard input")
    if file == timing == "-":
        raise UsageError("FILE and --timing are both standard input", remedy="name a file for one of them")
    check_not_read({"--output": target}, file, timing)

    terminal_size = None if size is None else parse_option("--size", Size.parse, size)
    with target.open() as output:
        findings = write(file, output, timing=timing, size=terminal_size, marks=marks)
    for text in (*findings.notes, *findings.problems):
        note(text)
    return FAILED if findings.problems else DONE


@app.command("record", short_help="Record a session.", epilog=EVERYWHERE)
def record(
    file: Annotated[Path, new_file(metavar="OUT", help="The file to write, a new one.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND [ARG]...]", help="The command. [default: your shell]", show_default=False
        ),
    ] = None,
) -> int:
    """Run a command in a terminal of its own, and keep what it shows as an asciicast, version 2.

    What is typed is kept only as far as it is shown. The exit code is the command's, as a shell gives it.
    """
    return recorder.record(file, command or recorder.shell())

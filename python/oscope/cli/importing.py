"""`oscope import`: read the results of another tool into the store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oscope.cli.options import Settings
from oscope.figures.answer_text import counted
from oscope.model.errors import UsageError
from oscope.report import terminal
from oscope.storage.store import Store
from oscope.tools.importing.imported_run import digest, store
from oscope.tools.importing.reading import Format, read


def import_results(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The tool's file, or criterion's folder.")],
    form: Annotated[
        Format | None,
        typer.Option("--format", help="What wrote the file. [default: what its content shows]"),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Name of the experiment. [default: the tool's]"),
    ] = None,
) -> None:
    """Read the results of another benchmarking tool into the store, as a run.

    It reads hyperfine --export-json, pyperf, Google Benchmark and fio in JSON, criterion (sample.json,
    estimates.json, or the folder target/criterion), perf stat -j or -x, and lmbench. The run is marked with
    what the file lacks: show says so, and compare prints it with each verdict.
    """
    settings: Settings = context.obj
    if name is not None and (not name or any(each.isspace() for each in name) or len(name) > 200):
        raise UsageError(f"--as {name!r} is no name", remedy="write it without blanks, such as build-42")
    found = read(file, form)
    with Store.open(settings.store) as opened:
        earlier = opened.imported(digest(found))
        run_id = store(found, name or found.tool, file.name, opened)
    count = sum(len(series.readings) for series in found.series)
    names = len({series.name for series in found.series})
    points = f" at {len(found.series)} points" if len(found.series) > names else ""
    amount = f"{counted(names, 'benchmark')}{points}, {counted(count, 'sample')}"
    out = terminal.console()
    terminal.print_prose(f"{found.tool}: {amount}; lacks {', '.join(found.lacks)}", out)
    for note in found.notes:
        terminal.print_prose(f"note: {note}", out)
    if earlier is not None:
        text = f"run {earlier} has the same content already; this is another run of it"
        apart = "" if name else ". To keep them apart, name the experiment: --as NAME"
        terminal.print_prose(f"note: {text}{apart}", out)
    terminal.print_stored(run_id, out, opened.option)

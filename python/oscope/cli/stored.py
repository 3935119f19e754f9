"""Commands on what was measured before: `runs`, `show`, `report` and `export`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from oscope.cli.errors import note
from oscope.cli.options import RunArgument, RunsArgument, Settings
from oscope.cli.targets import STANDARD_OUTPUT, check_data, check_file

if TYPE_CHECKING:
    from oscope.samples import Columns, Results


def list_runs(context: typer.Context) -> None:
    """List the runs in the store: id, when, status, samples, experiments. The latest comes last."""
    from oscope import terminal
    from oscope.store import Store

    settings: Settings = context.obj
    with Store.open(settings.store) as opened:
        entries = opened.runs()
    terminal.print_runs(entries, terminal.console())


def show(context: typer.Context, run: RunArgument) -> None:
    """Show the summary of a run: medians with their 95 % intervals, counts, notes, what was skipped."""
    from oscope import terminal
    from oscope.cli.summary import print_results

    settings: Settings = context.obj
    print_results(load([run], settings.store, columns="metrics"), terminal.console())


def report(
    context: typer.Context,
    runs: RunsArgument,
    target: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.html", help="The file to write.")],
) -> None:
    """Write one self-contained HTML report on one or several runs: it opens from disk, without a network."""
    check_file(target, "-o")
    settings: Settings = context.obj
    results = load(runs, settings.store)
    from oscope.labs import LABS
    from oscope.report import write

    print(write(results, path=target, labs=LABS))


def export(
    context: typer.Context,
    run: RunArgument,
    form: Annotated[
        Literal["csv", "parquet", "json"],
        typer.Option(
            "--format",
            help="csv and parquet: a row for each sample; json: the records, as --json writes them.",
        ),
    ],
    target: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The file to write; - is standard output.")
    ] = STANDARD_OUTPUT,
) -> None:
    """Write all samples of a run for other programs."""
    check_data(target, "-o")
    settings: Settings = context.obj
    results = load([run], settings.store)
    from oscope.export import export as write

    write(results, form, target)
    if form != "json" and results.inspections:
        names = ", ".join(inspected.inspection for inspected in results.inspections)
        note(f"left out, since they have no samples: {names}: --format json has them")


def load(runs: Sequence[str], store: str | None, *, columns: Columns = "all") -> Results:
    """Return the results of stored runs together, in the order named; UsageError for one not there."""
    from oscope.samples import Results
    from oscope.store import Store

    with Store.open(store) as opened:
        loaded = [opened.results(run, columns=columns) for run in runs]
    return Results(
        tuple(experiment for results in loaded for experiment in results.experiments),
        tuple(inspected for results in loaded for inspected in results.inspections),
    )

"""Commands on what was measured before: `runs`, `show`, `report` and `export`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from oscope.cli.errors import note
from oscope.cli.options import RunArgument, RunsArgument, Settings
from oscope.cli.summary import print_results
from oscope.cli.targets import TO_STANDARD_OUTPUT, Output, output_file
from oscope.labs import LABS
from oscope.model.samples import Results
from oscope.report import encode, terminal
from oscope.storage import record
from oscope.storage.store import Store

if TYPE_CHECKING:
    from oscope.model.samples import Columns, Results


def list_runs(context: typer.Context) -> None:
    """List the runs in the store: id, when, status, samples, experiments. The latest comes last."""
    settings: Settings = context.obj
    with Store.read(settings.store) as opened:
        entries = opened.runs()
    terminal.print_runs(entries, terminal.console())


def show(context: typer.Context, run: RunArgument) -> None:
    """Show the summary of a run: medians with their 95 % intervals, counts, notes, what was skipped."""
    settings: Settings = context.obj
    print_results(load([run], settings.store, columns="metrics"), terminal.console())


def report(
    context: typer.Context,
    runs: RunsArgument,
    target: Annotated[
        Output, output_file("--output", "-o", help="The HTML file to write; - is standard output.")
    ],
    beside: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RECORD.json",
            help="A record of another machine (oscope run --json), marked beside this one's latencies and "
            "throughputs; repeatable.",
        ),
    ] = None,
) -> None:
    """Write one self-contained HTML report on one or several runs: it opens from disk, without a network."""
    settings: Settings = context.obj
    results = load(runs, settings.store)
    others = [record.read(path) for path in beside or ()]

    target.write(encode(results, LABS, others))
    if target.path is not None:
        print(target)


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
        Output, output_file("--output", "-o", help="The file to write; - is standard output.")
    ] = TO_STANDARD_OUTPUT,
) -> None:
    """Write all samples of a run for other programs."""
    settings: Settings = context.obj
    results = load([run], settings.store)
    from oscope.storage.export import encode  # noqa: PLC0415 - pandas, half a second

    target.write(encode(results, form))
    if form != "json" and results.inspections:
        names = ", ".join(inspected.inspection for inspected in results.inspections)
        note(f"left out, since they have no samples: {names}: --format json has them")


def load(runs: Sequence[str], store: str | None, *, columns: Columns = "all") -> Results:
    """Return the results of stored runs together, in the order named; UsageError for one not there."""
    with Store.read(store) as opened:
        loaded = [opened.results(run, columns=columns) for run in runs]
    return Results(
        tuple(experiment for results in loaded for experiment in results.experiments),
        tuple(inspected for results in loaded for inspected in results.inspections),
    )

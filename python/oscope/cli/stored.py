"""Commands on what was measured before: `runs`, `show`, `report` and `export`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from oscope.cli.completion import part_names, run_ids
from oscope.cli.destinations import (
    REPORT,
    TO_STANDARD_OUTPUT,
    Output,
    check_not_read,
    default_output,
    output_file,
)
from oscope.cli.errors import note
from oscope.cli.options import RUN_HELP, FormOption, RunArgument, Settings
from oscope.cli.pager import paged
from oscope.cli.summary import print_results, tables
from oscope.cli.views.survey import is_survey, print_survey
from oscope.labs import LABS, named
from oscope.model.document import Table
from oscope.model.errors import UsageError
from oscope.model.formatting import format_count
from oscope.model.samples import Results
from oscope.model.table_form import Form
from oscope.programs.spec import EXPERIMENT as OWN_PROGRAMS
from oscope.report import encode, terminal
from oscope.report.forms import encode as encode_tables
from oscope.storage import record
from oscope.storage.export import encode as encode_samples
from oscope.storage.named_results import read_several
from oscope.storage.store import Store

if TYPE_CHECKING:
    from oscope.model.samples import Columns
    from oscope.storage.store import RunEntry


WIDE = 72
"""Characters of a terminal that has room for when a run began, which its id begins with, too."""
MOST_NAMES = 6
"""Experiments of a run that a list names; a survey has dozens."""


_RUN = re.compile(r"\d{8}-\d|last$")
"""What begins like a run's id, or is the newest run."""


def list_runs(context: typer.Context, form: FormOption = "text") -> None:
    """List the runs in the store: id, when, status, samples, experiments. The latest comes last."""
    settings: Settings = context.obj
    with Store.read(settings.store) as opened:
        entries = opened.runs()
    print_runs(entries, form, "no runs yet: oscope run makes one")


def print_runs(entries: Sequence[RunEntry], form: Form, without: str = "") -> None:
    """Print a line for each run; where there is none, to a person, the text `without`."""
    if form != "text":
        print(encode_tables([_runs_table(entries)], form), end="")
        return
    with paged(terminal.console()) as out:
        if entries:
            columns = terminal.columns_of(_runs_table(entries, MOST_NAMES))
            # Programs stand beside the experiments, and that a run was injected beside its status.
            del columns[5:]
            hidden = [] if out.width >= WIDE else [columns.pop(1)[0]]
            room = terminal.table_room(out) - terminal.table_width([*columns[:-1], [""]])
            for row, entry in enumerate(entries, 1):
                if entry.programs:
                    columns[-1][row] = with_programs(columns[-1][row], entry.programs, room)
            terminal.print_columns(columns, out, wrap_last=True)
            if hidden:
                terminal.print_prose(terminal.without(hidden), out, style="dim")
        elif without:
            out.print(without)


def _runs_table(entries: Sequence[RunEntry], most: int | None = None) -> Table:
    """Return a row for each run of a store; for a person it names `most` experiments at most."""
    rows = [
        [
            entry.id,
            f"{entry.started.astimezone():%Y-%m-%d %H:%M}",
            f"{entry.status}, injected" if entry.injected and most is not None else entry.status,
            format_count(entry.samples),
            _few(entry.experiments, most),
            ", ".join(entry.programs),
            ", ".join(entry.injected),
        ]
        for entry in entries
    ]
    names = ["run", "started", "status", "samples", "experiments", "programs", "injected"]
    return Table("", names, rows, frozenset({3}))


def with_programs(experiments: str, programs: Sequence[str], room: int) -> str:
    """Return the experiments of a run with what they measured, cut to `room` where that is commands.

    The path of one program is whole, over several lines: two builds often differ in its last part alone.
    """
    text = f"{experiments}: {', '.join(programs)}"
    if len(text) <= room or (len(programs) == 1 and " " not in programs[0]):
        return text
    return f"{text[: max(room - 1, 0)]}…"


def _few(names: Sequence[str], most: int | None) -> str:
    if most is None or len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def show(
    context: typer.Context,
    run: Annotated[
        str,
        typer.Argument(metavar="[RUN]", help=RUN_HELP, autocompletion=run_ids),
    ] = "last",
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EXPERIMENT|INSPECTION|LAB]...",
            help="Show these only. [default: all]",
            autocompletion=part_names,
        ),
    ] = None,
    form: FormOption = "text",
) -> None:
    """Show a run: what was found, medians with their 95 % intervals, counts, notes, what was skipped.

    Of a survey, one screen; then all tables. On a terminal what is long goes through $PAGER.
    """
    settings: Settings = context.obj
    for name in names or ():
        if _RUN.match(name):
            raise UsageError("oscope show takes one run", remedy=f"oscope compare {run} {name} takes two")
    try:
        results = load([run], settings.store)
    except UsageError as error:
        if run not in _shown_names():
            raise
        raise UsageError(error.message, remedy=f"oscope show last {run} shows it of the last run") from None
    chosen = _chosen(results, names or ())
    if form != "text":
        # A document is read by people, whose units suit the figures.
        shown = tables(chosen, verbose=settings.verbose, plain=form != "md")
        print(encode_tables(shown, form), end="")
        return
    with paged(terminal.console()) as out:
        whole = is_survey(results) and not names
        if whole:
            print_survey(chosen, out)
        print_results(chosen, out, verbose=settings.verbose, found=not whole)


def _shown_names() -> set[str]:
    """Return the names of the built-in labs, of all that is in them, and of a bench."""
    return {OWN_PROGRAMS, *(lab.name for lab in LABS), *(part.name for lab in LABS for part in lab.parts)}


def _chosen(results: Results, names: Sequence[str]) -> Results:
    """Return the experiments and inspections of a run that `names` stand for; all of them for no name.

    Raises UsageError for what is no name, with the nearest one, and for what the run does not have.
    """
    if not names:
        return results
    by_lab = {lab.name: {part.name for part in lab.parts} for lab in LABS}
    chosen_parts: set[str] = set()
    for name in names:
        meant = by_lab.get(name, {name})
        if meant.isdisjoint(results.names):
            known = name if name in by_lab else named(name).name
            raise UsageError(
                f"the run has nothing of {known}", remedy=f"it has {', '.join(dict.fromkeys(results.names))}"
            )
        chosen_parts |= meant
    return Results(
        tuple(each for each in results.experiments if each.experiment in chosen_parts),
        tuple(each for each in results.inspections if each.inspection in chosen_parts),
    )


def report(
    context: typer.Context,
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Runs (ids, the start of one, last or last~1) or record files. [default: the last one]",
            autocompletion=run_ids,
        ),
    ] = None,
    target: Annotated[
        Output | None,
        output_file(
            "--output",
            "-o",
            help="The HTML file to write; - is standard output. [default: oscope-report.html]",
        ),
    ] = None,
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
    if target is None:
        target = default_output(REPORT, "--output")
    check_not_read({"--output": target}, *runs or (), *map(str, beside or ()))
    results = load(runs or ["last"], settings.store)
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
    check_not_read({"--output": target}, run)
    results = load([run], settings.store)
    target.write(encode_samples(results, form))
    if target.path is not None:
        terminal.print_written(target, terminal.console())
    if form != "json" and results.inspections:
        names = ", ".join(inspected.inspection for inspected in results.inspections)
        note(f"left out, since they have no samples: {names}: --format json has them")


def load(runs: Sequence[str], store: str | None, *, columns: Columns = "all") -> Results:
    """Return the results of runs and record files together, in the order named. Raises UsageError."""
    loaded = read_several(runs, store, columns=columns)
    return Results(
        tuple(experiment for results in loaded for experiment in results.experiments),
        tuple(inspected for results in loaded for inspected in results.inspections),
    )

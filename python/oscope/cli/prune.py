"""`oscope prune`: deletes old runs; shows first what it would delete."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

import typer

from oscope.cli.errors import DONE, note
from oscope.cli.options import FormOption, Settings, parse_option
from oscope.cli.stored import print_runs
from oscope.model import units
from oscope.model.errors import OscopeError, UsageError
from oscope.storage import retention
from oscope.storage.store import Store


def prune(
    context: typer.Context,
    older: Annotated[
        str | None,
        typer.Option("--older-than", metavar="T", help="Age of what goes: 90d, 12h, 30m (minutes). Needed."),
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete them. [default: only list them]")] = False,
    form: FormOption = "text",
) -> int:
    """List the runs into which nothing was stored for so long; with --delete, delete them for good.

    Runs of a fleet, and runs that were interleaved, go together or not at all. A run that may be under way
    stays (unfinished, and written to within a week), and the newest calibration of each machine.
    """
    settings: Settings = context.obj
    if older is None:
        raise UsageError("no age is given", remedy="give one, such as --older-than 90d")
    age_s = parse_option("--older-than", units.parse_duration, older)
    with Store.read(settings.store) as store:
        groups = retention.find_old(store, age_s)
    kept: list[str] = []
    if delete and groups:
        with Store.open(settings.store) as store:
            kept = [run.id for group in groups if not retention.delete(store, group) for run in group.runs]
            if len(kept) < sum(len(group.runs) for group in groups) and not retention.give_back(store):
                note("the store's file stays as large as it is: a run is being measured into it")
    expired = [run for group in groups for run in group.runs if run.id not in kept]
    print_runs(expired, form)
    samples = sum(run.samples for run in expired)
    count = f"{len(expired)} run{'' if len(expired) == 1 else 's'} with {samples} samples"
    since = f"{datetime.now() - timedelta(seconds=age_s):%Y-%m-%d %H:%M}"
    remedy = ": add --delete" if expired else ""
    note(
        f"deleted {count}" if delete else f"{count}, last written to before {since}, would be deleted{remedy}"
    )
    if kept:
        raise OscopeError(f"{kept[0]} was written to meanwhile, and stays", remedy="repeat this later")
    return DONE

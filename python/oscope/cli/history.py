"""`oscope history`: the stored runs of an experiment over time, and from which run on something changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oscope import labs
from oscope.analysis.run_history import collect, left_out, to_object, without_injection
from oscope.cli.chosen_runs import last_experiment
from oscope.cli.comparison import stands_for
from oscope.cli.completion import part_names
from oscope.cli.destinations import Output, check_distinct, is_standard_output, output_file
from oscope.cli.errors import DONE
from oscope.cli.options import Settings
from oscope.cli.views.history import autocorrelation, changes, print_history
from oscope.model.errors import UsageError
from oscope.model.experiment import Experiment
from oscope.model.labs import nearest_name
from oscope.report import terminal
from oscope.report.terminal import print_prose
from oscope.storage import record
from oscope.storage.store import Store

if TYPE_CHECKING:
    from oscope.model.samples import ExperimentResults, PointSamples
    from oscope.storage.store import RunEntry, Store

FORMS = (".html", ".png")


# More parameters than other functions: it is the table of the command's options.
def history(
    context: typer.Context,
    experiment: Annotated[
        str | None,
        typer.Argument(
            metavar="EXPERIMENT",
            help="The experiment, by its name. [default: of the last run, the one measured most often]",
            autocompletion=part_names,
        ),
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="M", help="The metric. [default: the headline's]")
    ] = None,
    point: Annotated[
        list[str] | None,
        typer.Option("--point", metavar="FACTOR=LEVEL", help="Only points with this level; repeatable."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="DATE", help="Only runs from then on, such as 2026-11-20."),
    ] = None,
    json: Annotated[Output | None, output_file("--json", help="Write it all; - is standard output.")] = None,
    figure: Annotated[
        Output | None, output_file("--figure", help="Draw it, into an .html or .png file.")
    ] = None,
) -> int:
    """Show the stored runs of EXPERIMENT in order of time, and where they changed.

    Runs that may not be compared are never in one series. A change is reported with its size, the run it
    began with, and what had changed in the environment there; so is a level that wanders from run to run.
    Runs with injected interference are left out.
    """
    _check(json, figure)
    begin = None if since is None else _date(since)
    levels = [_level(text) for text in point or ()]

    settings: Settings = context.obj
    if experiment is None:
        experiment = last_experiment(settings.store)
    with Store.read(settings.store) as store:
        clean, injected = without_injection(_entries(store, experiment, begin))
        lines = collect(_runs(store, experiment, clean, levels), metric)
    out = terminal.console(to_standard_error=is_standard_output(json))
    print_history(experiment, lines, out)
    if injected:
        print_prose(left_out(len(injected)), out)
    if json is not None:
        json.write(record.dump(to_object(experiment, lines, injected)))
    if figure is not None:
        texts = [text for line in lines for text in changes(line)] or ["No change was found."]
        texts += filter(None, map(autocorrelation, lines))
        from oscope.report.history_figure import encode  # noqa: PLC0415 - matplotlib, half a second

        figure.write(encode(experiment, lines, texts, Path(figure.name).suffix))
        terminal.print_written(figure, out)
    return DONE


def _check(json: Output | None, figure: Output | None) -> None:
    if figure is not None and Path(figure.name).suffix not in FORMS:
        raise UsageError(f"--figure {figure}: not a file of a known form", remedy="name a .html or .png file")
    check_distinct({"--json": json, "--figure": figure})


def _date(text: str) -> datetime:
    """Read a date, or date and time, in this machine's time zone unless it names another."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise UsageError(
            f"--since {text}: not a date", remedy="write it like 2026-11-20 or 2026-11-20T18:30"
        ) from None


def _level(text: str) -> tuple[str, str]:
    factor, equals, level = (part.strip() for part in text.partition("="))
    if not (factor and equals and level):
        raise UsageError(
            f"--point {text}: not of the form factor=level", remedy="write it like --point call=getppid"
        )
    return factor, level


def _entries(store: Store, experiment: str, begin: datetime | None) -> list[RunEntry]:
    """Return the runs that have samples of the experiment, the oldest first. UsageError where none has."""
    measured = [entry for entry in store.runs() if entry.samples]
    entries = [entry for entry in measured if experiment in entry.experiments]
    if not entries:
        _refuse(experiment, {name for entry in measured for name in entry.experiments})
    entries = [entry for entry in entries if begin is None or entry.started >= begin]
    if not entries:
        raise UsageError(f"no run of {experiment} since then", remedy="name an earlier --since")
    return entries


def _runs(
    store: Store, experiment: str, entries: Sequence[RunEntry], levels: Sequence[tuple[str, str]]
) -> Iterator[ExperimentResults]:
    """Yield the experiment's results of each run, with the points wanted.

    Raises UsageError where no run has any of them.
    """
    seen: dict[str, None] = {}
    any_left = False
    for entry in entries:
        for results in store.results(entry.id, experiment=experiment, columns="metrics").experiments:
            kept = tuple(each for each in results.points if _has_levels(results, each, levels))
            seen |= {
                f"{name}={level}": None for each in results.points for name, level in each.factors.items()
            }
            any_left |= bool(kept)
            if kept:
                yield replace(results, points=kept)
    if not any_left:
        texts = " ".join(f"{factor}={level}" for factor, level in levels)
        raise UsageError(f"no point of {experiment} with {texts}", remedy=f"there is {', '.join(seen)}")


def _refuse(experiment: str, measured: Collection[str]) -> None:
    """Raise the UsageError for an experiment of which the store has no samples, but of those `measured`."""
    known = labs.built_in().names
    if experiment not in known:
        # The user's own experiments are known by their runs.
        remedy = nearest_name(experiment, known.union(measured))
        raise UsageError(f"there is no experiment {experiment!r}", remedy=remedy)
    if any(lab.name == experiment for lab in labs.LABS):
        parts = ", ".join(each.name for each in labs.lab(experiment).experiments)
        raise UsageError(f"{experiment} is a lab", remedy=f"name one of its experiments: {parts}")
    named = labs.named(experiment)
    if not isinstance(named, Experiment):
        raise UsageError(f"{experiment} is an inspection and has no samples", remedy="see oscope list")
    raise UsageError(
        f"the store has no samples of {experiment}", remedy=f"measure with oscope run {experiment}"
    )


def _has_levels(results: ExperimentResults, point: PointSamples, levels: Sequence[tuple[str, str]]) -> bool:
    return all(
        factor in point.factors and stands_for(text, point.factors[factor], results.factor_types.get(factor))
        for factor, text in levels
    )

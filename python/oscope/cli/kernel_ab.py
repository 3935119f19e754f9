"""`oscope kernel ab`: what a patch costs, from patch to verdict in one command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from oscope.analysis.kernel_ab import Amount, judge, make_plans, make_sides, to_object
from oscope.cli.comparison import worse
from oscope.cli.completion import part_names
from oscope.cli.destinations import Destinations, Output, output_file
from oscope.cli.errors import DONE
from oscope.cli.kernel_progress import watching
from oscope.cli.measure_with_progress import raise_if_interrupted
from oscope.cli.options import Settings, whole_number
from oscope.cli.progress import display
from oscope.cli.request import parse_settings, parse_threshold, parse_where, select
from oscope.figures.analysed import label
from oscope.labs import LABS
from oscope.model.errors import OscopeError, UsageError
from oscope.model.guest import MOST_CPUS
from oscope.model.samples import Results
from oscope.planning.plan import MOST_SEED
from oscope.report import encode, terminal
from oscope.report.comparison import print_comparison
from oscope.runner.interleaved import execute_interleaved
from oscope.storage import record
from oscope.storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from oscope.analysis.kernel_ab import KernelVerdict, Side
    from oscope.model.samples import Results
    from oscope.planning.plan import Plan
    from oscope.runner.execution import Outcome
    from oscope.storage.store import Store

MOST_BOOTS = 10_000
MOST_REPS = 1_000_000


# Longer than other functions, and with more parameters: it is the table of the command's options.
def ab(
    context: typer.Context,
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="EXPERIMENT|LAB...", help="What to measure on both kernels.", autocompletion=part_names
        ),
    ],
    patch: Annotated[
        list[str],
        typer.Option("--patch", metavar="NAME|FILE", help="The patch in question; several are one change."),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FACTOR=A,B,C", help="Levels of a factor; repeatable."),
    ] = None,
    clock: Annotated[
        Literal["instructions", "wall"],
        typer.Option("--clock", help="Count instructions, which repeats exactly, or measure time."),
    ] = "instructions",
    boots: Annotated[int, whole_number("--boots", most=MOST_BOOTS, help="Boots a side, 5 or more.")] = 5,
    reps: Annotated[
        int | None, whole_number("--reps", most=MOST_REPS, help="Samples of each point in a boot.")
    ] = None,
    profile: Annotated[
        Literal["quick", "full"], typer.Option("--profile", help="Which points are measured.")
    ] = "quick",
    cpus: Annotated[
        int | None, whole_number("--cpus", least=1, most=MOST_CPUS, help="CPUs of the guests.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", metavar="SIZE", help="Memory of the guests. [default: 1GiB]")
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            metavar="P",
            help="What matters; if given, exit code 1 where something is worse by more.",
        ),
    ] = None,
    seed: Annotated[
        int | None, whole_number("--seed", most=MOST_SEED, help="Seed of the random order. [default: drawn]")
    ] = None,
    json: Annotated[
        Output | None,
        output_file("--json", help="Write verdicts and records; - is standard output."),
    ] = None,
    report: Annotated[
        Output | None,
        output_file("--report", help="Write an HTML report on all sides; - is standard output."),
    ] = None,
) -> int:
    """Build the kernel with and without a patch, measure both in interleaved boots, and give a verdict.

    By the instructions clock two boots of a kernel repeat to the instruction, and a difference is the
    patch's. By the wall clock a third kernel, the unpatched one with other padding, shows what the layout of
    the code does by itself.
    """
    destinations = Destinations(json, report)
    destinations.check()
    limit = parse_threshold(threshold)
    where, amount = parse_where("guest", clock, cpus, memory), Amount(profile, boots, reps, seed)
    amount.check()
    selection, levels = select(names, profile), parse_settings(settings or ())
    for inspection in selection.inspections:
        raise UsageError(f"{inspection.name} has no samples to compare", remedy="name experiments")
    # Wrong input is reported before kernels are built, which takes minutes.
    make_plans(selection.experiments, ["any"], where, amount, levels)
    with watching() as listener:
        sides = make_sides(patch, clock, listener)
    kernels = [side.kernel.id for side in sides]
    plans = make_plans(selection.experiments, kernels, where, amount, levels)
    call: Settings = context.obj
    results, outcomes = _measure(plans, call)
    verdicts, missed = _print_verdicts(sides, results, limit, destinations)
    _fail(outcomes, verdicts, missed, threshold)
    return DONE


def _measure(plans: Sequence[Plan], settings: Settings) -> tuple[list[Results], tuple[Outcome, ...]]:
    """Measure all sides, and return what they gave."""
    with Store.open(settings.store) as store:
        outcomes = _carry_out(plans, store, verbose=settings.verbose)
        return [store.results(outcome.run_id) for outcome in outcomes], outcomes


def _carry_out(plans: Sequence[Plan], store: Store, *, verbose: bool) -> tuple[Outcome, ...]:
    with display(remarks=verbose) as shown:
        outcomes = execute_interleaved(plans, store, shown)
    raise_if_interrupted(outcomes)
    return outcomes


def _print_verdicts(
    sides: Sequence[Side], results: Sequence[Results], threshold: float, destinations: Destinations
) -> tuple[list[KernelVerdict], dict[str, str]]:
    """Print the verdicts and write the files asked for; return them, and what has none with the reason."""
    verdicts, missed = judge(results, threshold)
    out = terminal.console(to_standard_error=destinations.take_standard_output)
    for side in sides:
        out.print(f"{side.role:>8}: kernel {side.kernel.id} ({side.kernel.name}, {side.kernel.release})")
    for verdict in verdicts:
        print_verdict(verdict, out)
    for name, reason in missed.items():
        terminal.print_prose(f"{name}: no verdict: {reason}", out)
    runs = ", ".join(result.experiments[0].run_id for result in results)
    terminal.print_prose(f"stored as runs {runs}", out, style="dim")
    if destinations.json is not None:
        destinations.json.write(record.dump(to_object(sides, results, verdicts, missed)))
    if destinations.report is not None:
        together = Results(tuple(experiment for result in results for experiment in result.experiments))
        destinations.report.write(encode(together, LABS))
        terminal.print_written(destinations.report, out)
    return verdicts, missed


def print_verdict(verdict: KernelVerdict, out: Console) -> None:
    """Print an experiment's comparison, and what its differences are put down to."""
    print_comparison(verdict.base, verdict.comparison, out)
    if verdict.padded is None:
        return
    varied = verdict.base.varied()
    terminal.print_prose("Layout: the unpatched kernel with other padding against itself", out, style="bold")
    for row, layout in zip(verdict.comparison.rows, verdict.layout(), strict=True):
        if layout is not None and row.metric == verdict.base.headline:
            name = label(verdict.base, row.factors, varied) or row.metric
            terminal.print_prose(f"{name}: {layout.cause}: {layout.sentence}", out)
    out.print()


def _fail(
    outcomes: Sequence[Outcome],
    verdicts: Sequence[KernelVerdict],
    missed: Mapping[str, str],
    threshold: str | None,
) -> None:
    """Raise the error that it ended with, if it did."""
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise OscopeError(f"{failures[0]}{more}", remedy="the rest is kept: oscope runs")
    if missed:
        reasons = "; ".join(f"{name} ({reason})" for name, reason in missed.items())
        raise OscopeError(f"there is no verdict on {reasons}", remedy="the rest is kept: oscope runs")
    found = [name for verdict in verdicts for name in worse(verdict.base, verdict.comparison)]
    if threshold is not None and found:
        raise OscopeError(f"worse by more than {threshold}: {', '.join(found)}")

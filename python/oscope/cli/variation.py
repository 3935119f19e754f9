"""`oscope explain-variation`: what makes the samples of a run vary."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from oscope.cli.destinations import Output, check_not_read, is_standard_output, output_file
from oscope.cli.errors import DONE
from oscope.cli.options import RunArgument, Settings
from oscope.cli.stored import load
from oscope.figures import variation
from oscope.figures.analysed import WORDS, Analysed
from oscope.model.errors import UsageError
from oscope.model.formatting import MISSING
from oscope.report import terminal
from oscope.report.terminal import print_prose, print_table
from oscope.statistics import injected
from oscope.storage import record

if TYPE_CHECKING:
    from rich.console import Console

    from oscope.figures.analysed import Analysed
    from oscope.figures.variation import Attributed
    from oscope.model.document import Table
    from oscope.model.samples import ExperimentResults
    from oscope.statistics.tail import Tail

SCHEMA = "oscope.variation/1"


def explain_variation(
    context: typer.Context,
    run: RunArgument,
    metric: Annotated[
        str | None,
        typer.Option("--metric", metavar="M", help="Explain this one. [default: each experiment's first]"),
    ] = None,
    target: Annotated[
        Output | None,
        output_file("--json", help="Write the shares as JSON; - is standard output."),
    ] = None,
) -> int:
    """Print the covariates associated with the variance of a run's samples, beyond chance.

    Each sample has covariates: run delay, switches, interrupts, faults and more. The share of the variance
    associated with each is printed with a 95 % interval, the rest as unexplained. The slowest 1 % are
    compared with all others: which covariates are more frequent or larger there. Then come the slowest
    samples, with what was unusual in them. Points with fewer than 50 samples are left out.
    """
    settings: Settings = context.obj

    check_not_read({"--json": target}, run)
    results = Analysed.of(load([run], settings.store))
    chosen = [
        (experiment, metric or experiment.headline)
        for experiment in results.experiments
        if (metric in experiment.metrics if metric else experiment.headline not in WORDS)
    ]
    if not chosen:
        known = ", ".join(dict.fromkeys(name for e in results.experiments for name in e.metrics))
        what = f"has no metric {metric!r}" if metric else "has no samples that vary"
        raise UsageError(f"run {run} {what}", remedy=f"there is {known}" if known else "choose another run")
    explained = [(e, name, variation.of_experiment(results, e, name)) for e, name in chosen]
    if target is not None:
        data = {"schema": SCHEMA, "experiments": [_plain(*each) for each in explained]}
        target.write(record.dump(data))
    if not is_standard_output(target):
        if warning := injected.banner([experiment for experiment, _ in chosen]):
            print_prose(warning, terminal.console(), style="bold red")
        for each in explained:
            _print(results, *each, terminal.console())
    return DONE


def _print(
    results: Analysed,
    experiment: ExperimentResults,
    metric: str,
    every: list[Attributed],
    out: Console,
) -> None:
    out.print(Text.assemble((experiment.experiment, "bold"), f": what makes {metric} vary"))
    if experiment.clock != "wall":
        print_prose("The clock counts instructions: what goes on around the work does not move it.", out)
    print_prose(variation.in_brief(results, every), out, style="bold")
    judged = [each for each in every if each.judged]
    if judged:
        print_table(_filled(variation.table(every)), out)
        for each in judged:
            if each.found.tail is not None and each.found.tail.causes:
                print_prose(f"{each.name}: {each.found.tail.sentence}", out)
        tables = (*variation.tails(judged), *variation.slow(judged), *variation.glossary(results, judged))
        for table in tables:
            print_table(_filled(table), out)
    out.print()


def _filled(table: Table) -> Table:
    """Fill short rows: on a page their last cell runs over the columns left, on a terminal it does not."""
    width = len(table.columns)
    return replace(table, rows=[[*row, *[MISSING] * (width - len(row))] for row in table.rows])


def _plain(experiment: ExperimentResults, metric: str, every: list[Attributed]) -> dict[str, Any]:
    """Return the shares as JSON: 0 to 1; null where there are not enough samples."""
    return {
        "run": experiment.run_id,
        "experiment": experiment.experiment,
        "metric": metric,
        # As `--inject` takes it: with injected interference it is no clean measurement.
        "injected": list(injected.causes_of(experiment)),
        "points": [
            {
                "point": each.name,
                "n": each.found.n,
                "causes": [
                    {
                        "name": cause.name,
                        "along": list(cause.along),
                        "share": cause.share,
                        "ci95": [cause.low, cause.high],
                        "direction": cause.direction,
                        "stability": _number(cause.stability),
                    }
                    for cause in each.found.causes
                ],
                "own_cpu_time": _number(each.found.own),
                "unexplained": _number(each.found.unexplained),
                "extreme": _number(each.found.extreme),
                "tail": None if each.found.tail is None else _tail(each.found.tail),
                "slow": [
                    {
                        "sample": one.index,
                        "value": one.value,
                        "excess": one.excess,
                        "unusual": list(one.causes),
                    }
                    for one in each.found.slow
                ],
            }
            for each in every
        ],
    }


def _tail(tail: Tail) -> dict[str, Any]:
    """Return the upper tail as JSON: `samples` are positions, `share` is of the variance."""
    return {
        "n": tail.n,
        "of": tail.of,
        "limit": tail.limit,
        "share": tail.share,
        "samples": list(tail.samples),
        "sentence": tail.sentence,
        "causes": [asdict(cause) for cause in tail.causes],
    }


def _number(value: float) -> float | None:
    return value if value == value else None

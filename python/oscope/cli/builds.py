"""`oscope ab`: two builds of the probe, or of a program of one's own, interleaved or at the same time."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from oscope.analysis import probe_ab
from oscope.analysis.calibration.detection import size_interleaved
from oscope.cli.comparison import worse
from oscope.cli.completion import part_names
from oscope.cli.destinations import Destinations, Output, output_file
from oscope.cli.detect import newest_calibration
from oscope.cli.errors import DONE
from oscope.cli.measure_with_progress import raise_if_interrupted
from oscope.cli.options import MattersOption, Settings, whole_number
from oscope.cli.progress import display
from oscope.cli.request import (
    check_amounts,
    parse_amount,
    parse_settings,
    parse_share,
    parse_threshold,
    select,
)
from oscope.labs import LABS, built_in, with_own
from oscope.model.errors import OscopeError, ProbeError, UsageError
from oscope.model.samples import Results
from oscope.planning.plan import MOST_SEED, check_seed
from oscope.probe import catalogue
from oscope.probe.own_program import with_programs
from oscope.report import encode, terminal
from oscope.report.comparison import intervals, print_comparison
from oscope.runner.duet import doubled
from oscope.runner.duet_cpus import is_possible
from oscope.runner.interleaved import execute_interleaved
from oscope.statistics import compare_results
from oscope.statistics.machines import label
from oscope.storage import record
from oscope.storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from oscope.analysis.probe_ab import Chosen
    from oscope.cli.request import Selection
    from oscope.model.experiment import Experiment
    from oscope.model.samples import ExperimentResults, Results
    from oscope.planning.plan import Plan
    from oscope.probe.catalogue import Catalogue
    from oscope.runner.execution import Outcome
    from oscope.statistics import Comparison

DEFAULT_BUDGET_S = 10.0


# More parameters than other functions: it is the table of the command's options.
def ab(
    context: typer.Context,
    a: Annotated[
        str, typer.Argument(metavar="OLD", help="A build of oscope-probe, or of a workload program of yours.")
    ],
    b: Annotated[str, typer.Argument(metavar="NEW", help="The build to compare with it.")],
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="EXPERIMENT|LAB...", help="What to measure by both builds.", autocompletion=part_names
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FACTOR=A,B,C", help="Levels of a factor; repeatable."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option("--budget", metavar="T", help="How long to measure, both builds. [default: 10s]"),
    ] = None,
    detect: Annotated[
        str | None,
        typer.Option(
            "--detect",
            metavar="P",
            help="Measure as long as it takes to find a difference of this size (1%), by the machine's "
            "certificate (oscope calibrate --quick).",
        ),
    ] = None,
    threshold: MattersOption = None,
    way: Annotated[
        Literal["auto", "interleaved", "duet"],
        typer.Option(
            "--way",
            help="Measure the builds interleaved, or both at the same time on two CPUs (duet); auto: "
            "whichever finds smaller differences, by the machine's certificate.",
        ),
    ] = "auto",
    seed: Annotated[
        int | None, whole_number("--seed", most=MOST_SEED, help="Seed of the random order. [default: drawn]")
    ] = None,
    json: Annotated[
        Output | None, output_file("--json", help="Write both records; - is standard output.")
    ] = None,
    report: Annotated[
        Output | None, output_file("--report", help="Write an HTML report on both; - is standard output.")
    ] = None,
) -> int:
    """Measure by two builds of a workload program, or of the probe, interleaved; print whether they differ.

    Of workload programs of your own, each EXPERIMENT is one that both describe; any other command is measured
    by oscope bench.

    Each block is a fresh process of either build, in random order: what the machine does meanwhile hits both
    alike, so that far smaller differences are found than between two runs. As a duet, both builds measure at
    the same time on two CPUs, which they swap: that takes 3 CPUs.
    """
    destinations = Destinations(json, report)
    destinations.check()
    limit = parse_threshold(threshold)
    budget_s = parse_amount(None, None, budget).budget_s or DEFAULT_BUDGET_S
    effect = None if detect is None else parse_share("--detect", detect)
    if effect is not None:
        check_amounts({"--budget": budget})
    if seed is not None:
        check_seed(seed)
    paths, sides = _builds((a, b), names)
    named = (None, None) if paths is None else (a, b)
    plans = probe_ab.make_plans(sides, parse_settings(settings or ()), budget_s, seed, named)
    call: Settings = context.obj
    known = _known(way, detect, call.store)
    chosen = probe_ab.choose_way(plans[0], way, known, None if effect is not None else budget_s)
    if effect is not None:
        sized = [size_interleaved(plan, effect, known, chosen.duet) for plan in plans]
        plans, notes = tuple(one.plan for one in sized), sized[0].notes
    else:
        notes = ()
    measured, outcomes = _measure(plans, paths, call, replace(chosen, notes=(*chosen.notes, *notes)))
    compared = _print_comparison(measured, limit, destinations)
    raise_if_interrupted(outcomes)
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise OscopeError(f"{failures[0]}{more}", remedy="the rest is kept and compared")
    if not compared:
        raise UsageError("there is nothing to compare", remedy="oscope show prints why, for each run")
    found = [name for experiment, comparison in compared for name in worse(experiment, comparison)]
    if threshold is not None and found:
        raise OscopeError(f"worse by more than {threshold}: {', '.join(found)}")
    return DONE


def _builds(
    written: Sequence[str], names: Sequence[str]
) -> tuple[list[Path] | None, list[tuple[Catalogue, tuple[Experiment, ...]]]]:
    """Return the probes (None: the usual one), and for each build its description and the experiments.

    What has a name of Oscope's own is measured by the probe, everything else by programs of the user's own.
    """
    if all(name in built_in().names for name in names):
        paths = [probe_ab.find_build(text) for text in written]
        experiments = _experiments(select(names, "quick"))
        for path, text in zip(paths, written, strict=True):
            if not _is_probe(path):
                raise UsageError(
                    f"{text} is no build of oscope-probe, which measures {names[0]}",
                    remedy="name two builds of it, or what your programs describe",
                )
        return paths, [(catalogue.load(path), experiments) for path in paths]
    sides = []
    for text in written:
        is_probe = _is_probe(Path(text))
        try:
            known = built_in() if is_probe else with_own(names, text)[0]
            experiments = _experiments(select(names, "quick", known))
        except UsageError as error:
            what = f"{text}, a build of oscope-probe" if is_probe else text
            raise UsageError(f"{what}: {error.message}", remedy=error.remedy) from None
        except ProbeError as error:
            both = " --vs ".join(map(shlex.quote, written))
            remedy = f"{error.remedy}; or measure whole commands: oscope bench -- {both}"
            raise ProbeError(error.message, remedy=remedy) from None
        for each in experiments:
            if each.program is None:
                raise UsageError(
                    f"{each.name} is measured by the probe, not by {text}", remedy="leave it out"
                )
        programs = [each.program for each in experiments]
        sides.append((with_programs(catalogue.load(), programs), experiments))
    return None, sides


def _is_probe(path: Path) -> bool:
    """Say whether a program describes itself as the probe does; workload programs describe less."""
    try:
        return path.is_file() and bool(catalogue.load(path).workloads)
    except ProbeError:
        return False


def _experiments(selection: Selection) -> tuple[Experiment, ...]:
    for inspection in selection.inspections:
        raise UsageError(f"{inspection.name} has no samples to compare", remedy="name experiments")
    return selection.experiments


def _known(way: str, detect: str | None, place: str | None) -> Mapping[str, Any] | None:
    """Return the machine's newest calibration in brief where it decides anything; else None."""
    if detect is None and (way != "auto" or not is_possible()):
        return None
    return newest_calibration(place)


def _measure(
    plans: Sequence[Plan], paths: Sequence[Path] | None, settings: Settings, chosen: Chosen
) -> tuple[list[Results], tuple[Outcome, ...]]:
    """Measure both sides, and return what they gave."""
    with Store.open(settings.store) as store:
        with display(remarks=settings.verbose) as shown:
            for text in chosen.notes:
                shown.note(text)
            sides = [doubled(plan, chosen.duet) for plan in plans]
            outcomes = execute_interleaved(sides, store, shown, builds=paths, duet=chosen.duet)
        return [store.results(outcome.run_id) for outcome in outcomes], outcomes


def _print_comparison(
    sides: Sequence[Results], threshold: float, destinations: Destinations
) -> list[tuple[ExperimentResults, Comparison]]:
    """Print the verdicts, and write the files asked for."""
    out = terminal.console(to_standard_error=destinations.take_standard_output)
    compared: list[tuple[ExperimentResults, Comparison]] = []
    refused: list[str] = []
    noted: set[str] = set()
    for before, after in zip(*(side.experiments for side in sides), strict=True):
        try:
            comparison = compare_results(before, after, threshold=threshold)
        except UsageError as error:
            refused.append(f"{before.experiment} is not compared: {error}")
            continue
        compared.append((before, comparison))
        print_comparison(before, comparison, out, intervals(before, after, comparison), noted)
    for text in refused:
        terminal.print_prose(text, out, style="bold")
    _print_runs(sides, out)
    together = Results(tuple(experiment for side in sides for experiment in side.experiments))
    if destinations.json is not None:
        destinations.json.write(record.to_json(together))
    if destinations.report is not None:
        destinations.report.write(encode(together, LABS, threshold=threshold))
        terminal.print_written(destinations.report, out)
    return compared


def _print_runs(sides: Sequence[Results], out: Console) -> None:
    """Print which run has which build, and the commands that show both again."""
    ids = [side.experiments[0].run_id for side in sides]
    named = [f"{name} (run {label(side.experiments[0])})" for name, side in zip("AB", sides, strict=True)]
    terminal.print_prose(f"{' and '.join(named)} are stored", out)
    for command in (f"oscope compare {' '.join(ids)}", *(f"oscope show {each}" for each in ids)):
        terminal.print_remedy(command, out)

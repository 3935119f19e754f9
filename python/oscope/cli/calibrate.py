"""`oscope calibrate`: how often verdicts are wrong on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from oscope import labs
from oscope.analysis.calibration import spec as designs
from oscope.analysis.calibration.result import INSPECTION
from oscope.analysis.calibration.spec import DUET, SUBJECTS, WAYS, Subject
from oscope.analysis.calibration.stored_calibration import calibrate_and_store
from oscope.cli.completion import part_names
from oscope.cli.destinations import Destinations, Output, output_file, store_file
from oscope.cli.errors import DONE
from oscope.cli.options import Settings, whole_number
from oscope.cli.request import parse_settings, parse_share
from oscope.cli.views.calibrate import print_calibration, watching
from oscope.labs import LABS
from oscope.model.errors import UsageError
from oscope.model.samples import Results
from oscope.planning.plan import MOST_SEED, check_seed, draw_seed
from oscope.report import encode, terminal
from oscope.runner.duet_cpus import DuetAffinity
from oscope.storage import record
from oscope.storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oscope.analysis.calibration.spec import CalibrationSpec, Subject, Way
    from oscope.model.samples import Inspected

MOST_PAIRS = 100_000
MOST_BLOCKS = 10_000
MOST_BLOCK_REPS = 100_000


# With more parameters than other functions: it is the table of the command's options.
def calibrate(
    context: typer.Context,
    experiments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EXPERIMENT",
            help="What is measured, at one point each. [default: five fast ones]",
            autocompletion=part_names,
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FACTOR=LEVEL", help="The point of the experiments named; repeatable."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Two minutes: how small a difference is found here, by the time spent measuring.",
        ),
    ] = False,
    pairs: Annotated[
        int, whole_number("--pairs", most=MOST_PAIRS, help="Pairs for each experiment, way and effect.")
    ] = 20,
    effects: Annotated[
        str, typer.Option("--effect", metavar="P,P", help="Slow-downs to be found; none: 0.")
    ] = "1%,2%,5%",
    blocks: Annotated[int, whole_number("--blocks", most=MOST_BLOCKS, help="Blocks of each side.")] = 10,
    reps: Annotated[
        int, whole_number("--reps", most=MOST_BLOCK_REPS, help="Samples of each side in a block.")
    ] = 10,
    way: Annotated[
        Literal["interleaved", "duet", "sequence", "both"],
        typer.Option(
            "--way",
            help="Measure the sides interleaved, at the same time on two CPUs (duet: needs 3), in sequence, "
            "or interleaved and in sequence (both).",
        ),
    ] = "both",
    load: Annotated[
        Literal["none", "sibling", "memory"],
        typer.Option("--load", help="Disturb another CPU meanwhile, as oscope inject does."),
    ] = "none",
    seed: Annotated[
        int | None, whole_number("--seed", most=MOST_SEED, help="Seed of the random order. [default: drawn]")
    ] = None,
    keep: Annotated[
        Path | None,
        store_file("--keep", help="Keep the runs of all pairs in a store of their own."),
    ] = None,
    json: Annotated[
        Output | None, output_file("--json", help="Write the record; - is standard output.")
    ] = None,
    report: Annotated[
        Output | None, output_file("--report", help="Write an HTML report; - is standard output.")
    ] = None,
) -> int:
    """Measure how often verdicts are wrong here: false positives, coverage of intervals, and power.

    Pairs of equal measurements are compared, and pairs of which one side waits a known time in its measured
    region. By default 800 pairs, about 10 minutes on an idle machine. The result is stored as a run, and
    later runs on this machine carry it in their reports.

    After Ctrl-C it reports the pairs measured so far.
    """
    destinations = Destinations(json, report)
    destinations.check()

    drawn, subjects = (
        draw_seed() if seed is None else check_seed(seed),
        _subjects(experiments or (), settings or ()),
    )
    if quick:
        _refuse_beside_quick(context)
        spec = designs.quick(subjects, load, drawn)
    else:
        spec = designs.CalibrationSpec(
            ways=_ways(way),
            pairs=pairs,
            effects=_effects(effects),
            blocks=blocks,
            reps=reps,
            load=load,
            seed=drawn,
            subjects=subjects,
        )
    spec.check()
    call: Settings = context.obj
    inspected = _measure(spec, call.store, keep)
    _print_inspection(inspected, destinations)
    return DONE


def _refuse_beside_quick(context: typer.Context) -> None:
    """Raise UsageError for options that a quick calibration decides itself."""
    for name in ("pairs", "effects", "blocks", "reps", "way"):
        source = context.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT":
            option = {"effects": "--effect"}.get(name, f"--{name}")
            raise UsageError(f"--quick and {option} contradict each other", remedy="give one of them")


def _ways(name: str) -> tuple[Way, ...]:
    if name == DUET:
        # It says before anything is measured what the machine lacks.
        DuetAffinity()
    chosen: dict[str, tuple[Way, ...]] = {
        "interleaved": WAYS[:1],
        DUET: (DUET,),
        "sequence": WAYS[1:],
        "both": WAYS,
    }
    return chosen[name]


def _effects(text: str) -> tuple[float, ...]:
    if text.strip() == "0":
        return ()
    return tuple(sorted({parse_share("--effect", part) for part in text.split(",")}))


def _subjects(names: Sequence[str], settings: Sequence[str]) -> tuple[Subject, ...]:
    """Return what is named, or the default ones where nothing is."""
    if not names:
        if settings:
            raise UsageError("--set sets the point of experiments that are named", remedy="name one")
        return SUBJECTS
    levels = parse_settings(settings)
    for name, given in levels.items():
        if len(given) != 1:
            raise UsageError(f"--set {name} has {len(given)} levels", remedy="a point has one")
    point = {name: given[0] for name, given in levels.items()}
    return tuple(Subject(labs.experiment(name).name, point) for name in names)


def _measure(spec: CalibrationSpec, place: str | None, keep: Path | None) -> Inspected:
    """Calibrate, store it as a run, and return it as the store has it."""
    with Store.open(place) as store, watching() as listener:
        run_id = calibrate_and_store(
            spec, store, listener, keep, find=labs.experiment, inspection=labs.inspection(INSPECTION)
        )
        (inspected,) = store.results(run_id).inspections
    return inspected


def _print_inspection(inspected: Inspected, destinations: Destinations) -> None:
    out = terminal.console(to_standard_error=destinations.take_standard_output)
    result: Any = inspected.result
    print_calibration(result, inspected.run_id, out)
    results = Results((), (inspected,))
    if destinations.json is not None:
        destinations.json.write(record.to_json(results))
    if destinations.report is not None:
        destinations.report.write(encode(results, LABS))
        terminal.print_written(destinations.report, out)

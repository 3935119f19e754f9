"""`oscope run`: measure, summarise on the terminal, write what was asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from oscope.cli.completion import part_names
from oscope.cli.destinations import REPORT, Destinations, Output, default_output, output_file, output_folder
from oscope.cli.options import MemoryOption, PrecisionOption, Settings, TraceOption, whole_number
from oscope.cli.request import (
    check_amounts,
    injected,
    parse_amount,
    parse_settings,
    parse_trace,
    parse_where,
    refuse_with_resume,
    select,
    without_inspections,
)
from oscope.cli.seed import SeedOption
from oscope.labs import with_own
from oscope.model.errors import UsageError
from oscope.model.guest import MOST_CPUS
from oscope.planning.plan import MOST_REPS, make_plan, on_host
from oscope.probe import catalogue
from oscope.probe.own_program import with_programs
from oscope.runner import tuning
from oscope.targets.guest.spec import place


# Longer than other functions, and with more parameters: it is the table of the command's options.
def run(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EXPERIMENT|INSPECTION|LAB]...",
            help="What to measure or look at (see oscope list); nothing: the whole survey.",
            autocompletion=part_names,
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            metavar="PROGRAM",
            help="Measure workloads of your own: those that this program describes, such as ./mybench "
            "(see docs/own-workloads.md).",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FACTOR=A,B,C",
            help="Levels of a factor, in place of the designed ones; repeatable. Sizes as 64K (4096: bytes), "
            "times as 10ms (5: seconds).",
        ),
    ] = None,
    reps: Annotated[int | None, whole_number("--reps", most=MOST_REPS, help="Samples of each point.")] = None,
    precision: PrecisionOption = None,
    detect: Annotated[
        str | None,
        typer.Option(
            "--detect",
            metavar="P",
            help="Measure as much as it takes to show a difference of this size between two such runs (1%), "
            "by the machine's certificate (oscope calibrate --quick).",
        ),
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="T", help="Time to measure at most, such as 90s or 5m.")
    ] = None,
    spread: Annotated[
        str | None,
        typer.Option(
            "--spread",
            metavar="T",
            help="Spread the blocks over this time, with pauses, such as 10m: the run then shows how much "
            "the machine drifts meanwhile.",
        ),
    ] = None,
    profile: Annotated[
        Literal["quick", "full"] | None,
        typer.Option(
            "--profile", help="How much is measured. [default: quick for the survey, full for what is named]"
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Short for --profile quick.")] = False,
    trace: TraceOption = None,
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="local|guest[:KERNEL]|ssh:HOST",
            help="Where to measure: here, in a guest under a kernel of oscope kernel build, or on another "
            "host by ssh. [default: where the experiment says, else local]",
        ),
    ] = None,
    clock: Annotated[
        Literal["wall", "instructions"] | None,
        typer.Option(
            "--clock",
            help="In a guest: measure time, or count executed instructions, which repeats exactly. "
            "[default: as the experiment says, else wall]",
        ),
    ] = None,
    cpus: Annotated[
        int | None,
        whole_number(
            "--cpus", least=1, most=MOST_CPUS, help="CPUs of a guest. [default: 2; 1 to count instructions]"
        ),
    ] = None,
    memory: MemoryOption = None,
    inject: Annotated[
        list[str] | None,
        typer.Option(
            "--inject",
            metavar="CAUSE,...",
            help="Disturb the run on purpose, such as by hog or delay=2us; it is marked. See oscope inject.",
        ),
    ] = None,
    tune: Annotated[
        list[str] | None,
        typer.Option(
            "--tune",
            metavar="NAME=VALUE|steady",
            help="Hold a setting of the machine for the length of the run; repeatable. See oscope tune.",
        ),
    ] = None,
    no_again: Annotated[
        bool,
        typer.Option("--no-again", help="Do not repeat samples after interference."),
    ] = False,
    seed: SeedOption = None,
    json: Annotated[
        Output | None,
        output_file("--json", help="Write the record; - is standard output, and all else leaves it."),
    ] = None,
    report: Annotated[
        Output | None,
        output_file(
            "--report", help="Write the report. [default: oscope-report.html for the survey, else none]"
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        output_folder(
            "--figures", help="Write the headline figures, one a question, as PNG and SVG into this folder."
        ),
    ] = None,
    all_figures: Annotated[
        bool, typer.Option("--all-figures", help="With --figures: write every figure of the report.")
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="RUN",
            help="Continue a run that was interrupted: its id, the start of it, or last.",
        ),
    ] = None,
) -> int:
    """Measure. With no name: the quick survey of all that this machine can measure, and oscope-report.html.

    Every sample is stored as it comes: Ctrl-C keeps what was measured, and --resume continues. What
    this machine cannot measure is shown as skipped, with how to fix it, and is no failure; a named experiment
    of which nothing could be measured is one.

    Workloads of your own are named like all others: they are those of --workload PROGRAM, or of the file
    oscope.toml in this folder or the nearest one above it.
    """
    call: Settings = context.obj
    if quick and profile == "full":
        raise UsageError("--quick and --profile full contradict each other", remedy="give one of them")
    profile = "quick" if quick else profile
    survey = not names and resume is None and workload is None
    if survey and report is None:
        report = default_output(REPORT, "--report")
    destinations = Destinations(json, report, figures, all_figures)
    destinations.check()
    if resume is not None:
        given = {
            "a name": names,
            "--workload": workload,
            "--set": settings,
            "--reps": reps,
            "--precision": precision,
            "--detect": detect,
            "--budget": budget,
            "--spread": spread,
            "--trace": trace,
            "--on": on,
            "--clock": clock,
            "--cpus": cpus,
            "--memory": memory,
            "--inject": inject,
            "--tune": tune,
            "--no-again": no_again or None,
        }
        given |= {"--profile": profile, "--seed": seed}
        refuse_with_resume([name for name, value in given.items() if value not in (None, [], ())])
        from oscope.cli import run_measurement  # noqa: PLC0415 - start-up

        return run_measurement.resume(resume, call, destinations)
    chosen_profile = profile or ("quick" if survey else "full")
    known, chosen = with_own(names or (), workload)
    selection = select(chosen, chosen_profile, known)

    where = parse_where(on, clock, cpus, memory)
    if where.host is not None:
        selection = without_inspections(selection)
    placed = place(selection.experiments, selection.named, where, chosen_profile)
    plan = make_plan(
        placed.experiments,
        with_programs(catalogue.load(), (each.program for each in placed.experiments)),
        profile=chosen_profile,
        settings=parse_settings(settings or ()),
        amount=parse_amount(reps, precision, budget, spread),
        trace=parse_trace(trace),
        seed=seed,
        guests=placed.guests,
        inspections=selection.inspections,
    )
    selection = replace(
        selection, experiments=placed.experiments, left_out=(*selection.left_out, *placed.left_out)
    )
    plan = injected(replace(plan, again=not no_again), inject or ())
    if detect is not None:
        check_amounts({"--reps": reps, "--precision": precision, "--budget": budget, "--trace": trace})
        from oscope.cli.detect import sized_run  # noqa: PLC0415 - start-up

        plan, notes = sized_run(plan, placed.experiments, detect, call.store)
        selection = replace(selection, left_out=(*selection.left_out, *notes))
    if tune:
        plan = replace(plan, tuned=tuning.parse(tune))
    if where.host is not None:
        plan = on_host(plan, where.host)
    # It loads numpy and the store, for which neither the help nor the error of a wrong request has to wait.
    from oscope.cli import run_measurement  # noqa: PLC0415 - start-up

    return run_measurement.start(plan, call, selection, destinations)

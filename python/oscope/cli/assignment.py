"""`oscope assignment`: measure what an original document measures, and write it in the same form."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from oscope import assignments
from oscope.cli.completion import document_keys
from oscope.cli.destinations import Output, default_output, output_file, output_folder
from oscope.cli.options import Settings
from oscope.cli.request import parse_amount
from oscope.cli.seed import SeedOption
from oscope.model.errors import UsageError
from oscope.model.factors import Profile
from oscope.planning.plan import make_plan
from oscope.probe import catalogue
from oscope.targets.guest.spec import Where, place

FORMS = (".html", ".md")


def assignment(
    context: typer.Context,
    document: Annotated[
        str,
        typer.Argument(
            metavar="DOCUMENT",
            help="memory, syscall, disk, transfer or ipc (see oscope sources).",
            autocompletion=document_keys,
        ),
    ],
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Take smaller files and fewer samples: a minute or two, in place of many."
        ),
    ] = False,
    output: Annotated[
        Output | None,
        output_file(
            "--output",
            "-o",
            help="The file to write, HTML or Markdown by its ending; - is Markdown on standard output. "
            "[default: oscope-DOCUMENT.html]",
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        output_folder("--figures", help="Write the figures as PNG and SVG into this folder."),
    ] = None,
    stored: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Measure nothing: take this stored run (an id, its start, or last) or record file.",
        ),
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="T", help="Time to measure at most, such as 90s or 5m.")
    ] = None,
    seed: SeedOption = None,
) -> int:
    """Repeat one original document: the same tables, figures and questions, in its order.

    Our figures stand beside the original ones, with mean, standard deviation, median, its 95 % interval and
    the number of samples. Where this machine cannot measure one, its place has the reason and the fix.
    Every sample is stored, as by oscope run.
    """
    # It loads numpy and the store, for which the help does not have to wait.
    from oscope.cli import assignment_pages  # noqa: PLC0415 - start-up

    call: Settings = context.obj
    chosen = assignments.document(document)
    target = output or default_output(f"oscope-{chosen.key}.html", "--output")
    if target.path is not None and target.path.suffix.lower() not in FORMS:
        raise UsageError(
            f"--output {target}: the name ends in neither .html nor .md",
            remedy=f"end the name in .html or .md, such as oscope-{chosen.key}.html",
        )
    if stored is not None:
        given = {"--quick": quick or None, "--budget": budget, "--seed": seed}
        for option, value in given.items():
            if value is not None:
                raise UsageError(f"--run and {option} contradict each other", remedy=f"leave out {option}")
        return assignment_pages.from_store(chosen, stored, call.store, target, figures)
    profile: Profile = "quick" if quick else "full"
    asked = [each for each in chosen.experiments if not quick or each.quick is not None]
    left_out = [f"{each.name}: {each.quick_share}" for each in chosen.experiments if each not in asked]
    amount = parse_amount(None, None, budget)
    placed = place(asked, (), Where(), profile)
    plan = make_plan(
        placed.experiments,
        catalogue.load(),
        profile=profile,
        amount=amount,
        seed=seed,
        guests=placed.guests,
        inspections=chosen.inspections,
    )
    plan = replace(plan, again=True)
    left_out += placed.left_out
    return assignment_pages.measure(chosen, plan, call, left_out, target, figures)

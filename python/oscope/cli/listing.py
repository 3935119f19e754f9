"""`oscope list`: what can be measured, as the labs and the probe tell it."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from oscope import labs
from oscope.labs.own import Declared, Project
from oscope.model.errors import OscopeError
from oscope.model.experiment import Experiment, Lab
from oscope.model.factors import Level
from oscope.probe import catalogue, instructions
from oscope.probe.catalogue import Catalogue, Parameter, Workload, bounded_below, format_level
from oscope.probe.own_program import with_programs
from oscope.trace.factor import TRACER

_INDENT = " " * 4
_NAME_WIDTH = 12


def list_experiments(
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            metavar="PROGRAM",
            help="List the workloads of this program of your own, and no others.",
        ),
    ] = None,
) -> None:
    """List the labs: experiments with question, factors, metrics, share of the quick survey; inspections.

    Every name shown can be given to `oscope run`, every factor to its --set. An inspection is looked at once
    and gives no samples. Workloads of your own come last: those of the file oscope.toml in this folder or the
    nearest one above it.
    """
    known = catalogue.load()
    width = shutil.get_terminal_size().columns
    if workload is not None:
        chosen, names = labs.with_own((), workload)
        _print_lab(chosen.lab(names[0]), known, width=width)
        return
    for lab in labs.LABS:
        _print_lab(lab, known, width=width)
    project = labs.find_project()
    if project is not None:
        print(f"{project.name}: {project.title}")
        for line in _wrapped("", f"From {project.file}.", width=width):
            print(line)
        for declared in project.experiments:
            _print_declared(project, declared, known, width=width)


def _print_declared(project: Project, declared: Declared, known: Catalogue, *, width: int) -> None:
    """Print an experiment of `oscope.toml`; where its program cannot be asked, why."""
    print()
    try:
        experiment = project.experiment(declared)
        described = with_programs(known, [experiment.program])
    except OscopeError as error:
        print(f"  {declared.name}: {declared.title or declared.workload}")
        for line in _wrapped("missing", str(error), width=width):
            print(line)
        return
    for line in _describe_named(experiment, described, width=width):
        print(line)


def _print_lab(lab: Lab, known: Catalogue, *, width: int) -> None:
    described = with_programs(known, (each.program for each in lab.experiments))
    for line in describe_lab(lab, described, width=width):
        print(line)


def describe_lab(lab: Lab, known: Catalogue, *, width: int) -> Iterator[str]:
    """Yield the lines that describe `lab`, none longer than `width` where words allow it."""
    yield f"{lab.name}: {lab.title}"
    if lab.document:
        yield from _wrapped("", f"After {lab.document}.", width=width)
    for experiment in lab.experiments:
        yield ""
        yield from _describe_named(experiment, known, width=width)
    for inspection in lab.inspections:
        yield ""
        yield f"  {inspection.name}: {inspection.title}"
        yield from _wrapped("", inspection.question, width=width)
        yield from _wrapped("inspection", "looked at once, no samples", width=width)
        yield from _wrapped("quick", inspection.quick_share, width=width)
    yield ""


def _describe_named(experiment: Experiment, known: Catalogue, *, width: int) -> Iterator[str]:
    yield f"  {experiment.name}: {experiment.title}"
    if experiment.question != experiment.title:
        yield from _wrapped("", experiment.question, width=width)
    workloads = (
        known.workloads if experiment.program is None else known.programs[experiment.program].workloads
    )
    yield from describe_experiment(experiment, workloads.get(experiment.workload), width=width)


def describe_experiment(experiment: Experiment, workload: Workload | None, *, width: int) -> Iterator[str]:
    """Yield a line or more for each factor, then for the metrics and the quick profile."""
    if workload is None:
        yield from _wrapped(
            "missing", f"this probe has no workload {experiment.workload}; build it anew", width=width
        )
        return
    for parameter in (bounded_below(each, experiment.least) for each in workload.parameters):
        yield from _wrapped(parameter.name, _levels(experiment, parameter), width=width)
    counted = experiment.guest is not None and experiment.guest.clock == "instructions"
    shown = instructions.translate_workload(workload) if counted else workload
    metrics = ", ".join(f"{metric.name} [{metric.unit}]" for metric in shown.metrics)
    yield from _wrapped("metrics", metrics, width=width)
    changes = instructions.describe_changes(workload)
    # Under a tracer nothing is measured in a guest.
    only_here = experiment.program is not None or TRACER.name in experiment.full.factors
    if changes and not counted and not only_here:
        yield from _wrapped("in a guest", f"with --clock instructions: {changes}", width=width)
    if workload.needs:
        yield from _wrapped("needs", ", ".join(workload.needs), width=width)
    yield from _wrapped("quick", experiment.quick_share, width=width)


def _levels(experiment: Experiment, parameter: Parameter) -> str:
    """Tell which levels are measured, and which others may be set."""
    measured = experiment.full.factors.get(parameter.name)
    if measured is None:
        text = f"{format_level(parameter, parameter.default)} (not varied)"
    else:
        text = _joined(parameter, measured)
    quick = experiment.quick.factors.get(parameter.name) if experiment.quick else None
    if quick is not None and quick != measured:
        text += f"; quick: {_joined(parameter, quick)}"
    others = _others(parameter, measured or (parameter.default,))
    return f"{text}; or {others}" if others else text


def _others(parameter: Parameter, measured: Iterable[Level]) -> str:
    """Tell what else the probe allows here; empty where it is nothing, or unlimited."""
    if parameter.type == "choice":
        named = [choice for choice in parameter.choices if choice not in tuple(measured)]
        return ", ".join([*named, *([parameter.pattern] if parameter.pattern else [])])
    low, high = parameter.minimum, parameter.maximum
    if parameter.type == "boolean" or low is None or high is None:
        return ""
    return f"any from {_bound(parameter, low)} to {_bound(parameter, high)}"


def _bound(parameter: Parameter, bound: float) -> str:
    return format_level(parameter, int(bound) if float(bound).is_integer() else bound)


def _joined(parameter: Parameter, levels: Iterable[Level]) -> str:
    return ", ".join(format_level(parameter, level) for level in levels)


def _wrapped(name: str, text: str, *, width: int) -> list[str]:
    """Return `text` beside `name`, broken between words."""
    first = _INDENT + name.ljust(_NAME_WIDTH) if name else _INDENT
    return textwrap.wrap(
        text,
        width=max(width, 40),
        initial_indent=first,
        subsequent_indent=_INDENT + " " * _NAME_WIDTH if name else _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )

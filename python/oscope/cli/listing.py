"""`oscope list`: what can be measured, as the labs and the probe describe it."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from oscope import labs
from oscope.cli import pager
from oscope.cli.completion import part_names
from oscope.cli.options import FormOption
from oscope.model.document import Table
from oscope.model.errors import OscopeError
from oscope.model.experiment import Experiment, Inspection, Lab
from oscope.model.factors import Level
from oscope.probe import catalogue, instructions
from oscope.probe.catalogue import Catalogue, Parameter, Workload, bounded_below, format_level
from oscope.probe.own_program import with_programs
from oscope.report.forms import encode
from oscope.trace.factor import TRACER

if TYPE_CHECKING:
    from oscope.probe.own_project import Declared, Project

_INDENT = " " * 4
_NAME_WIDTH = 12


def list_experiments(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EXPERIMENT|INSPECTION|LAB]...",
            help="Describe these: question, factors with their levels, metrics. [default: names only]",
            autocompletion=part_names,
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Describe all of them.")] = False,
    form: FormOption = "text",
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            metavar="PROGRAM",
            help="Describe the workloads of this program of your own, and no others.",
        ),
    ] = None,
) -> None:
    """List what can be measured, by lab; with a name, describe it.

    Every name shown can be given to `oscope run`, every factor to its --set. An inspection is looked at once
    and gives no samples. Workloads of your own come last: those of the file oscope.toml in this folder or the
    nearest one above it.
    """
    if form != "text":
        print(encode([_table(names or ())], form), end="")
        return
    width = shutil.get_terminal_size().columns
    if workload is not None:
        lines = _own_workloads(workload, width=width)
    elif everything or names:
        lines = _described([lab.name for lab in labs.LABS] if everything else names or (), width=width)
    else:
        lines = overview(width=width)
    text = "\n".join(lines) + "\n"
    if sys.stdout.isatty():
        pager.show(text, shutil.get_terminal_size().lines)
    else:
        print(text, end="")


def overview(*, width: int) -> Iterator[str]:
    """Yield the names of what every lab measures, and how to go on from there: one screen."""
    project = labs.find_project()
    own = {} if project is None else {project.name: [each.name for each in project.experiments]}
    known = {lab.name: [part.name for part in lab.parts] for lab in labs.LABS} | own
    for lab, names in known.items():
        yield from textwrap.wrap(
            "  ".join(names),
            width=max(width, 40),
            initial_indent=lab.ljust(_NAME_WIDTH),
            subsequent_indent=" " * _NAME_WIDTH,
            break_long_words=False,
            break_on_hyphens=False,
        )
    yield ""
    yield "oscope list NAME describes a lab or an experiment; oscope run NAME measures it."


def _own_workloads(program: str, *, width: int) -> Iterator[str]:
    chosen, names = labs.with_own((), program)
    yield from _describe_own(chosen.lab(names[0]), catalogue.load(), width=width)


def _described(names: Iterable[str], *, width: int) -> Iterator[str]:
    """Yield the description of each name; UsageError with the nearest for one that is unknown."""
    known = catalogue.load()
    by_name = {lab.name: lab for lab in labs.LABS}
    project = labs.find_project()
    declared = {} if project is None else {each.name: each for each in project.experiments}
    for name in names:
        if name in by_name:
            yield from describe_lab(by_name[name], known, width=width)
        elif project is not None and name == project.name:
            yield f"{project.name}: {project.title}"
            yield from _wrapped("", f"From {project.file}.", width=width)
            for each in project.experiments:
                yield from _describe_declared(project, each, known, width=width)
            yield ""
        elif project is not None and name in declared:
            yield from _describe_declared(project, declared[name], known, width=width)
            yield ""
        else:
            yield from _describe(labs.named(name), known, width=width)
            yield ""


def _table(names: Sequence[str]) -> Table:
    """Return a row for each experiment and inspection; those of `names` only, if there are some."""
    by_name = {lab.name: lab for lab in labs.LABS}
    requested = {part for name in names if name not in by_name for part in [labs.named(name).name]}
    rows = [
        [
            lab.name,
            part.name,
            "experiment" if isinstance(part, Experiment) else "inspection",
            part.title,
            part.question,
            "yes" if part.quick else "no",
        ]
        for lab in labs.LABS
        for part in lab.parts
        if not names or part.name in requested or lab.name in names
    ]
    return Table("", ["lab", "name", "kind", "title", "question", "in the quick survey"], rows)


def _describe_declared(
    project: Project, declared: Declared, known: Catalogue, *, width: int
) -> Iterator[str]:
    """Yield the lines of an experiment of `oscope.toml`; where its program cannot be asked, why."""
    yield ""
    try:
        experiment = project.experiment(declared)
        described = with_programs(known, [experiment.program])
    except OscopeError as error:
        yield f"  {declared.name}: {declared.title or declared.workload}"
        yield from _wrapped("missing", str(error), width=width)
        return
    yield from _describe(experiment, described, width=width)


def _describe_own(lab: Lab, known: Catalogue, *, width: int) -> Iterator[str]:
    described = with_programs(known, (each.program for each in lab.experiments))
    yield from describe_lab(lab, described, width=width)


def describe_lab(lab: Lab, known: Catalogue, *, width: int) -> Iterator[str]:
    """Yield the lines that describe `lab`, none longer than `width` where words allow it."""
    yield f"{lab.name}: {lab.title}"
    if lab.document:
        yield from _wrapped("", f"With the questions of {lab.document}.", width=width)
    for part in lab.parts:
        yield ""
        yield from _describe(part, known, width=width)
    yield ""


def _describe(part: Experiment | Inspection, known: Catalogue, *, width: int) -> Iterator[str]:
    yield f"  {part.name}: {part.title}"
    if part.question != part.title:
        yield from _wrapped("", part.question, width=width)
    if isinstance(part, Experiment):
        workloads = known.workloads if part.program is None else known.programs[part.program].workloads
        yield from describe_experiment(part, workloads.get(part.workload), width=width)
    else:
        yield from _wrapped("inspection", "looked at once, no samples", width=width)
        yield from _wrapped("quick", part.quick_share, width=width)


def describe_experiment(experiment: Experiment, workload: Workload | None, *, width: int) -> Iterator[str]:
    """Yield a line or more for each factor, then for the metrics and the quick profile."""
    if workload is None:
        yield from _wrapped(
            "missing", f"this probe has no workload {experiment.workload}; rebuild it", width=width
        )
        return
    for parameter in (bounded_below(each, experiment.least) for each in workload.parameters):
        yield from _wrapped(parameter.name, _levels(experiment, parameter), width=width)
    counted = experiment.guest is not None and experiment.guest.clock == "instructions"
    shown = instructions.translate_workload(workload) if counted else workload
    metrics = ", ".join(_with_unit(metric.name, metric.unit) for metric in shown.metrics)
    yield from _wrapped("metrics", metrics, width=width)
    changes = instructions.describe_changes(workload)
    # Under a tracer nothing is measured in a guest.
    only_here = experiment.program is not None or TRACER.name in experiment.full.factors
    if changes and not counted and not only_here:
        yield from _wrapped("in a guest", f"with --clock instructions: {changes}", width=width)
    if workload.needs:
        yield from _wrapped("needs", ", ".join(workload.needs), width=width)
    yield from _wrapped("quick", experiment.quick_share, width=width)


def _with_unit(name: str, unit: str) -> str:
    """Return `time_ns [ns]`; a count, and a metric that is called as its unit is, stand alone."""
    return name if unit in ("1", "", name) else f"{name} [{unit}]"


def _levels(experiment: Experiment, parameter: Parameter) -> str:
    """Return which levels are measured, and which others may be set."""
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
    """Return what else the probe allows here; empty where it is nothing, or unlimited."""
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

"""Writes the generated pages of the documentation's reference: commands, workloads, experiments.

    python tools/reference.py FOLDER

Everything comes from where the program itself takes it: the commands from Typer, workloads, parameters,
metrics and covariates from `oscope-probe describe`, experiments from the labs. docs/conf.py calls it
for each build.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from oscope.cli import COMMANDS, application
from oscope.labs import LABS
from oscope.model.experiment import Experiment
from oscope.probe import catalogue
from oscope.probe.catalogue import Parameter, Workload

Row = Sequence[str]

LAB_PAGES = Path(__file__).resolve().parent.parent / "docs" / "labs"


def cell(text: object) -> str:
    """Return `text` as a cell of a table: one line, with no bar and no mark-up."""
    return re.sub(r"([|<>*_\\])", r"\\\1", " ".join(str(text).split()))


def table(head: Row, rows: Iterable[Row]) -> str:
    """Return a table in Markdown, or nothing where there are no rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    rule = "|" + "---|" * len(head)
    return "\n".join([f"| {' | '.join(head)} |", rule, *lines, ""]) if lines else ""


def code(text: object) -> str:
    """Return `text` as code in a cell of a table."""
    return f"`{text}`".replace("|", "\\|")


def walked(context: Any, command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield each command with its words and context, groups before their members."""
    yield words, command, context
    for name in getattr(command, "commands", ()):
        below = command.commands[name]
        yield from walked(typer.Context(below, parent=context, info_name=name), below, (*words, name))


def option_row(parameter: Any, context: Any) -> Row:
    """Return a row for an option or an argument."""
    if parameter.param_type_name == "argument":
        return code(parameter.make_metavar(context)), cell(parameter.help or "")
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    value = "" if parameter.is_flag else " " + parameter.make_metavar(context)
    return code(names + value), cell(parameter.help or "")


def command_section(words: tuple[str, ...], command: Any, context: Any) -> str:
    """Return the section of one command."""
    usage = " ".join(["oscope", *words, *command.collect_usage_pieces(context)])
    text = re.sub(r"\s*\x08\n", "\n", command.help or "").strip()
    hidden = ("--help",)
    rows = [
        option_row(each, context)
        for each in command.params
        if not getattr(each, "hidden", False) and not set(hidden) & set(each.opts)
    ]
    heading = "#" * min(1 + len(words), 3)
    parts = [f"{heading} oscope {' '.join(words)}", f"```text\n{usage}\n```"]
    parts += ["\n\n".join(escaped(paragraph) for paragraph in text.split("\n\n"))]
    return "\n\n".join([*parts, table(("option or argument", "meaning"), rows)])


def escaped(text: str) -> str:
    """Return a paragraph of a help text without mark-up. One with indented lines keeps its lines."""
    if re.search(r"^\s+\S", text, re.M):
        return f"```text\n{text}\n```"
    return re.sub(r"([<>*_\\\[\]])", r"\\\1", text)


def commands() -> str:
    """Return the page of all commands with their options."""
    sections = []
    for name in COMMANDS:
        root = typer.main.get_command(application([name]))
        context = typer.Context(root, info_name="oscope")
        found = root.get_command(context, name)  # type: ignore[attr-defined]
        for words, command, inner in walked(
            typer.Context(found, parent=context, info_name=name), found, (name,)
        ):
            sections.append(command_section(words, command, inner))
    begin = "# Options of every command\n\nGenerated from the commands. [Explained](../commands.md)."
    return "\n\n".join([begin, *sections])


def levels(parameter: Parameter) -> str:
    """Return what values a parameter takes."""
    if parameter.choices:
        return ", ".join(map(code, parameter.choices)) + (
            f", or {code(parameter.pattern)}" if parameter.pattern else ""
        )
    bounds = [f"at least {parameter.minimum:g}"] if parameter.minimum is not None else []
    bounds += [f"at most {parameter.maximum:g}"] if parameter.maximum is not None else []
    unit = f" {cell(parameter.unit)}" if parameter.unit else ""
    return ", ".join([parameter.type, *(bound + unit for bound in bounds)])


def workload_section(workload: Workload) -> str:
    """Return the section of one workload."""
    parameters = (
        (code(p.name), levels(p), code(p.default) if p.default != "" else "", cell(p.doc))
        for p in workload.parameters
    )
    metrics = (
        (code(m.name), cell(m.unit) if m.unit != "1" else "", m.better or "", cell(m.doc))
        for m in workload.metrics
    )
    parts = [
        f"## {workload.name}",
        f"{escaped(workload.purpose)}.",
        f"**What is timed.** {escaped(workload.timing_model)}",
        f"Version {workload.version}."
        + (f" Needs: {', '.join(workload.needs)}." if workload.needs else "")
        + (f" Programs: {', '.join(map(code, workload.programs))}." if workload.programs else ""),
        table(("parameter", "values", "default", "meaning"), parameters),
        table(("metric", "unit", "better", "meaning"), metrics),
    ]
    return "\n\n".join(parts)


def workloads() -> str:
    """Return the page of all workloads, covariates and causes."""
    known = catalogue.load()
    covariates = (
        (code(c.name), cell(c.unit) if c.unit != "1" else "", cell(c.doc)) for c in known.covariates
    )
    begin = (
        "# Workloads\n\nGenerated from `oscope-probe describe`: everything that the probe can measure. An"
        " [experiment](experiments.md) is a workload with chosen levels of its parameters."
    )
    end = "## Covariates\n\nRecorded with each repetition, as far as the machine has them.\n\n" + table(
        ("covariate", "unit", "meaning"), covariates
    )
    return "\n\n".join([begin, *map(workload_section, known.workloads.values()), end])


def experiment_section(experiment: Experiment) -> str:
    """Return the section of one experiment."""
    rows = (
        (code(name), ", ".join(code(level) for level in full))
        for name, full in experiment.full.factors.items()
    )
    parts = [
        f"### {experiment.name}",
        f"**{escaped(experiment.title)}.** {escaped(experiment.question)}",
        table(("factor", "levels"), rows),
    ]
    return "\n\n".join(parts)


def experiments() -> str:
    """Return the page of all labs with their experiments."""
    begin = (
        "# Experiments\n\nGenerated from the labs: `oscope run NAME` measures one, or all of a lab."
        " The levels are those of the full profile; `--set FACTOR=LEVEL` sets others that the"
        " [workload](workloads.md) takes."
    )
    parts = [begin]
    for lab in LABS:
        page = f" [Its page](../labs/{lab.name}.md)." if (LAB_PAGES / f"{lab.name}.md").exists() else ""
        parts.append(f"## {lab.name}\n\n{escaped(lab.title)}.{page}")
        parts += [experiment_section(each) for each in lab.experiments]
        rows = ((code(each.name), cell(each.question)) for each in lab.inspections)
        parts.append(table(("inspection", "question"), rows))
    return "\n\n".join(parts)


def write(folder: Path) -> None:
    """Write the pages into `folder`, but for those that are up to date: Sphinx reads again what is newer."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("commands", commands()), ("workloads", workloads()), ("experiments", experiments())):
        page = folder / f"{name}.md"
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))

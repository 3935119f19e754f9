"""What `oscope assignment` does once its options are read: measure, then write the pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from oscope.assignments import markdown, sources
from oscope.assignments.answers import as_lab
from oscope.cli.destinations import Output
from oscope.cli.errors import DONE
from oscope.cli.measure_with_progress import interrupted, measure_shown
from oscope.cli.options import Settings
from oscope.cli.progress import display
from oscope.cli.stored import load
from oscope.figures.analysed import Analysed
from oscope.labs import inspection
from oscope.model.document import Section
from oscope.model.errors import OscopeError, UsageError
from oscope.report import terminal
from oscope.report.build import build
from oscope.report.figures import named_figures, save
from oscope.report.page import render
from oscope.storage.store import Store

if TYPE_CHECKING:
    from rich.console import Console

    from oscope.assignments.model import Document
    from oscope.model.experiment import Lab
    from oscope.model.samples import Results
    from oscope.planning.plan import Plan


def from_store(document: Document, run: str, place: str | None, target: Output, figures: Path | None) -> int:
    """Write `document` from a stored run; return the exit code. UsageError where the run has none of it."""
    results = load([run], place)
    if not set(document.names).intersection(results.names):
        raise UsageError(
            f"--run {run} has nothing that {document.name} measures", remedy=f"{document.command} measures it"
        )
    _write(document, results, target, figures)
    return DONE


def measure(
    document: Document,
    plan: Plan,
    settings: Settings,
    left_out: Sequence[str],
    target: Output,
    figures: Path | None,
) -> int:
    """Measure what `document` asks for, write it, and return the exit code."""
    with Store.open(settings.store) as store:
        # What is written has the notes on points.
        shown = display(remarks=settings.verbose)
        for text in left_out:
            shown.note(text)
        then = f"{document.command} --run"
        outcome = measure_shown(plan, store, shown, "oscope run", find_inspection=inspection, then=then)
        if outcome.status == "interrupted":
            raise interrupted(outcome.run_id, store, "oscope run", then)
        results = store.results(outcome.run_id)
    _write(document, results, target, figures)
    out = terminal.console(to_standard_error=target.path is None)
    terminal.print_stored(outcome.run_id, out, store.option)
    if outcome.failures:
        more = f" (and {len(outcome.failures) - 1} more)" if len(outcome.failures) > 1 else ""
        raise OscopeError(
            f"run {outcome.run_id}: {outcome.failures[0]}{more}",
            remedy=f"the rest is kept: oscope show {outcome.run_id}",
        )
    return DONE


def _write(document: Document, results: Results, target: Output, figures: Path | None) -> None:
    """Write the page and, if asked for, the figures; say where."""
    results = Analysed.of(results)
    # The sections are drawn once, for the page and for the figures.
    lab = _drawn(document, results)
    out = terminal.console(to_standard_error=target.path is None)
    files = {} if figures is None else _save(results, lab, figures, out)
    if target.path is not None and target.path.suffix.lower() == ".html":
        report = replace(build(results, [lab]), title=sources.heading(document))
        target.write(_unfolded(render(report)).encode())
    else:
        page = markdown.Page(sources.heading(document), _lead(document, results), lab.sections(results))
        folder = None if target.path is None else target.path.parent
        target.write(markdown.encode(page, files, folder))
    if target.path is not None:
        terminal.print_written(target, out)


def _unfolded(page: str) -> str:
    """Open what a report may fold in its sections: here tables and commands are what a reader looks for."""
    for kind in ("tables", "prose"):
        page = page.replace(f'<details class="{kind}">', f'<details class="{kind}" open>')
    return page


def _drawn(document: Document, results: Analysed) -> Lab:
    lab = as_lab(document)
    found = lab.sections(results)
    return replace(lab, sections=lambda _: found)


def _save(results: Analysed, lab: Lab, folder: Path, out: Console) -> Mapping[int, Path]:
    """Write the figures of the steps, and return the PNG of each by the figure's identity."""
    # A section gives its first figure alone: each figure gets one of its own.
    apart = [
        Section(section.title, "", figures=[figure])
        for section in lab.sections(results)
        for figure in section.figures
    ]
    if not apart:
        terminal.print_prose("This run has no data for any of the figures.", out)
        return {}
    lab = replace(lab, sections=lambda _: apart)
    files = save(results, folder, [lab], choice="headline")
    terminal.print_written(f"{len(files)} files of figures in {folder}", out)
    named = named_figures(results, [lab], "headline")
    return {id(figure): (folder / f"{name}.png").resolve() for name, figure in named}


def _lead(document: Document, results: Results) -> list[str]:
    run = ", ".join(dict.fromkeys(each.run_id for each in results.parts))
    environments = [each.environment for each in results.parts if each.environment]
    machine = environments[0] if environments else {}
    model = (machine.get("cpu") or {}).get("model")
    release = (machine.get("kernel") or {}).get("release")
    where = ", ".join(filter(None, [model, f"Linux {release}" if release else ""]))
    return [
        f"*{document.title}.* {document.about} Its own figures come from {document.machine}.",
        f"Measured by Oscope: run {run}{f', on {where}' if where else ''}.",
        (
            "Columns marked “original” are the original figures. The others are ours: mean, standard "
            "deviation and median of n samples, and the 95 % confidence interval of the median."
        ),
    ]

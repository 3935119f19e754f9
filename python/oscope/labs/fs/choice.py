"""Which file system for what: the fastest at each operation and delay, and what cannot be told from it."""

from __future__ import annotations

from collections.abc import Sequence

from oscope.figures.analysed import Analysed
from oscope.figures.words import listed
from oscope.labs.curve import At, best
from oscope.labs.fs import LOCAL
from oscope.labs.fs.points import NAMES, Shown, cautioned
from oscope.model.document import Section, Table
from oscope.model.formatting import MISSING
from oscope.model.units import format_duration

TITLE = "Which file system for what"


def section(results: Analysed) -> Section | None:
    """Draw the map of operation and delay over the file systems that were measured."""
    experiment = results.get("fs.compare")
    if experiment is None:
        return None
    shown = Shown.of(experiment)
    systems = [name for name in shown.systems if name != LOCAL]
    if len(systems) < 2:
        return None
    chosen = {
        (operation, delay): fastest(results, shown, systems, operation, delay)
        for operation in shown.operations
        for delay in shown.delays
    }
    rows = [
        [operation, *(_cell(chosen[operation, delay]) for delay in shown.delays)]
        for operation in shown.operations
    ]
    note = (
        "By the median time. Several names: the first is the fastest, the others cannot be told from it "
        "(paired by block, Holm within a cell)."
    )
    columns = ["operation", *(f"delay {format_duration(delay)}" for delay in shown.delays)]
    compared = listed([NAMES[name] for name in systems])
    return Section(
        title=TITLE,
        answer=cautioned(_answer(shown, systems, chosen), experiment),
        text=[
            f"Compared are {compared}. A file system that had to be left out is not among them.",
            *shown.told,
        ],
        tables=[Table("The fastest by operation and delay", columns, rows, frozenset(), note)],
    )


def fastest(
    results: Analysed, shown: Shown, systems: Sequence[str], operation: str, delay: float
) -> list[str]:
    """Return the fastest system, and after it those that cannot be told from it; empty where none has times.

    One that was measured alone is not called the fastest of anything.
    """
    found = []
    for place, system in enumerate(systems):
        point, summary = (
            shown.point(system, operation, delay),
            shown.summary(results, system, operation, delay),
        )
        if point is not None and summary is not None:
            found.append(At(place, point, summary))
    if len(found) < 2:
        return []
    first, alike = best(found, shown.experiment, shown.time)
    return [systems[each.size] for each in (first, *alike)]


def _cell(names: Sequence[str]) -> str:
    return ", ".join(NAMES[name] for name in names) or MISSING


def _answer(shown: Shown, systems: Sequence[str], chosen: dict[tuple[str, float], list[str]]) -> str:
    """Name the operations at which one system alone is the fastest at every delay; leave the rest open."""
    always: dict[str, list[str]] = {name: [] for name in systems}
    rest = []
    for operation in shown.operations:
        winners = {tuple(chosen[operation, delay]) for delay in shown.delays} - {()}
        alone = next(iter(winners)) if len(winners) == 1 else ()
        if len(alone) == 1:
            always[alone[0]].append(operation)
        else:
            rest.append(operation)
    parts = [f"{NAMES[name]} at {listed(own)}" for name, own in always.items() if own]
    said = [f"Fastest at every delay: {'; '.join(parts)}."] if parts else []
    if rest:
        said.append(f"At {listed(rest)} it depends on the delay, or several cannot be told apart.")
    return " ".join(said)

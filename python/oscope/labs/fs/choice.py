"""Which file system for what: the fastest at each operation and delay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oscope.figures.words import listed
from oscope.labs.engine.curves import At, best
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import Column, TableOf, text
from oscope.labs.engine.words import capital
from oscope.labs.fs.points import NAMES, Shown, notes
from oscope.model.document import Table
from oscope.model.units import format_duration

Chosen = Mapping[tuple[str, float], Sequence[str]]
"""The fastest at each operation and delay, with those not distinguished from it."""

TITLE = "Which file system for what"


def _chosen(run: Run) -> Chosen:
    shown = Shown.of(run)
    places = [(operation, delay) for operation in shown.operations for delay in shown.delays]
    return run.once("chosen", lambda: {place: fastest(shown, shown.far, *place) for place in places})


def _table(run: Run, operations: Sequence[str]) -> Table:
    table: TableOf[str] = TableOf(
        "The fastest by operation and delay",
        (
            text("operation", lambda operation: operation),
            *(_column(_chosen(run), delay) for delay in Shown.of(run).delays),
        ),
        "By the median time. Several names: the first is the fastest, the others are not distinguished from "
        "it (paired by block, Holm within a cell).",
    )
    return table.of(operations)


def _compared(run: Run, _: object) -> str:
    names = listed([NAMES[name] for name in Shown.of(run).far])
    return f"Compared are {names}; one that was left out is not among them."


def _column(chosen: Chosen, delay: float) -> Column[str]:
    def names(operation: str) -> str | None:
        return ", ".join(NAMES[name] for name in chosen[operation, delay]) or None

    return text(f"delay {format_duration(delay)}", names)


def fastest(shown: Shown, systems: Sequence[str], operation: str, delay: float) -> list[str]:
    """Return the fastest system, then those not distinguished from it; empty where none has times.

    One that was measured alone is not called the fastest of anything.
    """
    found = []
    for place, system in enumerate(systems):
        point, summary = shown.point(system, operation, delay), shown.summary(system, operation, delay)
        if point is not None and summary is not None:
            found.append(At(place, point, summary))
    if len(found) < 2:
        return []
    first, alike = best(found, shown.experiment, shown.time)
    return [systems[each.size] for each in (first, *alike)]


def _always(shown: Shown, systems: Sequence[str], chosen: Chosen) -> tuple[str, list[str]]:
    """Return at which operations one system alone is the fastest at every delay, and the others."""
    always: dict[str, list[str]] = {name: [] for name in systems}
    rest = []
    for operation in shown.operations:
        winners = {tuple(chosen[operation, delay]) for delay in shown.delays} - {()}
        alone = next(iter(winners)) if len(winners) == 1 else ()
        if len(alone) == 1:
            always[alone[0]].append(operation)
        else:
            rest.append(operation)
    return "; ".join(f"{NAMES[name]} at {listed(own)}" for name, own in always.items() if own), rest


def _headline(run: Run, _: object) -> str:
    shown = Shown.of(run)
    always, rest = _always(shown, shown.far, _chosen(run))
    if not rest:
        return f"Fastest at every delay: {always}."
    where = f"at {listed(rest)} it depends on the delay, or several are not distinguished."
    return f"Fastest at every delay: {always}; {where}" if always else capital(where)


section = Question(
    title=TITLE,
    experiment="fs.compare",
    rows=lambda run: shown.operations if len((shown := Shown.of(run)).far) > 1 else [],
    headline=_headline,
    text=(_compared, notes),
    tables=_table,
    missing=lambda _: "",
)

"""The time of each operation by the delay of the line, a curve for each file system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from oscope.figures import plots
from oscope.figures.tables import shared_scale
from oscope.labs.engine.contrast import compared
from oscope.labs.engine.drawing import INTERVALS, dot
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run, known
from oscope.labs.engine.table import TableOf, ratio, text
from oscope.labs.engine.words import times
from oscope.labs.fs.points import NAMES, WORDS, Shown, delay_text, notes
from oscope.model.document import Figure, Table
from oscope.model.units import format_duration
from oscope.statistics import ComparedMetric

TITLE = "Time by the delay of the line"
SMALL = 300
"""Pixels of a figure's height: there is one for each operation."""


def _slower(shown: Shown) -> dict[str, list[ComparedMetric]]:
    """Return how the longest delay compares with the shortest, on each file system but the local one."""
    delays = shown.delays
    found = {}
    for system in shown.far if len(delays) > 1 else ():
        points = tuple(known(shown.experiment, shown.time, system=system))
        own = replace(shown.experiment, points=points)
        found[system] = compared(own, (shown.time,), "delay", (delays[0], delays[-1]))
    return found


def _apart(rows: Sequence[ComparedMetric]) -> list[ComparedMetric]:
    return [row for row in rows if row.different == "yes" and row.ratio > 1]


def _headline(run: Run, _: object) -> str:
    """Say which file system the longest delay slows down most."""
    shown = Shown.of(run)
    most = [
        (row, system)
        for system, rows in _slower(shown).items()
        for row in _apart(rows)
        if np.isfinite(row.ratio)
    ]
    if not most:
        return "" if len(shown.delays) < 2 else "No file system is found slower with a delay."
    row, system = max(most, key=lambda pair: pair[0].ratio)
    what = f"takes {times(row)} as long at {row.factors['operation']}"
    return f"With {delay_text(shown.delays[-1])}, {NAMES[system]} {what}."


def _delayed(run: Run, _: object) -> Table:
    """Return what the longest delay makes of each time."""
    shown = Shown.of(run)
    rows = [(system, row) for system, found in _slower(shown).items() for row in found]
    table: TableOf[tuple[str, ComparedMetric]] = TableOf(
        f"Time with {delay_text(shown.delays[-1])} over that with {delay_text(shown.delays[0])}",
        (
            text("file system", lambda row: NAMES[row[0]]),
            text("operation", lambda row: str(row[1].factors["operation"])),
            ratio("time / time without", lambda row: row[1], "different"),
        ),
        "Paired by block, p corrected (Holm) for the operations of a file system.",
    )
    return table.of(rows)


def _table(run: Run, _: object) -> Table:
    """Return the median time of each system at each operation and delay, with its interval."""
    shown = Shown.of(run)
    made: TableOf[tuple[str, float]] = TableOf(
        "Time of each operation",
        (
            text("operation", lambda row: row[0]),
            text("delay, one way", lambda row: format_duration(row[1])),
            *shown.times(),
        ),
        INTERVALS,
    )
    rows = [(operation, delay) for operation in shown.operations for delay in shown.delays]
    return made.of(row for row in rows if any(shown.summary(system, *row) for system in shown.systems))


def _operations(run: Run, _: object) -> Table:
    """Say what each operation is."""
    rows = [[name, WORDS[name]] for name in Shown.of(run).operations]
    return Table("The operations", ["operation", "what the clock has"], rows)


def mounted(run: Run, _: object) -> Table:
    """Return what the probe noted of each system: versions, and how it was mounted and served."""
    shown, rows = Shown.of(run), []
    for system in shown.systems:
        points = known(shown.experiment, shown.time, system=system)
        noted = dict.fromkeys(note for point in points for note in point.notes)
        rows += [[NAMES[system], note] for note in noted]
    return Table("How it was mounted and served", ["file system", "as the probe noted"], rows)


def _figures(run: Run, _: object) -> list[Figure]:
    """Draw a figure for each operation: every delay at the same distance from the next, times by powers."""
    shown = Shown.of(run)
    places = {delay: float(index) for index, delay in enumerate(shown.delays)}
    if len(places) < 2:
        return []
    ticks: dict[str, Any] = {
        "tickvals": list(places.values()),
        "ticktext": [format_duration(each) for each in places],
    }
    across = plots.axis("delay, one way", range=[-0.3, len(places) - 0.7], **ticks)
    return [_figure(shown, operation, places, across) for operation in shown.operations]


def _figure(shown: Shown, operation: str, places: Mapping[float, float], across: dict[str, Any]) -> Figure:
    found = {
        system: [
            (place, one)
            for delay, place in places.items()
            if (one := shown.summary(system, operation, delay))
        ]
        for system in shown.systems
    }
    scale = shared_scale([one for row in found.values() for _, one in row], shown.unit)
    lines = [
        plots.Line(
            NAMES[system], [(place, dot(NAMES[system], one, scale.factor)) for place, one in row], colour
        )
        for colour, (system, row) in enumerate(found.items())
    ]
    axes = (across, plots.axis(f"time [{scale.unit}]", scale="log"))
    drawn = plots.lines(f"Time of {operation}", axes, lines, f"{WORDS[operation]}. {INTERVALS}")
    return replace(drawn, layout={**drawn.layout, "height": SMALL})


section = Question(
    title=TITLE,
    experiment="fs.compare",
    rows=lambda run: Shown.of(run).systems,
    headline=_headline,
    text=(
        (
            "Client and server are two network namespaces of one machine, joined by a virtual Ethernet whose "
            "packets are late by the delay in each direction; the local file system has no line."
        ),
        notes,
    ),
    tables=(_table, _delayed, _operations, mounted),
    figures=_figures,
    missing=lambda _: "",
)

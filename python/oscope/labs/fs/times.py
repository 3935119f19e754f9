"""The time of each operation by the delay of the line, a curve for each file system."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed
from oscope.figures.tables import shared_scale
from oscope.figures.words import listed, median
from oscope.labs.curve import ratio_text
from oscope.labs.fs import LOCAL
from oscope.labs.fs.points import NAMES, WORDS, Shown, cautioned, delay_text
from oscope.labs.transfer.points import known, levels_compared
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING
from oscope.model.units import format_duration

TITLE = "Time by the delay of the line"
SMALL = 300
"""Pixels of a figure's height: there is one for each operation."""


def section(results: Analysed) -> Section | None:
    """Show every time, and say on which operation the delay tells most."""
    experiment = results.get("fs.compare")
    if experiment is None:
        return None
    shown = Shown.of(experiment)
    if not shown.systems:
        return None
    return Section(
        title=TITLE,
        answer=cautioned(_answer(shown), experiment),
        text=[
            (
                "The client and the server are two network namespaces of one machine, joined by a virtual "
                "Ethernet whose packets are late by the delay in each direction. The local file system has "
                "no line: its time stands at no delay."
            ),
            *shown.told,
        ],
        tables=[table(results, shown), operations(shown), *mounted(shown)],
        figures=_figures(results, shown),
    )


def _answer(shown: Shown) -> str:
    """Tell for each file system what the longest delay makes of its times."""
    delays = shown.delays
    if len(delays) < 2:
        return ""
    parts = []
    for system in (name for name in shown.systems if name != LOCAL):
        points = tuple(known(shown.experiment, shown.time, system=system))
        own = replace(shown.experiment, points=points)
        rows = levels_compared(own, (shown.time,), "delay", (delays[0], delays[-1]))
        slower = [row for row in rows if row.different == "yes" and row.ratio > 1]
        if not slower:
            parts.append(f"{NAMES[system]} is not found slower")
            continue
        most = max(slower, key=lambda row: row.ratio)
        text = f"{NAMES[system]} takes {ratio_text(most)} times as long at {most.factors['operation']}"
        spared = [str(row.factors["operation"]) for row in rows if row not in slower]
        parts.append(text + (f" (not found slower at {listed(spared)})" if spared else ""))
    return f"With {delay_text(delays[-1])} in place of {delay_text(delays[0])}, at most: {'; '.join(parts)}."


def table(results: Analysed, shown: Shown) -> Table:
    """Return the median time of each system at each operation and delay, with its interval."""
    rows = []
    for operation in shown.operations:
        for delay in shown.delays:
            found = [shown.summary(results, system, operation, delay) for system in shown.systems]
            if any(found):
                cells = [MISSING if one is None else median(one, shown.unit) for one in found]
                rows.append([operation, format_duration(delay), *cells])
    columns = ["operation", "delay, one way", *(f"{NAMES[system]} (95 %)" for system in shown.systems)]
    return Table("Time of each operation", columns, rows, frozenset(), "Medians with their 95 % intervals.")


def operations(shown: Shown) -> Table:
    """Say what each operation is."""
    rows = [[name, WORDS[name]] for name in shown.operations]
    return Table("The operations", ["operation", "what the clock has"], rows)


def mounted(shown: Shown) -> list[Table]:
    """Return what the probe noted of each system: versions, and how it was mounted and served."""
    rows = []
    for system in shown.systems:
        points = known(shown.experiment, shown.time, system=system)
        notes = dict.fromkeys(note for point in points for note in point.notes)
        rows += [[NAMES[system], note] for note in notes]
    return (
        [Table("How it was mounted and served", ["file system", "as the probe noted"], rows)] if rows else []
    )


def _figures(results: Analysed, shown: Shown) -> list[Figure]:
    """Draw a figure for each operation: every delay at the same distance from the next, times by powers."""
    places = {delay: float(index) for index, delay in enumerate(shown.delays)}
    if len(places) < 2:
        return []
    ticks: dict[str, Any] = {
        "tickvals": list(places.values()),
        "ticktext": [format_duration(each) for each in places],
    }
    across = plots.axis("delay, one way", range=[-0.3, len(places) - 0.7], **ticks)
    return [_figure(results, shown, operation, places, across) for operation in shown.operations]


def _figure(
    results: Analysed, shown: Shown, operation: str, places: dict[float, float], across: dict[str, Any]
) -> Figure:
    found = {
        (system, delay): one
        for system in shown.systems
        for delay in places
        if (one := shown.summary(results, system, operation, delay)) is not None
    }
    scale = shared_scale(list(found.values()), shown.unit)
    lines = []
    for colour, system in enumerate(shown.systems):
        dots = []
        for (name, delay), one in found.items():
            if name == system:
                ends = one.ci95 and (one.ci95[0] / scale.factor, one.ci95[1] / scale.factor)
                dots.append(
                    (places[delay], plots.Dot(NAMES[system], one.median / scale.factor, ends, np.zeros(0)))
                )
        lines.append(plots.Line(NAMES[system], dots, colour))
    drawn = plots.lines(
        f"Time of {operation}",
        (across, plots.axis(f"time [{scale.unit}]", scale="log")),
        lines,
        f"{WORDS[operation]}. Medians with their 95 % intervals.",
    )
    return replace(drawn, layout={**drawn.layout, "height": SMALL})

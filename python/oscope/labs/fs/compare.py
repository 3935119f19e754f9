"""How the file systems compare: which wins where, by how much, by the delay, and beside the local one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from oscope.figures import plots
from oscope.figures.tables import shared_scale
from oscope.figures.words import listed
from oscope.labs.engine.contrast import compared
from oscope.labs.engine.curves import At, best
from oscope.labs.engine.drawing import INTERVALS, dot, dots, logarithmic
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run, known
from oscope.labs.engine.table import Column, TableOf, ratio, text
from oscope.labs.engine.words import NOT_RUN, brackets, capital, ratio_text, reasons, times
from oscope.labs.fs import LAB, LOCAL, NFS, OSCOPE, SSHFS
from oscope.labs.fs.points import NAMES, WORDS, Shown, delay_of, delay_text, inverse_text, notes, place_text
from oscope.model.document import Figure, Table
from oscope.model.units import format_duration
from oscope.statistics import ComparedMetric, Summary

# ---- where oscope-fs wins over NFS and sshfs, and where they do

WINS_TITLE = "Where oscope-fs wins, and where NFS does"
NAME = "fs.compare"
HOW_TO = "It needs a guest, whose kernel serves NFS: `oscope kernel build`, then `oscope run fs.compare`."
OTHERS = (NFS, SSHFS)


Against = tuple[str, Sequence[ComparedMetric]]
"""Another system, and the time of oscope-fs over its time at each operation and delay."""


def _rows(run: Run) -> list[Against]:
    shown = Shown.of(run)
    return [(other, found) for other in OTHERS if (found := shown.against(other, OSCOPE))]


def _most_won(_: Run, found: Sequence[Against]) -> str:
    """Name the scenario in which each wins most, of NFS where it was measured."""
    other, rows = found[0]
    name, apart = NAMES[other], [row for row in rows if row.different == "yes" and np.isfinite(row.ratio)]
    faster = min((row for row in apart if row.ratio < 1), key=lambda row: row.ratio, default=None)
    slower = max((row for row in apart if row.ratio > 1), key=lambda row: row.ratio, default=None)
    said = []
    if faster is not None:
        more = f"{name} takes {inverse_text(faster)} times as long"
        said.append(f"oscope-fs wins most over {name} at {place_text(faster.factors)}: {more}.")
    if slower is not None:
        more = f"oscope-fs takes {ratio_text(slower)} times as long"
        said.append(f"{name} wins most at {place_text(slower.factors)}: {more}.")
    said += [f"Nowhere was oscope-fs found faster than {name}."] if faster is None else []
    said += [f"Nowhere was {name} found faster than oscope-fs."] if slower is None else []
    return brackets(" ".join(said))


def _wins_table(against: Against) -> Table:
    other, rows = against
    table: TableOf[ComparedMetric] = TableOf(
        f"oscope-fs against {NAMES[other]}",
        (
            text("operation", lambda row: str(row.factors["operation"])),
            text("delay, one way", lambda row: format_duration(delay_of(row.factors))),
            ratio(f"time of oscope-fs / {NAMES[other]}'s", lambda row: row, "different", "matters"),
            text("faster", lambda row: _faster(row, other)),
        ),
        "Paired by block, p corrected (Holm) for all rows. Below 1 oscope-fs is faster.",
    )
    return table.of(rows)


def _faster(row: ComparedMetric, other: str) -> str:
    if row.different != "yes":
        return "neither" if row.different == "no" else "cannot tell"
    return NAMES[OSCOPE] if row.ratio < 1 else NAMES[other]


def _wins_figure(against: Against) -> Figure:
    """Draw the ratios, a row for each operation and a colour for each delay."""
    other, rows = against
    what = f"time of oscope-fs over {NAMES[other]}'s"
    drawn = dots(
        f"Time of oscope-fs against {NAMES[other]}",
        what,
        [(delay_text(delay_of(row.factors)), str(row.factors["operation"]), row) for row in rows],
        note="Left of 1 oscope-fs is faster. Ratios with their 95 % intervals.",
    )
    return logarithmic(drawn)


WINS = Question(
    title=WINS_TITLE,
    experiment=NAME,
    rows=_rows,
    headline=_most_won,
    text=notes,
    tables=lambda _, found: map(_wins_table, found),
    figures=lambda _, found: map(_wins_figure, found),
    missing=lambda run: (
        reasons(run.experiment) or ("" if _rows(run) else f"Neither NFS nor sshfs has times. {HOW_TO}")
    ),
    unrun=lambda results: (
        f"{NOT_RUN.format(NAME, NAME)}. {HOW_TO}"
        if any(results.get(each.name) for each in LAB.experiments)
        else ""
    ),
)


# ---- which file system for what

Chosen = Mapping[tuple[str, float], Sequence[str]]
"""The fastest at each operation and delay, with those not distinguished from it."""

CHOICE_TITLE = "Which file system for what"


def _chosen(run: Run) -> Chosen:
    shown = Shown.of(run)
    places = [(operation, delay) for operation in shown.operations for delay in shown.delays]
    return run.once("chosen", lambda: {place: _fastest(shown, shown.far, *place) for place in places})


def _choice_table(run: Run, operations: Sequence[str]) -> Table:
    def column(delay: float) -> Column[str]:
        def names(operation: str) -> str | None:
            return ", ".join(NAMES[name] for name in _chosen(run)[operation, delay]) or None

        return text(f"delay {format_duration(delay)}", names)

    table: TableOf[str] = TableOf(
        "The fastest by operation and delay",
        (text("operation", lambda operation: operation), *map(column, Shown.of(run).delays)),
        "By the median time. Several names: the first is the fastest, the others are not distinguished from "
        "it (paired by block, Holm within a cell).",
    )
    return table.of(operations)


def _compared(run: Run, _: object) -> str:
    names = listed([NAMES[name] for name in Shown.of(run).far])
    return f"Compared are {names}; one that was left out is not among them."


def _fastest(shown: Shown, systems: Sequence[str], operation: str, delay: float) -> list[str]:
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


def _always_fastest(run: Run, _: object) -> str:
    """Say at which operations one system alone is the fastest at every delay."""
    shown, chosen = Shown.of(run), _chosen(run)
    alone: dict[str, list[str]] = {name: [] for name in shown.far}
    rest: list[str] = []
    for operation in shown.operations:
        winners = {tuple(chosen[operation, delay]) for delay in shown.delays} - {()}
        one = next(iter(winners)) if len(winners) == 1 else ()
        (alone[one[0]] if len(one) == 1 else rest).append(operation)
    always = "; ".join(f"{NAMES[name]} at {listed(own)}" for name, own in alone.items() if own)
    if not rest:
        return f"Fastest at every delay: {always}."
    where = f"at {listed(rest)} it depends on the delay, or several are not distinguished."
    return f"Fastest at every delay: {always}; {where}" if always else capital(where)


CHOICE = Question(
    title=CHOICE_TITLE,
    experiment="fs.compare",
    rows=lambda run: shown.operations if len((shown := Shown.of(run)).far) > 1 else [],
    headline=_always_fastest,
    text=(_compared, notes),
    tables=_choice_table,
    missing=lambda _: "",
)


# ---- the time of each operation by the delay of the line

TIMES_TITLE = "Time by the delay of the line"
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


def _slowed_most(run: Run, _: object) -> str:
    """Say which file system the longest delay slows down most."""
    shown = Shown.of(run)
    rows = [(row, system) for system, found in _slower(shown).items() for row in found]
    most = [pair for pair in rows if pair[0].different == "yes" and 1 < pair[0].ratio < np.inf]
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


def _times_table(run: Run, _: object) -> Table:
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
    texts = [format_duration(each) for each in places]
    across = plots.axis(
        "delay, one way", range=[-0.3, len(places) - 0.7], tickvals=list(places.values()), ticktext=texts
    )
    return [_times_figure(shown, operation, places, across) for operation in shown.operations]


def _times_figure(
    shown: Shown, operation: str, places: Mapping[float, float], across: dict[str, Any]
) -> Figure:
    def medians(system: str) -> list[tuple[float, Summary]]:
        found = ((place, shown.summary(system, operation, delay)) for delay, place in places.items())
        return [(place, one) for place, one in found if one is not None]

    found = {NAMES[system]: medians(system) for system in shown.systems}
    scale = shared_scale([one for row in found.values() for _, one in row], shown.unit)
    lines = [
        plots.Line(name, [(place, dot(name, one, scale.factor)) for place, one in row], colour)
        for colour, (name, row) in enumerate(found.items())
    ]
    axes = (across, plots.axis(f"time [{scale.unit}]", scale="log"))
    drawn = plots.lines(f"Time of {operation}", axes, lines, f"{WORDS[operation]}. {INTERVALS}")
    return replace(drawn, layout={**drawn.layout, "height": SMALL})


TIMES = Question(
    title=TIMES_TITLE,
    experiment="fs.compare",
    rows=lambda run: Shown.of(run).systems,
    headline=_slowed_most,
    text=(
        (
            "Client and server are two network namespaces of one machine, joined by a virtual Ethernet whose "
            "packets are late by the delay in each direction; the local file system has no line."
        ),
        notes,
    ),
    tables=(_times_table, _delayed, _operations, mounted),
    figures=_figures,
    missing=lambda _: "",
)


# ---- beside the local file system, without delay

BASES = (LOCAL, SSHFS)
"""What oscope-fs is compared with here."""


def _title(run: Run) -> str:
    """Name the place: each has a kernel of its own."""
    where = "in a guest" if "guest" in run.experiment.environment else "on this machine"
    return f"Beside the local file system, {where} ({run.experiment.experiment})"


def _over(run: Run, base: str) -> list[ComparedMetric]:
    """Return the time of oscope-fs over that of another system, without delay."""
    return [row for row in Shown.of(run).against(base, OSCOPE) if delay_of(row.factors) == 0]


def _nearest(_: Run, rows: Sequence[ComparedMetric]) -> str:
    """Name where oscope-fs comes nearest to the local file system, and where it is furthest from it."""
    slower = sorted((r for r in rows if np.isfinite(r.ratio) and r.different == "yes"), key=lambda r: r.ratio)
    if not slower:
        return "oscope-fs was not found different from the local file system."
    least, most = slower[0], slower[-1]
    text = f"oscope-fs takes {times(least)} as long as the local file system at {least.factors['operation']}"
    return f"{text}." if most is least else f"{text}, {times(most)} at {most.factors['operation']}."


def _local_table(run: Run, _: object) -> Table:
    def over(base: str) -> Column[tuple[str, float]]:
        found = {row.factors["operation"]: row for row in _over(run, base)}
        return ratio(f"oscope-fs / {NAMES[base]}", lambda row: found.get(row[0]), "different")

    shown = Shown.of(run)
    table: TableOf[tuple[str, float]] = TableOf(
        f"Time without delay ({run.experiment.experiment})",
        (text("operation", lambda row: row[0]), *shown.times(), *map(over, BASES)),
        "Medians with their 95 % intervals. Ratios paired by block, p corrected (Holm).",
    )
    return table.of((operation, 0.0) for operation in shown.operations)


def _local_figure(run: Run, _: object) -> Figure:
    shown = Shown.of(run)
    rows = [
        (NAMES[system], operation, one)
        for system in shown.systems
        for operation in shown.operations
        if (one := shown.summary(system, operation, 0.0)) is not None
    ]
    return dots(f"Time without delay ({run.experiment.experiment})", "time", rows, shown.unit)


def _question(name: str, *, own: bool) -> Question[ComparedMetric]:
    """Return what is asked of one place; `own` where no other section shows its mounts and reasons."""
    return Question(
        title=_title,
        experiment=name,
        rows=lambda run: _over(run, LOCAL),
        headline=_nearest,
        text=(
            (
                "Client, server and ssh share this machine's processors. With FUSE passthrough (Linux 6.9) "
                "reads and writes of an open file go past oscope-fs; the notes say whether the kernel has it."
            ),
            notes,
        ),
        tables=(_local_table, lambda run, _: mounted(run, _) if own else None),
        figures=_local_figure,
        missing=lambda run: reasons(run.experiment) if own else "",
    )


HERE, COMPARE = _question("fs.here", own=True), _question("fs.compare", own=False)

"""How the file systems compare: which wins where, by how much, by the delay, and beside the local one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from oscope.labs import engine as q
from oscope.labs.fs import LAB, LOCAL, NFS, OSCOPE, SSHFS
from oscope.labs.fs.points import NAMES, WORDS, Shown, delay_of, delay_text, inverse_text, notes, place_text

# ---- where oscope-fs wins over NFS and sshfs, and where they do

WINS_TITLE = "Where oscope-fs wins, and where NFS does"
NAME = "fs.compare"
HOW_TO = "It needs a guest, whose kernel serves NFS: `oscope kernel build`, then `oscope run fs.compare`."
OTHERS = (NFS, SSHFS)


Against = tuple[str, Sequence[q.ComparedMetric]]
"""Another system, and the time of oscope-fs over its time at each operation and delay."""


def _rows(run: q.Run) -> list[Against]:
    shown = Shown.of(run)
    return [(other, found) for other in OTHERS if (found := shown.against(other, OSCOPE))]


def _most_won(_: q.Run, found: Sequence[Against]) -> str:
    other, rows = found[0]
    name, apart = NAMES[other], [row for row in rows if row.different == "yes" and np.isfinite(row.ratio)]
    faster = min((row for row in apart if row.ratio < 1), key=lambda row: row.ratio, default=None)
    slower = max((row for row in apart if row.ratio > 1), key=lambda row: row.ratio, default=None)
    said = []
    if faster is not None:
        more = f"{name} takes {inverse_text(faster)} times as long"
        said.append(f"oscope-fs wins most over {name} at {place_text(faster.factors)}: {more}.")
    if slower is not None:
        more = f"oscope-fs takes {q.ratio_text(slower)} times as long"
        said.append(f"{name} wins most at {place_text(slower.factors)}: {more}.")
    said += [f"Nowhere was oscope-fs found faster than {name}."] if faster is None else []
    said += [f"Nowhere was {name} found faster than oscope-fs."] if slower is None else []
    return q.brackets(" ".join(said))


def _wins_table(against: Against) -> q.Table:
    other, rows = against
    table: q.TableOf[q.ComparedMetric] = q.TableOf(
        f"oscope-fs against {NAMES[other]}",
        (
            q.text("operation", lambda row: str(row.factors["operation"])),
            q.text("delay, one way", lambda row: q.format_duration(delay_of(row.factors))),
            q.ratio(f"time of oscope-fs / {NAMES[other]}'s", lambda row: row, "different", "matters"),
            q.text("faster", lambda row: _faster(row, other)),
        ),
        "Paired by block, p corrected (Holm) for all rows. Below 1 oscope-fs is faster.",
    )
    return table.of(rows)


def _faster(row: q.ComparedMetric, other: str) -> str:
    if row.different != "yes":
        return "neither" if row.different == "no" else "cannot tell"
    return NAMES[OSCOPE] if row.ratio < 1 else NAMES[other]


def _wins_figure(against: Against) -> q.Figure:
    other, rows = against
    what = f"time of oscope-fs over {NAMES[other]}'s"
    drawn = q.dots(
        f"Time of oscope-fs against {NAMES[other]}",
        what,
        [(delay_text(delay_of(row.factors)), str(row.factors["operation"]), row) for row in rows],
        note="Left of 1 oscope-fs is faster. Ratios with their 95 % intervals.",
    )
    return q.logarithmic(drawn)


WINS = q.Question(
    title=WINS_TITLE,
    experiment=NAME,
    rows=_rows,
    headline=_most_won,
    text=notes,
    tables=lambda _, found: map(_wins_table, found),
    figures=lambda _, found: map(_wins_figure, found),
    missing=lambda run: (
        q.reasons(run.experiment) or ("" if _rows(run) else f"Neither NFS nor sshfs has times. {HOW_TO}")
    ),
    unrun=lambda results: (
        f"{q.NOT_RUN.format(NAME, NAME)}. {HOW_TO}"
        if any(results.get(each.name) for each in LAB.experiments)
        else ""
    ),
)


# ---- which file system for what

Chosen = Mapping[tuple[str, float], Sequence[str]]
"""The fastest at each operation and delay, with those not distinguished from it."""

CHOICE_TITLE = "Which file system for what"


def _chosen(run: q.Run) -> Chosen:
    shown = Shown.of(run)
    places = [(operation, delay) for operation in shown.operations for delay in shown.delays]
    return run.once("chosen", lambda: {place: _fastest(shown, shown.far, *place) for place in places})


def _choice_table(run: q.Run, operations: Sequence[str]) -> q.Table:
    def column(delay: float) -> q.Column[str]:
        def names(operation: str) -> str | None:
            return ", ".join(NAMES[name] for name in _chosen(run)[operation, delay]) or None

        return q.text(f"delay {q.format_duration(delay)}", names)

    table: q.TableOf[str] = q.TableOf(
        "The fastest by operation and delay",
        (q.text("operation", lambda operation: operation), *map(column, Shown.of(run).delays)),
        "By the median time. Several names: the first is the fastest, the others are not distinguished from "
        "it (paired by block, Holm within a cell).",
    )
    return table.of(operations)


def _compared(run: q.Run, _: object) -> str:
    names = q.listed([NAMES[name] for name in Shown.of(run).far])
    return f"Compared are {names}; one that was left out is not among them."


def _fastest(shown: Shown, systems: Sequence[str], operation: str, delay: float) -> list[str]:
    """Return the fastest system, then those not distinguished from it; empty where none has times.

    One that was measured alone is not called the fastest of anything.
    """
    found = []
    for place, system in enumerate(systems):
        point, summary = shown.point(system, operation, delay), shown.summary(system, operation, delay)
        if point is not None and summary is not None:
            found.append(q.At(place, point, summary))
    if len(found) < 2:
        return []
    first, alike = q.best(found, shown.experiment, shown.time)
    return [systems[each.size] for each in (first, *alike)]


def _always_fastest(run: q.Run, _: object) -> str:
    """Say at which operations one system alone is the fastest at every delay."""
    shown, chosen = Shown.of(run), _chosen(run)
    alone: dict[str, list[str]] = {name: [] for name in shown.far}
    rest: list[str] = []
    for operation in shown.operations:
        winners = {tuple(chosen[operation, delay]) for delay in shown.delays} - {()}
        one = next(iter(winners)) if len(winners) == 1 else ()
        (alone[one[0]] if len(one) == 1 else rest).append(operation)
    always = "; ".join(f"{NAMES[name]} at {q.listed(own)}" for name, own in alone.items() if own)
    if not rest:
        return f"Fastest at every delay: {always}."
    where = f"at {q.listed(rest)} it depends on the delay, or several are not distinguished."
    return f"Fastest at every delay: {always}; {where}" if always else q.capital(where)


CHOICE = q.Question(
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


def _slower(shown: Shown) -> dict[str, list[q.ComparedMetric]]:
    """Return how the longest delay compares with the shortest, on each file system but the local one."""
    delays = shown.delays
    return {
        system: q.compared(
            shown.run.only(system=system).experiment, (shown.time,), "delay", (delays[0], delays[-1])
        )
        for system in (shown.far if len(delays) > 1 else ())
    }


def _slowed_most(run: q.Run, _: object) -> str:
    shown = Shown.of(run)
    rows = [(row, system) for system, found in _slower(shown).items() for row in found]
    most = [pair for pair in rows if pair[0].different == "yes" and 1 < pair[0].ratio < np.inf]
    if not most:
        return "" if len(shown.delays) < 2 else "No file system is found slower with a delay."
    row, system = max(most, key=lambda pair: pair[0].ratio)
    what = f"takes {q.times(row)} as long at {row.factors['operation']}"
    return f"With {delay_text(shown.delays[-1])}, {NAMES[system]} {what}."


def _delayed(run: q.Run, _: object) -> q.Table:
    shown = Shown.of(run)
    rows = [(system, row) for system, found in _slower(shown).items() for row in found]
    table: q.TableOf[tuple[str, q.ComparedMetric]] = q.TableOf(
        f"Time with {delay_text(shown.delays[-1])} over that with {delay_text(shown.delays[0])}",
        (
            q.text("file system", lambda row: NAMES[row[0]]),
            q.text("operation", lambda row: str(row[1].factors["operation"])),
            q.ratio("time / time without", lambda row: row[1], "different"),
        ),
        "Paired by block, p corrected (Holm) for the operations of a file system.",
    )
    return table.of(rows)


def _times_table(run: q.Run, _: object) -> q.Table:
    shown = Shown.of(run)
    made: q.TableOf[tuple[str, float]] = q.TableOf(
        "Time of each operation",
        (
            q.text("operation", lambda row: row[0]),
            q.text("delay, one way", lambda row: q.format_duration(row[1])),
            *shown.times(),
        ),
        q.INTERVALS,
    )
    rows = [(operation, delay) for operation in shown.operations for delay in shown.delays]
    return made.of(row for row in rows if any(shown.summary(system, *row) for system in shown.systems))


def _operations(run: q.Run, _: object) -> q.Table:
    rows = [[name, WORDS[name]] for name in Shown.of(run).operations]
    return q.Table("The operations", ["operation", "what the clock has"], rows)


def mounted(run: q.Run, _: object) -> q.Table:
    """Return what the probe noted of each system: versions, and how it was mounted and served."""
    shown, rows = Shown.of(run), []
    for system in shown.systems:
        points = q.known(shown.experiment, shown.time, system=system)
        noted = dict.fromkeys(note for point in points for note in point.notes)
        rows += [[NAMES[system], note] for note in noted]
    return q.Table("How it was mounted and served", ["file system", "as the probe noted"], rows)


def _figures(run: q.Run, _: object) -> list[q.Figure]:
    shown = Shown.of(run)
    places = {delay: float(index) for index, delay in enumerate(shown.delays)}
    if len(places) < 2:
        return []
    texts = [q.format_duration(each) for each in places]
    across = q.plots.axis(
        "delay, one way", range=[-0.3, len(places) - 0.7], tickvals=list(places.values()), ticktext=texts
    )
    return [_times_figure(shown, operation, places, across) for operation in shown.operations]


def _times_figure(
    shown: Shown, operation: str, places: Mapping[float, float], across: dict[str, Any]
) -> q.Figure:
    found = {
        NAMES[system]: [
            (place, one)
            for delay, place in places.items()
            if (one := shown.summary(system, operation, delay))
        ]
        for system in shown.systems
    }
    scale = q.shared_scale([one for row in found.values() for _, one in row], shown.unit)
    lines = [
        q.plots.Line(name, [(place, q.dot(name, one, scale.factor)) for place, one in row], colour)
        for colour, (name, row) in enumerate(found.items())
    ]
    axes = (across, q.plots.axis(f"time [{scale.unit}]", scale="log"))
    drawn = q.plots.lines(f"Time of {operation}", axes, lines, f"{WORDS[operation]}. {q.INTERVALS}")
    return replace(drawn, layout={**drawn.layout, "height": SMALL})


TIMES = q.Question(
    title=TIMES_TITLE,
    experiment="fs.compare",
    rows=lambda run: Shown.of(run).systems,
    headline=_slowed_most,
    text=(
        "Client and server are two network namespaces; packets are late by the delay in each direction.",
        notes,
    ),
    tables=(_times_table, _delayed, _operations, mounted),
    figures=_figures,
    missing=lambda _: "",
)


# ---- beside the local file system, without delay

BASES = (LOCAL, SSHFS)
"""What oscope-fs is compared with here."""


def _title(run: q.Run) -> str:
    """Name the place: each has a kernel of its own."""
    where = "in a guest" if "guest" in run.experiment.environment else "on this machine"
    return f"Beside the local file system, {where} ({run.experiment.experiment})"


def _over(run: q.Run, base: str) -> list[q.ComparedMetric]:
    return [row for row in Shown.of(run).against(base, OSCOPE) if delay_of(row.factors) == 0]


def _nearest(_: q.Run, rows: Sequence[q.ComparedMetric]) -> str:
    slower = sorted((r for r in rows if np.isfinite(r.ratio) and r.different == "yes"), key=lambda r: r.ratio)
    if not slower:
        return "oscope-fs was not found different from the local file system."
    least, most = slower[0], slower[-1]
    text = (
        f"oscope-fs takes {q.times(least)} as long as the local file system at {least.factors['operation']}"
    )
    return f"{text}." if most is least else f"{text}, {q.times(most)} at {most.factors['operation']}."


def _local_table(run: q.Run, _: object) -> q.Table:
    def over(base: str) -> q.Column[tuple[str, float]]:
        found = {row.factors["operation"]: row for row in _over(run, base)}
        return q.ratio(f"oscope-fs / {NAMES[base]}", lambda row: found.get(row[0]), "different")

    shown = Shown.of(run)
    table: q.TableOf[tuple[str, float]] = q.TableOf(
        f"Time without delay ({run.experiment.experiment})",
        (q.text("operation", lambda row: row[0]), *shown.times(), *map(over, BASES)),
        "Medians with their 95 % intervals. Ratios paired by block, p corrected (Holm).",
    )
    return table.of((operation, 0.0) for operation in shown.operations)


def _local_figure(run: q.Run, _: object) -> q.Figure:
    shown = Shown.of(run)
    rows = [
        (NAMES[system], operation, one)
        for system in shown.systems
        for operation in shown.operations
        if (one := shown.summary(system, operation, 0.0)) is not None
    ]
    return q.dots(f"Time without delay ({run.experiment.experiment})", "time", rows, shown.unit)


def _question(name: str, *, own: bool) -> q.Question[q.ComparedMetric]:
    """Return what is asked of one place; `own` where no other section shows its mounts and reasons."""
    return q.Question(
        title=_title,
        experiment=name,
        rows=lambda run: _over(run, LOCAL),
        headline=_nearest,
        text=(
            "Client, server and ssh share the processors; notes say whether there is FUSE passthrough.",
            notes,
        ),
        tables=(_local_table, lambda run, _: mounted(run, _) if own else None),
        figures=_local_figure,
        missing=lambda run: q.reasons(run.experiment) if own else "",
    )


HERE, COMPARE = _question("fs.here", own=True), _question("fs.compare", own=False)

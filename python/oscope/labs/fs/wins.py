"""Where oscope-fs wins over NFS and where NFS does, by how much and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oscope.figures.analysed import Analysed
from oscope.labs.engine.drawing import dots, logarithmic
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, ratio, text
from oscope.labs.engine.words import NOT_RUN, brackets, ratio_text, reasons
from oscope.labs.fs import LAB, NFS, OSCOPE, SSHFS
from oscope.labs.fs.points import NAMES, Shown, delay_of, delay_text, inverse_text, notes, place_text
from oscope.model.document import Figure, Table
from oscope.model.units import format_duration
from oscope.statistics import ComparedMetric

TITLE = "Where oscope-fs wins, and where NFS does"
NAME = "fs.compare"
HOW_TO = "It needs a guest, whose kernel serves NFS: `oscope kernel build`, then `oscope run fs.compare`."
OTHERS = (NFS, SSHFS)


Against = tuple[str, Sequence[ComparedMetric]]
"""Another system, and the time of oscope-fs over its time at each operation and delay."""


def _rows(run: Run) -> list[Against]:
    shown = Shown.of(run)
    return [(other, found) for other in OTHERS if (found := shown.against(other, OSCOPE))]


def extremes(rows: Sequence[ComparedMetric]) -> tuple[ComparedMetric | None, ComparedMetric | None]:
    """Return where oscope-fs wins most and where the other does, of the rows that are found different."""
    apart = [row for row in rows if row.different == "yes" and np.isfinite(row.ratio)]
    faster = min((row for row in apart if row.ratio < 1), key=lambda row: row.ratio, default=None)
    slower = max((row for row in apart if row.ratio > 1), key=lambda row: row.ratio, default=None)
    return faster, slower


def _headline(_: Run, found: Sequence[Against]) -> str:
    """Name the scenario in which each wins most, of NFS where it was measured."""
    other, rows = found[0]
    name, (faster, slower) = NAMES[other], extremes(rows)
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


def _table(against: Against) -> Table:
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


def _figure(against: Against) -> Figure:
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


def _unrun(results: Analysed) -> str:
    others = any(results.get(each.name) for each in LAB.experiments)
    return f"{NOT_RUN.format(NAME, NAME)}. {HOW_TO}" if others else ""


def _missing(run: Run) -> str:
    none = "" if _rows(run) else f"Neither NFS nor sshfs has times. {HOW_TO}"
    return reasons(run.experiment) or none


section = Question(
    title=TITLE,
    experiment=NAME,
    rows=_rows,
    headline=_headline,
    text=notes,
    tables=lambda _, found: map(_table, found),
    figures=lambda _, found: map(_figure, found),
    missing=_missing,
    unrun=_unrun,
)

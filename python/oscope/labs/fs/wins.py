"""Where oscope-fs wins over NFS and where NFS does, by how much and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oscope.figures.analysed import Analysed
from oscope.labs.engine.drawing import dots, logarithmic
from oscope.labs.engine.table import TableOf, ratio, text
from oscope.labs.engine.words import NOT_RUN, brackets, ratio_text, reasons
from oscope.labs.fs import LAB, NFS, OSCOPE, SSHFS
from oscope.labs.fs.points import NAMES, Shown, delay_of, delay_text, inverse_text, place_text
from oscope.model.document import Figure, Section, Table
from oscope.model.units import format_duration
from oscope.statistics import ComparedMetric

TITLE = "Where oscope-fs wins, and where NFS does"
NAME = "fs.compare"
HOW_TO = "It needs a guest, whose kernel serves NFS: `oscope kernel build`, then `oscope run fs.compare`."
OTHERS = (NFS, SSHFS)


def section(results: Analysed) -> Section | None:
    """Answer A6: the scenario in which each wins, with verdicts over blocks."""
    shown = Shown.of(results, NAME)
    if shown is None:
        if not any(results.get(each.name) for each in LAB.experiments):
            return None
        return Section(TITLE, "", missing=f"{NOT_RUN.format(NAME, NAME)}. {HOW_TO}")
    missing = reasons(shown.experiment)
    rows = {other: found for other in OTHERS if (found := shown.against(other, OSCOPE))}
    if not rows:
        return Section(TITLE, "", missing=missing or f"Neither NFS nor sshfs has times. {HOW_TO}")
    first = NFS if NFS in rows else SSHFS
    return Section(
        title=TITLE,
        answer=_headline(rows[first], NAMES[first]),
        text=[
            *shown.notes,
        ],
        tables=[_table(other, found) for other, found in rows.items()],
        figures=[_figure(other, found) for other, found in rows.items()],
        missing=missing,
    )


def extremes(rows: Sequence[ComparedMetric]) -> tuple[ComparedMetric | None, ComparedMetric | None]:
    """Return where oscope-fs wins most and where the other does, of the rows that are found different."""
    apart = [row for row in rows if row.different == "yes" and np.isfinite(row.ratio)]
    faster = min((row for row in apart if row.ratio < 1), key=lambda row: row.ratio, default=None)
    slower = max((row for row in apart if row.ratio > 1), key=lambda row: row.ratio, default=None)
    return faster, slower


def _extremes(rows: Sequence[ComparedMetric], other: str) -> list[str]:
    """Name the scenario in which each wins most."""
    faster, slower = extremes(rows)
    said = []
    if faster is not None:
        more = f"{other} takes {inverse_text(faster)} times as long"
        said.append(f"oscope-fs wins most over {other} at {place_text(faster.factors)}: {more}.")
    if slower is not None:
        more = f"oscope-fs takes {ratio_text(slower)} times as long"
        said.append(f"{other} wins most at {place_text(slower.factors)}: {more}.")
    return said


def _headline(rows: Sequence[ComparedMetric], other: str) -> str:
    faster, slower = extremes(rows)
    said = list(map(brackets, _extremes(rows, other)))
    said += [f"Nowhere was oscope-fs found faster than {other}."] if faster is None else []
    said += [f"Nowhere was {other} found faster than oscope-fs."] if slower is None else []
    return " ".join(said)


def _table(other: str, rows: Sequence[ComparedMetric]) -> Table:
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


def _figure(other: str, rows: Sequence[ComparedMetric]) -> Figure:
    """Draw the ratios, a row for each operation and a colour for each delay."""
    what = f"time of oscope-fs over {NAMES[other]}'s"
    drawn = dots(
        f"Time of oscope-fs against {NAMES[other]}",
        what,
        [(delay_text(delay_of(row.factors)), str(row.factors["operation"]), row) for row in rows],
        note="Left of 1 oscope-fs is faster. Ratios with their 95 % intervals.",
    )
    return logarithmic(drawn)

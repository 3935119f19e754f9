"""Where oscope-fs wins over NFS and where NFS does, by how much and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed
from oscope.figures.words import counted, listed
from oscope.labs.curve import NOT_RUN, ratio_text
from oscope.labs.fs import LAB, NFS, OSCOPE, SSHFS
from oscope.labs.fs.points import NAMES, Shown, cautioned, delay_of, delay_text, inverse_text, place_text
from oscope.labs.fs.trips import why
from oscope.labs.transfer.points import missing, verdict
from oscope.model.document import Figure, Section, Table
from oscope.model.units import format_duration
from oscope.statistics import ComparedMetric

TITLE = "Where oscope-fs wins, and where NFS does"
NAME = "fs.compare"
HOW_TO = "It needs a guest, whose kernel serves NFS: `oscope kernel build`, then `oscope run fs.compare`."
OTHERS = (NFS, SSHFS)


def section(results: Analysed) -> Section | None:
    """Answer A6: the scenario in which each wins, with verdicts over blocks."""
    experiment = results.get(NAME)
    if experiment is None:
        if not any(results.get(each.name) for each in LAB.experiments):
            return None
        return Section(TITLE, "", missing=f"{NOT_RUN.format(NAME, NAME)}. {HOW_TO}")
    shown = Shown.of(experiment)
    rows = {other: found for other in OTHERS if (found := shown.against(other, OSCOPE))}
    if not rows:
        return Section(TITLE, "", missing=missing(experiment) or f"Neither NFS nor sshfs has times. {HOW_TO}")
    answer = " ".join([*_answer(rows.get(NFS, [])), *_over_sshfs(rows.get(SSHFS, []))])
    return Section(
        title=TITLE,
        answer=cautioned(answer, experiment),
        text=[*_causes(shown, rows.get(NFS, [])), *shown.told],
        tables=[_table(other, found) for other, found in rows.items()],
        figures=[_figure(other, found) for other, found in rows.items()],
        missing=missing(experiment),
    )


def extremes(rows: Sequence[ComparedMetric]) -> tuple[ComparedMetric | None, ComparedMetric | None]:
    """Return where oscope-fs wins most and where the other does, of the rows that are found different."""
    apart = [row for row in rows if row.different == "yes" and np.isfinite(row.ratio)]
    faster = min((row for row in apart if row.ratio < 1), key=lambda row: row.ratio, default=None)
    slower = max((row for row in apart if row.ratio > 1), key=lambda row: row.ratio, default=None)
    return faster, slower


def _answer(rows: Sequence[ComparedMetric]) -> list[str]:
    """Name the two scenarios, and count all others."""
    if not rows:
        return []
    faster, slower = extremes(rows)
    said = []
    if faster is None:
        said.append("Nowhere was oscope-fs found faster than NFS.")
    else:
        more = f"NFS takes {inverse_text(faster)} times as long"
        said.append(f"oscope-fs wins most over NFS at {place_text(faster.factors)}: {more}.")
    if slower is None:
        said.append("Nowhere was NFS found faster than oscope-fs.")
    else:
        more = f"oscope-fs takes {ratio_text(slower)} times as long"
        said.append(f"NFS wins most at {place_text(slower.factors)}: {more}.")
    return [*said, f"In all, {_counts(rows, 'NFS')}"]


def _counts(rows: Sequence[ComparedMetric], other: str) -> str:
    """Say of all pairs of operation and delay who is found faster, and at how many nobody is."""
    apart = [row for row in rows if row.different == "yes"]
    faster = sum(row.ratio < 1 for row in apart)
    same = sum(row.different == "no" for row in rows)
    parts = [f"oscope-fs is found faster at {faster}", f"{other} at {len(apart) - faster}"]
    parts += [f"there is no difference at {same}"] if same else []
    unknown = len(rows) - len(apart) - same
    parts += [f"it cannot be told at {unknown}"] if unknown else []
    return f"of {counted(len(rows), 'pair')} of operation and delay {listed(parts)}."


def _over_sshfs(rows: Sequence[ComparedMetric]) -> list[str]:
    if not rows:
        return []
    faster, slower = extremes(rows)
    said = [f"Against sshfs: {_counts(rows, 'sshfs')}"]
    if faster is not None:
        said.append(
            f"Most at {place_text(faster.factors)}: sshfs takes {inverse_text(faster)} times as long."
        )
    if slower is not None:
        more = f"oscope-fs takes {ratio_text(slower)} times as long"
        said.append(f"sshfs wins most at {place_text(slower.factors)}: {more}.")
    return said


def _causes(shown: Shown, rows: Sequence[ComparedMetric]) -> list[str]:
    """Say what both moved and waited for in the two scenarios."""
    told = []
    for row in filter(None, extremes(rows)):
        cause = why(shown, str(row.factors["operation"]), delay_of(row.factors), (OSCOPE, NFS))
        told += [f"Why, at {cause}"] if cause else []
    return told


def _table(other: str, rows: Sequence[ComparedMetric]) -> Table:
    lines = [
        [
            str(row.factors["operation"]),
            format_duration(delay_of(row.factors)),
            *verdict(row),
            _faster(row, other),
        ]
        for row in rows
    ]
    columns = [
        "operation",
        "delay, one way",
        f"time of oscope-fs / {NAMES[other]}'s (95 %)",
        "different",
        "matters",
        "faster",
    ]
    note = "Paired by block, p corrected (Holm) for all rows. Below 1 oscope-fs is faster."
    return Table(f"oscope-fs against {NAMES[other]}", columns, lines, frozenset(), note)


def _faster(row: ComparedMetric, other: str) -> str:
    if row.different != "yes":
        return "neither" if row.different == "no" else "cannot tell"
    return NAMES[OSCOPE] if row.ratio < 1 else NAMES[other]


def _figure(other: str, rows: Sequence[ComparedMetric]) -> Figure:
    """Draw the ratios, a row for each operation and a colour for each delay."""
    series: dict[str, list[plots.Dot]] = {}
    for row in rows:
        if np.isfinite(row.ratio):
            interval = row.ci95 if np.isfinite(row.ci95).all() and row.ci95[0] > 0 else None
            dot = plots.Dot(str(row.factors["operation"]), row.ratio, interval, np.zeros(0))
            series.setdefault(delay_text(delay_of(row.factors)), []).append(dot)
    what = f"time of oscope-fs over {NAMES[other]}'s"
    note = "Left of 1 oscope-fs is faster. Ratios with their 95 % intervals."
    drawn = plots.dots(f"Time of oscope-fs against {NAMES[other]}", what, series, note)
    return replace(drawn, layout={**drawn.layout, "xaxis": plots.axis(what, scale="log")})

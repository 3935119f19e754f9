"""Beside the local file system, without delay: what the way over user space and the network costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from oscope.figures.analysed import Analysed
from oscope.labs.engine.drawing import dots
from oscope.labs.engine.table import Column, TableOf, ratio, text
from oscope.labs.engine.words import reasons, times
from oscope.labs.fs import LOCAL, OSCOPE, SSHFS
from oscope.labs.fs.points import NAMES, Shown, delay_of
from oscope.labs.fs.times import mounted
from oscope.model.document import Figure, Section, Table
from oscope.model.samples import ExperimentResults
from oscope.statistics import ComparedMetric

EXPERIMENTS = ("fs.here", "fs.compare")
BASES = (LOCAL, SSHFS)
"""What oscope-fs is compared with here."""


def sections(results: Analysed) -> list[Section]:
    """Return the comparison on this machine and that in the guest, as far as they were measured."""
    made = [_section(shown) for name in EXPERIMENTS if (shown := Shown.of(results, name)) is not None]
    return [section for section in made if section is not None]


def title(experiment: ExperimentResults) -> str:
    """Name the place: each has a kernel of its own."""
    where = "in a guest" if "guest" in experiment.environment else "on this machine"
    return f"Beside the local file system, {where} ({experiment.experiment})"


def _section(shown: Shown) -> Section | None:
    rows = {base: _without_delay(shown.against(base, OSCOPE)) for base in BASES}
    own = shown.experiment.experiment == EXPERIMENTS[0]
    missing = reasons(shown.experiment) if own else ""
    if not rows[LOCAL]:
        return Section(title(shown.experiment), "", missing=missing) if missing else None
    return Section(
        title=title(shown.experiment),
        answer=_headline(rows[LOCAL]),
        text=[
            (
                "Client, server and ssh share this machine's processors. With FUSE passthrough (Linux 6.9) "
                "reads and writes of an open file go past oscope-fs; the notes say whether the kernel has it."
            ),
            *shown.notes,
        ],
        tables=[_table(shown, rows), *(mounted(shown) if own else [])],
        figures=[_figure(shown)],
        missing=missing,
    )


def _without_delay(rows: Sequence[ComparedMetric]) -> list[ComparedMetric]:
    return [row for row in rows if delay_of(row.factors) == 0]


def _headline(rows: Sequence[ComparedMetric]) -> str:
    """Name where oscope-fs comes nearest to the local file system, and where it is furthest from it."""
    slower = sorted((r for r in rows if np.isfinite(r.ratio) and r.different == "yes"), key=lambda r: r.ratio)
    if not slower:
        return "oscope-fs was not found different from the local file system."
    least, most = slower[0], slower[-1]
    text = f"oscope-fs takes {times(least)} as long as the local file system at {least.factors['operation']}"
    return f"{text}." if most is least else f"{text}, {times(most)} at {most.factors['operation']}."


def _table(shown: Shown, rows: Mapping[str, Sequence[ComparedMetric]]) -> Table:
    def over(base: str) -> Column[tuple[str, float]]:
        found = {row.factors["operation"]: row for row in rows[base]}
        return ratio(f"oscope-fs / {NAMES[base]}", lambda row: found.get(row[0]), "different")

    table: TableOf[tuple[str, float]] = TableOf(
        f"Time without delay ({shown.experiment.experiment})",
        (text("operation", lambda row: row[0]), *shown.times(), *(over(base) for base in BASES)),
        "Medians with their 95 % intervals. Ratios paired by block, p corrected (Holm).",
    )
    return table.of((operation, 0.0) for operation in shown.operations)


def _figure(shown: Shown) -> Figure:
    rows = [
        (NAMES[system], operation, one)
        for system in shown.systems
        for operation in shown.operations
        if (one := shown.summary(system, operation, 0.0)) is not None
    ]
    return dots(f"Time without delay ({shown.experiment.experiment})", "time", rows, shown.unit)

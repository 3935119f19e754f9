"""Beside the local file system, without delay: what the way over user space and the network costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oscope.labs.engine.drawing import dots
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import Column, TableOf, ratio, text
from oscope.labs.engine.words import reasons, times
from oscope.labs.fs import LOCAL, OSCOPE, SSHFS
from oscope.labs.fs.points import NAMES, Shown, delay_of, notes
from oscope.labs.fs.times import mounted
from oscope.model.document import Figure, Table
from oscope.statistics import ComparedMetric

BASES = (LOCAL, SSHFS)
"""What oscope-fs is compared with here."""


def _title(run: Run) -> str:
    """Name the place: each has a kernel of its own."""
    where = "in a guest" if "guest" in run.experiment.environment else "on this machine"
    return f"Beside the local file system, {where} ({run.experiment.experiment})"


def _over(run: Run, base: str) -> list[ComparedMetric]:
    """Return the time of oscope-fs over that of another system, without delay."""
    return [row for row in Shown.of(run).against(base, OSCOPE) if delay_of(row.factors) == 0]


def _headline(_: Run, rows: Sequence[ComparedMetric]) -> str:
    """Name where oscope-fs comes nearest to the local file system, and where it is furthest from it."""
    slower = sorted((r for r in rows if np.isfinite(r.ratio) and r.different == "yes"), key=lambda r: r.ratio)
    if not slower:
        return "oscope-fs was not found different from the local file system."
    least, most = slower[0], slower[-1]
    text = f"oscope-fs takes {times(least)} as long as the local file system at {least.factors['operation']}"
    return f"{text}." if most is least else f"{text}, {times(most)} at {most.factors['operation']}."


def _table(run: Run, _: object) -> Table:
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


def _figure(run: Run, _: object) -> Figure:
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
        headline=_headline,
        text=(
            (
                "Client, server and ssh share this machine's processors. With FUSE passthrough (Linux 6.9) "
                "reads and writes of an open file go past oscope-fs; the notes say whether the kernel has it."
            ),
            notes,
        ),
        tables=(_table, lambda run, _: mounted(run, _) if own else None),
        figures=_figure,
        missing=lambda run: reasons(run.experiment) if own else "",
    )


sections = (_question("fs.here", own=True), _question("fs.compare", own=False))

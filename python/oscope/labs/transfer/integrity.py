"""How many files were compared with their sources, and that all were equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oscope.figures.analysed import Analysed
from oscope.figures.words import counted
from oscope.labs.engine.table import TableOf, count, text
from oscope.labs.transfer import LAB
from oscope.model.document import Section
from oscope.model.samples import ExperimentResults

TITLE = "Every file is equal to its source"


@dataclass(frozen=True)
class Checked:
    """What was checked in one experiment."""

    name: str
    how: str
    transfers: int
    files: int
    failed: Counter[str]
    """By reason."""


def section(results: Analysed) -> Section | None:
    """Answer D6 for every experiment of the lab that was run."""
    experiments = [found for each in LAB.experiments if (found := results.get(each.name)) is not None]
    rows = [_checked(each) for each in experiments]
    rows = [row for row in rows if row.transfers]
    if not rows:
        return None
    return Section(
        title=TITLE,
        answer=_answer(rows),
        text=[
            (
                "Each received file is read again after the clock has stopped. A transfer that fails this is "
                "a failed sample and never a time."
            )
        ],
        tables=[TABLE.of(rows)],
    )


def _checked(experiment: ExperimentResults) -> Checked:
    transfers = files = 0
    failed: Counter[str] = Counter()
    for point in experiment.points:
        whole = np.ones(len(point), dtype=bool)
        for index, reason in point.failed:
            whole[index] = False
            failed[reason] += 1
        transfers += len(point)
        files += int(whole.sum()) * int(point.factors.get("files", 1))
    how = "sha512" if experiment.workload == "transfer.device" else "byte by byte"
    return Checked(experiment.experiment, how, transfers, files, failed)


def _answer(rows: Sequence[Checked]) -> str:
    files, transfers = sum(row.files for row in rows), sum(row.transfers for row in rows)
    failed = sum(row.failed.total() for row in rows)
    text = f"{counted(files, 'file')} of {counted(transfers - failed, 'transfer')} arrived equal to their "
    text += "sources"
    if not failed:
        return f"All {text}."
    return f"{text}; {counted(failed, 'transfer')} failed, and no time of theirs is used."


TABLE: TableOf[Checked] = TableOf(
    "Files compared with their sources",
    (
        text("experiment", lambda row: row.name),
        text("compared", lambda row: row.how),
        count("transfers", lambda row: row.transfers),
        count("files equal", lambda row: row.files),
        count("failed", lambda row: row.failed.total()),
        text("why", lambda row: "; ".join(f"{why} ({n})" for why, n in row.failed.most_common()) or "none"),
    ),
)

"""How many files were compared with their sources, and that all were equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oscope.figures.analysed import Analysed
from oscope.figures.words import counted
from oscope.labs.transfer import LAB
from oscope.model.document import Section, Table
from oscope.model.formatting import format_count
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
                "Each received file is read again after the clock has stopped and held against its source: "
                "by transfer.copy byte by byte, with its mode and time of modification, by transfer.device "
                "by sha512. A transfer that fails this, or anything else, is a failed sample "
                "and never a time."
            )
        ],
        tables=[_table(rows)],
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
    return f"{text}; {counted(failed, 'transfer')} failed, of which no time is used."


def _table(rows: Sequence[Checked]) -> Table:
    lines = []
    for row in rows:
        reasons = "; ".join(f"{reason} ({count})" for reason, count in row.failed.most_common())
        failed = row.failed.total()
        counts = [format_count(each) for each in (row.transfers, row.files, failed)]
        lines.append([row.name, row.how, *counts, reasons or "none"])
    columns = ["experiment", "compared", "transfers", "files equal", "failed", "why"]
    return Table("Files compared with their sources", columns, lines, frozenset({2, 3, 4}))

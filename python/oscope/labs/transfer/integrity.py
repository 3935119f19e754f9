"""How many files were compared with their sources, and that all were equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from oscope.figures.words import counted
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, count, text
from oscope.labs.transfer import LAB
from oscope.model.samples import ExperimentResults

NAMES = tuple(each.name for each in LAB.experiments)


def _checked(run: Run) -> list[ExperimentResults]:
    """Return every experiment of the lab that was run."""
    found = [each.experiment for name in NAMES if (each := run.beside(name)) is not None]
    return [each for each in found if _transfers(each)]


def _transfers(experiment: ExperimentResults) -> int:
    return sum(len(point) for point in experiment.points)


def _failed(experiment: ExperimentResults) -> Counter[str]:
    """Return how many transfers failed, by reason."""
    return Counter(reason for point in experiment.points for _, reason in point.failed)


def _files(experiment: ExperimentResults) -> int:
    """Return how many files arrived equal to their sources."""
    return sum(
        (len(point) - len({index for index, _ in point.failed})) * int(point.factors.get("files", 1))
        for point in experiment.points
    )


def _how(experiment: ExperimentResults) -> str:
    return "sha512" if experiment.workload == "transfer.device" else "byte by byte"


def _headline(_: Run, rows: Sequence[ExperimentResults]) -> str:
    files, transfers = sum(map(_files, rows)), sum(map(_transfers, rows))
    failed = sum(_failed(row).total() for row in rows)
    text = f"{counted(files, 'file')} of {counted(transfers - failed, 'transfer')} arrived equal to their "
    text += "sources"
    if not failed:
        return f"All {text}."
    return f"{text}; {counted(failed, 'transfer')} failed, and no time of theirs is used."


def _why(experiment: ExperimentResults) -> str:
    return "; ".join(f"{why} ({n})" for why, n in _failed(experiment).most_common()) or "none"


section = Question(
    title="Every file is equal to its source",
    experiment=NAMES,
    rows=_checked,
    headline=_headline,
    text=(
        "Each received file is read again after the clock has stopped. A transfer that fails this is a "
        "failed sample and never a time."
    ),
    tables=(
        TableOf(
            "Files compared with their sources",
            (
                text("experiment", lambda row: row.experiment),
                text("compared", _how),
                count("transfers", _transfers),
                count("files equal", _files),
                count("failed", lambda row: _failed(row).total()),
                text("why", _why),
            ),
        )
    ),
    missing=lambda _: "",
)

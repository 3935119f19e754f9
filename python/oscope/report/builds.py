"""The comparison of runs that were measured interleaved, such as two builds, as sections of a report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from oscope.model.document import Section
from oscope.model.errors import UsageError
from oscope.model.samples import ExperimentResults, Results
from oscope.report.comparison import comparison_table, differences, each_quantity_once, intervals
from oscope.report.comparison_verdict import verdict
from oscope.statistics import compare_results
from oscope.statistics.compare import THRESHOLD
from oscope.statistics.machines import labels


def compared(results: Results, threshold: float = THRESHOLD) -> list[Section]:
    """Return a section for each experiment of interleaved runs: B, measured second, against A.

    Kernels in guests have no section: their verdict needs the third side that `oscope kernel ab` measures.
    """
    return [_section(a, b, threshold) for a, b in _pairs(results)]


def _pairs(results: Results) -> Iterator[tuple[ExperimentResults, ExperimentResults]]:
    by_run = {(each.run_id, each.experiment): each for each in results.experiments}
    for first in by_run.values():
        runs = list(first.settings.get("interleaved") or ())
        if len(runs) == 2 and runs[0] == first.run_id and not first.environment.get("guest"):
            other = by_run.get((runs[1], first.experiment))
            if other is not None:
                yield first, other


def _section(a: ExperimentResults, b: ExperimentResults, threshold: float) -> Section:
    title = f"{a.title or a.experiment}: B against A"
    names = "A is run {}; B is run {}. Their blocks were interleaved.".format(*labels(a, b))
    try:
        found = compare_results(a, b, threshold=threshold)
    except UsageError as error:
        return Section(title, "", (names,), missing=str(error))
    once, _ = each_quantity_once(a, found)
    known = intervals(a, b, once)
    answer, table = verdict(once, a), comparison_table(a, once, known)
    # The answer stands above; a page shows a note as one paragraph.
    note = ". ".join(line for line in table.note.splitlines() if line != answer)
    return Section(title, answer, (names, *differences(a, once, known)), (replace(table, note=note),))

"""Why the counts are what they are: the loop's formula, what was counted, and the document's counters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oscope.digits import format_count, format_share
from oscope.labs.curve import unmeasured
from oscope.labs.memory import reference
from oscope.labs.memory.sides import number, sets, shown
from oscope.labs.words import counted
from oscope.report.analysis import Analysed, measured
from oscope.report.document import Section, Table
from oscope.samples import ExperimentResults, PointSamples

TITLE = "How many accesses there are"
WALKS, LINES, WRITTEN = 16, 512, 8
KINDS = ("accesses", "reads", "writes")
HARDWARE = {"reads": "l1d_read_access", "writes": "l1d_write_access"}
STATE_WORDS = 4
"""Words of the random generator's state: each number drawn loads and stores all of them."""


def formula(count: int) -> dict[str, int]:
    """Return the accesses that `count` sets make: one in 8 is a write."""
    accesses = count * WALKS * LINES
    return {"accesses": accesses, "reads": accesses - accesses // WRITTEN, "writes": accesses // WRITTEN}


def section(results: Analysed) -> Section | None:
    """Tell formula and counts."""
    experiments = [each for name in ("memory.access", "memory.counters") if (each := results.get(name))]
    found = [
        (experiment, point)
        for experiment in experiments
        for point in shown(experiment)
        if all(len(measured(point, kind)[0]) for kind in KINDS)
    ]
    if not experiments:
        return None
    missing = " ".join(dict.fromkeys(filter(None, map(unmeasured, experiments))))
    if not found:
        return Section(TITLE, "", missing=missing) if missing else None
    return Section(
        title=TITLE,
        answer=_answer([point for _, point in found]),
        text=[_document()],
        tables=[_table(found), *_hardware(found)],
        missing=missing,
    )


def _equal(point: PointSamples) -> bool:
    wanted = formula(sets(point))
    return all(bool(np.all(measured(point, kind)[0] == wanted[kind])) for kind in KINDS)


def _answer(points: Sequence[PointSamples]) -> str:
    wrong = [point for point in points if not _equal(point)]
    start = (
        "Sets x 16 walks x 512 lines, one in 8 written, make "
        f"{format_count(formula(reference.SETS)['accesses'])} accesses for the document's 1 048 576 sets: "
        f"{format_count(formula(reference.SETS)['reads'])} reads and "
        f"{format_count(formula(reference.SETS)['writes'])} writes, 7 to 1."
    )
    if wrong:
        where = f"At {counted(len(wrong), 'point')} of {len(points)}"
        return f"{start} {where} the counts are not those of the formula."
    return f"{start} At each of {counted(len(points), 'point')} the counts are exactly those of the formula."


def _document() -> str:
    """Explain what the document's counters have more than the formula."""
    wanted = formula(reference.SETS)
    reads = reference.PATTERN["seq"]["l1d_read_access"] - wanted["reads"]
    writes = reference.PATTERN["seq"]["l1d_write_access"] - wanted["writes"]
    return (
        f"The document's counters have a little more: {format_count(reads)} reads "
        f"({format_share(reads / wanted['reads'])}) and {format_count(writes)} writes "
        f"({format_share(writes / wanted['writes'])}), which is {reads / reference.SETS:.4f} reads and "
        f"{writes / reference.SETS:.4f} writes a set. A counter sees all of the process between two "
        f"readings: a generator that keeps {STATE_WORDS} words of state in memory would store {STATE_WORDS} "
        "words and load as many each time it is called, once a set, and the loop loads the flag that "
        "chooses the pattern, too; that makes 4 and 5. The remaining reads and their spread are then "
        "interrupts and what surrounds the loop. This is read from the figures; the document does not show "
        "its generator."
    )


def _table(found: Sequence[tuple[ExperimentResults, PointSamples]]) -> Table:
    rows = []
    for experiment, point in found:
        wanted = formula(sets(point))
        counts = [number(float(np.median(measured(point, kind)[0]))) for kind in KINDS]
        rows.append(
            [
                experiment.experiment,
                str(point.factors.get("pattern")),
                str(point.factors.get("footprint")),
                format_count(sets(point)),
                format_count(wanted["accesses"]),
                *counts,
                "yes" if _equal(point) else "no",
            ]
        )
    columns = [
        "experiment",
        "pattern",
        "footprint",
        "sets",
        "formula",
        "accesses",
        "reads",
        "writes",
        "all samples equal",
    ]
    unique = [list(row) for row in dict.fromkeys(map(tuple, rows))]
    return Table("Accesses by the formula and counted", columns, unique, frozenset(range(3, 8)))


def _hardware(found: Sequence[tuple[ExperimentResults, PointSamples]]) -> list[Table]:
    """Hold the counters of the hardware against the formula, where there are any."""
    rows = []
    for experiment, point in found:
        wanted = formula(sets(point))
        for kind, name in HARDWARE.items():
            values = measured(point, name)[0]
            if not len(values):
                continue
            more = float(np.median(values)) - wanted[kind]
            rows.append(
                [
                    experiment.experiment,
                    str(point.factors.get("pattern")),
                    str(point.factors.get("footprint")),
                    kind,
                    number(float(np.median(values))),
                    number(wanted[kind]),
                    f"{more / sets(point):.3f}",
                ]
            )
    columns = ["experiment", "pattern", "footprint", "", "counter", "formula", "more, a set"]
    return (
        [Table("The counters of the CPU beside the formula", columns, rows, frozenset({4, 5, 6}))]
        if rows
        else []
    )

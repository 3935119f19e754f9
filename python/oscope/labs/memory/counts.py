"""Why the counts are what they are: the loop's formula, what was counted, and the document's counters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oscope.figures.analysed import Analysed, measured
from oscope.figures.words import counted
from oscope.labs.curve import unmeasured
from oscope.labs.memory import SET_LINES, WALKS, WRITTEN, reference
from oscope.labs.memory.sides import number, sets, shown
from oscope.model.document import Section, Table
from oscope.model.formatting import MISSING, format_count, format_share
from oscope.model.samples import ExperimentResults, PointSamples

TITLE = "How many accesses there are"
FED = {"reads": "simulated_l1d_read_access", "writes": "simulated_l1d_write_access"}
"""Accesses as the model of the caches counted them."""
HARDWARE = {"reads": "l1d_read_access", "writes": "l1d_write_access"}
STATE_WORDS = 4
"""Words of the random generator's state: each number drawn loads and stores all of them."""


def formula(count: int) -> dict[str, int]:
    """Return the accesses that `count` sets make: one in 8 is a write."""
    accesses = count * WALKS * SET_LINES
    return {"accesses": accesses, "reads": accesses - accesses // WRITTEN, "writes": accesses // WRITTEN}


def section(results: Analysed) -> Section | None:
    """Tell the formula, what was computed by it, and what was counted."""
    experiments = [each for name in ("memory.access", "memory.counters") if (each := results.get(name))]
    found = [
        (experiment, point)
        for experiment in experiments
        for point in shown(experiment)
        if len(measured(point, "accesses")[0])
    ]
    if not experiments:
        return None
    missing = " ".join(dict.fromkeys(filter(None, map(unmeasured, experiments))))
    if not found:
        return Section(TITLE, "", missing=missing) if missing else None
    return Section(
        title=TITLE,
        answer=_answer([point for _, point in found if _fed(point)]),
        text=[_document()],
        tables=[_table(found), *_hardware(found)],
        missing=missing,
    )


def _fed(point: PointSamples) -> bool:
    """Say whether a model was fed with the accesses of this point, and so counted them."""
    return all(len(measured(point, name)[0]) for name in FED.values())


def _equal(point: PointSamples) -> bool:
    wanted = formula(sets(point))
    return all(bool(np.all(measured(point, name)[0] == wanted[kind])) for kind, name in FED.items())


def _answer(fed: Sequence[PointSamples]) -> str:
    wanted = formula(reference.SETS)
    start = (
        f"Sets x {WALKS} walks x {SET_LINES} lines, one in {WRITTEN} written, make "
        f"{format_count(wanted['accesses'])} accesses for the document's {format_count(reference.SETS)} "
        f"sets: {format_count(wanted['reads'])} reads and {format_count(wanted['writes'])} writes, 7 to 1."
    )
    if not fed:
        return f"{start} Here they are computed, not counted: `oscope run memory.counters` counts them."
    wrong = [point for point in fed if not _equal(point)]
    if wrong:
        return (
            f"{start} At {counted(len(wrong), 'point')} of {len(fed)} the model was fed with others than "
            "the formula says."
        )
    return (
        f"{start} The model, which is fed with every access of the loop, counted exactly as many at each of "
        f"{counted(len(fed), 'point')}."
    )


def _document() -> str:
    """Explain what the document's counters have more than the formula."""
    wanted = formula(reference.SETS)
    reads = reference.PATTERN["seq"]["l1d_read_access"].mean - wanted["reads"]
    writes = reference.PATTERN["seq"]["l1d_write_access"].mean - wanted["writes"]
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
        fed = _fed(point)
        counts = [
            number(float(np.median(measured(point, name)[0]))) if fed else MISSING for name in FED.values()
        ]
        rows.append(
            [
                experiment.experiment,
                str(point.factors.get("pattern")),
                str(point.factors.get("footprint")),
                format_count(sets(point)),
                *(format_count(wanted[kind]) for kind in ("accesses", *FED)),
                *counts,
                ("yes" if _equal(point) else "no") if fed else "not counted",
            ]
        )
    columns = [
        "experiment",
        "pattern",
        "footprint",
        "sets",
        "accesses by the formula",
        "reads",
        "writes",
        "reads fed to the model",
        "writes fed to it",
        "equal in all samples",
    ]
    unique = [list(row) for row in dict.fromkeys(map(tuple, rows))]
    note = f"{MISSING}: computed by the formula alone. The document has {format_count(reference.SETS)} sets."
    return Table("Accesses by the formula and counted", columns, unique, frozenset(range(3, 9)), note)


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

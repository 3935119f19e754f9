"""Why the counts are what they are: the loop's formula, what was counted, and the original's counters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oscope.figures.analysed import measured
from oscope.labs.engine.quantity import number as figure
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run, known
from oscope.labs.engine.table import TableOf, count, number, text, written
from oscope.labs.engine.words import joined, reasons
from oscope.labs.memory import SET_LINES, WALKS, WRITTEN, reference
from oscope.labs.memory.access import sets
from oscope.model.document import Table
from oscope.model.formatting import MISSING, format_count, format_share
from oscope.model.samples import ExperimentResults, PointSamples

EXPERIMENTS = ("memory.access", "memory.counters")
FED = {"reads": "simulated_l1d_read_access", "writes": "simulated_l1d_write_access"}
"""Accesses as the model of the caches counted them."""
HARDWARE = {"reads": "l1d_read_access", "writes": "l1d_write_access"}
STATE_WORDS = 4
"""Words of the random generator's state: each number drawn loads and stores all of them."""

Row = tuple[ExperimentResults, PointSamples]


def formula(count: int) -> dict[str, int]:
    """Return the accesses that `count` sets make: one in 8 is a write."""
    accesses = count * WALKS * SET_LINES
    return {"accesses": accesses, "reads": accesses - accesses // WRITTEN, "writes": accesses // WRITTEN}


def _found(run: Run) -> list[Row]:
    runs = [own for name in EXPERIMENTS if (own := run.beside(name)) is not None]
    return [(own.experiment, point) for own in runs for point in known(own.experiment, "accesses")]


def _shown(_: Run, found: Sequence[Row]) -> Table:
    """Show the first of the points that make the same accesses."""
    by_place = {
        (e.experiment, p.factors.get("pattern"), p.factors.get("footprint"), sets(p), _fed(p)): (e, p)
        for e, p in reversed(found)
    }
    return TABLE.of(list(by_place.values())[::-1])


def _fed(point: PointSamples) -> bool:
    """Say whether a model was fed with the accesses of this point, and so counted them."""
    return all(len(measured(point, name)[0]) for name in FED.values())


def _equal(point: PointSamples) -> bool:
    wanted = formula(sets(point))
    return all(bool(np.all(measured(point, name)[0] == wanted[kind])) for kind, name in FED.items())


def _headline(*_: object) -> str:
    wanted = formula(reference.SETS)
    reads, writes = format_count(wanted["reads"]), format_count(wanted["writes"])
    return f"The loop of {format_count(reference.SETS)} sets makes {reads} reads and {writes} writes, 7 to 1."


def _beyond(kind: str) -> float:
    """Return what the original report's counters have more than the formula."""
    return reference.PATTERN["seq"][HARDWARE[kind]].mean - formula(reference.SETS)[kind]


ORIGINAL: TableOf[str] = TableOf(
    "The original report's counters beside the formula",
    (
        text("", lambda kind: kind),
        count("more", _beyond),
        text("share", lambda kind: format_share(_beyond(kind) / formula(reference.SETS)[kind])),
        number("more, a set", lambda kind: _beyond(kind) / reference.SETS, ".4f"),
    ),
    f"Sequential. The formula: sets x {WALKS} walks x {SET_LINES} lines, one in {WRITTEN} written.",
)


def _median(point: PointSamples, name: str) -> float:
    return float(np.median(measured(point, name)[0]))


TABLE: TableOf[Row] = TableOf(
    "Accesses by the formula and counted",
    (
        text("experiment", lambda row: row[0].experiment),
        text("pattern", lambda row: str(row[1].factors.get("pattern"))),
        text("footprint", lambda row: str(row[1].factors.get("footprint"))),
        count("sets", lambda row: sets(row[1])),
        count("accesses by the formula", lambda row: formula(sets(row[1]))["accesses"]),
        count("reads", lambda row: formula(sets(row[1]))["reads"]),
        count("writes", lambda row: formula(sets(row[1]))["writes"]),
        written("reads fed to the model", lambda row: _by_model(row[1], "reads"), figure, numeric=True),
        written("writes fed to it", lambda row: _by_model(row[1], "writes"), figure, numeric=True),
        text("equal in all samples", lambda row: _verdict(row[1])),
    ),
    f"{MISSING}: computed by the formula alone. The original report has {format_count(reference.SETS)} sets.",
)
COUNTED: TableOf[tuple[Row, str]] = TableOf(
    "The counters of the CPU beside the formula",
    (
        text("experiment", lambda row: row[0][0].experiment),
        text("pattern", lambda row: str(row[0][1].factors.get("pattern"))),
        text("footprint", lambda row: str(row[0][1].factors.get("footprint"))),
        text("", lambda row: row[1]),
        written("counter", lambda row: _median(row[0][1], HARDWARE[row[1]]), figure, numeric=True),
        written("formula", lambda row: formula(sets(row[0][1]))[row[1]], figure, numeric=True),
        number("more, a set", lambda row: _more(row[0][1], row[1]), ".3f"),
    ),
)


def _by_model(point: PointSamples, kind: str) -> float | None:
    return _median(point, FED[kind]) if _fed(point) else None


def _verdict(point: PointSamples) -> str:
    return ("yes" if _equal(point) else "no") if _fed(point) else "not counted"


def _more(point: PointSamples, kind: str) -> float:
    return (_median(point, HARDWARE[kind]) - formula(sets(point))[kind]) / sets(point)


section = Question(
    title="How many accesses there are",
    experiment=EXPERIMENTS,
    rows=_found,
    headline=_headline,
    text=(
        "A counter sees all of the process between two readings. The original's more a set, 5 reads and 4 "
        f"writes, fits a generator with {STATE_WORDS} words of state in memory and the flag of the pattern."
    ),
    tables=(
        _shown,
        lambda *_: ORIGINAL.of(HARDWARE),
        lambda _, found: COUNTED.of(
            (each, kind)
            for each in found
            for kind, name in HARDWARE.items()
            if len(measured(each[1], name)[0])
        ),
    ),
    missing=lambda run: joined(
        *(reasons(own.experiment) for name in EXPERIMENTS if (own := run.beside(name)))
    ),
)

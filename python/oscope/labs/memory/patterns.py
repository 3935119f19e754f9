"""Sequential against random access, over each footprint: Figure 2 of the original report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from oscope.labs.engine.contrast import Sides, compared, row_of
from oscope.labs.engine.drawing import STRIPS, by_level, strips
from oscope.labs.engine.question import Question, points
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.words import judged, times
from oscope.labs.memory import FOOTPRINTS, reference
from oscope.labs.memory.access import NEAR, RESOURCES, TICKS, TIME, cite, walked
from oscope.labs.memory.mappings import FAULTS_EACH_PAGE
from oscope.model.document import Figure, Table

ENDS = ("seq", "random")
WORDS = ("sequential", "random")
QUANTITIES = (TIME, *RESOURCES)
ZEROS = (
    "A page that is read first is given the page of zeros, and its first write faults again: random sets "
    "enter a page mostly at a line that is read."
)
FOOTPRINT_WORDS = {"first64th": "the first 1/64 of the buffer", "full": "the whole buffer"}


def _headline(run: Run, found: Sequence[Point]) -> str:
    """Give the ratio over the largest footprint."""
    rows = compared(run.experiment, QUANTITIES, "pattern", ENDS)
    for footprint in reversed(run.levels("footprint", FOOTPRINTS)):
        row = row_of(rows, TIME, footprint=footprint)
        if row is not None:
            where = FOOTPRINT_WORDS[footprint]
            if row.different != "yes":
                return f"Over {where}, a random set takes {judged(row, 'as long as a sequential one')}."
            return f"Over {where}, a random set takes {times(row)} as long as a sequential one."
    (only,) = dict.fromkeys(point.level("pattern") for point in found)
    return f"Only {only} sets were measured: {found[0].value}."


def _zeros(_: Run, found: Sequence[Point]) -> list[str]:
    """Explain more faults than pages, where there are."""
    faults = [(point, each.median) for point in found if (each := point.of(FAULTS_EACH_PAGE)) is not None]
    return [ZEROS] if any(_fresh(point) and each > 1 + NEAR for point, each in faults) else []


def _fresh(point: Point) -> bool:
    """Say whether the walk itself faults in anonymous pages of 4 KiB: others know no page of zeros."""
    fresh = {"mapping": "anonymous", "populate": False, "initialise": "none", "pages": "4K"}
    return all(point.samples.factors.get(name, level) == level for name, level in fresh.items())


def _tables(run: Run, found: Sequence[Point]) -> list[Table]:
    rows = compared(run.experiment, QUANTITIES, "pattern", ENDS)
    tables = []
    for footprint in run.levels("footprint", FOOTPRINTS):
        own = footprint == "first64th"
        here = walked(point for point in found if point.level("footprint") == footprint)
        note = f"{here} {TICKS}{f' {reference.WHERE}' if own else ''}"
        shown = (*QUANTITIES, FAULTS_EACH_PAGE)
        sides = Sides("pattern", ENDS, WORDS, shown, note, partial(cite, reference.PATTERN) if own else None)
        title = f"Sequential and random access over {FOOTPRINT_WORDS[footprint]}"
        tables.append(sides.table(title, run.experiment, rows, footprint=footprint))
    return [table for table in tables if table is not None]


def _figure(_: Run, found: Sequence[Point]) -> Figure:
    return strips(
        "Time of a working set",
        "time",
        found,
        lambda point: f"{point.level('pattern')}, {point.level('footprint')}",
        by_level(found, "pattern"),
        f"{STRIPS} {walked(found)}",
    )


section = Question(
    title="Sequential and random access",
    experiment="memory.access",
    rows=points("set_ns"),
    headline=_headline,
    text=(
        (
            "A working set is 512 lines of 64 B, walked 16 times, every 8th line written. A set's time holds "
            "its share of first touches, which shrinks with more sets."
        ),
        _zeros,
    ),
    tables=(_tables),
    figures=(_figure),
    factors=("pattern", "footprint", "sets"),
)

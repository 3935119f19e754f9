"""What the original report's address arithmetic reaches: 1/64 of the buffer, as calculated and as touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oscope.labs.engine.contrast import Sides, compared
from oscope.labs.engine.quantity import figure, plain
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import TableOf, count, levels, text
from oscope.labs.memory import LINE, PAGE, SET_LINES
from oscope.labs.memory.access import RESIDENT, RESOURCES, TICKS, TIME, sets, walked
from oscope.model.document import Table
from oscope.model.formatting import format_count, format_share

ENDS = ("first64th", "full")
TOUCHED = plain("pages touched", "touched_pages")
QUANTITIES = (TOUCHED, RESIDENT, *RESOURCES[:5], TIME)


@dataclass(frozen=True)
class Reach:
    """What the loop's arithmetic says of a point, in pages."""

    last: int
    """Pages up to the last address that it can form."""
    touched: float
    """Pages that so many sets touch: counted for the sequential pattern, expected for the random one."""
    whole: int
    """Pages of the mapping."""


def reach(pattern: str, footprint: str, size: int, count: int) -> Reach:
    """Return what `count` sets reach in `size` bytes."""
    step = 1 if footprint == "first64th" else LINE
    bases = size // LINE - SET_LINES
    span = (SET_LINES - 1) * LINE + 1
    last = ((bases - 1) * step + span - 1) // PAGE + 1
    if pattern == "seq":
        distinct = -(-bases // SET_LINES)
        low = SET_LINES * step if count < distinct else 0
        high = min(count, distinct - 1) * SET_LINES * step + span - 1
        touched = float(high // PAGE - low // PAGE + 1)
    else:
        # A page is missed by a set unless its base is one of those from which the set reaches the page.
        near = (span - 1 + PAGE) / step
        touched = last * (1 - max(0.0, 1 - near / bases) ** count)
    return Reach(last, touched, size // PAGE)


def _reach(point: Point) -> Reach:
    size = int(point.samples.factors["size"])
    return reach(point.level("pattern"), point.level("footprint"), size, sets(point.samples))


def _headline(_: Run, found: Sequence[Point]) -> str:
    """Say how many of the pages the first point touched."""
    point, whole = found[0], _reach(found[0]).whole
    return (
        f"{figure(point.summary, '')} of {format_count(whole)} pages are touched "
        f"({format_share(point.summary.median / whole)}) with footprint={point.level('footprint')}, "
        f"pattern={point.level('pattern')}."
    )


PAGES: TableOf[Point] = TableOf(
    "Pages touched, counted and by arithmetic",
    (
        *levels("footprint", "pattern"),
        count("sets", lambda point: sets(point.samples)),
        text("pages touched", lambda point: figure(point.summary, "")),
        count("by arithmetic", lambda point: _reach(point).touched),
        count("within reach", lambda point: _reach(point).last),
        count("pages of the mapping", lambda point: _reach(point).whole),
        text("resident memory", lambda point: RESIDENT.text(point.run.experiment, point.samples)),
    ),
    "By arithmetic: what so many sets touch; at random, the expected number. Within reach: up to the last "
    "address that the loop can form. Pages of 4 KiB.",
)


def _tables(run: Run, found: Sequence[Point]) -> list[Table]:
    rows = compared(run.experiment, QUANTITIES, "footprint", ENDS)
    sides = Sides("footprint", ENDS, ENDS, QUANTITIES, f"{walked(found)} {TICKS}")
    patterns = dict.fromkeys(point.level("pattern") for point in found)
    tables = [
        sides.table(f"Both footprints, {pattern}", run.experiment, rows, pattern=pattern)
        for pattern in patterns
    ]
    return [table for table in tables if table is not None]


section = Question(
    title="What the address arithmetic touches",
    experiment="memory.access",
    rows=lambda run: run.points(TOUCHED.key),
    headline=_headline,
    text=(
        "The original report's loop takes `p + base + i * 64`: base counts lines, but is added as bytes, "
        "so that it ends near size / 64. The fix, `p + (base + i) * 64`, multiplies both."
    ),
    tables=(PAGES, _tables),
)

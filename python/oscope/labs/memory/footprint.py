"""What the document's address arithmetic reaches: 1/64 of the buffer, as calculated and as touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oscope.figures.analysed import Analysed
from oscope.labs.curve import unmeasured
from oscope.labs.memory import LINE, PAGE, SET_LINES
from oscope.labs.memory.counters import MISSES, SIMULATED
from oscope.labs.memory.sides import (
    RESOURCES,
    TIME,
    Sides,
    compared,
    figure,
    plain,
    row_of,
    sets,
    shown,
    table,
    told,
    walked,
)
from oscope.model.document import Section, Table
from oscope.model.formatting import MISSING, format_count, format_share
from oscope.model.samples import ExperimentResults, PointSamples

TITLE = "What the address arithmetic touches"
ENDS = ("first64th", "full")
TOUCHED = plain("pages touched", "touched_pages")
RESIDENT = plain("resident memory of the mapping", "resident_kib", "KiB")
QUANTITIES = (TOUCHED, RESIDENT, *RESOURCES[:4], RESOURCES[4], TIME)


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


def section(results: Analysed) -> Section | None:
    """Answer A8."""
    experiment = results.get("memory.access")
    if experiment is None:
        return None
    points = [point for point in shown(experiment) if TOUCHED.summary(experiment, point) is not None]
    missing = unmeasured(experiment)
    if not points:
        return Section(TITLE, "", missing=missing) if missing else None
    rows = compared(experiment, QUANTITIES, "footprint", ENDS)
    sides = Sides("footprint", ENDS, ENDS, QUANTITIES)
    tables = [
        found
        for pattern in dict.fromkeys(str(point.factors.get("pattern")) for point in points)
        if (found := table(f"Both footprints, {pattern}", experiment, rows, sides, pattern=pattern))
    ]
    answer = [_told(experiment, point) for point in points]
    for pattern in dict.fromkeys(str(point.factors.get("pattern")) for point in points):
        row = row_of(rows, TIME, pattern=pattern)
        if row is not None:
            answer.append(
                f"The time of a set of the whole buffer over one of first64th is {told(row)} ({pattern})."
            )
    return Section(
        title=TITLE,
        answer=" ".join(answer),
        text=[_why(), *_misses(results)],
        tables=[_pages(experiment, points), *tables],
        missing=missing,
    )


def _told(experiment: ExperimentResults, point: PointSamples) -> str:
    """Say how many of the pages a point touched."""
    found = TOUCHED.summary(experiment, point)
    limits = _reach(point)
    share = MISSING if found is None else format_share(found.median / limits.whole)
    pages = TOUCHED.text(experiment, point)
    return (
        f"With {point.factors.get('footprint')}, {point.factors.get('pattern')}, {pages} of "
        f"{format_count(limits.whole)} pages are touched ({share})."
    )


def _reach(point: PointSamples) -> Reach:
    factors = point.factors
    return reach(
        str(factors.get("pattern")), str(factors.get("footprint")), int(factors["size"]), sets(point)
    )


def _why() -> str:
    return (
        "The document's loop takes `p + base + i * 64`: base counts lines, but is added as bytes. The last "
        "base is size / 64 - 512, so the last byte lies near size / 64: 16 MiB of 1 GiB. The fix, `p + "
        "(base + i) * 64`, multiplies both. As bytes, two sequential sets also overlap in all but 512 B, "
        "so that a set finds most of its lines where the last one left them."
    )


def _misses(results: Analysed) -> list[str]:
    """Tell the simulated misses of both footprints where they are known."""
    experiment = results.get("memory.counters")
    if experiment is None:
        return []
    told_misses = []
    for quantity in MISSES:
        values = []
        for end in ENDS:
            point = next(
                (each for each in shown(experiment, footprint=end, pattern="random") if _simulated(each)),
                None,
            )
            summary = None if point is None else quantity.summary(experiment, point)
            if summary is not None:
                values.append(f"{figure(summary, '')} ({end})")
        if len(values) == len(ENDS):
            told_misses.append(f"{quantity.name} {' and '.join(values)}")
    return [f"Simulated, for a random set: {'; '.join(told_misses)}."] if told_misses else []


def _simulated(point: PointSamples) -> bool:
    return point.factors.get("counters") in SIMULATED


def _pages(experiment: ExperimentResults, points: Sequence[PointSamples]) -> Table:
    rows = []
    for point in points:
        limits = _reach(point)
        rows.append(
            [
                str(point.factors.get("footprint")),
                str(point.factors.get("pattern")),
                format_count(sets(point)),
                TOUCHED.text(experiment, point),
                format_count(limits.touched),
                format_count(limits.last),
                format_count(limits.whole),
                RESIDENT.text(experiment, point),
            ]
        )
    columns = [
        "footprint",
        "pattern",
        "sets",
        "pages touched",
        "by arithmetic",
        "within reach",
        "pages of the mapping",
        "resident memory",
    ]
    note = (
        "By arithmetic: what so many sets touch; at random, the expected number. Within reach: up to the "
        "last address that the loop can form. Pages of 4 KiB. "
        f"{walked(points)}"
    )
    return Table("Pages touched, counted and by arithmetic", columns, rows, frozenset({2, 4, 5, 6}), note)

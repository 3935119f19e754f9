"""How fast memory is read, written and copied, by one core and by all."""

from __future__ import annotations

from collections.abc import Sequence

from oscope.labs.engine.contrast import compared, row_of
from oscope.labs.engine.curves import RATE, RATE_UNIT
from oscope.labs.engine.drawing import STRIPS, by_level, strips
from oscope.labs.engine.question import Question, points
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import TableOf, level, ratio, stat, text
from oscope.labs.engine.words import value
from oscope.statistics import ComparedMetric

ONE, ALL = 1, 0
KNOWN = ("operation", "threads", "window")


def _headline(_: Run, found: Sequence[Point]) -> str:
    """Give the first operation, by one core and by all."""
    first = found[0].level("operation")
    own = [each for each in found if each.level("operation") == first and not _window(each)]
    words = {ONE: "one core", ALL: "all cores"}
    parts = [
        f"{value(each.summary, RATE_UNIT)} by {words.get(threads, f'{threads} threads')}"
        for each in own[:2]
        for threads in [int(each.samples.factors.get("threads", ONE))]
    ]
    return f"Memory: {first} {', '.join(parts)}." if parts else f"Memory: {first} {found[0].value}."


def _window(point: Point) -> int:
    return int(point.samples.factors.get("window", 0))


def _over_one(point: Point) -> ComparedMetric | None:
    """Return how all cores compare with one."""
    if point.samples.factors.get("threads") != ALL:
        return None
    rows = compared(point.run.experiment, [RATE], "threads", (ONE, ALL))
    return row_of(rows, RATE, operation=point.level("operation"), window=_window(point))


def _window_text(point: Point) -> str:
    if point.level("operation") != "copy":
        return ""
    return point.label(("window",)) if _window(point) else "as large as the memory"


section = Question(
    title="Bandwidth",
    experiment="memory.bandwidth",
    rows=points(RATE),
    headline=_headline,
    text=(
        "Bytes are counted once, though a copy reads and writes, and an ordinary store reads its line "
        "first. A window is the buffer into which a copy goes again and again."
    ),
    tables=(
        TableOf(
            "Reading, writing and copying memory",
            (
                level("operation"),
                text(
                    "cores", lambda point: "all" if point.level("threads") == "0" else point.level("threads")
                ),
                text("window", _window_text),
                stat("median", lambda point: point.summary, RATE_UNIT),
                ratio("all / one", _over_one),
            ),
            "Medians; the ratio is paired by block, p corrected (Holm) for the operations.",
        )
    ),
    figures=(
        lambda _, found: strips(
            "Throughput of memory",
            "throughput",
            found,
            lambda point: point.name,
            by_level(found, "operation"),
            f"{STRIPS} 0 threads: one for each CPU.",
        )
    ),
    factors=KNOWN,
)

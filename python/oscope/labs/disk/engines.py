"""Ways of reading compared: read, pread, mmap, and past the page cache by O_DIRECT and io_uring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from oscope.labs.engine.curves import RATE, RATE_UNIT, At, Curves, curves_by, ratios, several
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, count, ratio, stat, text
from oscope.labs.engine.words import capital, times, value
from oscope.model.document import Figure, Table
from oscope.statistics import ComparedMetric

PLAIN = "read"
CACHES = ("cold", "warm")


@dataclass(frozen=True)
class Row:
    """One engine at one block size, with the cache in one state."""

    cache: str
    engine: str
    at: At
    over_plain: ComparedMetric | None


def _shared(run: Run, cache: str) -> Curves:
    """Return the engines' curves at the block sizes at which at least two were measured."""
    curves = curves_by(run, RATE, "engine", cache=cache)
    counts = Counter(each.size for found in curves.values() for each in found)
    kept = {name: [each for each in found if counts[each.size] > 1] for name, found in curves.items()}
    return {name: found for name, found in kept.items() if found}


def _rows(run: Run) -> list[Row]:
    rows = []
    for cache in CACHES:
        for name, found in _shared(run, cache).items():
            over = ratios(run, RATE, "engine", (PLAIN, name), cache=cache) if name != PLAIN else {}
            rows += [Row(cache, name, at, over.get(at.size)) for at in found]
    return sorted(rows, key=lambda row: (row.cache, row.at.size))


def _headline(_: Run, rows: Sequence[Row]) -> str:
    """Name the fastest at the largest block size, cold where that was measured."""
    own = [row for row in rows if row.cache == rows[0].cache]
    best = max((r for r in own if r.at.size == own[-1].at.size), key=lambda row: row.at.summary.median)
    text = f"{capital(best.cache)}, {best.engine} is the fastest by blocks of {best.at.name}"
    return f"{text}: {value(best.at.summary, RATE_UNIT)}{_beside(best)}."


def _beside(best: Row) -> str:
    """Say how the fastest engine compares with plain reading."""
    row = best.over_plain
    copied = ", without copying anything" if best.engine == "mmap" else ""
    if row is None:
        return copied
    if row.different != "yes":
        return f" (no difference from {PLAIN} was found){copied}"
    return f", {times(row)} that of {PLAIN}{copied}"


TABLE: TableOf[Row] = TableOf(
    "Ways of reading, {cache}",
    (
        text("block size", lambda row: row.at.name),
        text("engine", lambda row: row.engine),
        count("n", lambda row: row.at.summary.n),
        stat("median", lambda row: row.at.summary, RATE_UNIT),
        ratio(f"times {PLAIN}", lambda row: row.over_plain),
    ),
    "The factor is paired by block.",
)


def _tables(_: Run, rows: Sequence[Row]) -> list[Table]:
    return [TABLE.of((row for row in rows if row.cache == cache), cache=cache) for cache in CACHES]


def _figures(run: Run, _: Sequence[Row]) -> list[Figure]:
    return [
        figure
        for cache in CACHES
        for figure in several(f"Speed by way of reading, {cache}", _shared(run, cache), RATE_UNIT)
    ]


section = Question(
    title="Ways of reading",
    experiment="disk.read",
    rows=_rows,
    headline=_headline,
    text=(
        "`mmap` looks at one byte of each page and copies nothing. `direct` (O_DIRECT) and `uring` (the "
        "same, many blocks in flight) go past the page cache: no copy, but no read-ahead either."
    ),
    tables=(_tables),
    figures=(_figures),
    factors=("cache", "engine", "block_size"),
)

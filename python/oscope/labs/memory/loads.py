"""Loads, streams and faults: levels of caches and TLBs, bandwidth, and what a page fault costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from oscope.labs.engine.contrast import beside, compared, row_of
from oscope.labs.engine.curves import RATE, RATE_UNIT, At, at, over_sizes, sizes_of
from oscope.labs.engine.drawing import STRIPS, by_level, strips
from oscope.labs.engine.quantity import Quantity, figure, plain
from oscope.labs.engine.question import Question, points
from oscope.labs.engine.run import Point, Run, first
from oscope.labs.engine.table import TableOf, count, level, ratio, stat, text, written
from oscope.labs.engine.table import value as value_of
from oscope.labs.engine.words import bytes_text, value
from oscope.labs.memory import LINE, PAGE
from oscope.labs.memory.levels import Levels, levels
from oscope.model.document import Figure, Table
from oscope.model.formatting import format_count, format_share
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric, Summary

# ---- the time of a dependent load, and the levels that its curve shows

METRIC = "time_ns"
LOAD = plain("time of a load", METRIC, "ns")
CYCLES = plain("cycles of a load", "cycles")
ORDER = "random"
SLOWER = 1.1
"""From this ratio to huge ones on, base pages cost more."""


class Chase(NamedTuple):
    """The curve of one stride on pages of one size."""

    stride: int
    pages: str
    found: tuple[At, ...]
    levels: Levels

    @property
    def name(self) -> str:
        """Return stride and pages."""
        return f"stride {bytes_text(self.stride)}, {self.pages} pages"


def _chases(run: Run) -> list[Chase]:
    groups: dict[tuple[int, str], dict[int, At]] = {}
    measured = run.points(METRIC)
    orders = {point.samples.factors.get("order", ORDER) for point in measured}
    order = ORDER if ORDER in orders else next(iter(orders), ORDER)
    for point in measured:
        factors = point.samples.factors
        if point.summary.median > 0 and factors.get("order", order) == order:
            key = (int(factors.get("stride", LINE)), str(factors.get("pages", "4K")))
            size = int(factors["size"])
            groups.setdefault(key, {}).setdefault(size, At(size, point.samples, point.summary))
    found = []
    for (stride, pages), by_size in sorted(groups.items()):
        row = tuple(by_size[size] for size in sorted(by_size))
        found.append(Chase(stride, pages, row, levels(row, METRIC)))
    return found


def _best(chases: Sequence[Chase]) -> Chase:
    """Return the curve that shows the caches: the stride of a line, on huge pages where there are."""
    return min(chases, key=lambda each: (each.stride != LINE, each.stride, each.pages != "huge"))


def _levels_said(_: Run, chases: Sequence[Chase]) -> str:
    chosen = _best(chases)
    plateaus = chosen.levels.plateaus
    if not plateaus:
        return f"With {chosen.name} no level of two sizes or more was found."
    if chosen.levels.unseparated and len(plateaus) == 1:
        return f"With {chosen.name} the curve has steps, but the samples do not separate them."
    noun = "1 level was" if len(plateaus) == 1 else f"{len(plateaus)} levels were"
    ends = [value(each.middle.summary, "ns") for each in (plateaus[0], plateaus[-1])]
    return f"With {chosen.name}, {noun} found: a load takes {' to '.join(dict.fromkeys(ends))}."


def _changes(run: Run, chases: Sequence[Chase]) -> list[tuple[str, int, str]]:
    """Return each cache for data that the CPU names, with the change of the curve that is set beside it."""
    chosen, rows = _best(chases), []
    steps = [(first.high, second.low) for first, second in pairwise(chosen.levels.plateaus)]
    for each in (run.experiment.environment.get("cpu") or {}).get("caches") or []:
        if str(each.get("type", "")).lower() not in ("data", "unified") or not each.get("size_bytes"):
            continue
        size = int(each["size_bytes"])
        beside = next((step for step in steps if step[0] <= size <= step[1]), None)
        if beside is not None:
            steps.remove(beside)
            found = f"between {format_bytes(beside[0])} and {format_bytes(beside[1])}"
        elif size < chosen.found[-1].size:
            found = "none of its own"
        else:
            found = f"not reached: the curve ends at {format_bytes(chosen.found[-1].size)}"
        rows.append((f"L{each['level']}", size, found))
    return rows


CACHES: TableOf[tuple[str, int, str]] = TableOf(
    "The caches that the CPU names",
    (
        text("cache", lambda row: row[0]),
        text("size", lambda row: format_bytes(row[1])),
        text("change between levels", lambda row: row[2]),
    ),
    "A change is that between two levels of the curve of a line's stride, on huge pages where there are.",
)


def _paged(chases: Sequence[Chase]) -> list[int]:
    """Return the strides measured on both kinds of pages."""
    kinds = {(each.stride, each.pages) for each in chases}
    return [stride for stride, pages in sorted(kinds) if pages == "4K" and (stride, "huge") in kinds]


def _reach(rows: Sequence[ComparedMetric], stride: int) -> str:
    """Return a note of the size from which on base pages cost more, and of the TLB's entries."""
    sizes = sorted(int(row.factors["size"]) for row in rows if int(row.factors.get("stride", LINE)) == stride)
    slow = [size for size in sizes if _slower(row_of(rows, LOAD, size=size, stride=stride))]
    more = f"4 KiB pages cost {format_share(SLOWER - 1)} more"
    if not slow:
        return f" At no size was it found that {more}."
    below = [size for size in sizes if size < slow[0]]
    reach = ""
    # A smaller stride takes a page for several loads: its sizes are not those that a TLB ends at.
    if below and stride >= PAGE:
        low, high = (format_count(size / PAGE) for size in (below[-1], slow[0]))
        reach = f": the first TLB reaches between {low} and {high} pages"
    return f" From {format_bytes(slow[0])} on {more}{reach}."


def _slower(row: ComparedMetric | None) -> bool:
    return row is not None and row.different == "yes" and row.ratio >= SLOWER


def _unseparated(chases: Sequence[Chase]) -> str:
    """Return a note of what the fit separates, but the samples do not."""
    parts = [
        f"{format_bytes(low)} and {format_bytes(high)} ({each.name})"
        for each in chases
        for low, high in each.levels.unseparated
    ]
    return f" Not separated, so taken as one level: {'; '.join(parts)}." if parts else ""


class Row(NamedTuple):
    """A level of a curve, or a size between two levels."""

    run: Run
    chase: Chase
    found: tuple[At, ...]
    middle: At

    def spread(self) -> str:
        """Return the medians of its sizes."""
        if len(self.found) == 1:
            return "by itself: no level"
        low, high = (end(one.summary.median for one in self.found) for end in (min, max))
        return f"{low:.3g} to {high:.3g}"

    def cycles(self) -> Summary | None:
        """Return the cycles of a load of a level."""
        return self.run.summary(self.middle.point, CYCLES) if len(self.found) > 1 else None


def _rows(run: Run, chases: Sequence[Chase]) -> list[Row]:
    rows = []
    for chase in chases:
        rows += [Row(run, chase, each.found, each.middle) for each in chase.levels.plateaus]
        rows += [Row(run, chase, (one,), one) for one in chase.levels.between]
    return rows


LEVELS: TableOf[Row] = TableOf(
    "Levels found from the curve",
    (
        text("stride", lambda row: bytes_text(row.chase.stride)),
        text("pages", lambda row: row.chase.pages),
        text("from", lambda row: row.found[0].name),
        text("to", lambda row: row.found[-1].name),
        value_of("time of a load (95 %)", lambda row: row.middle.summary, "ns"),
        text("medians of its sizes [ns]", Row.spread),
        written("TSC cycles", Row.cycles, lambda found: f"{found:.3g}"),
    ),
    "The time is that of the size in the middle. TSC cycles are of constant rate, not those of the "
    "core.{unseparated}",
)


def _page_tables(run: Run, chases: Sequence[Chase]) -> list[Table]:
    rows, found = compared(run.experiment, [LOAD], "pages", ("huge", "4K")), []
    for stride in _paged(chases):
        curves = {each.pages: each.found for each in chases if each.stride == stride}
        table: TableOf[int] = TableOf(
            f"Time of a load, stride {bytes_text(stride)}",
            (
                text("size", format_bytes),
                value_of("4 KiB pages", at(curves, "4K"), "ns"),
                value_of("huge pages", at(curves, "huge"), "ns"),
                ratio("4 KiB / huge", _ratio_at(rows, stride), "different"),
            ),
            "Medians with their 95 % intervals; the ratio is paired by block, p corrected "
            f"(Holm).{_reach(rows, stride)}",
        )
        found.append(table.of(sizes_of(curves)))
    return found


def _ratio_at(rows: Sequence[ComparedMetric], stride: int) -> Callable[[int], ComparedMetric | None]:
    return lambda size: row_of(rows, LOAD, size=size, stride=stride)


def _figures(_: Run, chases: Sequence[Chase]) -> list[Figure]:
    figures = []
    for stride in dict.fromkeys(each.stride for each in chases):
        curves = {f"{each.pages} pages": each.found for each in chases if each.stride == stride}
        title = f"Time of a dependent load, stride {bytes_text(stride)}"
        figures.append(over_sizes(title, curves, "ns", name="size"))
    return figures


LATENCY = Question(
    title="Levels of caches and TLBs",
    experiment="memory.latency",
    rows=_chases,
    headline=_levels_said,
    text=(
        (
            "Each load's address is what the one before gave, in an order drawn at random that no prefetcher "
            "follows. A stride of a page and a line shows TLBs."
        ),
        (
            "Levels are the best fit of steps to the logarithm of the time; a step must be clearer than the "
            "best that chance finds when sizes are permuted within each block (Bonferroni)."
        ),
    ),
    tables=(
        lambda run, chases: LEVELS.of(_rows(run, chases), unseparated=_unseparated(chases)),
        lambda run, chases: CACHES.of(_changes(run, chases)),
        _page_tables,
    ),
    figures=_figures,
    factors=("size", "stride", "pages"),
)


# ---- bandwidth, by one core and by all

ONE, ALL = 1, 0
CORES = {ONE: "one core", ALL: "all cores"}


def _streamed(_: Run, found: Sequence[Point]) -> str:
    """Give the first operation, by one core and by all."""
    first = found[0].level("operation")
    own = [each for each in found if each.level("operation") == first and not each.factors.get("window")]
    threads = [int(each.factors.get("threads", ONE)) for each in own]
    parts = [
        f"{value(each.summary, RATE_UNIT)} by {CORES.get(number, f'{number} threads')}"
        for each, number in zip(own[:2], threads, strict=False)
    ]
    return f"Memory: {first} {', '.join(parts) or found[0].value}."


def _over_one(point: Point) -> ComparedMetric | None:
    """Return how all cores compare with one."""
    return beside(point, "threads", ONE) if point.factors.get("threads") == ALL else None


def _window(point: Point) -> str:
    if point.level("operation") != "copy":
        return ""
    return point.label(("window",)) if point.factors.get("window") else "as large as the memory"


BANDWIDTH = Question(
    title="Bandwidth",
    experiment="memory.bandwidth",
    rows=points(RATE),
    headline=_streamed,
    text=(
        "Bytes are counted once, though a copy reads and writes, and an ordinary store reads its line "
        "first. A window is the buffer into which a copy goes again and again."
    ),
    tables=TableOf(
        "Reading, writing and copying memory",
        (
            level("operation"),
            text("cores", lambda each: "all" if each.level("threads") == "0" else each.level("threads")),
            text("window", _window),
            stat("median", lambda point: point.summary, RATE_UNIT),
            ratio("all / one", _over_one),
        ),
        "Medians; the ratio is paired by block, p corrected (Holm) for the operations.",
    ),
    figures=lambda _, found: strips(
        "Throughput of memory",
        "throughput",
        found,
        lambda point: point.name,
        by_level(found, "operation"),
        f"{STRIPS} 0 threads: one for each CPU.",
    ),
    factors=("operation", "threads", "window"),
)

# ---- what a fault costs by its kind, and whether two threads fault twice as fast

FAULT = plain("time of a fault", "time_ns", "ns")
PER_SECOND = plain("faults a second", "faults_per_s", "faults/s")
THREADS = (1, 2)
KIND_WORDS: Mapping[str, str] = {
    "zero-page": "read of anonymous memory: the page of zeros",
    "anonymous": "write to anonymous memory: a new page",
    "file": "read of a file's page that is in the page cache",
    "file-major": "read of a file's page that is on the device only",
    "copy-on-write": "write after fork",
    "huge": "write to a huge page of 2 MiB",
    "swap-in": "access to a page that was swapped out",
}


class Kind(NamedTuple):
    """One kind of fault, by one thread and by two."""

    run: Run
    name: str
    two_over_one: ComparedMetric | None

    def by(self, threads: int, quantity: Quantity) -> str:
        """Return a quantity with so many threads."""
        return quantity.text(self.run.experiment, first(self.run.experiment, kind=self.name, threads=threads))

    def of(self, name: str) -> Summary | None:
        """Return a count of one thread, or of two where that was not measured."""
        points = (first(self.run.experiment, kind=self.name, threads=threads) for threads in THREADS)
        return self.run.summary(next(filter(None, points), None), plain("", name))


def _fewest(run: Run) -> list[Point]:
    """Return the points of the fewest threads that have times, the quickest first."""
    found = sorted(run.points("time_ns"), key=lambda each: each.summary.median)
    threads = min((int(each.factors.get("threads", 1)) for each in found), default=0)
    return [each for each in found if each.factors.get("threads", 1) == threads]


def _kinds(run: Run) -> list[Kind]:
    rows = compared(run.experiment, [PER_SECOND], "threads", THREADS)
    kinds = [each for each in run.levels("kind") if _fewest(run) and first(run.experiment, kind=each)]
    return [Kind(run, kind, row_of(rows, PER_SECOND, kind=kind)) for kind in kinds]


def _quickest(run: Run, _: Sequence[Kind]) -> str:
    own = _fewest(run)
    quick, slow = own[0], own[-1]
    threads = int(quick.factors.get("threads", 1))
    who = "" if threads == 1 else f" by {threads} threads at once"
    text = f"A page fault of kind {quick.level('kind')} takes {quick.value}{who}"
    return f"{text}." if slow is quick else f"{text}; {slow.level('kind')}, the slowest, {slow.value}."


FAULTS = Question(
    title="What a page fault costs by its kind",
    experiment="memory.fault",
    rows=_kinds,
    headline=_quickest,
    text=(
        "A touch is timed with the exception, its handling and the return; getrusage proves one fault a "
        "page. Two threads fault in their own halves of one mapping."
    ),
    tables=TableOf(
        "Faults by kind",
        (
            text("kind", lambda row: row.name),
            text("what it is", lambda row: KIND_WORDS.get(row.name, "")),
            count("faults", lambda row: row.of("faults")),
            text("major", lambda row: None if (n := row.of("major")) is None else figure(n, "")),
            text("time of a fault, 1 thread", lambda row: row.by(1, FAULT)),
            text("faults a second, 1 thread", lambda row: row.by(1, PER_SECOND)),
            text("2 threads", lambda row: row.by(2, PER_SECOND)),
            ratio("2 / 1", lambda row: row.two_over_one, "different"),
        ),
        "Medians with their 95 % intervals; the ratio is paired by block, p corrected (Holm) for all kinds.",
    ),
    figures=lambda run, _: strips(
        "Time of a page fault by kind", "time", _fewest(run), lambda each: each.level("kind")
    ),
    factors=("kind", "threads", "size"),
)

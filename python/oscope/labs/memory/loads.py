"""Loads, streams and faults: levels of caches and TLBs, bandwidth, and what a page fault costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from oscope import questions as q
from oscope.labs.memory import LINE
from oscope.questions.curve_shapes import Levels, Segment, levels

# ---- the time of a dependent load, and the levels that its curve shows

METRIC = "time_ns"
ORDER = "random"
SLOWER = 1.1
"""From this ratio to huge ones on, base pages cost more."""


class Chase(NamedTuple):
    """The curve of one stride on pages of one size."""

    run: q.Run
    stride: int
    pages: str
    found: tuple[q.At, ...]
    levels: Levels

    @property
    def name(self) -> str:
        """Return stride and pages."""
        return f"stride {q.bytes_text(self.stride)}, {self.pages} pages"


def _chases(run: q.Run) -> list[Chase]:
    own = run.only(order=order) if (order := next(iter(run.levels("order", (ORDER,))), "")) else run
    every = (point.factors for point in own.experiment.points)
    found = []
    for stride, pages in sorted({(int(e.get("stride", LINE)), str(e.get("pages", "4K"))) for e in every}):
        at_sizes = q.curve(own.only(stride=stride, pages=pages), METRIC)
        if row := tuple(each for each in at_sizes if each.summary.median > 0):
            found.append(Chase(run, stride, pages, row, levels(row, METRIC)))
    return found


def _best(chases: Sequence[Chase]) -> Chase:
    """Return the curve that shows the caches: the stride of a line, on huge pages where there are."""
    return min(chases, key=lambda each: (each.stride != LINE, each.stride, each.pages != "huge"))


def _levels_text(_: q.Run, chases: Sequence[Chase]) -> str:
    chosen = _best(chases)
    plateaus = chosen.levels.plateaus
    if not plateaus:
        return f"With {chosen.name} no level of two sizes or more was found."
    if chosen.levels.unseparated and len(plateaus) == 1:
        return f"With {chosen.name} the curve has steps, but the samples do not separate them."
    noun = "1 level was" if len(plateaus) == 1 else f"{len(plateaus)} levels were"
    ends = [q.bracketed(each.middle.summary, "ns") for each in (plateaus[0], plateaus[-1])]
    return f"With {chosen.name}, {noun} found: a load takes {' to '.join(dict.fromkeys(ends))}."


def _changes(run: q.Run, chases: Sequence[Chase]) -> list[tuple[str, str, str]]:
    """Return each cache for data that the CPU names, with the change of the curve that is set beside it."""
    chosen, rows = _best(chases), []
    steps = [(first.high, second.found[0].size) for first, second in pairwise(chosen.levels.plateaus)]
    for each in (run.experiment.environment.get("cpu") or {}).get("caches") or []:
        if str(each.get("type", "")).lower() not in ("data", "unified") or not each.get("size_bytes"):
            continue
        size = int(each["size_bytes"])
        beside = next((step for step in steps if step[0] <= size <= step[1]), None)
        if beside is not None:
            steps.remove(beside)
            found = f"between {q.format_bytes(beside[0])} and {q.format_bytes(beside[1])}"
        elif size < chosen.found[-1].size:
            found = "no step of the curve near it"
        else:
            found = f"not reached: the curve ends at {q.format_bytes(chosen.found[-1].size)}"
        rows.append((f"L{each['level']}", q.format_bytes(size), found))
    return rows


CACHES: q.TableOf[tuple[str, str, str]] = q.TableOf(
    "The caches that the CPU names",
    *q.items("cache", "size", "change between levels"),
    note="A change is that between two levels of the curve of a line's stride, on huge pages where there are."
    "",
)


def _reach(rows: Mapping[int, q.ComparedMetric], stride: int) -> str:
    """Return a note of the size from which on base pages cost more, and of the TLB's entries."""
    slow = [size for size, row in rows.items() if row.different == "yes" and row.ratio >= SLOWER]
    more = f"4 KiB pages cost {q.format_share(SLOWER - 1)} more"
    if not slow:
        return f" At no size was it found that {more}."
    start = q.lasting(list(rows), slow.__contains__)
    if start is None:
        return f" It was found only at {q.listed([*map(q.format_bytes, slow)])} that {more}."
    below = [size for size in rows if size < start]
    reach = ""
    # A smaller stride takes a page for several loads: its sizes are not those that a TLB ends at. A size at
    # which base pages may cost so much more is not one that the TLB is known to hold.
    if below and stride >= q.PAGE:
        low, high = (q.format_count(size / q.PAGE) for size in (below[-1], start))
        held = rows[below[-1]].different == "no" or rows[below[-1]].ci95[1] < SLOWER
        reach = f": a TLB level reaches {f'between {low} and {high}' if held else f'fewer than {high}'} pages"
    return f" From {q.format_bytes(start)} on {more}{reach}."


def _unseparated(chases: Sequence[Chase]) -> str:
    """Return a note of what the fit separates, but the samples do not."""
    parts = [
        f"{q.format_bytes(low)} and {q.format_bytes(high)} ({each.name})"
        for each in chases
        for low, high in each.levels.unseparated
    ]
    return f" Not separated, so taken as one level: {'; '.join(parts)}." if parts else ""


Part = tuple[Chase, Segment]
"""A level of a curve, or a size between two levels."""


def _spread(part: Part) -> str:
    """Return the medians of its sizes."""
    low, high = (end(one.summary.median for one in part[1].found) for end in (min, max))
    return f"{low:.3g} to {high:.3g}" if len(part[1].found) > 1 else "by itself: no level"


def _cycles(part: Part) -> q.Summary | None:
    """Return the cycles of a load of a level."""
    chase, segment = part
    return chase.run.summary(segment.middle.point, "cycles") if len(segment.found) > 1 else None


LEVELS: q.TableOf[Part] = q.TableOf(
    "Levels found from the curve",
    q.text("stride", lambda part: q.bytes_text(part[0].stride)),
    q.text("pages", lambda part: part[0].pages),
    q.text("from", lambda part: part[1].found[0].name),
    q.text("to", lambda part: part[1].found[-1].name),
    q.value("time of a load (95 %)", lambda part: part[1].middle.summary, "ns"),
    q.text("medians of its sizes [ns]", _spread),
    q.written("TSC cycles", _cycles, lambda found: f"{found:.3g}"),
    note="The time is that of the size in the middle. TSC cycles are of constant rate.{unseparated}",
)


def _levels(_: q.Run, chases: Sequence[Chase]) -> q.Table:
    parts = ((each, part) for each in chases for part in (*each.levels.plateaus, *each.levels.between))
    return LEVELS.of(parts, unseparated=_unseparated(chases))


def _page_tables(run: q.Run, chases: Sequence[Chase]) -> Iterator[q.Table]:
    every = q.compared(run.experiment, (METRIC,), "pages", ("huge", "4K"))
    for stride, of_stride in q.grouped(chases, lambda each: each.stride).items():
        curves = {each.pages: each.found for each in of_stride}
        own = [row for row in every if row.factors.get("stride", LINE) == stride]
        rows = {int(row.factors["size"]): row for row in sorted(own, key=lambda row: row.factors["size"])}
        if {"4K", "huge"} <= curves.keys():
            yield q.TableOf[int](
                f"Time of a load, stride {q.bytes_text(stride)}",
                q.text("size", q.format_bytes),
                q.value("4 KiB pages", q.at(curves, "4K"), "ns"),
                q.value("huge pages", q.at(curves, "huge"), "ns"),
                q.ratio("4 KiB / huge", rows.get, "different"),
                note="Medians with 95 % intervals; ratio paired by block, p corrected (Holm)."
                f"{_reach(rows, stride)}",
            ).of(q.sizes_of(curves))


def _figures(_: q.Run, chases: Sequence[Chase]) -> Iterator[q.Figure]:
    for stride, own in q.grouped(chases, lambda each: each.stride).items():
        curves = {f"{each.pages} pages": each.found for each in own}
        title = f"Time of a dependent load, stride {q.bytes_text(stride)}"
        yield q.over_sizes(title, curves, "ns", name="size")


LATENCY = q.Question(
    title="Levels of caches and TLBs",
    experiment="memory.latency",
    rows=_chases,
    headline=_levels_text,
    text=(
        "Each load waits for the one before, in random order. A stride of a page and a line shows TLBs.",
        "Levels are steps of the logarithm of time that are clearer than chance (permutations, Bonferroni).",
    ),
    tables=(
        _levels,
        lambda run, chases: CACHES.of(_changes(run, chases)),
        _page_tables,
    ),
    figures=_figures,
    factors=("size", "stride", "pages"),
)


# ---- bandwidth, by one core and by all

ONE, ALL = 1, 0
CORES: Mapping[q.Level, str] = {ONE: "one core", ALL: "all cores"}


def _streamed(_: q.Run, found: Sequence[q.Point]) -> str:
    first = found[0]["operation"]
    own = [each for each in found if each["operation"] == first and not each.factors.get("window")]
    parts = [f"{each.value} by {CORES.get(each.factors.get('threads', ONE), 'threads')}" for each in own[:2]]
    return f"Memory: {first} {', '.join(parts) or found[0].value}."


def _window(point: q.Point) -> str:
    if point.level("operation") != "copy":
        return ""
    return point.label(("window",)) if point.factors.get("window") else "as large as the memory"


BANDWIDTH = q.Question(
    title="Bandwidth",
    experiment="memory.bandwidth",
    rows=q.points(q.RATE),
    headline=_streamed,
    text="Bytes are counted once, also of a copy. A window is the buffer that a copy fills again and again.",
    tables=q.TableOf(
        "Reading, writing and copying memory",
        q.level("operation"),
        q.text("cores", lambda each: "all" if each.level("threads") == "0" else each.level("threads")),
        q.text("window", _window),
        q.stat("median", lambda point: point.summary, q.RATE_UNIT),
        q.ratio("all / one", lambda each: q.beside(each, "threads", ONE, ALL)),
        note="Medians; the ratio is paired by block, p corrected (Holm) for the operations.",
    ),
    figures=q.strips_by(
        *("Throughput of memory", "throughput", "operation", lambda each: each.name),
        f"{q.STRIPS} 0 threads: one for each CPU.",
    ),
    factors=("operation", "threads", "window"),
)

# ---- what a fault costs by its kind, and whether two threads fault twice as fast

FAULT = q.plain("time of a fault", "time_ns", "ns")
PER_SECOND = q.plain("faults a second", "faults_per_s", "faults/s")
KIND_WORDS: Mapping[str, str] = {
    "zero-page": "read of anonymous memory: the page of zeros",
    "anonymous": "write to anonymous memory: a new page",
    "file": "read of a file's page that is in the page cache",
    "file-major": "read of a file's page that is on the device only",
    "copy-on-write": "write after fork",
    "huge": "write to a huge page of 2 MiB",
    "swap-in": "access to a page that was swapped out",
}


def _fewest(run: q.Run) -> list[q.Point]:
    """Return the points of the fewest threads that have times, the quickest first."""
    found = sorted(run.points("time_ns"), key=lambda each: each.summary.median)
    threads = min((int(each.factors.get("threads", 1)) for each in found), default=0)
    return [each for each in found if each.factors.get("threads", 1) == threads]


def _two_over_one(point: q.Point) -> q.ComparedMetric | None:
    two = point.run.point(PER_SECOND.key, kind=point["kind"], threads=2)
    return None if two is None else q.beside(two, "threads", 1)


QUICKEST: Callable[[q.Run, Sequence[q.Point]], str] = q.extremes(
    lambda quick: f"A page fault of kind {quick['kind']} takes {quick.value}",
    lambda slow: f"; {slow['kind']}, the slowest, {slow.value}",
    measured=q.of_point,
)
FAULTS = q.Question(
    title="What a page fault costs by its kind",
    experiment="memory.fault",
    rows=lambda run: [one[0] for one in q.grouped(run.points(FAULT.key), lambda each: each["kind"]).values()],
    headline=lambda run, _: QUICKEST(run, _fewest(run)),
    text="Timed with exception, handling and return. Two threads fault in their own halves of one mapping.",
    tables=q.TableOf(
        "Faults by kind",
        q.level("kind"),
        q.text("what it is", lambda row: KIND_WORDS.get(row["kind"], "")),
        q.count("faults", "faults"),
        q.text("major", lambda row: q.figure_text(row.of("major"), "")),
        q.at_level("time of a fault, 1 thread", FAULT, threads=1),
        q.at_level("faults a second, 1 thread", PER_SECOND, threads=1),
        q.at_level("2 threads", PER_SECOND, threads=2),
        q.ratio("2 / 1", _two_over_one, "different"),
        note="Medians with their 95 % intervals; the ratio is paired by block, p corrected (Holm) for all "
        "kinds.",
    ),
    figures=lambda run, _: q.strips(
        "Time of a page fault by kind", "time", ((each["kind"], each) for each in _fewest(run))
    ),
    factors=("kind", "threads", "size"),
)

"""The time of a dependent load by size, stride and page size, and the levels that its curve shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from oscope.figures.words import listed, median
from oscope.labs.engine.contrast import compared, row_of
from oscope.labs.engine.curves import At, over_sizes
from oscope.labs.engine.quantity import plain
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, ratio, text
from oscope.labs.engine.table import value as value_of
from oscope.labs.engine.words import bytes_text, ratio_text, value
from oscope.labs.memory import LINE, PAGE
from oscope.labs.memory.levels import Levels, Plateau, levels
from oscope.model.document import Figure, Table
from oscope.model.formatting import format_count, format_share
from oscope.model.samples import ExperimentResults
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric, Summary

METRIC = "time_ns"
LOAD = plain("time of a load", METRIC, "ns")
CYCLES = plain("cycles of a load", "cycles")
ORDER = "random"
SLOWER = 1.1
"""Base pages are said to cost more from this ratio to huge ones on."""
TLBS = (
    "What the CPU says of its TLBs is not among what it names beside its caches: it is known only as the "
    'geometry of the model, in the note "simulated: …" of memory.counters. What is found here is set beside '
    "it by the reader."
)
KNOWN = ("size", "stride", "pages")


@dataclass(frozen=True)
class Chase:
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


def _headline(_: Run, chases: Sequence[Chase]) -> str:
    chosen = _best(chases)
    plateaus = chosen.levels.plateaus
    if not plateaus:
        return f"With {chosen.name} no level of two sizes or more was found."
    if chosen.levels.untold and len(plateaus) == 1:
        return f"With {chosen.name} the curve has steps, but the samples do not separate them."
    noun = "1 level was" if len(plateaus) == 1 else f"{len(plateaus)} levels were"
    ends = [value(each.middle.summary, "ns") for each in (plateaus[0], plateaus[-1])]
    return f"With {chosen.name}, {noun} found: a load takes {' to '.join(dict.fromkeys(ends))}."


def _levels_said(_: Run, chases: Sequence[Chase]) -> list[str]:
    plateaus = _best(chases).levels.plateaus
    parts = [f"{median(each.middle.summary, 'ns')} {_span(each)}" for each in plateaus]
    return [f"The levels of {_best(chases).name}: {listed(parts)}."] if parts else []


def _span(plateau: Plateau) -> str:
    return f"from {format_bytes(plateau.low)} to {format_bytes(plateau.high)}"


def _says(experiment: ExperimentResults) -> list[tuple[str, int]]:
    """Return the caches for data that the CPU names, with their sizes."""
    caches: Sequence[Mapping[str, Any]] = (experiment.environment.get("cpu") or {}).get("caches") or []
    return [
        (f"L{each['level']}", int(each["size_bytes"]))
        for each in caches
        if str(each.get("type", "")).lower() in ("data", "unified") and each.get("size_bytes")
    ]


def _caches_said(run: Run, chases: Sequence[Chase]) -> list[str]:
    """Set the changes beside the caches that the CPU names."""
    chosen = _best(chases)
    caches = _says(run.experiment)
    if not caches:
        return ["This CPU does not say what caches it has."]
    plateaus = chosen.levels.plateaus
    said = []
    seen: set[str] = set()
    for first, second in pairwise(plateaus):
        inside = [
            (name, size) for name, size in caches if first.high <= size <= second.low and name not in seen
        ]
        seen.update(name for name, _ in inside)
        where = f"between {format_bytes(first.high)} and {format_bytes(second.low)}"
        known = listed([f"the {name} of {format_bytes(size)}" for name, size in inside])
        said.append(f"{where} lies {known}" if inside else f"{where} lies no cache that the CPU names")
    text = f"Beside what the CPU says: {'; '.join(said)}." if said else ""
    largest = chosen.found[-1].size
    rest = {name: size for name, size in caches if name not in seen}
    unseen, beyond = (
        [f"{name} ({format_bytes(size)})" for name, size in rest.items() if (size < largest) == reached]
        for reached in (True, False)
    )
    if unseen:
        text += f" No change of its own was found for {listed(unseen)}."
    if beyond:
        text += f" Not reached, since the curve ends at {format_bytes(largest)}: {listed(beyond)}."
    return [text.strip()]


def _paged(chases: Sequence[Chase]) -> list[int]:
    """Return the strides measured on both kinds of pages."""
    kinds = {(each.stride, each.pages) for each in chases}
    return [stride for stride, pages in sorted(kinds) if pages == "4K" and (stride, "huge") in kinds]


def _reach_said(run: Run, chases: Sequence[Chase]) -> list[str]:
    """Say up to which size base pages are as fast as huge ones, and what that makes in entries."""
    strides, rows = _paged(chases), _pages_compared(run)
    if not strides:
        return []
    stride = strides[-1]
    sizes = sorted(int(row.factors["size"]) for row in rows if int(row.factors.get("stride", LINE)) == stride)
    slow = [size for size in sizes if _slower(row_of(rows, LOAD, size=size, stride=stride))]
    if not slow:
        more = format_share(SLOWER - 1)
        return [
            f"With a stride of {bytes_text(stride)}, no size was found at which 4 KiB pages cost {more} more."
        ]
    start = slow[0]
    below = [size for size in sizes if size < start]
    text = f"With a stride of {bytes_text(stride)}, 4 KiB pages cost more than huge ones "
    text += f"from {format_bytes(start)} on"
    row = row_of(rows, LOAD, size=start, stride=stride)
    text += f" ({ratio_text(row)} times)"
    if below:
        text += f", at {format_bytes(below[-1])} the two do not differ by {format_share(SLOWER - 1)}"
        if stride >= PAGE:
            # A smaller stride takes a page for several loads: its sizes are not those that a TLB ends at.
            entries = [format_count(size / PAGE) for size in (below[-1], start)]
            text += f": the first TLB reaches between {entries[0]} and {entries[1]} pages of 4 KiB"
    most = max(sizes, key=lambda size: _ratio(row_of(rows, LOAD, size=size, stride=stride)))
    if most != start:
        row = row_of(rows, LOAD, size=most, stride=stride)
        text += f"; most at {format_bytes(most)}, {ratio_text(row)} times"
    return [f"{text}."]


def _ratio(row: ComparedMetric | None) -> float:
    return 0.0 if row is None else row.ratio


def _slower(row: ComparedMetric | None) -> bool:
    return row is not None and row.different == "yes" and row.ratio >= SLOWER


def _untold(_: Run, chases: Sequence[Chase]) -> list[str]:
    """Say what the fit separates, but the samples do not."""
    parts = [
        f"{format_bytes(low)} and {format_bytes(high)} ({each.name})"
        for each in chases
        for low, high in each.levels.untold
    ]
    return [f"Not separated, so taken as one level: {'; '.join(parts)}."] if parts else []


def _pages_compared(run: Run) -> list[ComparedMetric]:
    return compared(run.experiment, [LOAD], "pages", ("huge", "4K"))


@dataclass(frozen=True)
class Row:
    """A level of a curve, or a size between two levels."""

    run: Run
    chase: Chase
    found: tuple[At, ...]
    middle: At

    @property
    def spread(self) -> str:
        """The medians of its sizes."""
        if len(self.found) == 1:
            return "by itself: no level"
        low, high = (end(one.summary.median for one in self.found) for end in (min, max))
        return f"{low:.3g} to {high:.3g}"

    @property
    def cycles(self) -> str | None:
        """Cycles of a load of a level."""
        found = CYCLES.median(self.run.experiment, self.middle.point) if len(self.found) > 1 else None
        return None if found is None else f"{found:.3g}"


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
        text("medians of its sizes [ns]", lambda row: row.spread),
        text("TSC cycles", lambda row: row.cycles),
    ),
    "The time is that of the size in the middle. TSC cycles are of constant rate, not those of the core.",
)


def _page_tables(run: Run, chases: Sequence[Chase]) -> list[Table]:
    rows, found = _pages_compared(run), []
    for stride in _paged(chases):
        by_pages = {each.pages: {o.size: o for o in each.found} for each in chases if each.stride == stride}
        table: TableOf[int] = TableOf(
            f"Time of a load, stride {bytes_text(stride)}",
            (
                text("size", format_bytes),
                value_of("4 KiB pages", _at(by_pages["4K"]), "ns"),
                value_of("huge pages", _at(by_pages["huge"]), "ns"),
                ratio("4 KiB / huge", _ratio_at(rows, stride), "different"),
            ),
            "Medians with their 95 % intervals; the ratio is paired by block, p corrected (Holm).",
        )
        found.append(table.of(sorted(set().union(*by_pages.values()))))
    return found


def _at(found: Mapping[int, At]) -> Callable[[int], Summary | None]:
    return lambda size: None if (one := found.get(size)) is None else one.summary


def _ratio_at(rows: Sequence[ComparedMetric], stride: int) -> Callable[[int], ComparedMetric | None]:
    return lambda size: row_of(rows, LOAD, size=size, stride=stride)


def _figures(_: Run, chases: Sequence[Chase]) -> list[Figure]:
    figures = []
    for stride in dict.fromkeys(each.stride for each in chases):
        curves = {f"{each.pages} pages": each.found for each in chases if each.stride == stride}
        title = f"Time of a dependent load, stride {bytes_text(stride)}"
        figures.append(over_sizes(title, curves, "ns", name="size"))
    return figures


section = Question(
    title="Levels of caches and TLBs",
    experiment="memory.latency",
    rows=_chases,
    headline=_headline,
    text=(
        _levels_said,
        _caches_said,
        _reach_said,
        (
            "Each load's address is what the one before gave, so that none starts before the last has ended; "
            "they go round all slots in an order drawn at random, which no prefetcher follows. A stride of a "
            "page and a line needs another page for each load while it uses few lines: it shows TLBs."
        ),
        (
            "A level is found from the curve alone: neighbouring sizes whose times differ by noise. The cut "
            "between two levels is the best fit of steps to the logarithm of the time, where a further step "
            "must "
            "explain a change of 30 % between two sizes (15 % between three and three), and must be clearer "
            "than "
            "the best step that chance finds when the sizes are permuted within each block (p corrected for "
            "all "
            "steps: Bonferroni). A size between two levels has part of each."
        ),
        TLBS,
        _untold,
    ),
    tables=(lambda run, chases: [LEVELS.of(_rows(run, chases))], _page_tables),
    figures=(_figures,),
    factors=KNOWN,
)

"""The time of a dependent load by size, stride and page size, and the levels that its curve shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from oscope.figures.analysed import Analysed
from oscope.figures.words import listed, median
from oscope.labs.curve import At, bytes_text, narrowing, over_sizes, ratio_text, unmeasured
from oscope.labs.memory import LINE, PAGE
from oscope.labs.memory.levels import Levels, Plateau, levels
from oscope.labs.memory.sides import compared, plain, row_of, shown
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, format_count, format_share
from oscope.model.samples import ExperimentResults
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric

TITLE = "Levels of caches and TLBs"
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
KNOWN = ("size", "stride", "pages", "tracer")


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


def section(results: Analysed) -> Section | None:
    """Tell the levels."""
    experiment = results.get("memory.latency")
    if experiment is None:
        return None
    missing = unmeasured(experiment)
    chases = _chases(results, experiment)
    if not chases:
        return Section(TITLE, "", missing=missing) if missing else None
    rows = compared(experiment, [LOAD], "pages", ("huge", "4K"))
    return Section(
        title=TITLE,
        answer=" ".join(
            [*_levels_told(chases), *_caches_told(experiment, chases), *_reach_told(chases, rows)]
        ),
        text=[
            (
                "Each load's address is what the one before gave, so that none starts before the last has "
                "ended; they go round all slots in an order drawn at random, which no prefetcher follows. "
                "A stride of a page and a line needs another page for each load while it uses few lines: "
                "it shows TLBs."
            ),
            (
                "A level is found from the curve alone: neighbouring sizes whose times differ by noise. "
                "The cut between two levels is the best fit of steps to the logarithm of the time, where a "
                "further step must explain a change of 30 % between two sizes (15 % between three and "
                "three), and must be clearer than the best step that chance finds when the sizes are "
                "permuted within each block (p corrected for all steps: Bonferroni). A size "
                "between two levels has part of each."
            ),
            TLBS,
            *_untold(chases),
            *narrowing(experiment, KNOWN),
        ],
        tables=[_table(experiment, chases), *_page_tables(chases, rows)],
        figures=_figures(chases),
        missing=missing,
    )


def _chases(results: Analysed, experiment: ExperimentResults) -> list[Chase]:
    groups: dict[tuple[int, str], dict[int, At]] = {}
    orders = {point.factors.get("order", ORDER) for point in shown(experiment)}
    order = ORDER if ORDER in orders else next(iter(orders), ORDER)
    for point in shown(experiment):
        summary = results.summary(experiment, point, METRIC)
        if summary is None or summary.median <= 0 or point.factors.get("order", order) != order:
            continue
        key = (int(point.factors.get("stride", LINE)), str(point.factors.get("pages", "4K")))
        size = int(point.factors["size"])
        groups.setdefault(key, {}).setdefault(size, At(size, point, summary))
    found = []
    for (stride, pages), by_size in sorted(groups.items()):
        row = tuple(by_size[size] for size in sorted(by_size))
        found.append(Chase(stride, pages, row, levels(row, METRIC)))
    return found


def _best(chases: Sequence[Chase]) -> Chase:
    """Return the curve that shows the caches: the stride of a line, on huge pages where there are."""
    return min(chases, key=lambda each: (each.stride != LINE, each.stride, each.pages != "huge"))


def _levels_told(chases: Sequence[Chase]) -> list[str]:
    chosen = _best(chases)
    plateaus = chosen.levels.plateaus
    if not plateaus:
        return [f"With {chosen.name} no level of two sizes or more was found."]
    if chosen.levels.untold and len(plateaus) == 1:
        return [f"With {chosen.name} the curve has steps, but the samples do not tell them apart."]
    parts = [f"{median(each.middle.summary, 'ns')} {_span(each)}" for each in plateaus]
    noun = "level was" if len(plateaus) == 1 else "levels were"
    return [f"With {chosen.name}, {len(plateaus)} {noun} found: {listed(parts)}."]


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


def _caches_told(experiment: ExperimentResults, chases: Sequence[Chase]) -> list[str]:
    """Set the changes beside the caches that the CPU names."""
    chosen = _best(chases)
    caches = _says(experiment)
    if not caches:
        return ["This CPU does not say what caches it has."]
    plateaus = chosen.levels.plateaus
    told = []
    seen: set[str] = set()
    for first, second in pairwise(plateaus):
        inside = [
            (name, size) for name, size in caches if first.high <= size <= second.low and name not in seen
        ]
        seen.update(name for name, _ in inside)
        where = f"between {format_bytes(first.high)} and {format_bytes(second.low)}"
        known = listed([f"the {name} of {format_bytes(size)}" for name, size in inside])
        told.append(f"{where} lies {known}" if inside else f"{where} lies no cache that the CPU names")
    text = f"Beside what the CPU says: {'; '.join(told)}." if told else ""
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


def _reach_told(chases: Sequence[Chase], rows: Sequence[ComparedMetric]) -> list[str]:
    """Say up to which size base pages are as fast as huge ones, and what that makes in entries."""
    strides = _paged(chases)
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
        text += f", at {format_bytes(below[-1])} the two are not told apart by {format_share(SLOWER - 1)}"
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


def _untold(chases: Sequence[Chase]) -> list[str]:
    """Say what the fit parts, but the samples do not."""
    parts = [
        f"{format_bytes(low)} and {format_bytes(high)} ({each.name})"
        for each in chases
        for low, high in each.levels.untold
    ]
    return [f"Not told apart, so taken as one level: {'; '.join(parts)}."] if parts else []


def _table(experiment: ExperimentResults, chases: Sequence[Chase]) -> Table:
    rows = []
    for each in chases:
        for plateau in each.levels.plateaus:
            cycles = CYCLES.median(experiment, plateau.middle.point)
            low, high = (end(one.summary.median for one in plateau.found) for end in (min, max))
            rows.append(
                [
                    bytes_text(each.stride),
                    each.pages,
                    format_bytes(plateau.low),
                    format_bytes(plateau.high),
                    median(plateau.middle.summary, "ns"),
                    f"{low:.3g} to {high:.3g}",
                    f"{cycles:.3g}" if cycles is not None else MISSING,
                ]
            )
        for one in each.levels.between:
            rows.append(
                [
                    bytes_text(each.stride),
                    each.pages,
                    format_bytes(one.size),
                    format_bytes(one.size),
                    median(one.summary, "ns"),
                    "by itself: no level",
                    MISSING,
                ]
            )
    columns = [
        "stride",
        "pages",
        "from",
        "to",
        "time of a load (95 %)",
        "medians of its sizes [ns]",
        "TSC cycles",
    ]
    note = (
        "The time is that of the size in the middle. TSC cycles are of constant rate, not those of the core."
    )
    return Table("Levels found from the curve", columns, rows, frozenset(), note)


def _page_tables(chases: Sequence[Chase], rows: Sequence[ComparedMetric]) -> list[Table]:
    found = []
    for stride in _paged(chases):
        by_pages = {
            each.pages: {one.size: one for one in each.found} for each in chases if each.stride == stride
        }
        lines = []
        for size in sorted(set().union(*by_pages.values())):
            base, huge = (by_pages[pages].get(size) for pages in ("4K", "huge"))
            row = row_of(rows, LOAD, size=size, stride=stride)
            lines.append(
                [
                    format_bytes(size),
                    *(MISSING if one is None else median(one.summary, "ns") for one in (base, huge)),
                    ratio_text(row),
                    MISSING if row is None else row.different,
                ]
            )
        columns = ["size", "4 KiB pages", "huge pages", "4 KiB / huge (95 %)", "different"]
        note = "Medians with their 95 % intervals; the ratio is paired by block, p corrected (Holm)."
        found.append(Table(f"Time of a load, stride {bytes_text(stride)}", columns, lines, frozenset(), note))
    return found


def _figures(chases: Sequence[Chase]) -> list[Figure]:
    figures = []
    for stride in dict.fromkeys(each.stride for each in chases):
        curves = {f"{each.pages} pages": each.found for each in chases if each.stride == stride}
        figures.append(
            over_sizes(f"Time of a dependent load, stride {bytes_text(stride)}", curves, "ns", name="size")
        )
    return figures

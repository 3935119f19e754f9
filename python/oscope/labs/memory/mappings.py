"""Mappings of memory and files: faults, resident memory and blocks, Figure 3 of the original report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from oscope.labs.engine.contrast import compared, row_of
from oscope.labs.engine.quantity import Quantity, metric, number, plain
from oscope.labs.engine.question import Question, points
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.words import ratio_text
from oscope.labs.memory import FLUSHED, PAGE, reference
from oscope.labs.memory.access import NEAR, TIME, Derived, cited_table, walked
from oscope.model.document import Table
from oscope.model.formatting import format_share
from oscope.model.samples import Floats, PointSamples
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric

FACTORS = ("mapping", "pattern", "footprint")
BLOCK = 512
"""Bytes of a block that getrusage counts."""
PAGE_BLOCKS = 4096 // BLOCK
INIT_FLUSHES = (
    f"Figures with (init) include the {format_bytes(FLUSHED)} that flush the L1: {number(FLUSHED / PAGE)} "
    f"minor faults, {number(FLUSHED / 1024, 'KiB')} of resident memory, and their time."
)
OUT = plain("blocks written (oublock)", "oublock")
MAJOR = plain("major faults (majflt)", "majflt")


def _each_page(name: str, key: str, factor: float = 1.0) -> Quantity:
    def of(point: PointSamples) -> Floats:
        pages = metric(point, "touched_pages")
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(pages > 0, metric(point, key) / (factor * pages), np.nan)

    return Quantity(name, "", of)


FAULTS_EACH_PAGE = _each_page("minor faults for a page mapped", "minflt")
BLOCKS_EACH_PAGE = _each_page("blocks written for 8 a page mapped", "oublock", PAGE_BLOCKS)
QUANTITIES = (
    plain("maxrss (init)", "init_maxrss_kib", "KiB"),
    plain("inblock (init)", "init_inblock"),
    plain("oublock (init)", "init_oublock"),
    plain("maxrss (fun)", "maxrss_kib", "KiB"),
    plain("inblock (fun)", "inblock"),
    OUT,
    plain("minflt (fun)", "minflt"),
    MAJOR,
    plain("pages mapped", "touched_pages"),
    FAULTS_EACH_PAGE,
    TIME,
)


def _headline(run: Run, found: Sequence[Point]) -> str:
    """Say what the last of the mappings that is charged blocks writes."""
    written = [text for mapping in reversed(run.levels("mapping")) for text in _written(found, mapping)]
    return written[0] if written else ""


def _written(found: Sequence[Point], mapping: str) -> list[str]:
    """Say what a mapping writes, and whether it is 8 blocks for each page mapped."""
    own = [point for point in found if point.level("mapping") == mapping]
    blocks = [each for point in own if (each := point.of(OUT)) is not None]
    if not blocks:
        return []
    if max(each.maximum for each in blocks) == 0:
        return [f"With {mapping} memory the function has no block to write."]
    medians = [each.median for each in blocks]
    span = " to ".join(number(end) for end in dict.fromkeys((min(medians), max(medians))))
    shares = [each.median for point in own if (each := point.of(BLOCKS_EACH_PAGE)) is not None]
    text = f"With {mapping} memory the kernel counts {span} blocks that the function has to write"
    if shares and all(abs(share - 1) <= NEAR for share in shares):
        text += f", 8 for each page mapped (within {format_share(NEAR)})"
    elif shares:
        text += f", {min(shares):.2g} to {max(shares):.2g} times 8 for each page mapped"
    return [f"{text}."]


def _over_anonymous(run: Run) -> Callable[[Point], ComparedMetric | None]:
    """Return how a set of each mapping of a file compares with one of anonymous memory."""
    rows = {
        mapping: compared(run.experiment, [TIME], "mapping", ("anonymous", mapping))
        for mapping in ("private", "shared")
    }

    def of(point: Point) -> ComparedMetric | None:
        rest = {name: point.level(name) for name in ("pattern", "footprint")}
        return row_of(rows.get(point.level("mapping"), ()), TIME, **rest)

    return of


def _table(run: Run, found: Sequence[Point]) -> list[Table]:
    def known(point: Point) -> Mapping[str, reference.Known]:
        own = point.level("footprint") == "first64th"
        return reference.MAPPING.get((point.level("mapping"), point.level("pattern")), {}) if own else {}

    over = _over_anonymous(run)
    note = (
        f"Medians with their 95 % intervals. {INIT_FLUSHES} Pages mapped: those that the page table has "
        f"after the function; a fault on a file maps some of its neighbours with it. {walked(found)} "
        f"{reference.WHERE}"
    )
    rows = [((point.label(FACTORS),), point, known(point)) for point in found]
    derived: Derived = {"time over anonymous (95 %)": lambda point: ratio_text(over(point))}
    title = "Faults, resident memory and blocks by mapping"
    return [cited_table(title, ("mapping",), rows, QUANTITIES, note, derived)]


section = Question(
    title="Mapping a file",
    experiment="memory.mapping",
    rows=points("set_ns"),
    headline=_headline,
    text=(
        (
            "The kernel charges oublock, in blocks of 512 B, when a page of a file becomes dirty, not when "
            "it is written back (`task_io_account_write`): a page that is dirty already costs nothing."
        ),
        (
            f"The original's {reference.FIFTH.mean:g} blocks are a fifth of "
            f"{number(reference.FUNCTION_OUBLOCK)}, 8 for each page: one of its five runs found the pages "
            "clean and was charged for all."
        ),
    ),
    tables=(_table),
    factors=(*FACTORS, "sets", "size"),
)

"""Mappings of memory and files: faults, resident memory and blocks, Figure 3 of the original report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oscope.labs.engine.contrast import compared, row_of
from oscope.labs.engine.quantity import Quantity, metric, number, plain
from oscope.labs.engine.question import Question, points
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.words import judged
from oscope.labs.memory import FLUSHED, FOOTPRINTS, PAGE, PATTERNS, reference
from oscope.labs.memory.access import NEAR, TIME, cited_cells, walked
from oscope.model.document import Table
from oscope.model.formatting import format_share
from oscope.model.samples import Floats, PointSamples
from oscope.model.units import format_bytes

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
        return [f"With {mapping} memory no block is charged to the function."]
    medians = [each.median for each in blocks]
    span = " to ".join(number(end) for end in dict.fromkeys((min(medians), max(medians))))
    shares = [each.median for point in own if (each := point.of(BLOCKS_EACH_PAGE)) is not None]
    text = f"With {mapping} memory the function is charged {span} blocks"
    if shares and all(abs(share - 1) <= NEAR for share in shares):
        text += f", within {format_share(NEAR)} of 8 for each page mapped"
    elif shares:
        text += f", {min(shares):.2g} to {max(shares):.2g} times 8 for each page mapped"
    return [f"{text}."]


def _each(run: Run, found: Sequence[Point]) -> list[str]:
    return [" ".join(text for mapping in run.levels("mapping") for text in _written(found, mapping))]


def _times(run: Run, _: Sequence[Point]) -> list[str]:
    """Compare a set of each mapping of a file with one of anonymous memory."""
    footprints = run.levels("footprint", FOOTPRINTS)
    parts = []
    for mapping in ("private", "shared"):
        rows = compared(run.experiment, [TIME], "mapping", ("anonymous", mapping))
        for footprint in footprints:
            for pattern in PATTERNS:
                row = row_of(rows, TIME, pattern=pattern, footprint=footprint)
                where = [mapping, pattern, *([footprint] if len(footprints) > 1 else [])]
                parts += [f"{', '.join(where)}, {judged(row)}"] if row is not None else []
    return [f"A set takes, against anonymous memory: {'; '.join(parts)}."] if parts else []


def _original(*_: object) -> list[str]:
    """Explain the original report's odd figure by its own arithmetic."""
    cited = reference.FIFTH
    return [
        (
            f"The original report has {cited.mean:g} ± {cited.deviation:g} blocks, both for sequential and "
            "random "
            f"sets. That is {cited.mean / reference.FUNCTION_OUBLOCK:g} of "
            f"{number(reference.FUNCTION_OUBLOCK)}, which are 8 blocks for each of "
            f"{number(reference.FUNCTION_OUBLOCK / PAGE_BLOCKS)} pages, 16 MiB and 32 KiB: one of its five "
            "runs "
            "found the pages clean and was charged for all, the other four found them dirty still and were "
            "charged nothing. The pattern has no part in it, since both touch the same pages."
        )
    ]


def _table(run: Run, found: Sequence[Point]) -> list[Table]:
    rows = []
    for point in found:
        name = point.label(FACTORS)
        cells = [each.text(run.experiment, point.samples) for each in QUANTITIES]
        rows.append([name, "here", *cells])
        cited = reference.MAPPING.get((point.level("mapping"), point.level("pattern")))
        if cited is not None and point.level("footprint") == "first64th":
            rows.append([name, "original report", *cited_cells(cited, QUANTITIES)])
    columns = ["mapping", "measured", *(each.name for each in QUANTITIES)]
    note = (
        f"Medians with their 95 % intervals. {INIT_FLUSHES} Pages mapped: those that the page table has "
        "after the function; a fault on a file maps some of its neighbours with it. "
        f"{walked(found)} {reference.WHERE}"
    )
    return [Table("Faults, resident memory and blocks by mapping", columns, rows, frozenset(), note)]


section = Question(
    title="Mapping a file",
    experiment="memory.mapping",
    rows=points("set_ns"),
    headline=_headline,
    text=(
        _each,
        _times,
        (
            "Initialisation (init) maps and prepares, the function (fun) walks the sets; getrusage separates "
            "them. Writes to a private mapping stay with the process, those to a shared one change the file. "
            "oublock counts blocks of 512 B, and the kernel charges them when a page of a file becomes "
            "dirty, "
            "not when it is written back (`task_io_account_write`): a page that is dirty already costs "
            "nothing."
        ),
        _original,
    ),
    tables=(_table,),
    factors=(*FACTORS, "sets", "size"),
)

"""Anonymous, private and shared mappings: faults, resident memory and blocks, the document's Figure 3."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oscope.figures.analysed import Analysed, label
from oscope.labs.curve import metric, narrowing, unmeasured
from oscope.labs.memory import FLUSHED, FOOTPRINTS, PAGE, PATTERNS, reference
from oscope.labs.memory.sides import TIME, Quantity, compared, number, plain, row_of, shown, told, walked
from oscope.model.document import Section, Table
from oscope.model.formatting import MISSING, format_share
from oscope.model.samples import ExperimentResults, Floats, PointSamples
from oscope.model.units import format_bytes

TITLE = "Mapping a file"
FACTORS = ("mapping", "pattern", "footprint")
KNOWN = (*FACTORS, "sets", "size", "tracer")
BLOCK = 512
"""Bytes of a block that getrusage counts."""
PAGE_BLOCKS = 4096 // BLOCK
INIT_FLUSHES = (
    f"Figures with (init) include the {format_bytes(FLUSHED)} that flush the L1: {number(FLUSHED / PAGE)} "
    f"minor faults, {number(FLUSHED / 1024, 'KiB')} of resident memory, and their time."
)
NEAR = 0.02
"""Share within which a count is said to be what arithmetic says."""
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


def section(results: Analysed) -> Section | None:
    """Answer A11."""
    experiment = results.get("memory.mapping")
    if experiment is None:
        return None
    points = shown(experiment)
    missing = unmeasured(experiment)
    if not any(TIME.summary(experiment, point) for point in points):
        return Section(TITLE, "", missing=missing) if missing else None
    return Section(
        title=TITLE,
        answer=" ".join([*_written(experiment, points), *_times(experiment)]),
        text=[
            (
                "Initialisation (init) maps and prepares, the function (fun) walks the sets; getrusage "
                "tells them apart. Writes to a private mapping stay with the process, those to a shared "
                "one change the file. oublock counts blocks of 512 B, and the kernel charges them when a "
                "page of a file becomes dirty, not when it is written back (`task_io_account_write`): a "
                "page that is dirty already costs nothing."
            ),
            *_document(),
            *narrowing(experiment, KNOWN),
        ],
        tables=[_table(experiment, points)],
        missing=missing,
    )


def _written(experiment: ExperimentResults, points: Sequence[PointSamples]) -> list[str]:
    """Say what each mapping writes, and whether it is 8 blocks for each page mapped."""
    told_points = []
    for mapping in dict.fromkeys(str(point.factors.get("mapping")) for point in points):
        own = [point for point in points if point.factors.get("mapping") == mapping]
        blocks = [each for point in own if (each := OUT.summary(experiment, point)) is not None]
        if not blocks:
            continue
        if max(each.maximum for each in blocks) == 0:
            told_points.append(f"With {mapping} memory no block is charged to the function.")
            continue
        medians = [each.median for each in blocks]
        span = " to ".join(number(end) for end in dict.fromkeys((min(medians), max(medians))))
        shares = [value for point in own if (value := BLOCKS_EACH_PAGE.median(experiment, point)) is not None]
        text = f"With {mapping} memory the function is charged {span} blocks"
        if shares and all(abs(share - 1) <= NEAR for share in shares):
            text += f", within {format_share(NEAR)} of 8 for each page mapped"
        elif shares:
            text += f", {min(shares):.2g} to {max(shares):.2g} times 8 for each page mapped"
        told_points.append(f"{text}.")
    return told_points


def _times(experiment: ExperimentResults) -> list[str]:
    """Hold a set of each mapping of a file against one of anonymous memory."""
    footprints = [
        each for each in FOOTPRINTS if any(p.factors.get("footprint") == each for p in shown(experiment))
    ]
    parts = []
    for mapping in ("private", "shared"):
        rows = compared(experiment, [TIME], "mapping", ("anonymous", mapping))
        for footprint in footprints:
            for pattern in PATTERNS:
                row = row_of(rows, TIME, pattern=pattern, footprint=footprint)
                if row is not None:
                    where = (
                        f"{mapping}, {pattern}, {footprint}"
                        if len(footprints) > 1
                        else f"{mapping}, {pattern}"
                    )
                    parts.append(f"{where}, {told(row)}")
    return [f"A set takes, against anonymous memory: {'; '.join(parts)}."] if parts else []


def _document() -> list[str]:
    """Explain the document's odd figure by its own arithmetic."""
    pages = reference.FUNCTION_OUBLOCK / PAGE_BLOCKS
    cited = reference.FIFTH
    share = cited.mean / reference.FUNCTION_OUBLOCK
    return [
        (
            f"The document has {cited.mean:g} ± {cited.deviation:g} blocks, both for sequential and random "
            f"sets. That is {share:g} of {number(reference.FUNCTION_OUBLOCK)}, which are 8 blocks for each "
            f"of {number(pages)} pages, 16 MiB and 32 KiB: one of its five runs found the pages clean and "
            "was charged for all, the other four found them dirty still and were charged nothing. The "
            "pattern has no part in it, since both touch the same pages."
        )
    ]


def _table(experiment: ExperimentResults, points: Sequence[PointSamples]) -> Table:
    rows = []
    for point in points:
        row = [label(experiment, point.factors, FACTORS), "here"]
        rows.append([*row, *(quantity.text(experiment, point) for quantity in QUANTITIES)])
        cited = reference.MAPPING.get((str(point.factors.get("mapping")), str(point.factors.get("pattern"))))
        if cited is not None and point.factors.get("footprint") == "first64th":
            known = [cited[each.key].text(each.unit) if each.key in cited else MISSING for each in QUANTITIES]
            rows.append([row[0], "document", *known])
    columns = ["mapping", "measured", *(each.name for each in QUANTITIES)]
    note = (
        f"Medians with their 95 % intervals. {INIT_FLUSHES} Pages mapped: those that the page table has "
        "after the function; a fault on a file maps some of its neighbours with it. "
        f"{walked(points)} {reference.WHERE}"
    )
    return Table("Faults, resident memory and blocks by mapping", columns, rows, frozenset(), note)

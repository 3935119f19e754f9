"""Anonymous, private and shared mappings: faults, resident memory and blocks, the document's Figure 3."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oscope.digits import MISSING, format_share
from oscope.labs.curve import narrowing, unmeasured
from oscope.labs.ipc.points import metric
from oscope.labs.memory import reference
from oscope.labs.memory.sides import TIME, Quantity, compared, number, plain, row_of, shown, told
from oscope.labs.words import listed
from oscope.report.analysis import Analysed, label
from oscope.report.document import Section, Table
from oscope.samples import ExperimentResults, Floats, PointSamples

TITLE = "Mapping a file"
FACTORS = ("mapping", "pattern", "footprint")
KNOWN = (*FACTORS, "sets", "size", "tracer")
BLOCK = 512
"""Bytes of a block that getrusage counts."""
PAGE_BLOCKS = 4096 // BLOCK
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


FAULTS_EACH_PAGE = _each_page("minor faults for a page touched", "minflt")
BLOCKS_EACH_PAGE = _each_page("blocks written for 8 a page touched", "oublock", PAGE_BLOCKS)
QUANTITIES = (
    plain("maxrss (init)", "init_maxrss_kib", "KiB"),
    plain("inblock (init)", "init_inblock"),
    plain("oublock (init)", "init_oublock"),
    plain("maxrss (fun)", "maxrss_kib", "KiB"),
    plain("inblock (fun)", "inblock"),
    OUT,
    plain("minflt (fun)", "minflt"),
    MAJOR,
    plain("pages touched", "touched_pages"),
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


def _middle(experiment: ExperimentResults, quantity: Quantity, point: PointSamples) -> float | None:
    summary = quantity.summary(experiment, point)
    return None if summary is None else summary.median


def _written(experiment: ExperimentResults, points: Sequence[PointSamples]) -> list[str]:
    """Say what each mapping writes, and whether it is 8 blocks for each page touched."""
    told_points = []
    for mapping in dict.fromkeys(str(point.factors.get("mapping")) for point in points):
        own = [point for point in points if point.factors.get("mapping") == mapping]
        blocks = [value for point in own if (value := _middle(experiment, OUT, point)) is not None]
        if not blocks:
            continue
        if max(blocks) == 0:
            told_points.append(f"With {mapping} memory no block is charged to the function.")
            continue
        span = " to ".join(number(end) for end in dict.fromkeys((min(blocks), max(blocks))))
        shares = [
            value for point in own if (value := _middle(experiment, BLOCKS_EACH_PAGE, point)) is not None
        ]
        text = f"With {mapping} memory the function is charged {span} blocks"
        if shares and all(abs(share - 1) <= NEAR for share in shares):
            text += f", within {format_share(NEAR)} of 8 for each page that it touches"
            text += ": every page became dirty once"
        elif shares:
            text += f", {min(shares):.2g} to {max(shares):.2g} times 8 for each page that it touches"
        told_points.append(f"{text}.")
    return told_points


def _times(experiment: ExperimentResults) -> list[str]:
    """Hold a set of each mapping of a file against one of anonymous memory."""
    parts = []
    for mapping in ("private", "shared"):
        rows = compared(experiment, [TIME], "mapping", ("anonymous", mapping))
        for pattern in ("seq", "random"):
            row = row_of(rows, TIME, pattern=pattern)
            if row is not None:
                parts.append(f"{mapping}, {pattern}, {told(row)}")
    return [f"A set takes, against anonymous memory: {'; '.join(parts)}."] if parts else []


def _document() -> list[str]:
    """Explain the document's odd figure by its own arithmetic."""
    pages = reference.FUNCTION_OUBLOCK / PAGE_BLOCKS
    share = reference.MAPPING["shared", "seq"]["oublock"] / reference.FUNCTION_OUBLOCK
    return [
        (
            f"The document has {reference.MAPPING['shared', 'seq']['oublock']:g} blocks with a deviation of "
            f"twice as much, both for sequential and random sets. That is {share:g} of "
            f"{number(reference.FUNCTION_OUBLOCK)}, which are 8 blocks for each of {number(pages)} pages, "
            "16 MiB and 32 KiB: one of its five runs found the pages clean and was charged for all, the "
            "other four found them dirty still and were charged nothing. The pattern has no part in it, "
            "since both touch the same pages."
        )
    ]


def _table(experiment: ExperimentResults, points: Sequence[PointSamples]) -> Table:
    rows = []
    for point in points:
        row = [label(experiment, point.factors, FACTORS), "here"]
        rows.append([*row, *(quantity.text(experiment, point) for quantity in QUANTITIES)])
        cited = reference.MAPPING.get((str(point.factors.get("mapping")), str(point.factors.get("pattern"))))
        if cited is not None and point.factors.get("footprint") == "first64th":
            known = [
                number(cited[each.key], each.unit) if each.key in cited else MISSING for each in QUANTITIES
            ]
            rows.append([row[0], "document", *known])
    columns = ["mapping", "measured", *(each.name for each in QUANTITIES)]
    sizes = listed(sorted({label(experiment, point.factors, ("size",)) for point in points}))
    note = f"Medians with their 95 % intervals, of {sizes}. {reference.WHERE} Its buffer has 1 GiB."
    return Table("Faults, resident memory and blocks by mapping", columns, rows, frozenset(), note)

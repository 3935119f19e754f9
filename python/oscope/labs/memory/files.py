"""Mapping files, and memory that is populated and set before it is used: Figures 3 and 4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median as middle

from oscope import questions as q
from oscope.labs.memory import FLUSHED
from oscope.labs.memory.access import FAULTS_EACH_PAGE, NEAR, RESIDENT, TIME, walked
from oscope.originals import memory as reference
from oscope.questions.original_figures import Derived, Known, cited_table

FACTORS = ("mapping", "pattern", "footprint")
BLOCK = 512
"""Bytes of a block that getrusage counts."""
INIT_FLUSHES = (
    f"(init) includes the {q.format_bytes(FLUSHED)} that flush the L1: {q.plain_number(FLUSHED / q.PAGE)} "
    f"minor faults, {q.plain_number(FLUSHED / 1024, 'KiB')} of resident memory, and their time."
)
INIT_RSS, INIT_IN, INIT_OUT, RSS, IN, OUT, MINOR, MAJOR = (
    q.plain("maxrss (init)", "init_maxrss_kib", "KiB"),
    q.plain("inblock (init)", "init_inblock"),
    q.plain("oublock (init)", "init_oublock"),
    q.plain("maxrss (fun)", "maxrss_kib", "KiB"),
    q.plain("inblock (fun)", "inblock"),
    q.plain("blocks written (oublock)", "oublock"),
    q.plain("minflt (fun)", "minflt"),
    q.plain("major faults (majflt)", "majflt"),
)

# ---- mapping a file

PAGE_BLOCKS = q.PAGE // BLOCK
BLOCKS_A_PAGE = q.over_metric("blocks written for a page mapped", "oublock", "touched_pages")
MAPPED = (
    *(INIT_RSS, INIT_IN, INIT_OUT, RSS, IN, OUT, MINOR, MAJOR),
    *(q.plain("pages mapped", "touched_pages"), FAULTS_EACH_PAGE, TIME),
)


def _written(found: Sequence[q.Point], mapping: str) -> str:
    """Say how many blocks a mapping writes: 8 for each page mapped, or another number."""
    own = [point for point in found if point.level("mapping") == mapping]
    blocks = [each for point in own if (each := point.of(OUT)) is not None]
    most = max((each.maximum for each in blocks), default=0.0)
    if not any(each.median for each in blocks):
        few = f"With {mapping} memory the median is no block to write; the maximum is {q.plain_number(most)}."
        none = f"With {mapping} memory the function has no block to write."
        return (few if most else none) if blocks else ""
    a_page = [each.median for point in own if (each := point.of(BLOCKS_A_PAGE)) is not None]
    if not a_page:
        return f"With {mapping} memory the function has up to {q.plain_number(most)} blocks to write."
    number = f"{middle(a_page):.2g} ({min(a_page):.2g} to {max(a_page):.2g})"
    if all(abs(each / PAGE_BLOCKS - 1) <= NEAR for each in a_page):
        number = f"{PAGE_BLOCKS}"
    return f"With {mapping} memory the function has {number} blocks to write for each page mapped."


def _mapped_table(_: q.Run, found: Sequence[q.Point]) -> q.Table:
    def known(point: q.Point) -> Mapping[str, Known]:
        own = point.level("footprint") == "first64th"
        return reference.MAPPING.get((point.level("mapping"), point.level("pattern")), {}) if own else {}

    return cited_table(
        "Faults, resident memory and blocks by mapping",
        ("mapping",),
        [((point.label(FACTORS),), point, known(point)) for point in found],
        MAPPED,
        f"Medians with their 95 % intervals. {INIT_FLUSHES} Pages mapped: those in the page table after the "
        f"function; a fault on a file maps neighbours with it. {walked(found)} {reference.WHERE}",
        {"time over anonymous (95 %)": lambda point: q.ratio_text(q.beside(point, "mapping", "anonymous"))},
    )


MAPPINGS = q.Question(
    title="Mapping a file",
    experiment="memory.mapping",
    rows=q.points("set_ns"),
    headline=lambda run, found: next(
        filter(None, (_written(found, mapping) for mapping in reversed(run.levels("mapping")))), ""
    ),
    text=(
        "The kernel charges oublock when a file's page becomes dirty (`task_io_account_write`).",
        f"A number of blocks within {q.format_share(NEAR)} of {PAGE_BLOCKS} a page counts as {PAGE_BLOCKS}.",
        (
            f"The original's {reference.FIFTH.mean:g} blocks are a fifth of "
            f"{q.plain_number(reference.FUNCTION_OUBLOCK)}, 8 for each page: one of its five runs found the "
            "pages clean and was charged for all."
        ),
    ),
    tables=_mapped_table,
    factors=(*FACTORS, "sets", "size"),
)

# ---- MAP_POPULATE, memset and msync before memory is used

INIT_TIME = q.plain("time of the initialisation", "init_time_s", "s")
FUNCTION_TIME = q.plain("time of the function", "time_s", "s")
INIT = (
    INIT_TIME,
    q.plain("minflt (init)", "init_minflt"),
    q.plain("majflt (init)", "init_majflt"),
    *(INIT_RSS, INIT_IN, INIT_OUT),
)
FUNCTION = (FUNCTION_TIME, MINOR, MAJOR, RSS, IN, OUT, RESIDENT)
NOTHING = "nothing"


def _way(point: q.Point) -> str:
    initialise = str(point.factors.get("initialise", "none"))
    parts = ("MAP_POPULATE" if point.factors.get("populate") else "", initialise.replace("none", ""))
    return " and ".join(filter(None, parts)) or NOTHING


def _name(point: q.Point) -> str:
    return f"{point.level('mapping')}, {_way(point)}"


def _resident(point: q.Point) -> str | None:
    """Return the share of the buffer that the initialisation, less the flush of the L1, makes resident."""
    grown = point.of(INIT_RSS)
    return None if grown is None else q.format_share((grown.median * 1024 - FLUSHED) / point.size)


def _blocks(point: q.Point) -> str | None:
    blocks = point.of(INIT_OUT)
    return None if blocks is None else f"{blocks.median / (point.size / BLOCK):.3g}"


def _fewer_faults(_: q.Run, found: Sequence[q.Point]) -> str:
    minor = {_name(point): faults.median for point in reversed(found) if (faults := point.of(MINOR))}
    for point in found:
        bare, own = (minor.get(f"{point.level('mapping')}, {way}") for way in (NOTHING, _way(point)))
        if _way(point) != NOTHING and bare is not None and own is not None:
            return (
                f"After {_way(point)} the function has {q.plain_number(own)} minor faults instead of "
                f"{q.plain_number(bare)} ({point.level('mapping')} memory)."
            )
    return f"The initialisation takes {found[0].value} ({_name(found[0])})."


def _known(point: q.Point) -> Mapping[str, Known]:
    if point.level("pattern") != "seq" or point.level("footprint") != "first64th":
        return {}
    way = (bool(point.factors.get("populate")), str(point.factors.get("initialise", "none")))
    return reference.PREPARED.get((point.level("mapping"), *way), {})


def _prepared_tables(_: q.Run, found: Sequence[q.Point]) -> Iterator[q.Table]:
    rows = [((each.level("mapping"), _way(each)), each, _known(each)) for each in found]
    derived = {"buffer resident": _resident, "blocks / (size / 512 B)": _blocks}

    def table(title: str, quantities: Sequence[q.Quantity], more: str, derived: Derived) -> q.Table:
        note = (
            f"Medians with their 95 % intervals, walked in sequence. {more} {walked(found)} "
            f"{reference.WHERE} Its table is damaged: its text says which column is which."
        )
        return cited_table(title, ("mapping", "prepared with"), rows, quantities, note, derived)

    yield table("Initialisation, by mapping", INIT, INIT_FLUSHES, derived)
    yield table("The function after it, by mapping", FUNCTION, "", {})


def _prepared_figure(_: q.Run, found: Sequence[q.Point]) -> q.Figure:
    known = [point for point in found if point.of(FUNCTION_TIME) is not None]
    parts = {"initialisation": INIT_TIME, "function": FUNCTION_TIME}
    rows = ((name, _name(point), point.of(part)) for point in known for name, part in parts.items())
    title, note = "Time of initialisation and function", "Medians; the tables have their intervals."
    return q.stacked_medians(title, "time", rows, "s", note)


INITIALISATION = q.Question(
    title="Populating and setting memory first",
    experiment="memory.initialise",
    rows=q.points(INIT_TIME.key),
    headline=_fewer_faults,
    text=(
        "MAP_POPULATE maps all pages, memset writes them, msync(MS_SYNC) brings dirty ones to the file.",
        "The original's blocks after memset and msync lack its function's: a run before left them dirty.",
    ),
    tables=_prepared_tables,
    figures=_prepared_figure,
    factors=(*FACTORS, "populate", "initialise", "sets", "size"),
)

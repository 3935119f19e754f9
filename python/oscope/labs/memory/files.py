"""Mapping files, and memory that is populated and set before it is used: Figures 3 and 4."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from oscope.figures import plots
from oscope.figures.tables import shared_scale
from oscope.labs.engine.contrast import compared, row_of
from oscope.labs.engine.drawing import bars
from oscope.labs.engine.quantity import number, plain
from oscope.labs.engine.question import Question, points
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.words import ratio_text
from oscope.labs.memory import FLUSHED, PAGE, reference
from oscope.labs.memory import access as walk
from oscope.labs.memory.access import FAULTS_EACH_PAGE, NEAR, RESIDENT, TIME, walked
from oscope.model.document import Figure, Table
from oscope.model.formatting import format_share
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric, Summary

FACTORS = ("mapping", "pattern", "footprint")
BLOCK = 512
"""Bytes of a block that getrusage counts."""
INIT_FLUSHES = (
    f"Figures with (init) include the {format_bytes(FLUSHED)} that flush the L1: {number(FLUSHED / PAGE)} "
    f"minor faults, {number(FLUSHED / 1024, 'KiB')} of resident memory, and their time."
)
INIT_RSS, INIT_IN, INIT_OUT, RSS, IN, OUT, MINOR, MAJOR = (
    plain("maxrss (init)", "init_maxrss_kib", "KiB"),
    plain("inblock (init)", "init_inblock"),
    plain("oublock (init)", "init_oublock"),
    plain("maxrss (fun)", "maxrss_kib", "KiB"),
    plain("inblock (fun)", "inblock"),
    plain("blocks written (oublock)", "oublock"),
    plain("minflt (fun)", "minflt"),
    plain("major faults (majflt)", "majflt"),
)

# ---- mapping a file

BLOCKS_EACH_PAGE = walk.each_page("blocks written for 8 a page mapped", "oublock", PAGE // BLOCK)
MAPPED = (
    *(INIT_RSS, INIT_IN, INIT_OUT, RSS, IN, OUT, MINOR, MAJOR),
    *(plain("pages mapped", "touched_pages"), FAULTS_EACH_PAGE, TIME),
)


def _charged(run: Run, found: Sequence[Point]) -> str:
    """Say what the last of the mappings that is charged blocks writes."""
    said = (_written(found, mapping) for mapping in reversed(run.levels("mapping")))
    return next(filter(None, said), "")


def _written(found: Sequence[Point], mapping: str) -> str:
    """Say what a mapping writes, and whether it is 8 blocks for each page mapped."""
    own = [point for point in found if point.level("mapping") == mapping]
    blocks = [each for point in own if (each := point.of(OUT)) is not None]
    if not blocks:
        return ""
    if max(each.maximum for each in blocks) == 0:
        return f"With {mapping} memory the function has no block to write."
    medians = [each.median for each in blocks]
    span = " to ".join(number(end) for end in dict.fromkeys((min(medians), max(medians))))
    shares = [each.median for point in own if (each := point.of(BLOCKS_EACH_PAGE)) is not None]
    text = f"With {mapping} memory the kernel counts {span} blocks that the function has to write"
    if shares and all(abs(share - 1) <= NEAR for share in shares):
        text += f", 8 for each page mapped (within {format_share(NEAR)})"
    elif shares:
        text += f", {min(shares):.2g} to {max(shares):.2g} times 8 for each page mapped"
    return f"{text}."


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


def _mapped_table(run: Run, found: Sequence[Point]) -> Table:
    def known(point: Point) -> Mapping[str, reference.Known]:
        own = point.level("footprint") == "first64th"
        return reference.MAPPING.get((point.level("mapping"), point.level("pattern")), {}) if own else {}

    over = _over_anonymous(run)
    return walk.cited_table(
        "Faults, resident memory and blocks by mapping",
        ("mapping",),
        [((point.label(FACTORS),), point, known(point)) for point in found],
        MAPPED,
        f"Medians with their 95 % intervals. {INIT_FLUSHES} Pages mapped: those that the page table has "
        f"after the function; a fault on a file maps some of its neighbours with it. {walked(found)} "
        f"{reference.WHERE}",
        {"time over anonymous (95 %)": lambda point: ratio_text(over(point))},
    )


MAPPINGS = Question(
    title="Mapping a file",
    experiment="memory.mapping",
    rows=points("set_ns"),
    headline=_charged,
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
    tables=_mapped_table,
    factors=(*FACTORS, "sets", "size"),
)

# ---- MAP_POPULATE, memset and msync before memory is used

INIT_TIME = plain("time of the initialisation", "init_time_s", "s")
FUNCTION_TIME = plain("time of the function", "time_s", "s")
INIT = (
    INIT_TIME,
    plain("minflt (init)", "init_minflt"),
    plain("majflt (init)", "init_majflt"),
    *(INIT_RSS, INIT_IN, INIT_OUT),
)
FUNCTION = (FUNCTION_TIME, MINOR, MAJOR, RSS, IN, OUT, RESIDENT)
NOTHING = "nothing"


def _way(point: Point) -> str:
    """Return how the memory of a point was prepared, in words."""
    initialise = str(point.factors.get("initialise", "none"))
    parts = [
        *(["MAP_POPULATE"] if point.factors.get("populate") else []),
        *([] if initialise == "none" else [initialise]),
    ]
    return " and ".join(parts) or NOTHING


def _name(point: Point) -> str:
    return f"{point.level('mapping')}, {_way(point)}"


def _resident(point: Point) -> str | None:
    """Return the share of the buffer that the initialisation, less the flush of the L1, makes resident."""
    grown = point.of(INIT_RSS)
    return None if grown is None else format_share((grown.median * 1024 - FLUSHED) / point.size)


def _blocks(point: Point) -> str | None:
    """Return the blocks written by the initialisation over those of the file's size."""
    blocks = point.of(INIT_OUT)
    return None if blocks is None else f"{blocks.median / (point.size / BLOCK):.3g}"


def _fewer_faults(_: Run, found: Sequence[Point]) -> str:
    """Say what is left of the function's faults after the first way of preparing."""
    for point in found:
        bare, own = (_minor(found, point, way) for way in (NOTHING, _way(point)))
        if _way(point) != NOTHING and bare and own:
            return (
                f"After {_way(point)} the function has {number(own.median)} minor faults instead of "
                f"{number(bare.median)} ({point.level('mapping')} memory)."
            )
    return f"The initialisation takes {found[0].value} ({_name(found[0])})."


def _minor(found: Sequence[Point], like: Point, way: str) -> Summary | None:
    mapping = like.level("mapping")
    same = (point for point in found if point.level("mapping") == mapping and _way(point) == way)
    return next((each for point in same if (each := point.of(MINOR)) is not None), None)


def _known(point: Point) -> Mapping[str, reference.Known]:
    """Return the original report's figures of a point prepared in this way."""
    if point.level("pattern") != "seq" or point.level("footprint") != "first64th":
        return {}
    way = (bool(point.factors.get("populate")), str(point.factors.get("initialise", "none")))
    return reference.PREPARED.get((point.level("mapping"), *way), {})


def _prepared_tables(_: Run, found: Sequence[Point]) -> list[Table]:
    rows = [((each.level("mapping"), _way(each)), each, _known(each)) for each in found]
    note = (
        "Medians with their 95 % intervals, walked in sequence. {} "
        f"{walked(found)} {reference.WHERE} Its table is damaged: its text says which column is which."
    )
    derived: walk.Derived = {"buffer resident": _resident, "blocks / (size / 512 B)": _blocks}
    none: walk.Derived = {}
    asked = (("Initialisation", INIT, INIT_FLUSHES, derived), ("The function after it", FUNCTION, "", none))
    heads = ("mapping", "prepared with")
    return [
        walk.cited_table(f"{title}, by mapping", heads, rows, quantities, note.format(more), columns)
        for title, quantities, more, columns in asked
    ]


def _prepared_figure(_: Run, found: Sequence[Point]) -> Figure:
    """Draw where the time goes, before and in the function."""
    known = [point for point in found if point.of(FUNCTION_TIME) is not None]
    parts = {"initialisation": INIT_TIME, "function": FUNCTION_TIME}
    summaries = {name: [point.of(part) for point in known] for name, part in parts.items()}
    scale = shared_scale([each for row in summaries.values() for each in row if each is not None], "s")
    series = {name: [each and each.median for each in row] for name, row in summaries.items()}
    axis = plots.axis(f"time [{scale.unit}]", rangemode="tozero")
    note, title = "Medians; the tables have their intervals.", "Time of initialisation and function"
    return plots.stacked(bars(title, axis, [_name(each) for each in known], series, note, scale.factor))


INITIALISATION = Question(
    title="Populating and setting memory first",
    experiment="memory.initialise",
    rows=points(INIT_TIME.key),
    headline=_fewer_faults,
    text=(
        (
            "MAP_POPULATE makes all pages present while mapping, memset faults them in by writing, and "
            "msync(MS_SYNC) writes dirty pages of a shared mapping to the file."
        ),
        (
            "The original's blocks after memset and msync lack those that its function dirties in a shared "
            "mapping: a run before had left these pages dirty, so they were not charged again."
        ),
    ),
    tables=_prepared_tables,
    figures=_prepared_figure,
    factors=(*FACTORS, "populate", "initialise", "sets", "size"),
)

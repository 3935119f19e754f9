"""MAP_POPULATE, memset and msync before memory is used: Figure 4 of the original report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oscope.figures import plots
from oscope.figures.tables import shared_scale
from oscope.figures.words import listed
from oscope.labs.engine.drawing import bars
from oscope.labs.engine.quantity import number, plain
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.words import sentence
from oscope.labs.memory import FLUSHED, reference
from oscope.labs.memory.access import NEAR, RESIDENT, cited_cells, walked
from oscope.labs.memory.mappings import BLOCK, FACTORS, INIT_FLUSHES, MAJOR, OUT
from oscope.model.document import Figure, Table
from oscope.model.formatting import format_share
from oscope.statistics import Summary

INIT_TIME = plain("time of the initialisation", "init_time_s", "s")
FUNCTION_TIME = plain("time of the function", "time_s", "s")
INIT_RSS = plain("maxrss (init)", "init_maxrss_kib", "KiB")
INIT_OUT = plain("oublock (init)", "init_oublock")
INIT = (
    INIT_TIME,
    plain("minflt (init)", "init_minflt"),
    plain("majflt (init)", "init_majflt"),
    INIT_RSS,
    plain("inblock (init)", "init_inblock"),
    INIT_OUT,
)
MINOR = plain("minflt (fun)", "minflt")
FUNCTION = (
    FUNCTION_TIME,
    MINOR,
    MAJOR,
    plain("maxrss (fun)", "maxrss_kib", "KiB"),
    plain("inblock (fun)", "inblock"),
    OUT,
    RESIDENT,
)


@dataclass(frozen=True)
class Prepared:
    """A way of preparing memory."""

    populate: bool
    initialise: str

    @property
    def name(self) -> str:
        """The way in words."""
        parts = [
            *(["MAP_POPULATE"] if self.populate else []),
            *([] if self.initialise == "none" else [self.initialise]),
        ]
        return " and ".join(parts) or "nothing"

    @classmethod
    def of(cls, point: Point) -> Prepared:
        """Return how the memory of a point was prepared."""
        factors = point.samples.factors
        return cls(bool(factors.get("populate")), str(factors.get("initialise", "none")))


def _name(point: Point) -> str:
    return f"{point.level('mapping')}, {Prepared.of(point).name}"


def _resident(found: Sequence[Point]) -> tuple[list[str], list[str]]:
    """Return the ways that bring the whole buffer into memory at the initialisation, and the others."""
    whole, less = [], []
    for point in found:
        grown = point.of(INIT_RSS)
        if grown is not None and Prepared.of(point).name != "nothing":
            # The flush of the L1 is part of the initialisation.
            share = (grown.median * 1024 - FLUSHED) / int(point.samples.factors["size"])
            if share >= 1 - NEAR:
                whole.append(_name(point))
            else:
                less.append(f"{_name(point)} ({format_share(share)})")
    return whole, less


def _headline(_: Run, found: Sequence[Point]) -> str:
    """Say what is left of the function's faults after the first way of preparing."""
    for point in found:
        bare, own = (_minor(found, point, name) for name in ("nothing", Prepared.of(point).name))
        if Prepared.of(point).name != "nothing" and bare and own:
            return (
                f"{Prepared.of(point).name} takes the minor faults of the function from "
                f"{number(bare.median)} to "
                f"{number(own.median)} ({point.level('mapping')} memory)."
            )
    return f"Only {_name(found[0])} was measured: {found[0].value} for the initialisation."


def _minor(found: Sequence[Point], like: Point, name: str) -> Summary | None:
    mapping = like.level("mapping")
    same = (p for p in found if p.level("mapping") == mapping and Prepared.of(p).name == name)
    return next((each for point in same if (each := point.of(MINOR)) is not None), None)


def _whole(_: Run, found: Sequence[Point]) -> list[str]:
    """Say which ways bring the whole buffer into memory at the initialisation."""
    whole, less = _resident(found)
    either = listed(whole) if len(whole) <= 3 else f"{len(whole)} of the ways (table below)"
    parts = [f"the whole buffer is resident after the initialisation with {either}"] if whole else []
    return sentence([*parts, *([f"not all of it with {listed(less)}"] if less else [])])


def _synced(_: Run, found: Sequence[Point]) -> list[str]:
    """Compare the blocks of memset and msync with the size of the file."""
    said = []
    for point in found:
        blocks = point.of(INIT_OUT)
        if (
            Prepared.of(point).initialise != "memset+msync"
            or point.level("mapping") != "shared"
            or not blocks
        ):
            continue
        share = blocks.median / (int(point.samples.factors["size"]) / BLOCK)
        verdict = (
            "what the size of the file over 512 B says"
            if abs(share - 1) <= NEAR
            else f"{share:.3g} times the size of the file over 512 B"
        )
        said.append(f"{number(blocks.median)} blocks are written with {_name(point)}: {verdict}.")
    return said


def _original(*_: object) -> list[str]:
    """Explain the original report's blocks by its own arithmetic."""
    whole = (1 << 30) / BLOCK
    populated = reference.PREPARED["private", True, "none"]["init_maxrss_kib"]
    synced = reference.PREPARED["shared", False, "memset+msync"]["init_oublock"]
    return [
        (
            f"The original report's maxrss is {populated.text('KiB')} after populating 1 GiB, the flush of "
            "the L1 "
            f"included, and memset with msync of a shared mapping writes {synced.text()} blocks. That is 1 "
            "GiB "
            f"over 512 B, {number(whole)}, less {number(whole - synced.mean)}: exactly the blocks that its "
            "function dirties in a shared mapping. A run before had left those pages dirty, so they were not "
            "charged again."
        )
    ]


def _known(point: Point) -> Mapping[str, reference.Known]:
    """Return the original report's figures of a point prepared in this way."""
    way = Prepared.of(point)
    if point.level("pattern") != "seq" or point.level("footprint") != "first64th":
        return {}
    return reference.PREPARED.get((point.level("mapping"), way.populate, way.initialise), {})


def _tables(run: Run, found: Sequence[Point]) -> list[Table]:
    parts = (("Initialisation", INIT, INIT_FLUSHES), ("The function after it", FUNCTION, ""))
    tables = []
    for title, quantities, flushes in parts:
        rows = []
        for point in found:
            names = [point.level("mapping"), Prepared.of(point).name]
            rows.append([*names, "here", *(each.text(run.experiment, point.samples) for each in quantities)])
            known = _known(point)
            if any(each.key in known for each in quantities):
                rows.append([*names, "original report", *cited_cells(known, quantities)])
        columns = ["mapping", "prepared with", "measured", *(each.name for each in quantities)]
        note = (
            f"Medians with their 95 % intervals, walked in sequence. {flushes} {walked(found)} "
            f"{reference.WHERE} Its table is damaged: which column is which follows from its text."
        )
        tables.append(Table(f"{title}, by mapping", columns, rows, frozenset(), note))
    return tables


def _figure(_: Run, found: Sequence[Point]) -> list[Figure]:
    """Draw where the time goes, before and in the function."""
    known = [
        (point, own, after.median)
        for point in found
        for own, after in [(point.summary, point.of(FUNCTION_TIME))]
        if after is not None
    ]
    every = [each for point, own, _ in known for each in (own, point.of(FUNCTION_TIME)) if each is not None]
    scale = shared_scale(every, "s")
    series = {
        "initialisation": [own.median for _, own, _ in known],
        "function": [after for *_, after in known],
    }
    axis = plots.axis(f"time [{scale.unit}]", rangemode="tozero")
    names = [_name(point) for point, *_ in known]
    note = "Medians; the tables have their intervals."
    title = "Time of initialisation and function"
    return [plots.stacked(bars(title, axis, names, series, note, scale.factor))]


section = Question(
    title="Populating and setting memory first",
    experiment="memory.initialise",
    rows=lambda run: run.points(INIT_TIME.key),
    headline=_headline,
    text=(
        _whole,
        _synced,
        (
            "MAP_POPULATE makes all pages present while mapping; of a file they are read ahead. memset "
            "writes "
            "every byte, so that it faults in all pages by writing. msync(MS_SYNC) writes dirty pages of a "
            "shared mapping to the file; on other memory it has nothing to do."
        ),
        f"{INIT_FLUSHES} What is said to be resident is without them.",
        _original,
    ),
    tables=(_tables,),
    figures=(_figure,),
    factors=(*FACTORS, "populate", "initialise", "sets", "size"),
)

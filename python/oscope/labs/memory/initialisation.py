"""MAP_POPULATE, memset and msync before memory is used: Figure 4 of the original report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from oscope.figures import plots
from oscope.figures.tables import shared_scale
from oscope.labs.engine.drawing import bars
from oscope.labs.engine.quantity import number, plain
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Point, Run
from oscope.labs.memory import FLUSHED, reference
from oscope.labs.memory.access import RESIDENT, cited_table, walked
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


def _resident(point: Point) -> str | None:
    """Return the share of the buffer that the initialisation, less the flush of the L1, makes resident."""
    grown = point.of(INIT_RSS)
    if grown is None:
        return None
    return format_share((grown.median * 1024 - FLUSHED) / int(point.samples.factors["size"]))


def _blocks(point: Point) -> str | None:
    """Return the blocks written by the initialisation over those of the file's size."""
    blocks = point.of(INIT_OUT)
    return None if blocks is None else f"{blocks.median / (int(point.samples.factors['size']) / BLOCK):.3g}"


DERIVED: Mapping[str, Callable[[Point], str | None]] = {
    "buffer resident": _resident,
    "blocks / (size / 512 B)": _blocks,
}


def _headline(_: Run, found: Sequence[Point]) -> str:
    """Say what is left of the function's faults after the first way of preparing."""
    for point in found:
        bare, own = (_minor(found, point, name) for name in ("nothing", Prepared.of(point).name))
        if Prepared.of(point).name != "nothing" and bare and own:
            return (
                f"After {Prepared.of(point).name} the function has {number(own.median)} minor faults instead "
                f"of {number(bare.median)} ({point.level('mapping')} memory)."
            )
    return f"The initialisation takes {found[0].value} ({_name(found[0])})."


def _minor(found: Sequence[Point], like: Point, name: str) -> Summary | None:
    mapping = like.level("mapping")
    same = (p for p in found if p.level("mapping") == mapping and Prepared.of(p).name == name)
    return next((each for point in same if (each := point.of(MINOR)) is not None), None)


def _known(point: Point) -> Mapping[str, reference.Known]:
    """Return the original report's figures of a point prepared in this way."""
    way = Prepared.of(point)
    if point.level("pattern") != "seq" or point.level("footprint") != "first64th":
        return {}
    return reference.PREPARED.get((point.level("mapping"), way.populate, way.initialise), {})


def _tables(_: Run, found: Sequence[Point]) -> list[Table]:
    rows = [((each.level("mapping"), Prepared.of(each).name), each, _known(each)) for each in found]
    heads, nothing = ("mapping", "prepared with"), dict[str, Callable[[Point], str | None]]()
    note = (
        "Medians with their 95 % intervals, walked in sequence. {} "
        f"{walked(found)} {reference.WHERE} Its table is damaged: its text says which column is which."
    )
    title, flushes = "{}, by mapping", note.format(INIT_FLUSHES)
    return [
        cited_table(title.format("Initialisation"), heads, rows, INIT, flushes, DERIVED),
        cited_table(title.format("The function after it"), heads, rows, FUNCTION, note.format(""), nothing),
    ]


def _figure(_: Run, found: Sequence[Point]) -> Figure:
    """Draw where the time goes, before and in the function."""
    known = [point for point in found if point.of(FUNCTION_TIME) is not None]
    before, after = ([point.of(part) for point in known] for part in (INIT_TIME, FUNCTION_TIME))
    scale = shared_scale([each for each in (*before, *after) if each is not None], "s")
    series: dict[str, list[Summary | float | None]] = {
        "initialisation": [each and each.median for each in before],
        "function": [each and each.median for each in after],
    }
    axis = plots.axis(f"time [{scale.unit}]", rangemode="tozero")
    note = "Medians; the tables have their intervals."
    title = "Time of initialisation and function"
    return plots.stacked(bars(title, axis, [_name(each) for each in known], series, note, scale.factor))


section = Question(
    title="Populating and setting memory first",
    experiment="memory.initialise",
    rows=lambda run: run.points(INIT_TIME.key),
    headline=_headline,
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
    tables=(_tables),
    figures=(_figure),
    factors=(*FACTORS, "populate", "initialise", "sets", "size"),
)

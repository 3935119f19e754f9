"""MAP_POPULATE, memset and msync before memory is used: the document's Figure 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oscope.figures import plots
from oscope.figures.analysed import Analysed
from oscope.figures.tables import shared_scale
from oscope.figures.words import listed
from oscope.labs.curve import narrowing, unmeasured
from oscope.labs.memory import FLUSHED, reference
from oscope.labs.memory.mappings import BLOCK, FACTORS, INIT_FLUSHES, MAJOR, NEAR, OUT
from oscope.labs.memory.sides import number, plain, shown, walked
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, format_share
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics import Summary

TITLE = "Populating and setting memory first"
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
    plain("resident memory of the mapping", "resident_kib", "KiB"),
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
    def of(cls, point: PointSamples) -> Prepared:
        """Return how the memory of a point was prepared."""
        return cls(bool(point.factors.get("populate")), str(point.factors.get("initialise", "none")))


def section(results: Analysed) -> Section | None:
    """Answer A12."""
    experiment = results.get("memory.initialise")
    if experiment is None:
        return None
    points = [point for point in shown(experiment) if INIT_TIME.summary(experiment, point) is not None]
    missing = unmeasured(experiment)
    if not points:
        return Section(TITLE, "", missing=missing) if missing else None
    return Section(
        title=TITLE,
        answer=" ".join(
            [*_resident(experiment, points), *_saved(experiment, points), *_synced(experiment, points)]
        ),
        text=[
            (
                "MAP_POPULATE makes all pages present while mapping; of a file they are read ahead. memset "
                "writes every byte, so that it faults in all pages by writing. msync(MS_SYNC) writes dirty "
                "pages of a shared mapping to the file; on other memory it has nothing to do."
            ),
            f"{INIT_FLUSHES} What is said to be resident is without them.",
            _document(),
            *narrowing(experiment, (*FACTORS, "populate", "initialise", "sets", "size", "tracer")),
        ],
        tables=[_table(experiment, points, "init"), _table(experiment, points, "fun")],
        figures=[_figure(experiment, points)],
        missing=missing,
    )


def _name(point: PointSamples) -> str:
    return f"{point.factors.get('mapping')}, {Prepared.of(point).name}"


def _resident(experiment: ExperimentResults, points: Sequence[PointSamples]) -> list[str]:
    """Say which ways bring the whole buffer into memory at the initialisation."""
    whole: list[tuple[str, float]] = []
    less: list[tuple[str, float]] = []
    for point in points:
        grown = INIT_RSS.median(experiment, point)
        if grown is None or Prepared.of(point).name == "nothing":
            continue
        # The flush of the L1 is part of the initialisation.
        share = (grown * 1024 - FLUSHED) / int(point.factors["size"])
        (whole if share >= 1 - NEAR else less).append((_name(point), share))
    told = []
    if whole:
        told.append(f"The whole buffer is resident after the initialisation with {_either(whole)}")
    if less:
        names = listed([f"{name} ({format_share(share)})" for name, share in less])
        told.append(f"not all of it with {names}")
    text = "; ".join(told)
    return [f"{text[:1].upper()}{text[1:]}."] if text else []


def _either(whole: Sequence[tuple[str, float]]) -> str:
    return (
        listed([name for name, _ in whole]) if len(whole) <= 3 else f"{len(whole)} of the ways (table below)"
    )


def _saved(experiment: ExperimentResults, points: Sequence[PointSamples]) -> list[str]:
    """Say what is left of the function's faults."""
    told = []
    for mapping in dict.fromkeys(str(point.factors.get("mapping")) for point in points):
        counts = {
            Prepared.of(point).name: each.median
            for point in points
            if point.factors.get("mapping") == mapping
            and (each := MINOR.summary(experiment, point)) is not None
        }
        bare = counts.pop("nothing", None)
        if bare is not None and counts:
            rest = listed([f"{number(count)} after {name}" for name, count in counts.items()])
            told.append(f"{mapping} {number(bare)} without, {rest}")
    return [f"Minor faults of the function: {'; '.join(told)}."] if told else []


def _synced(experiment: ExperimentResults, points: Sequence[PointSamples]) -> list[str]:
    """Hold the blocks of memset and msync against the size of the file."""
    told = []
    for point in points:
        if Prepared.of(point).initialise != "memset+msync" or point.factors.get("mapping") != "shared":
            continue
        blocks = INIT_OUT.median(experiment, point)
        if blocks is None:
            continue
        wanted = int(point.factors["size"]) / BLOCK
        share = blocks / wanted
        verdict = (
            "what the size of the file over 512 B says"
            if abs(share - 1) <= NEAR
            else f"{share:.3g} times the size of the file over 512 B"
        )
        told.append(f"{number(blocks)} blocks are written with {_name(point)}: {verdict}.")
    return told


def _document() -> str:
    """Explain the document's blocks by its own arithmetic."""
    whole = (1 << 30) / BLOCK
    populated = reference.PREPARED["private", True, "none"]["init_maxrss_kib"]
    synced = reference.PREPARED["shared", False, "memset+msync"]["init_oublock"]
    rest = whole - synced.mean
    return (
        f"The document's maxrss is {populated.text('KiB')} after populating 1 GiB, the flush of the L1 "
        f"included, and memset with msync of a shared mapping writes {synced.text()} blocks. That "
        f"is 1 GiB over 512 B, {number(whole)}, less {number(rest)}: exactly the blocks that its function "
        "dirties in a shared mapping. A run before had left those pages dirty, so they were not charged "
        "again."
    )


def _known(point: PointSamples) -> Mapping[str, reference.Known]:
    """Return the document's figures of a point prepared in this way."""
    factors, way = point.factors, Prepared.of(point)
    if factors.get("pattern") != "seq" or factors.get("footprint") != "first64th":
        return {}
    return reference.PREPARED.get((str(factors.get("mapping")), way.populate, way.initialise), {})


def _table(experiment: ExperimentResults, points: Sequence[PointSamples], part: str) -> Table:
    quantities = INIT if part == "init" else FUNCTION
    rows = []
    for point in points:
        names = [str(point.factors.get("mapping")), Prepared.of(point).name]
        rows.append([*names, "here", *(quantity.text(experiment, point) for quantity in quantities)])
        known = _known(point)
        if any(each.key in known for each in quantities):
            cited = [known[each.key].text(each.unit) if each.key in known else MISSING for each in quantities]
            rows.append([*names, "document", *cited])
    word = "Initialisation" if part == "init" else "The function after it"
    columns = ["mapping", "prepared with", "measured", *(each.name for each in quantities)]
    note = (
        f"Medians with their 95 % intervals, walked in sequence. {INIT_FLUSHES if part == 'init' else ''} "
        f"{walked(points)} {reference.WHERE} Its table is "
        "damaged: which column is which follows from its text."
    )
    return Table(f"{word}, by mapping", columns, rows, frozenset(), note)


def _figure(experiment: ExperimentResults, points: Sequence[PointSamples]) -> Figure:
    """Draw where the time goes, before and in the function."""
    pairs = [
        (point, [each.summary(experiment, point) for each in (INIT_TIME, FUNCTION_TIME)]) for point in points
    ]
    known: list[tuple[PointSamples, list[Summary]]] = [
        (point, [each for each in row if each is not None]) for point, row in pairs if None not in row
    ]
    scale = shared_scale([each for _, row in known for each in row], "s")
    series = [
        plots.Bars(name, [row[index].median / scale.factor for _, row in known])
        for index, name in enumerate(("initialisation", "function"))
    ]
    names = [_name(point) for point, _ in known]
    axis = plots.axis(f"time [{scale.unit}]", rangemode="tozero")
    note = "Medians; the tables have their intervals."
    return plots.stacked(plots.bars("Time of initialisation and function", axis, names, series, note))

"""The same work with and without a process that competes for memory: the document's Figure 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from oscope.figures.analysed import Analysed, label
from oscope.figures.words import cause, median
from oscope.labs.curve import unmeasured
from oscope.labs.memory import reference
from oscope.labs.memory.sides import (
    RESOURCES,
    TIME,
    Sides,
    cite,
    compared,
    each_set,
    figure,
    first,
    number,
    plain,
    row_of,
    shown,
    table,
    told,
)
from oscope.model.document import Section, Table
from oscope.model.factors import Level
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics import ComparedMetric

TITLE = "Memory pressure"
ENDS = ("none", "compete")
WORDS = ("alone", "with a competitor")
MAJOR, BLOCKS_READ = RESOURCES[3], RESOURCES[5]
COMPETITOR = plain("competitor's resident memory", "pressure_resident_kib", "KiB")
WAIT = plain("waited until it was stable", "pressure_wait_s", "s")
COMPARED = (
    TIME,
    *RESOURCES,
    plain("resident memory of the mapping", "resident_kib", "KiB"),
    plain("major faults of the initialisation", "init_majflt"),
)
QUANTITIES = (
    *COMPARED,
    each_set("L1D reads of a set, counted", "l1d_read_access"),
    each_set("L1D writes of a set, counted", "l1d_write_access"),
    each_set("L1D read misses of a set, counted", "l1d_read_miss"),
    each_set("dTLB read misses of a set, counted", "dtlb_read_miss"),
    each_set("dTLB write misses of a set, counted", "dtlb_write_miss"),
    COMPETITOR,
    WAIT,
)
GROUP = (
    "The competitor maps as much as its group of processes may have, touches pages at random and writes one "
    "in 8, in a process of its own. Group and swap are made for the run: the limit holds for the competitor "
    "and the measured process together, and plays the machine's memory."
)
MACHINE = (
    "With scope=machine the competitor maps as much memory as the machine has, touches pages at random and "
    "writes one in 8, in a process of its own. No group limits it: all processes of the machine are short of "
    "memory with it. Swap is made for the run."
)
PRESENT = (
    "The document's points are populated ones: alone they have 10.2 minor faults and no growth of resident "
    "memory (maxrss), where its Figure 2 has more than 4000 faults for the same walk. So the mapping is "
    "present here, too, before the function begins; it is set by memset, since MAP_POPULATE stops without a "
    "word where the group's limit leaves no room. What of it is then pushed out, the function has to bring "
    "back: those are its major faults."
)


def section(results: Analysed) -> Section | None:
    """Answer A13."""
    experiment = results.get("memory.pressure")
    if experiment is None:
        return None
    missing = unmeasured(experiment)
    points = [point for point in shown(experiment) if TIME.summary(experiment, point) is not None]
    if not points:
        return Section(TITLE, "", missing=missing) if missing else None
    rows = compared(experiment, COMPARED, "pressure", ENDS)
    wheres = _wheres(experiment, points)
    return Section(
        title=TITLE,
        answer=" ".join(_answer(experiment, rows, where, len(wheres) > 1) for where in wheres),
        text=[
            *dict.fromkeys(
                MACHINE if point.factors.get("scope") == "machine" else GROUP
                for point in points
                if point.factors.get("pressure") != "none"
            ),
            *(
                [PRESENT]
                if all(point.factors.get("initialise", "none") != "none" for point in points)
                else []
            ),
            *dict.fromkeys(cause(note) for point in points for note in point.notes),
        ],
        tables=_tables(experiment, rows, wheres),
        missing=missing,
    )


Where = Mapping[str, Level]
"""Levels of the factors beside the pressure that were varied."""


def _wheres(experiment: ExperimentResults, points: Sequence[PointSamples]) -> list[Where]:
    names = [name for name in experiment.varied() if name not in ("pressure", "tracer")]
    found = (
        tuple((name, point.factors[name]) for name in names if name in point.factors) for point in points
    )
    return [dict(where) for where in dict.fromkeys(found)]


def _answer(
    experiment: ExperimentResults, rows: Sequence[ComparedMetric], where: Where, several: bool
) -> str:
    """Tell one combination of the other factors."""
    lead = f"{label(experiment, where, where)}: " if several else ""
    alone, beside = (first(experiment, **where, pressure=end) for end in ENDS)
    if alone is None or beside is None:
        text = TIME.text(experiment, beside if alone is None else alone)
        word = WORDS[1] if alone is None else WORDS[0]
        return f"{lead}Only one side was measured: a set takes {text} {word}."
    row = row_of(rows, TIME, **where)
    parts = [f"{lead}The time of a set with a competitor over that without is {told(row)}."]
    kept = COMPETITOR.summary(experiment, beside)
    if kept is not None:
        parts.append(f"The competitor holds {median(kept, 'KiB')}.")
    majors = [MAJOR.summary(experiment, point) for point in (alone, beside)]
    reads = BLOCKS_READ.text(experiment, beside)
    before, after = majors
    if before is not None and after is not None:
        waits = (
            "no page had to be brought back in any repetition"
            if after.maximum == 0
            else "pages of it had to be brought back from swap or a file, in one repetition up to "
            f"{number(after.maximum)}"
        )
        parts.append(
            f"Major faults of the function are {figure(before, '')} alone and {figure(after, '')} beside it, "
            f"blocks read {reads}: {waits}."
        )
    return " ".join(parts)


def _tables(
    experiment: ExperimentResults, rows: Sequence[ComparedMetric], wheres: Sequence[Where]
) -> list[Table]:
    found = []
    for where in wheres:
        factors = {**experiment.points[0].factors, **where}
        known = factors.get("footprint") == "first64th" and factors.get("pattern") == "random"
        anonymous = factors.get("mapping", "anonymous") == "anonymous"
        cited = partial(cite, reference.PRESSURE) if known and anonymous else None
        sides = Sides("pressure", ENDS, WORDS, QUANTITIES, cited)
        title = ", ".join(filter(None, ["With and without a competitor", label(experiment, where, where)]))
        one = table(title, experiment, rows, sides, **where)
        if one is not None:
            found.append(one)
    return found

"""The same work with and without a process that competes for memory: the document's Figure 5."""

from __future__ import annotations

from collections.abc import Sequence

from oscope.digits import MISSING
from oscope.experiment import Level
from oscope.labs.curve import narrowing, unmeasured
from oscope.labs.memory import reference
from oscope.labs.memory.mappings import FACTORS
from oscope.labs.memory.sides import (
    RESOURCES,
    TIME,
    Quantity,
    Sides,
    compared,
    first,
    number,
    plain,
    row_of,
    shown,
    table,
    told,
)
from oscope.labs.words import listed, median
from oscope.report.analysis import Analysed, label
from oscope.report.document import Section, Table
from oscope.samples import ExperimentResults
from oscope.statistics import ComparedMetric

TITLE = "Memory pressure"
ENDS = ("none", "compete")
WORDS = ("alone", "with a competitor")
INIT_MAJOR = plain("major faults of the initialisation", "init_majflt")
COMPETITOR = plain("competitor's resident memory", "pressure_resident_kib", "KiB")
WAIT = plain("waited until it was stable", "pressure_wait_s", "s")
STIME = plain("system time", "stime_s", "s")
MAJOR, BLOCKS_READ = RESOURCES[3], RESOURCES[5]
QUANTITIES = (
    TIME,
    plain("time", "time_s", "s"),
    plain("user time", "utime_s", "s"),
    STIME,
    *RESOURCES[2:],
    plain("resident memory of the mapping", "resident_kib", "KiB"),
    INIT_MAJOR,
    COMPETITOR,
    WAIT,
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
    rows = compared(experiment, QUANTITIES[:-2], "pressure", ENDS)
    return Section(
        title=TITLE,
        answer=_answer(experiment, rows),
        text=[
            (
                "The competitor maps as much as its group of processes may have, touches pages at random "
                "and writes one in 8, in a process of its own. Group and swap are made for the run: the "
                "limit holds for the competitor and the measured process together, and plays the machine's "
                "memory."
            ),
            *dict.fromkeys(note for point in points for note in point.notes),
            *narrowing(experiment, (*FACTORS, "pressure", "sets", "size", "wait", "tracer")),
        ],
        tables=_tables(experiment, rows),
        missing=missing,
    )


def _answer(experiment: ExperimentResults, rows: Sequence[ComparedMetric]) -> str:
    alone, beside = (first(experiment, pressure=end) for end in ENDS)
    if alone is None or beside is None:
        known = beside if alone is None else alone
        text = "" if known is None else TIME.text(experiment, known)
        word = WORDS[1] if alone is None else WORDS[0]
        return f"Only one side was measured: a set takes {text} {word}."
    parts = [f"The time of a set with a competitor over that without is {told(row_of(rows, TIME))}."]
    kept = COMPETITOR.summary(experiment, beside)
    if kept is not None:
        parts.append(f"The competitor holds {median(kept, 'KiB')}.")
    majors = [MAJOR.summary(experiment, point) for point in (alone, beside)]
    reads = BLOCKS_READ.text(experiment, beside)
    if all(majors):
        before, after = (number(each.median) for each in majors if each is not None)
        waits = (
            "pages of it had to be brought back from swap or a file"
            if after != "0"
            else "no page had to be brought back"
        )
        parts.append(
            f"Major faults of the function are {before} alone and {after} beside it, blocks read {reads}: "
            f"{waits}."
        )
    return " ".join(parts)


def _cite(quantity: Quantity, level: Level) -> str:
    value = reference.PRESSURE.get(str(level), {}).get(quantity.key)
    return MISSING if value is None else number(value, quantity.unit)


def _tables(experiment: ExperimentResults, rows: Sequence[ComparedMetric]) -> list[Table]:
    names = [name for name in ("pattern", "footprint", "mapping") if name in experiment.varied()]
    wheres = dict.fromkeys(
        tuple((name, point.factors[name]) for name in names) for point in shown(experiment)
    )
    found = []
    for where in wheres:
        levels: dict[str, Level] = dict(where)
        footprint = levels.get("footprint", experiment.points[0].factors.get("footprint"))
        cited = _cite if footprint == "first64th" else None
        sides = Sides("pressure", ENDS, WORDS, QUANTITIES, cited)
        title = listed(
            ["With and without a competitor", *([label(experiment, levels, names)] if names else [])]
        )
        one = table(title, experiment, rows, sides, **levels)
        if one is not None:
            found.append(one)
    return found

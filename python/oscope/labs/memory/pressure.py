"""The same work with and without a process that competes for memory: Figure 5 of the original report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from oscope.figures.analysed import label
from oscope.figures.words import cause, median
from oscope.labs.engine.contrast import Sides, compared, row_of
from oscope.labs.engine.quantity import figure, number, plain
from oscope.labs.engine.question import Question, points
from oscope.labs.engine.run import Point, Run, first
from oscope.labs.engine.words import judged, times
from oscope.labs.memory import reference
from oscope.labs.memory.access import RESIDENT, RESOURCES, TICKS, TIME, cite, each_set, walked
from oscope.model.document import Table
from oscope.model.factors import Level

ENDS = ("none", "compete")
WORDS = ("alone", "with a competitor")
MAJOR, BLOCKS_READ = RESOURCES[3], RESOURCES[5]
COMPETITOR = plain("competitor's resident memory", "pressure_resident_kib", "KiB")
WAIT = plain("waited until it was stable", "pressure_wait_s", "s")
COMPARED = (
    TIME,
    *RESOURCES,
    RESIDENT,
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
    "The original report's points are populated ones: alone they have 10.2 minor faults and no growth of "
    "resident "
    "memory (maxrss), where its Figure 2 has more than 4000 faults for the same walk. So the mapping is "
    "present here, too, before the function begins; it is set by memset, since MAP_POPULATE stops without a "
    "word where the group's limit leaves no room. What of it is then pushed out, the function has to bring "
    "back: those are its major faults."
)


Where = Mapping[str, Level]
"""Levels of the factors beside the pressure that were varied."""


def _wheres(run: Run, found: Sequence[Point]) -> list[Where]:
    names = [name for name in run.experiment.varied() if name not in ("pressure", "tracer")]
    levels = (
        tuple((name, point.samples.factors[name]) for name in names if name in point.samples.factors)
        for point in found
    )
    return [dict(where) for where in dict.fromkeys(levels)]


def _headline(run: Run, found: Sequence[Point]) -> str:
    where = _wheres(run, found)[0]
    row = row_of(compared(run.experiment, COMPARED, "pressure", ENDS), TIME, **where)
    if row is None:
        return _one_side(run, where)
    if row.different != "yes":
        return f"The time of a set with a competitor over that without is {judged(row)}."
    return f"With a competitor for memory, the same work takes {times(row)} as long."


def _one_side(run: Run, where: Where) -> str:
    alone, beside = (first(run.experiment, **where, pressure=end) for end in ENDS)
    text = TIME.text(run.experiment, beside if alone is None else alone)
    return f"Only one side was measured: a set takes {text} {WORDS[alone is None]}."


def _details(run: Run, found: Sequence[Point]) -> list[str]:
    """Give ratio, competitor and major faults at each combination of the other factors."""
    wheres = _wheres(run, found)
    rows = compared(run.experiment, COMPARED, "pressure", ENDS)
    said = []
    for where in wheres:
        lead = f"{label(run.experiment, where, where)}: " if len(wheres) > 1 else ""
        alone, beside = (first(run.experiment, **where, pressure=end) for end in ENDS)
        if alone is None or beside is None:
            said.append(f"{lead}{_one_side(run, where)}")
            continue
        ratio = judged(row_of(rows, TIME, **where))
        parts = [f"{lead}The time of a set with a competitor over that without is {ratio}."]
        kept = run.summary(beside, COMPETITOR)
        parts += [f"The competitor holds {median(kept, 'KiB')}."] if kept is not None else []
        before, after = (run.summary(point, MAJOR) for point in (alone, beside))
        if before is not None and after is not None:
            waits = (
                "no page had to be brought back in any repetition"
                if after.maximum == 0
                else "pages of it had to be brought back from swap or a file, in one repetition up to "
                f"{number(after.maximum)}"
            )
            parts.append(
                f"Major faults of the function are {figure(before, '')} alone and {figure(after, '')} "
                "beside it, "
                f"blocks read {BLOCKS_READ.text(run.experiment, beside)}: {waits}."
            )
        said.append(" ".join(parts))
    return said


def _conditions(_: Run, found: Sequence[Point]) -> list[str]:
    """Say what the competitor is, and how the memory was prepared."""
    factors = [point.samples.factors for point in found]
    kinds = dict.fromkeys(
        MACHINE if each.get("scope") == "machine" else GROUP
        for each in factors
        if each.get("pressure") != "none"
    )
    present = [PRESENT] if all(each.get("initialise", "none") != "none" for each in factors) else []
    notes = dict.fromkeys(cause(note) for point in found for note in point.samples.notes)
    return [*kinds, *present, *notes]


def _tables(run: Run, found: Sequence[Point]) -> list[Table]:
    rows = compared(run.experiment, COMPARED, "pressure", ENDS)
    tables = []
    for where in _wheres(run, found):
        factors = {"mapping": "anonymous", **run.experiment.points[0].factors, **where}
        theirs = {"footprint": "first64th", "pattern": "random", "mapping": "anonymous"}
        own = all(factors.get(name) == level for name, level in theirs.items())
        here = [point for end in ENDS if (point := first(run.experiment, **where, pressure=end)) is not None]
        note = f"{walked(here)} {TICKS}{f' {reference.WHERE}' if own else ''}"
        cited = partial(cite, reference.PRESSURE) if own else None
        title = ", ".join(
            filter(None, ["With and without a competitor", label(run.experiment, where, where)])
        )
        sides = Sides("pressure", ENDS, WORDS, QUANTITIES, note, cited)
        tables.append(sides.table(title, run.experiment, rows, **where))
    return [table for table in tables if table is not None]


section = Question(
    title="Memory pressure",
    experiment="memory.pressure",
    rows=points("set_ns"),
    headline=_headline,
    text=(_details, _conditions),
    tables=(_tables,),
)

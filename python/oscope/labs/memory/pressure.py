"""The same work with and without a process that competes for memory: Figure 5 of the original report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from oscope.figures.analysed import label
from oscope.figures.words import cause
from oscope.labs.engine.contrast import Sides, compared, row_of
from oscope.labs.engine.quantity import plain
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
    "The competitor touches as much memory as its group of processes may have, at random. Group and swap are "
    "made for the run: the limit holds for both processes, and plays the machine's memory."
)
MACHINE = (
    "With scope=machine the competitor touches as much memory as the machine has, at random. No group limits "
    "it: all processes are short of memory with it. Swap is made for the run."
)
PRESENT = (
    "As in the original report, the mapping is present before the function begins (by memset). What of it is "
    "pushed out, the function has to bring back: those are its major faults."
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
        return f"With a competitor, a set takes {judged(row, 'as long as without')}."
    return f"With a competitor for memory, the same work takes {times(row)} as long."


def _one_side(run: Run, where: Where) -> str:
    alone, beside = (first(run.experiment, **where, pressure=end) for end in ENDS)
    text = TIME.text(run.experiment, beside if alone is None else alone)
    return f"Only one side was measured: a set takes {text} {WORDS[alone is None]}."


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
    text=(_conditions),
    tables=(_tables),
)

"""The original report's table: my_precious and fork, one by one, with mean, median and standard deviation.

All of it is of one machine, in cycles, or in nanoseconds where that has no time-stamp counter to trust.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed, measured
from oscope.figures.experiments import dot
from oscope.figures.words import counted, iteration, listed
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import TableOf, stat, text
from oscope.labs.engine.words import value
from oscope.labs.syscalls.reference import FORK_CHILD, FORK_PARENT, MY_PRECIOUS, Cited, cited
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, Scale, format_count

TITLE = "A call and fork in cycles, beside the original report"
LISTED = 10
"""Iterations listed one by one, as in the original report."""
NO_CALL = (
    "my_precious needs a kernel with that call. `oscope kernel build --patch my_precious --patch "
    "reclaim-policy` builds one, and `oscope run kernel.precious-wall kernel.fork-wall` measures the call "
    "and fork in guests under it: the kernel lab has both in one table."
)
"""Where the row comes from, and how to get it."""


@dataclass(frozen=True)
class Row:
    """A row of the original's table, and what was measured here, if it was."""

    name: str
    original: Cited
    point: Point | None

    @property
    def label(self) -> str:
        """The row's name with what an iteration is here."""
        if self.point is None:
            return self.name
        alone = self.point.run.experiment.experiment == "process.create"
        return f"{self.name}, {'one call each' if alone else iteration(self.point.samples)}"

    @property
    def n(self) -> str:
        """How many iterations there are here, or why there are none."""
        if self.point is not None:
            return format_count(self.point.summary.n)
        return "not measured where fork was" if self.name == "my_precious" else "not measured"


def section(results: Analysed) -> Section | None:
    """Answer B3: mean, median and standard deviation beside the original's."""
    create = Run.of(results, "process.create")
    fork = create.experiment.point(how="fork", resident=0) if create else None
    if create is None or fork is None:
        return None
    unit = "cycles" if len(measured(fork, "child_cycles")[0]) else "ns"
    rows = [
        Row("my_precious", MY_PRECIOUS, _my_precious(results, create, unit)),
        Row("fork child", FORK_CHILD, _first(create, f"child_{unit}", how="fork", resident=0)),
        Row("fork parent", FORK_PARENT, _first(create, f"parent_{unit}", how="fork", resident=0)),
    ]
    return Section(
        title=TITLE,
        answer=_headline(rows, unit),
        text=[
            *_order(rows, unit),
            "A cycle is a tick of the time-stamp counter, which runs at a constant rate.",
        ],
        tables=[_statistics(unit).of(rows), _iterations(rows, unit)],
        figures=_figure(rows) if unit == "cycles" else [],
        missing=_missing(rows, create, unit),
    )


def _first(run: Run, metric: str, **levels: str | int) -> Point | None:
    return next(iter(run.points(metric, **levels)), None)


def _my_precious(results: Analysed, create: Run, unit: str) -> Point | None:
    """Return the call with its line in the log, as the original has it, if it was measured where fork was."""
    metric = "cycles" if unit == "cycles" else "time_ns"
    for name in ("syscall.cost", "kernel.precious-wall"):
        run = Run.of(results, name)
        point = _first(run, metric, call="my_precious_logged") if run else None
        guests = [each.experiment.environment.get("guest") for each in (run, create) if each]
        if point is not None and guests[0] == guests[1]:
            return point
    return None


def _missing(rows: Sequence[Row], create: Run, unit: str) -> str:
    parts = [NO_CALL] if rows[0].point is None else []
    if unit != "cycles":
        clock = create.experiment.environment.get("clock") or {}
        parts.append(f"Cycles: {clock.get('why') or 'no sample has them'}.")
    none = [row.name.removeprefix("fork ") for row in rows[1:] if row.point is None]
    if none:
        parts.append(f"Figures of fork's {listed(none)}: no sample without resident memory has them.")
    return " ".join(parts)


def _headline(rows: Sequence[Row], unit: str) -> str:
    child, parent = (row.point for row in rows[1:])
    if child is None or parent is None:
        return ""
    return (
        f"After fork, the child's first instruction comes {value(child.summary, unit)} after the call, the "
        f"parent's return {value(parent.summary, unit)}."
    )


def _order(rows: Sequence[Row], unit: str) -> list[str]:
    """Say how often the parent returned before the child ran."""
    point = rows[1].point
    if point is None or rows[2].point is None:
        return []
    later = point.samples.metrics[f"child_{unit}"] - point.samples.metrics[f"parent_{unit}"]
    later = later[np.isfinite(later)]
    theirs = np.subtract(FORK_CHILD.iterations, FORK_PARENT.iterations)
    return [
        (
            f"The parent returned from fork before the child ran in {format_count((later > 0).sum())} of "
            f"{counted(len(later), 'fork')} ({(theirs > 0).sum()} of {len(theirs)} in the original report)."
        )
    ]


def _statistics(unit: str) -> TableOf[Row]:
    return TableOf(
        "Mean, median and standard deviation",
        (
            text("", lambda row: row.label),
            *cited(lambda row: row.original),
            text("here: iterations", lambda row: row.n, numeric=True),
            stat(
                "here: {}",
                lambda row: None if row.point is None else row.point.summary,
                unit,
                *("mean", "median", "95 %", "std. dev."),
                prefix=False,
            ),
        ),
        "The original report's figures are of 10 iterations each. The child's figure is until its first "
        "instruction, the parent's until the call returns. The interval is that of the median.",
    )


def _iterations(rows: Sequence[Row], unit: str) -> Table:
    """List the first iterations one by one."""
    own = [measured(row.point.samples, row.point.metric)[0] if row.point else np.zeros(0) for row in rows]
    lines = [
        [
            str(index + 1),
            *(format_count(row.original.iterations[index]) for row in rows),
            *(format_count(values[index]) if index < len(values) else MISSING for values in own),
        ]
        for index in range(LISTED)
    ]
    heads = [
        *(f"original: {row.name} [cycles]" for row in rows),
        *(f"here: {row.name} [{unit}]" for row in rows),
    ]
    note = "In the order in which they were taken; none is left out."
    return Table(f"The first {LISTED} iterations", ["iteration", *heads], lines, frozenset(range(7)), note)


def _figure(rows: Sequence[Row]) -> list[Figure]:
    drawn = []
    for row in rows:
        if row.point is not None:
            run, samples = row.point.run, (row.point.samples, row.point.metric)
            scale = Scale("cycles", 1.0, 0)
            drawn.append(dot(run.results, run.experiment, samples, scale, name=f"{row.name}: here", colour=0))
            theirs = np.array(row.original.iterations, dtype=float)
            drawn.append(plots.Dot(f"{row.name}: original", row.original.median, None, theirs, 1))
    note = "Faint: single iterations. Diamond: median, with its 95 % interval where the run gives one."
    title = "Cycles of a call and of fork, single and median"
    return [plots.strips(title, "cycles", drawn, note)] if drawn else []

"""What making a process costs: page tables, and the original report's table of a call and fork."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from oscope import questions as q
from oscope.originals.syscalls import FORK_CHILD, FORK_PARENT, MY_PRECIOUS
from oscope.questions.cited_iterations import CitedRow, cited_statistics
from oscope.statistics import effect
from oscope.statistics.line import fit_line
from oscope.statistics.multiplicity import holm

# ---- page tables: the time of making a process against the memory it has touched

METRIC = "parent_ns"
FEW = "one block is too few to decide"
FEWEST_BLOCKS = 3
"""With two, only a cost that differs from block to block by almost nothing is found."""
TOO_FEW = "too few blocks (2) to find a cost"
FLAT = "no cost found"
FASTER = "faster, which page tables cannot explain"


class Line(NamedTuple):
    """One way of making a process, over resident memory in pages of one size."""

    how: str
    pages: str
    points: Sequence[q.Point]
    """By resident memory, ascending; at least two."""
    slope: q.Summary
    """ns for each MiB, a value a block."""
    p: float = 1.0
    """Of "no slope", corrected for all lines."""
    least: float | None = None
    """The smallest slope that would have been found; None with one block."""

    @property
    def name(self) -> str:
        """The line's name in a figure."""
        return f"{self.how} with {self.pages} pages"


def _lines(run: q.Run) -> list[Line]:
    """Return the points of each way and page size; one without resident memory is of every page size."""
    measured = [point for point in run.points(METRIC) if "resident" in point.factors]
    by_how = q.grouped(measured, lambda point: str(point.factors.get("how", "fork")))
    found = []
    for (how, points), pages in product(by_how.items(), dict.fromkeys(map(_pages, measured))):
        own = {_mebibytes(each): each for each in points if pages == _pages(each) or not _mebibytes(each)}
        rising = [own[resident] for resident in sorted(own)]
        medians = [q.block_medians(each.samples, METRIC) for each in rising]
        if (fitted := fit_line(sorted(own), medians)) is not None:
            found.append(Line(how, pages, rising, fitted.slope))
    return list(tested(found))


def tested(lines: Sequence[Line]) -> Iterator[Line]:
    """Test the slopes of all lines as one family (Holm)."""
    tests = [effect.paired(line.slope.data) if line.slope.n > 1 else None for line in lines]
    known = [test.p for test in tests if test is not None]
    corrected = iter(holm(np.array(known)))
    for line, test in zip(lines, tests, strict=True):
        if test is not None:
            least = test.detectable(effect.LEVEL / len(known))
            line = line._replace(p=float(next(corrected)), least=least)
        yield line


def _pages(point: q.Point) -> str:
    return str(point.factors.get("pages", "4K"))


def _mebibytes(point: q.Point) -> float:
    return float(point.factors["resident"]) / q.MEBIBYTE


def _slowed(_: q.Run, lines: Sequence[Line]) -> str:
    verdicts = q.grouped(lines, verdict)
    if list(verdicts) == [FEW]:
        return "One block is too few to say what resident memory costs."
    rising = verdicts.get("slower", [])
    flat, few, faster = (q.listed(_named(lines, each)) for each in (FLAT, TOO_FEW, FASTER))
    unknown = [f"{TOO_FEW} for {few}"] if few else []
    if not rising:
        same = [*([f"No cost of resident memory was found for {flat}"] if flat else []), *unknown]
        less = [f"with more resident memory the parent goes on earlier for {faster}"] if faster else []
        return f"{q.capital('; '.join([*same, *less]))}."
    most = min(rising, key=lambda line: (line.how != "fork", -line.slope.median))
    none = "".join(f"; {each}" for each in [*([f"none was found for {flat}"] if flat else []), *unknown])
    others = list(dict.fromkeys(line.how for line in rising if line.how != most.how))
    none = f", {q.listed(others)} likewise{none}" if others else none
    more = f"{q.bracketed(most.slope, 'ns')} longer for each MiB resident (paired by block)"
    return f"{most.name} holds its parent {more}{none}."


def _named(lines: Sequence[Line], outcome: str) -> list[str]:
    """Return the lines with a verdict: by the way alone where all of its page sizes have it."""
    every = q.grouped(lines, lambda line: line.how)
    own = [line for line in lines if verdict(line) == outcome]
    whole = {how for how, all_of_it in every.items() if all(verdict(line) == outcome for line in all_of_it)}
    return list(dict.fromkeys(line.how if line.how in whole else line.name for line in own))


def verdict(line: Line) -> str:
    """Say whether resident memory costs anything this way, or that the blocks are too few."""
    if line.slope.ci95 is None:
        return FEW
    if not q.excludes_zero(line.slope) or line.p >= effect.LEVEL:
        return FLAT if line.slope.n >= FEWEST_BLOCKS else TOO_FEW
    return "slower" if line.slope.median > 0 else FASTER


TABLE: q.TableOf[Line] = q.TableOf(
    "Time until the parent goes on, against resident memory",
    *q.items("how", "pages"),
    q.text("resident memory", lambda line: " to ".join(line.points[end]["resident"] for end in (0, -1))),
    q.value("parent returns, least memory", lambda line: line.points[0].summary, "ns"),
    q.value("most memory", lambda line: line.points[-1].summary, "ns"),
    q.count("blocks", lambda line: line.slope.n),
    q.value("for each MiB (95 %)", lambda line: line.slope, "ns"),
    q.text("verdict", verdict),
    q.text(
        "would be found", lambda line: q.format_value(line.least, line.least, "ns") if line.least else None
    ),
    note="The slope is the median of a fit in each block, not that of the medians. The verdict is by its "
    "interval over blocks and by p, corrected (Holm) for all rows, as is the slope that would be found.",
)


def _lines_figure(_: q.Run, lines: Sequence[Line]) -> q.Figure:
    scale = q.shared_scale([point.summary for line in lines for point in line.points], "ns")
    hows, series = list(dict.fromkeys(line.how for line in lines)), []
    for line in lines:
        dots = [(_mebibytes(point), q.samples_dot(point, scale, line.name)) for point in line.points]
        dash = "solid" if line.pages == lines[0].pages else "dash"
        series.append(q.plots.Line(line.name, dots, hows.index(line.how), dash))
    memory = q.plots.axis("resident memory of the parent [MiB]")
    axes = (memory, q.plots.axis(f"parent returns after [{scale.unit}]", rangemode="tozero"))
    title = "Time until the parent goes on, by its memory"
    return q.plots.lines(title, axes, series, "Medians with their 95 % intervals.")


PAGE_TABLES = q.Question(
    title="What page tables cost",
    experiment="process.create",
    rows=_lines,
    headline=_slowed,
    text="fork copies an entry for each page touched, huge or not; vfork and threads share page tables.",
    tables=TABLE,
    figures=_lines_figure,
    missing=lambda run: q.reasons(run.experiment) if _lines(run) else "",
)

# ---- the original report's table: my_precious and fork, in cycles, or in ns where no counter is trusted

FORK: dict[str, q.Level] = {"how": "fork", "resident": 0}
ORIGINALS = (MY_PRECIOUS, FORK_CHILD, FORK_PARENT)
LISTED = 10
"""Iterations listed one by one, as in the original report."""
NO_CALL = (
    "my_precious needs a kernel with that call. `oscope kernel build --patch my_precious --patch "
    "reclaim-policy` builds one, and `oscope run kernel.precious-wall kernel.fork-wall` measures the call "
    "and fork in guests under it: the kernel lab has both in one table."
)
"""Where the row comes from, and how to get it."""


def _unit(run: q.Run) -> str:
    fork = run.experiment.point(**FORK)
    return "cycles" if fork and len(q.measured(fork, "child_cycles")[0]) else "ns"


def _rows(run: q.Run) -> list[CitedRow]:
    unit, fork = _unit(run), run.experiment.point(**FORK)
    if fork is None:
        return []
    ends = (run.point(f"{who}_{unit}", **FORK) for who in ("child", "parent"))
    names = ("my_precious", "fork child", "fork parent")
    return list(map(CitedRow, names, (_my_precious(run, unit), *ends), ORIGINALS))


def _my_precious(create: q.Run, unit: str) -> q.Point | None:
    """Return the call with its line in the log, as the original has it, if it was measured where fork was."""
    metric = "cycles" if unit == "cycles" else "time_ns"
    for name in ("syscall.cost", "kernel.precious-wall"):
        run = create.beside(name)
        point = run.point(metric, call="my_precious_logged") if run else None
        guests = [each.experiment.environment.get("guest") for each in (run, create) if each]
        if point is not None and guests[0] == guests[1]:
            return point
    return None


def _missing(create: q.Run) -> str:
    if not (rows := _rows(create)):
        return ""
    clock = create.experiment.environment.get("clock") or {}
    none = q.listed([row.name.removeprefix("fork ") for row in rows[1:] if row.point is None])
    return q.joined(
        NO_CALL if rows[0].point is None else "",
        f"Cycles: {clock.get('why') or 'no sample has them'}." if _unit(create) != "cycles" else "",
        f"Figures of fork's {none}: no sample without resident memory has them." if none else "",
    )


def _first_instruction(run: q.Run, rows: Sequence[CitedRow]) -> str:
    new, own = (q.time_of(run, f"{row.name.removeprefix('fork ')}_ns", **FORK) for row in rows[1:])
    if not (new and own):
        return ""
    return f"After fork, the child's first instruction comes {new} after the call, the parent's return {own}."


def _order(run: q.Run, rows: Sequence[CitedRow]) -> str | None:
    """Say how often the parent returned before the child ran."""
    point = rows[1].point
    if point is None or rows[2].point is None:
        return None
    child, parent = (point.samples.metrics[f"{who}_{_unit(run)}"] for who in ("child", "parent"))
    later = child - parent
    later = later[np.isfinite(later)]
    theirs = np.subtract(FORK_CHILD.iterations, FORK_PARENT.iterations)
    return (
        f"The parent returned from fork before the child ran in {q.format_count((later > 0).sum())} of "
        f"{q.counted(len(later), 'fork')} ({(theirs > 0).sum()} of {len(theirs)} in the original report)."
    )


def _statistics(run: q.Run, rows: Sequence[CitedRow]) -> q.Table:
    def missing(row: CitedRow) -> str:
        return "not measured where fork was" if row.name == "my_precious" else "not measured"

    note = "Original: 10 iterations each. Until the child's first instruction, and until the parent's return."
    return cited_statistics("Mean, median and standard deviation", rows, _unit(run), note, missing)


def _iterations(rows: Sequence[CitedRow], unit: str) -> q.Table:
    own = [q.measured(row.point.samples, row.point.metric)[0] if row.point else np.zeros(0) for row in rows]
    listed = [*(np.array(each.iterations) for each in ORIGINALS), *own]
    lines = [
        [str(n + 1), *(q.format_count(each[n]) if n < len(each) else q.MISSING for each in listed)]
        for n in range(LISTED)
    ]
    heads = [f"original: {row.name} [cycles]" for row in rows]
    heads += [f"here: {row.name} [{unit}]" for row in rows]
    note = "In the order in which they were taken; none is left out."
    return q.Table(f"The first {LISTED} iterations", ["iteration", *heads], lines, frozenset(range(7)), note)


def _single_figure(run: q.Run, rows: Sequence[CitedRow]) -> q.Figure | None:
    drawn = []
    for row, original in zip(rows, ORIGINALS, strict=True) if _unit(run) == "cycles" else ():
        if row.point is not None:
            drawn.append(q.samples_dot(row.point, q.Scale("cycles", 1.0, 0), f"{row.name}: here"))
            theirs = np.array(original.iterations, dtype=float)
            drawn.append(q.plots.Dot(f"{row.name}: original", original.median, None, theirs, 1))
    note = "Faint: single iterations. Diamond: median, with its 95 % interval where the run gives one."
    title = "Cycles of a call and of fork, single and median"
    return q.plots.strips(title, "cycles", drawn, note) if drawn else None


TABLE_ONE = q.Question(
    title="A call and fork in cycles, beside the original report",
    experiment="process.create",
    rows=_rows,
    headline=_first_instruction,
    text=(_order, "A cycle is a tick of the time-stamp counter, which runs at a constant rate."),
    tables=(_statistics, lambda run, rows: _iterations(rows, _unit(run))),
    figures=_single_figure,
    missing=_missing,
)

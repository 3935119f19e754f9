"""The original report's table: my_precious and fork, one by one, with mean, median and standard deviation.

All of it is of one machine, in cycles, or in nanoseconds where that has no time-stamp counter to trust.
"""

from __future__ import annotations

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed, measured
from oscope.figures.experiments import dot
from oscope.figures.tables import row_scale
from oscope.figures.words import counted, iteration, listed, median
from oscope.labs.syscalls import reference
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, Scale, format_count
from oscope.model.samples import ExperimentResults, Floats, PointSamples
from oscope.statistics import Summary

TITLE = "A call and fork in cycles, beside the original report"
LISTED = 10
"""Iterations listed one by one, as in the document."""
ROWS = (
    ("my_precious", reference.MY_PRECIOUS),
    ("fork child", reference.FORK_CHILD),
    ("fork parent", reference.FORK_PARENT),
)
NO_CALL = (
    "my_precious needs a kernel with that call. `oscope kernel build --patch my_precious --patch "
    "reclaim-policy` builds one, and `oscope run kernel.precious-wall kernel.fork-wall` measures the call "
    "and fork in guests under it: the kernel lab has both in one table."
)
"""Where the row comes from, and how to get it."""

Found = tuple[ExperimentResults, PointSamples, str]


def section(results: Analysed) -> Section | None:
    """Answer B3: mean, median and standard deviation beside the document's."""
    create = results.get("process.create")
    fork = create.point(how="fork", resident=0) if create else None
    if create is None or fork is None:
        return None
    unit = "cycles" if len(measured(fork, "child_cycles")[0]) else "ns"
    columns: list[Found | None] = [
        _my_precious(results, create, "cycles" if unit == "cycles" else "time_ns"),
        (create, fork, f"child_{unit}"),
        (create, fork, f"parent_{unit}"),
    ]
    summaries = [results.summary(*each) if each else None for each in columns]
    return Section(
        title=TITLE,
        answer=_answer(fork, summaries, unit),
        text=[
            (
                "The original report timed ten iterations of each on another machine (Linux 5.0); its "
                "figures stand beside ours for their shape. A cycle is a tick of the time-stamp counter, "
                "which runs at a constant rate whatever the core's own frequency."
            ),
        ],
        tables=[_statistics(columns, summaries, unit), _iterations(columns, unit)],
        figures=_figure(results, columns) if unit == "cycles" else [],
        missing=_missing(columns[0], summaries, create, unit),
    )


def _my_precious(results: Analysed, create: ExperimentResults, metric: str) -> Found | None:
    """Return the call with its line in the log, as the original has it, if it was measured where fork was."""
    for name in ("syscall.cost", "kernel.precious-wall"):
        experiment = results.get(name)
        point = experiment.point(call="my_precious_logged") if experiment else None
        if experiment is None or point is None or not len(measured(point, metric)[0]):
            continue
        if experiment.environment.get("guest") == create.environment.get("guest"):
            return experiment, point, metric
    return None


def _missing(
    precious: Found | None, summaries: list[Summary | None], create: ExperimentResults, unit: str
) -> str:
    parts = [NO_CALL] if precious is None else []
    if unit != "cycles":
        parts.append(f"Cycles: {_no_cycles(create, 'no sample has them')}.")
    none = [who for who, summary in zip(("child", "parent"), summaries[1:], strict=True) if summary is None]
    if none:
        parts.append(f"Figures of fork's {listed(none)}: no sample without resident memory has them.")
    return " ".join(parts)


def _no_cycles(experiment: ExperimentResults, otherwise: str) -> str:
    """Return why there are no cycles: what the record says of its clock, else what is given."""
    clock = experiment.environment.get("clock") or {}
    return str(clock.get("why") or otherwise)


def _answer(fork: PointSamples, summaries: list[Summary | None], unit: str) -> str:
    _, child, parent = summaries
    if child is None or parent is None:
        return ""
    later = fork.metrics[f"child_{unit}"] - fork.metrics[f"parent_{unit}"]
    later = later[np.isfinite(later)]
    theirs = np.subtract(reference.FORK_CHILD.iterations, reference.FORK_PARENT.iterations)
    return (
        f"The parent returned from fork before the child ran in {format_count((later > 0).sum())} of "
        f"{counted(len(later), 'fork')} ({(theirs > 0).sum()} of {len(theirs)} in the original report). By "
        f"the median the child's first instruction comes {median(child, unit)} after the call, the "
        f"parent's return {median(parent, unit)}."
    )


def _statistics(columns: list[Found | None], summaries: list[Summary | None], unit: str) -> Table:
    scale = Scale(unit, 1.0, 0)
    rows = []
    for (name, document), column, summary in zip(ROWS, columns, summaries, strict=True):
        cited = [f"{figure:.2f}" for figure in (document.mean, document.median, document.deviation)]
        label = name if column is None else f"{name}, {_each(column)}"
        rows.append([label, *cited, *(_own(summary, scale) if summary else _unmeasured(name))])
    figures = ("mean", "median", "std. dev.")
    here = ("mean", "median", "95 % interval", "std. dev.")
    heads = ["", *(f"original: {name} [cycles]" for name in figures), "here: iterations"]
    heads += [f"here: {name} [{scale.unit}]" for name in here]
    return Table(
        "Mean, median and standard deviation",
        heads,
        rows,
        frozenset(range(1, len(heads))),
        "The original report's figures are of 10 iterations each. The child's figure is until its first "
        "instruction, the parent's until the call returns. The interval is that of the median.",
    )


def _each(column: Found) -> str:
    """Return what an iteration is."""
    experiment, point, _ = column
    return iteration(point) if experiment.experiment != "process.create" else "one call each"


def _unmeasured(name: str) -> list[str]:
    why = "not measured where fork was" if name == "my_precious" else "not measured"
    return [why, *[MISSING] * 4]


def _own(summary: Summary, column: Scale) -> list[str]:
    own = row_scale(column, summary)
    text = own.text
    return [
        format_count(summary.n),
        text(summary.mean),
        text(summary.median),
        own.span(summary.ci95),
        text(summary.std),
    ]


def _iterations(columns: list[Found | None], unit: str) -> Table:
    """List the first iterations one by one."""
    own: list[Floats] = [measured(each[1], each[2])[0][:LISTED] if each else np.zeros(0) for each in columns]
    rows = []
    for index in range(LISTED):
        cited = [format_count(document.iterations[index]) for _, document in ROWS]
        here = [format_count(values[index]) if index < len(values) else MISSING for values in own]
        rows.append([str(index + 1), *cited, *here])
    names = [name for name, _ in ROWS]
    return Table(
        f"The first {LISTED} iterations",
        [
            "iteration",
            *(f"original: {name} [cycles]" for name in names),
            *(f"here: {name} [{unit}]" for name in names),
        ],
        rows,
        frozenset(range(7)),
        "In the order in which they were taken; none is left out.",
    )


def _figure(results: Analysed, columns: list[Found | None]) -> list[Figure]:
    known = [
        (name, document, each)
        for (name, document), each in zip(ROWS, columns, strict=True)
        if each and results.summary(*each) is not None
    ]
    if not known:
        return []
    scale = Scale("cycles", 1.0, 0)
    rows = []
    for name, document, (experiment, point, metric) in known:
        rows.append(dot(results, experiment, (point, metric), scale, name=f"{name}: here", colour=0))
        cited = np.array(document.iterations, dtype=float)
        rows.append(plots.Dot(f"{name}: original", document.median, None, cited, 1))
    return [
        plots.strips(
            "Cycles of a call and of fork, single and median",
            "cycles",
            rows,
            "Faint: single iterations. Diamond: median, with its 95 % interval where the run gives one.",
        )
    ]

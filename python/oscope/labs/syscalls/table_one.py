"""The document's table: my_precious and fork in cycles, one by one, with mean, median and deviation.

An emulated guest has no time-stamp counter to trust: my_precious is then in nanoseconds.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from oscope.digits import MISSING, Scale, format_count
from oscope.labs.syscalls import reference
from oscope.labs.words import counted, listed, median
from oscope.report import plots
from oscope.report.analysis import Analysed, measured
from oscope.report.document import Figure, Section, Table
from oscope.report.experiments import dot
from oscope.report.tables import doubt
from oscope.samples import ExperimentResults, Floats, PointSamples
from oscope.statistics import Summary

LISTED = 10
"""Iterations listed one by one, as in the document."""
ROWS = (
    ("my_precious", reference.MY_PRECIOUS),
    ("fork child", reference.FORK_CHILD),
    ("fork parent", reference.FORK_PARENT),
)
NO_CALL = (
    "my_precious needs a kernel with that call. `oscope kernel build --patch my_precious --patch "
    "reclaim-policy` builds one, and `oscope run kernel.precious-wall` measures the call in a guest under "
    "it; a report of both runs has the row, in cycles of the guest, or in ns where it has none."
)
"""Where the row comes from, and how to get it."""

Found = tuple[ExperimentResults, PointSamples, str]


def section(results: Analysed) -> Section | None:
    """Answer B3: mean, median and standard deviation beside the document's."""
    create = results.get("process.create")
    fork = create.point(how="fork", resident=0) if create else None
    if create is None or fork is None:
        return None
    columns: list[Found | None] = [
        _my_precious(results),
        (create, fork, "child_cycles"),
        (create, fork, "parent_cycles"),
    ]
    summaries = [results.summary(*each) if each else None for each in columns]
    return Section(
        title="A call and fork in cycles, beside the original report",
        answer=_answer(fork, summaries),
        text=[
            (
                "The original report timed ten iterations of each on another machine (Linux 5.0); its "
                "figures stand beside ours for their shape. A cycle is a tick of the time-stamp counter, "
                "which runs at a constant rate whatever the core's own frequency."
            ),
            *_elsewhere(columns[0], create),
        ],
        tables=[_statistics(columns, summaries), _iterations(columns)],
        figures=_figure(results, columns),
        missing=_missing(columns, summaries, create),
    )


def _my_precious(results: Analysed) -> Found | None:
    """Return the call with its line in the log, as the document's has it, if a kernel that has it was run."""
    for metric, name in product(("cycles", "time_ns"), ("kernel.precious-wall", "syscall.cost")):
        experiment = results.get(name)
        point = experiment.point(call="my_precious_logged") if experiment else None
        if experiment is not None and point is not None and len(measured(point, metric)[0]):
            return experiment, point, metric
    return None


def _elsewhere(precious: Found | None, create: ExperimentResults) -> list[str]:
    """Say where the row of my_precious is from, if it is from another machine than fork's."""
    guest = precious[0].environment.get("guest") if precious else None
    if not guest or guest == create.environment.get("guest"):
        return []
    kernel = (guest.get("kernel") or {}).get("name", "another kernel")
    return [
        (
            f"my_precious was measured in a guest under {kernel} ({guest.get('accelerator')}), a call in a "
            "loop with its line in the log each time; fork was not. The two rows are of two machines."
        )
    ]


def _missing(columns: list[Found | None], summaries: list[Summary | None], create: ExperimentResults) -> str:
    precious = columns[0]
    parts = [NO_CALL] if precious is None else []
    if precious is not None and precious[2] != "cycles":
        parts.append(f"Cycles of my_precious: {_no_cycles(precious[0], 'no sample has them')}.")
    none = [who for who, summary in zip(("child", "parent"), summaries[1:], strict=True) if summary is None]
    if none:
        reason = _no_cycles(create, "no sample of fork without resident memory has them")
        parts.append(f"Cycles of fork's {listed(none)}: {reason}.")
    return " ".join(parts)


def _no_cycles(experiment: ExperimentResults, otherwise: str) -> str:
    """Return why there are no cycles: what the record says of its clock, else what is given."""
    clock = experiment.environment.get("clock") or {}
    return str(clock.get("why") or otherwise)


def _unit(column: Found) -> str:
    """Return the unit of a column's metric."""
    experiment, _, metric = column
    return experiment.metrics[metric].unit


def _named(name: str, column: Found | None) -> str:
    """Return a column's name, with its unit where that is not cycles."""
    return name if column is None or _unit(column) == "cycles" else f"{name} [{_unit(column)}]"


def _answer(fork: PointSamples, summaries: list[Summary | None]) -> str:
    _, child, parent = summaries
    if child is None or parent is None:
        return ""
    later = fork.metrics["child_cycles"] - fork.metrics["parent_cycles"]
    later = later[np.isfinite(later)]
    theirs = np.subtract(reference.FORK_CHILD.iterations, reference.FORK_PARENT.iterations)
    return (
        f"The parent returned from fork before the child ran in {format_count((later > 0).sum())} of "
        f"{counted(len(later), 'fork')} ({(theirs > 0).sum()} of {len(theirs)} in the original report). By "
        f"the median the child's first instruction comes {median(child, 'cycles')} after the call, the "
        f"parent's return {median(parent, 'cycles')}."
    )


def _statistics(columns: list[Found | None], summaries: list[Summary | None]) -> Table:
    rows = []
    for (name, document), column, summary in zip(ROWS, columns, summaries, strict=True):
        cited = [f"{figure:.2f}" for figure in (document.mean, document.median, document.deviation)]
        label = name if column is None or _unit(column) == "cycles" else f"{name}, here in {_unit(column)}"
        rows.append([label, *cited, *(_own(summary) if summary else [_why(name)])])
    figures = ("mean", "median", "std. dev.")
    here = ("iterations", "mean", "median", "95 % interval", "std. dev.")
    heads = ["", *(f"original: {name}" for name in figures), *(f"here: {name}" for name in here)]
    return Table(
        "Mean, median and standard deviation [cycles]",
        heads,
        rows,
        frozenset(range(1, len(heads))),
        "The original report's figures are of 10 iterations each. The child's figure is until its first "
        "instruction, the parent's until the call returns. The interval is that of the median.",
    )


def _why(name: str) -> str:
    return "needs the patched kernel" if name == "my_precious" else "not measured: no cycles here"


def _own(summary: Summary) -> list[str]:
    scale = Scale.choose([summary.median], [doubt(summary)], "cycles")
    low, high = summary.ci95 or (None, None)
    interval = MISSING if low is None else f"{scale.text(low)} to {scale.text(high)}"
    return [
        format_count(summary.n),
        scale.text(summary.mean),
        scale.text(summary.median),
        interval,
        scale.text(summary.std),
    ]


def _iterations(columns: list[Found | None]) -> Table:
    """List the first iterations one by one."""
    own: list[Floats] = [measured(each[1], each[2])[0][:LISTED] if each else np.zeros(0) for each in columns]
    rows = []
    for index in range(LISTED):
        cited = [format_count(document.iterations[index]) for _, document in ROWS]
        here = [format_count(values[index]) if index < len(values) else MISSING for values in own]
        rows.append([str(index + 1), *cited, *here])
    names = [name for name, _ in ROWS]
    here_names = [_named(name, column) for name, column in zip(names, columns, strict=True)]
    return Table(
        f"The first {LISTED} iterations [cycles]",
        ["iteration", *(f"original: {name}" for name in names), *(f"here: {name}" for name in here_names)],
        rows,
        frozenset(range(7)),
        "In the order in which they were taken; none is left out."
        if columns[0]
        else "In the order in which they were taken; none is left out. my_precious needs the patched kernel.",
    )


def _figure(results: Analysed, columns: list[Found | None]) -> list[Figure]:
    # On one axis stands what has one unit.
    found = [
        (name, document, each)
        for (name, document), each in zip(ROWS, columns, strict=True)
        if each and _unit(each) == "cycles"
    ]
    known = [(name, document, each) for name, document, each in found if results.summary(*each) is not None]
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
            "Single iterations and medians",
            "cycles",
            rows,
            "Faint: single iterations. Diamond: median, with its 95 % interval where the run gives one.",
        )
    ]

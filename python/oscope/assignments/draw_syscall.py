"""The table of E0253 Assignment 0, from a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from oscope.assignments.syscall import NO_KERNEL
from oscope.assignments.tables import LISTED, Cited, Runs, Source, Unit, guest, iterations, own_scale
from oscope.figures.analysed import Analysed
from oscope.model.document import Section, Table
from oscope.model.factors import Level
from oscope.model.formatting import MISSING, format_count
from oscope.originals import syscalls as reference

FORK: Mapping[str, Level] = {"how": "fork", "resident": 0}
CALL: Mapping[str, Level] = {"call": "my_precious_logged", "style": "single"}
SIDES = ("child", "parent")
OUTPUT = {"my_precious": 9082, "fork_child": 441178, "fork_parent": 308194}
"""Cycles that the program printed once, in section 3.1.1."""
CITED = {
    "my_precious": reference.MY_PRECIOUS,
    "fork_child": reference.FORK_CHILD,
    "fork_parent": reference.FORK_PARENT,
}


def _runs(results: Analysed) -> list[Runs]:
    """Return our columns: the call and fork in one guest, then fork on this machine."""
    unit = "cycles" if _guest("child_cycles").summary(results) is not None else "ns"
    call = Source("kernel.precious-wall", "cycles" if unit == "cycles" else "time_ns", CALL)
    found = [Runs("my_precious, guest", call, Unit(unit))]
    if _guest(f"child_{unit}").summary(results) is not None:
        found += [Runs(f"fork_{who}, guest", _guest(f"{who}_{unit}"), Unit(unit)) for who in SIDES]
    here = "cycles" if _local("child_cycles").summary(results) is not None else "ns"
    if _local(f"child_{here}").summary(results) is not None:
        found += [Runs(f"fork_{who}, this machine", _local(f"{who}_{here}"), Unit(here)) for who in SIDES]
    return found


def _guest(metric: str) -> Source:
    return Source("kernel.fork-wall", metric, FORK)


def _local(metric: str) -> Source:
    return Source("process.create", metric, FORK)


def _missing(results: Analysed, runs: Sequence[Runs]) -> str:
    call = runs[0].source
    if call.summary(results) is None:
        return NO_KERNEL if call.find(results) is None else f"my_precious {call.reason(results)}."
    return ""


def _where(results: Analysed) -> str:
    return f"{guest(results, 'kernel.precious-wall')} This machine: under its own kernel.".strip()


def program(results: Analysed) -> Section:
    """Draw section 3.1.1: what the program prints for one run."""
    runs = _runs(results)
    # A column for each machine and unit: two machines' figures in one would look comparable.
    own: dict[str, dict[str, str]] = {}
    for run in runs:
        values = run.source.values(results)
        name, _, where = run.name.partition(", ")
        cells = own.setdefault(f"first sample, {where} [{run.unit.name}]", {})
        cells[name] = format_count(values[0]) if len(values) else MISSING
    names = dict.fromkeys(name for cells in own.values() for name in cells)
    rows = [
        [name, format_count(OUTPUT[name]), *(cells.get(name, MISSING) for cells in own.values())]
        for name in names
    ]
    columns = ["", "original: cycles", *own]
    numeric = frozenset(range(1, len(columns)))
    table = Table("Output of one run", columns, rows, numeric, _where(results))
    return Section("", "", tables=[table], missing=_missing(results, runs))


def table_one(results: Analysed) -> Section:
    """Draw Table 1: ten iterations, mean, median and standard deviation."""
    runs = _runs(results)
    cited = [
        Cited(
            f"{name} [cycles]",
            each.iterations,
            {"mean": each.mean, "median": each.median, "std. dev.": each.deviation},
        )
        for name, each in CITED.items()
    ]
    note = (
        f"The first {LISTED} samples as they were taken; the last rows are of all n samples, the interval is "
        f"that of the median. {_where(results)}"
    )
    table = iterations(results, "Table 1: the output of iterations", cited, runs, note)
    return Section("", _answer(results, runs), tables=[table], missing=_missing(results, runs))


def _answer(results: Analysed, runs: Sequence[Runs]) -> str:
    parts = []
    for run in runs:
        summary = run.source.summary(results)
        if summary is None:
            continue
        cited = CITED[run.name.partition(",")[0]]
        own = own_scale(run.unit.scale([summary]), summary)
        parts.append(
            f"{run.name}: mean {own.text(summary.mean)} {run.unit.name}, standard deviation "
            f"{own.text(summary.std)} (original: {format_count(cited.mean)} and "
            f"{format_count(cited.deviation)} cycles)"
        )
    return f"{'; '.join(parts)}." if parts else ""


DRAWN: Mapping[str, Callable[[Analysed], Section | None]] = {"program": program, "table-1": table_one}
"""By the key of the step."""

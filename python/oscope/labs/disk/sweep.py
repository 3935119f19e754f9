"""Cold reading by block size, beside dd and fio: evenly spaced, and to scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from oscope.figures import plots
from oscope.figures.words import listed
from oscope.labs.disk import reference
from oscope.labs.engine.contrast import Ratios
from oscope.labs.engine.curves import (
    RATE,
    RATE_UNIT,
    Curves,
    beside,
    best,
    curve,
    curves_by,
    lines_over,
    over_sizes,
    ratios,
    size_columns,
    sizes_of,
    source,
)
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, ratio, text
from oscope.labs.engine.words import NOT_RUN, reasons, value
from oscope.model.document import Figure, Table
from oscope.model.formatting import MISSING, format_share
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric
from oscope.statistics.compare import THRESHOLD

OURS, PEERS = "oscope", "disk.peers"
TOOLS = (OURS, "dd", "fio")
MEBIBYTE = 1 << 20
FASTER, SLOWER = "it is faster", "it is slower"


def _curves(run: Run) -> Curves:
    if run.experiment.experiment == PEERS:
        return curves_by(run, RATE, "tool", TOOLS, cache="cold")
    found = curve(run.results, run.experiment, RATE, engine="read", cache="cold")
    return {OURS: found} if found else {}


def _against(run: Run) -> Mapping[str, Ratios]:
    tools = [tool for tool in TOOLS[1:] if tool in _curves(run)]
    return {tool: ratios(run.experiment, RATE, "tool", (tool, OURS), cache="cold") for tool in tools}


def _headline(run: Run, _sizes: Sequence[int]) -> str:
    """Give the ends of the first curve."""
    (tool, found), *_others = _curves(run).items()
    low, high = found[0], found[-1]
    text = f"Cold, {tool} reads blocks of {low.name} at {value(low.summary, RATE_UNIT)}"
    return f"{text}." if low is high else f"{text}, of {high.name} at {value(high.summary, RATE_UNIT)}."


def _best(run: Run, _sizes: Sequence[int]) -> list[str]:
    """Say how the ends compare with the original report's, and which block size is the fastest."""
    (_, found), *_others = _curves(run).items()
    low, high = found[0], found[-1]
    cited = [reference.COLD.get(each.size) for each in (low, high)]
    theirs = f" (in the original {cited[1] / cited[0]:.2g} times)" if cited[0] and cited[1] else ""
    first, alike = best(found, run.experiment, RATE)
    if low is high:
        return []
    return [
        (
            f"The largest block is read {high.summary.median / low.summary.median:.2g} times as fast as the "
            f"smallest{theirs}; the fastest is {first.name}{beside(alike)}."
        )
    ]


def _compared(run: Run, _: Sequence[int]) -> list[str]:
    return [f"Beside {tool}, {_verdicts(rows)}." for tool, rows in _against(run).items() if rows]


def _verdicts(rows: Ratios) -> str:
    """Say at which block sizes oscope is faster and slower, and where not."""
    groups: dict[str, list[int]] = {}
    for size, row in rows.items():
        groups.setdefault(_verdict(row), []).append(size)
    parts = []
    for word, sizes in groups.items():
        every = len(sizes) == len(rows) > 1
        where = "every block size" if every else listed([format_bytes(size) for size in sizes])
        ends = [f"{end(rows[size].ratio for size in sizes):.2f}" for end in (min, max)]
        span = f" ({' to '.join(dict.fromkeys(ends))} times its speed)" if word in (FASTER, SLOWER) else ""
        parts.append(f"{word} at {where}{span}")
    return "; ".join(parts)


def _verdict(row: ComparedMetric) -> str:
    if row.different == "no" or row.matters == "no":
        return f"it is as fast (within {format_share(THRESHOLD)})"
    if row.different == "yes":
        return FASTER if row.ratio > 1 else SLOWER
    return "no difference was found"


def _table(run: Run, sizes: Sequence[int]) -> list[Table]:
    curves = _curves(run)
    cited = {"original": reference.COLD, "original dd": reference.DD}
    table: TableOf[int] = TableOf(
        f"Cold reads by block size, file of {source(run.experiment, curves)}",
        (
            *size_columns(curves, RATE_UNIT),
            *(ratio(f"{OURS} / {tool}", rows.get) for tool, rows in _against(run).items()),
            *(
                text(f"{name} [{RATE_UNIT}]", partial(reference.cited, row), numeric=True)
                for name, row in cited.items()
            ),
        ),
        "Medians. A ratio is paired by block, with its 95 % interval; above 1 oscope is the faster one. "
        f"{MISSING}: not measured.",
    )
    return [table.of(sizes)]


def _figures(run: Run, sizes: Sequence[int]) -> list[Figure]:
    curves = _curves(run)
    title = f"Speed of cold reads, file of {source(run.experiment, curves)}, block sizes"
    lines, axis = lines_over(curves, RATE_UNIT, {size: size / MEBIBYTE for size in sizes})
    near = sum(size <= sizes[-1] / 40 for size in sizes)
    note = (
        f"The same figures; to scale, {near} of {len(sizes)} block sizes lie within a fortieth of the axis."
    )
    block = plots.axis("block size [MiB]", rangemode="tozero")
    even = over_sizes(f"{title} evenly spaced", curves, RATE_UNIT)
    return [even, plots.lines(f"{title} to scale", (block, axis), lines, note)]


def _missing(run: Run) -> str:
    if run.experiment.experiment == PEERS:
        return reasons(run.experiment, cache="cold")
    return f"dd and fio: {NOT_RUN.format(PEERS, PEERS)}."


section = Question(
    title="Reading cold, by block size, beside dd and fio",
    experiment=(PEERS, "disk.read"),
    rows=lambda run: sizes_of(_curves(run)),
    headline=_headline,
    text=(
        _best,
        _compared,
        (
            "All three read the same file, in turns, each after the caches were dropped and found empty. "
            "The time "
            "is each tool's own account, without the start of its process; in dd's is a write to /dev/null "
            "after "
            "each read. The original's figures are of another machine."
        ),
    ),
    tables=(_table,),
    figures=(_figures,),
    factors=("tool", "cache", "engine", "block_size"),
    missing=_missing,
)

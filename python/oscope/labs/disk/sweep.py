"""Cold reading by block size, beside dd and fio: evenly spaced, and to scale."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from oscope.figures import plots
from oscope.labs.disk import reference
from oscope.labs.engine.curves import (
    RATE,
    RATE_UNIT,
    Curves,
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
from oscope.model.formatting import MISSING
from oscope.statistics import ComparedMetric

OURS, PEERS = "oscope", "disk.peers"
TOOLS = (OURS, "dd", "fio")
MEBIBYTE = 1 << 20


def _curves(run: Run) -> Curves:
    if run.experiment.experiment == PEERS:
        return curves_by(run, RATE, "tool", TOOLS, cache="cold")
    found = curve(run, RATE, engine="read", cache="cold")
    return {OURS: found} if found else {}


def _over(run: Run, tool: str) -> dict[int, ComparedMetric]:
    return ratios(run, RATE, "tool", (tool, OURS), cache="cold")


def _headline(run: Run, _sizes: Sequence[int]) -> str:
    """Give the ends of the first curve."""
    (tool, found), *_others = _curves(run).items()
    low, high = found[0], found[-1]
    text = f"Cold, {tool} reads blocks of {low.name} at {value(low.summary, RATE_UNIT)}"
    return f"{text}." if low is high else f"{text}, of {high.name} at {value(high.summary, RATE_UNIT)}."


def _table(run: Run, sizes: Sequence[int]) -> Table:
    curves = _curves(run)
    cited = {"original": reference.COLD, "original dd": reference.DD}
    table: TableOf[int] = TableOf(
        f"Cold reads by block size, file of {source(run.experiment, curves)}",
        (
            *size_columns(curves, RATE_UNIT),
            *(
                ratio(f"{OURS} / {tool}", _over(run, tool).get, "different")
                for tool in TOOLS[1:]
                if tool in curves
            ),
            *(
                text(f"{name} [{RATE_UNIT}]", partial(reference.cited, row), numeric=True)
                for name, row in cited.items()
            ),
        ),
        "Medians. A ratio is paired by block, with its 95 % interval; above 1 oscope is the faster one. "
        f"{MISSING}: not measured.",
    )
    return table.of(sizes)


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
        "All three read the same file, interleaved, each after the caches were dropped and found empty. "
        "The time is each tool's own account; in dd's is a write to /dev/null after each read."
    ),
    tables=(_table),
    figures=(_figures),
    factors=("tool", "cache", "engine", "block_size"),
    missing=_missing,
)

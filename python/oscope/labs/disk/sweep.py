"""Cold reading by block size, beside dd and fio: evenly spaced, and to scale."""

from __future__ import annotations

from collections.abc import Mapping

from oscope.figures import plots
from oscope.figures.analysed import Analysed
from oscope.figures.tables import shared_scale
from oscope.figures.words import listed, median
from oscope.labs.curve import (
    NOT_RUN,
    RATE,
    RATE_UNIT,
    Curves,
    best,
    cells,
    curve,
    lines_over,
    narrowing,
    over_sizes,
    ratio_text,
    ratios,
    sizes_of,
    source,
    unmeasured,
)
from oscope.labs.disk import reference
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, format_share
from oscope.model.samples import ExperimentResults
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric
from oscope.statistics.compare import THRESHOLD

OURS = "oscope"
TOOLS = (OURS, "dd", "fio")
MEBIBYTE = 1 << 20
FASTER, SLOWER = "it is faster", "it is slower"


def section(results: Analysed) -> Section | None:
    """Answer C3 and C4."""
    peers, alone = results.get("disk.peers"), results.get("disk.read")
    experiment = peers or alone
    if experiment is None:
        return None
    if peers is not None:
        curves = {tool: curve(results, peers, RATE, tool=tool, cache="cold") for tool in TOOLS}
        missing = unmeasured(peers, cache="cold")
    else:
        curves = {OURS: curve(results, experiment, RATE, engine="read", cache="cold")}
        missing = f"dd and fio: {NOT_RUN.format('disk.peers', 'disk.peers')}."
    curves = {tool: found for tool, found in curves.items() if found}
    title = "Reading cold, by block size, beside dd and fio"
    if not curves:
        return Section(title, "", missing=missing) if missing else None
    against = {
        tool: ratios(experiment, RATE, "tool", (tool, OURS), cache="cold")
        for tool in TOOLS[1:]
        if tool in curves
    }
    return Section(
        title=title,
        answer=" ".join([_shape(experiment, curves), *_against(against)]),
        text=[
            (
                "All three read the same file, by turns, each after the caches were dropped and found "
                "empty. The time is each tool's own account, without the start of its process; in dd's is a "
                "write to /dev/null after each read. The original's figures are of another machine."
            ),
            *narrowing(experiment, ("tool", "cache", "engine")),
        ],
        tables=[_table(curves, against, source(experiment, curves))],
        figures=_figures(curves, source(experiment, curves)),
        missing=missing,
    )


def _shape(experiment: ExperimentResults, curves: Curves) -> str:
    """Tell the ends of the first curve and its top."""
    (tool, found), *_ = curves.items()
    low, high, file = found[0], found[-1], f"a file of {source(experiment, {tool: found})}"
    if low is high:
        return f"Cold, {tool} reads {file} by blocks of {low.name} at {median(low.summary, RATE_UNIT)}."
    slow, fast = (median(each.summary, RATE_UNIT) for each in (low, high))
    text = (
        f"Cold, {tool} reads {file} by blocks of {low.name} at {slow} and of {high.name} at {fast}, "
        f"{high.summary.median / low.summary.median:.2g} times as fast"
    )
    cited = [reference.COLD.get(each.size) for each in (low, high)]
    if cited[0] and cited[1]:
        text += f" (in the original {cited[1] / cited[0]:.2g} times)"
    first, alike = best(found, experiment, RATE)
    doubt = f", though {listed([each.name for each in alike])} cannot be told from it" if alike else ""
    return f"{text}; the fastest is {first.name}{doubt}."


def _against(against: Mapping[str, Mapping[int, ComparedMetric]]) -> list[str]:
    return [f"Beside {tool}, {_verdicts(rows)}." for tool, rows in against.items() if rows]


def _verdicts(rows: Mapping[int, ComparedMetric]) -> str:
    """Say at which block sizes oscope is faster and slower, and where not."""
    groups: dict[str, list[int]] = {}
    for size, row in rows.items():
        groups.setdefault(_verdict(row), []).append(size)
    parts = []
    for word, sizes in groups.items():
        where = (
            "every block size"
            if len(sizes) == len(rows) > 1
            else listed([format_bytes(size) for size in sizes])
        )
        low, high = (f"{end(rows[size].ratio for size in sizes):.2f}" for end in (min, max))
        span = f"{low} times its speed" if low == high else f"{low} to {high} times its speed"
        parts.append(f"{word} at {where} ({span})" if word in (FASTER, SLOWER) else f"{word} at {where}")
    return "; ".join(parts)


def _verdict(row: ComparedMetric) -> str:
    if row.different == "no" or row.matters == "no":
        return f"it is as fast (within {format_share(THRESHOLD)})"
    if row.different == "yes":
        return FASTER if row.ratio > 1 else SLOWER
    return "no difference was found"


def _table(curves: Curves, against: Mapping[str, Mapping[int, ComparedMetric]], what: str) -> Table:
    every = [each for found in curves.values() for each in found]
    scale = shared_scale([each.summary for each in every], RATE_UNIT)
    by_size = {tool: {each.size: each for each in found} for tool, found in curves.items()}
    columns = ["block size"]
    for tool in curves:
        columns += [f"{tool} [{scale.unit}]", f"95 % [{scale.unit}]"]
    numeric = [*range(1, len(columns))]
    columns += [f"{OURS} / {tool}" for tool in against]
    columns += [f"original [{RATE_UNIT}]", f"original dd [{RATE_UNIT}]"]
    numeric += [len(columns) - 2, len(columns) - 1]
    rows = []
    for size in sizes_of(curves):
        row = [format_bytes(size)]
        for points in by_size.values():
            row += cells(points[size].summary if size in points else None, scale)
        row += [ratio_text(found.get(size)) for found in against.values()]
        row += [str(cited.get(size, MISSING)) for cited in (reference.COLD, reference.DD)]
        rows.append(row)
    note = (
        "Medians. A ratio is paired by block, with its 95 % interval; above 1 oscope is the faster one. "
        f"{MISSING}: not measured."
    )
    return Table(f"Cold reads by block size, file of {what}", columns, rows, frozenset(numeric), note)


def _figures(curves: Curves, what: str) -> list[Figure]:
    title = f"Speed of cold reads, file of {what}, block sizes"
    even = over_sizes(f"{title} evenly spaced", curves, RATE_UNIT)
    sizes = sizes_of(curves)
    lines, axis = lines_over(curves, RATE_UNIT, {size: size / MEBIBYTE for size in sizes})
    near = sum(size <= sizes[-1] / 40 for size in sizes)
    note = (
        f"The same figures; to scale, {near} of {len(sizes)} block sizes lie within a fortieth of the axis."
    )
    block = plots.axis("block size [MiB]", rangemode="tozero")
    return [even, plots.lines(f"{title} to scale", (block, axis), lines, note)]

"""Ways of reading compared: read, pread, mmap, and past the page cache by O_DIRECT and io_uring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oscope.figures.analysed import Analysed
from oscope.figures.tables import shared_scale
from oscope.figures.words import listed, median
from oscope.labs.curve import (
    RATE,
    RATE_UNIT,
    At,
    Curves,
    cells,
    curve,
    narrowing,
    over_sizes,
    ratio_text,
    ratios,
    sizes_of,
    unmeasured,
)
from oscope.model.document import Section, Table
from oscope.model.formatting import MISSING
from oscope.model.samples import ExperimentResults
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric

PLAIN = "read"
CACHES = ("cold", "warm")

Ratios = Mapping[str, Mapping[int, ComparedMetric]]


def section(results: Analysed) -> Section | None:
    """Compare the engines where they read by the same block size."""
    experiment = results.get("disk.read")
    if experiment is None:
        return None
    names = list(dict.fromkeys(str(point.factors.get("engine", PLAIN)) for point in experiment.points))
    if len(names) < 2:
        return None
    shown = {cache: _shared(results, experiment, names, cache) for cache in CACHES}
    shown = {cache: curves for cache, curves in shown.items() if curves}
    if not shown:
        return None
    told, tables, figures = [], [], []
    for cache, curves in shown.items():
        against = {
            name: ratios(experiment, RATE, "engine", (PLAIN, name), cache=cache)
            for name in curves
            if name != PLAIN
        }
        told.append(_answer(cache, curves, against))
        tables.append(_table(cache, curves, against))
        if len(sizes_of(curves)) > 1:
            figures.append(over_sizes(f"Speed by way of reading, {cache}", curves, RATE_UNIT))
    return Section(
        title="Ways of reading",
        answer=" ".join(told),
        text=[
            (
                "`read` and `pread` copy from the page cache. `mmap` maps its pages and looks at one byte "
                "of each: it copies nothing, so that warm it tells what mapping costs, not what having the "
                "data does. `direct` (O_DIRECT) and `uring` (io_uring with O_DIRECT, many blocks in flight) "
                "go past the page cache: no copy, but no read-ahead either."
            ),
            *narrowing(experiment, ("cache", "engine")),
        ],
        tables=tables,
        figures=figures,
        missing=unmeasured(experiment),
    )


def _shared(
    results: Analysed, experiment: ExperimentResults, names: Sequence[str], cache: str
) -> dict[str, list[At]]:
    """Return the engines' curves at the block sizes at which at least two were measured."""
    curves = {name: curve(results, experiment, RATE, engine=name, cache=cache) for name in names}
    counts: dict[int, int] = {}
    for found in curves.values():
        for each in found:
            counts[each.size] = counts.get(each.size, 0) + 1
    kept = {name: [each for each in found if counts[each.size] > 1] for name, found in curves.items()}
    return {name: found for name, found in kept.items() if found}


def _answer(cache: str, curves: Curves, against: Ratios) -> str:
    """Name the fastest at the smallest and the largest block size that several engines share."""
    sizes = sizes_of(curves)
    told = []
    for size in dict.fromkeys((sizes[0], sizes[-1])):
        here = {name: each for name, found in curves.items() for each in found if each.size == size}
        name = max(here, key=lambda each: here[each].summary.median)
        told.append(f"{name} by blocks of {format_bytes(size)}, at {median(here[name].summary, RATE_UNIT)}")
        told[-1] += _beside(name, size, against) + (", without copying anything" if name == "mmap" else "")
    return f"{cache.capitalize()}, the fastest is {listed(told)}."


def _beside(name: str, size: int, against: Ratios) -> str:
    """Say how the fastest engine compares with plain reading."""
    row = against.get(name, {}).get(size)
    if row is None:
        return ""
    if row.different != "yes":
        return f" (no difference from {PLAIN} was found)"
    return f", {ratio_text(row)} times {PLAIN}"


def _table(cache: str, curves: Curves, against: Ratios) -> Table:
    every = [each for found in curves.values() for each in found]
    scale = shared_scale([each.summary for each in every], RATE_UNIT)
    rows = []
    for size in sizes_of(curves):
        for name, found in curves.items():
            at = next((each for each in found if each.size == size), None)
            if at is not None:
                ratio = MISSING if name == PLAIN else ratio_text(against[name].get(size))
                rows.append([format_bytes(size), name, str(at.summary.n), *cells(at.summary, scale), ratio])
    columns = [
        "block size",
        "engine",
        "n",
        f"median [{scale.unit}]",
        f"95 % [{scale.unit}]",
        f"times {PLAIN} (95 %)",
    ]
    return Table(
        f"Ways of reading, {cache}", columns, rows, frozenset({2, 3, 4}), "The factor is paired by block."
    )

"""Cold and warm reading on one graph: what the page cache saves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oscope.figures.analysed import Analysed, measured
from oscope.figures.tables import shared_scale
from oscope.figures.words import listed, median
from oscope.labs.curve import (
    RATE,
    RATE_UNIT,
    Curves,
    cells,
    curve,
    narrowing,
    over_sizes,
    ratio_text,
    ratios,
    sizes_of,
    source,
    unmeasured,
)
from oscope.labs.disk import reference
from oscope.model.document import Section, Table
from oscope.model.formatting import MISSING, bounded_text, format_count, format_share
from oscope.model.samples import ExperimentResults
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric

CACHES = ("cold", "warm")


def section(results: Analysed) -> Section | None:
    """Answer C5."""
    experiment = results.get("disk.read")
    if experiment is None:
        return None
    curves = {cache: curve(results, experiment, RATE, engine="read", cache=cache) for cache in CACHES}
    missing = unmeasured(experiment, engine="read")
    title = "Cold and warm"
    if not any(curves.values()):
        return Section(title, "", missing=missing) if missing else None
    factors = ratios(experiment, RATE, "cache", ("cold", "warm"), engine="read")
    curves = {cache: found for cache, found in curves.items() if found}
    what = source(experiment, curves)
    figure = over_sizes(f"Speed of reading a file of {what}, cold and warm", curves, RATE_UNIT)
    return Section(
        title=title,
        answer=_answer(curves, factors, what),
        text=[*_proof(experiment), *_other(results), *narrowing(experiment, ("cache", "engine"))],
        tables=[_table(curves, factors, what)],
        figures=[figure],
        missing=missing,
    )


def _other(results: Analysed) -> list[str]:
    """Say that the reads beside dd and fio are others."""
    if results.get("disk.peers") is None:
        return []
    return [
        (
            "These reads are not those beside dd and fio (disk.peers): two experiments, each with its own "
            "file and at its own time, so that their cold speeds differ."
        )
    ]


def _answer(curves: Curves, factors: Mapping[int, ComparedMetric], what: str) -> str:
    if not factors:
        (cache, found), *_ = curves.items()
        top = max(found, key=lambda each: each.summary.median)
        speed = median(top.summary, RATE_UNIT)
        return f"Only {cache} reads of {what} were measured: up to {speed}, at {top.name}."
    ends = list(dict.fromkeys((min(factors), max(factors))))
    told = [f"{_times(factors[size])} at {format_bytes(size)}" for size in ends]
    text = f"From the page cache a file of {what} is read {' and '.join(told)}"
    most = max(factors, key=lambda size: factors[size].ratio)
    if most not in ends:
        text += f"; the most it saves is at {format_bytes(most)}, {_times(factors[most])}"
    return f"{text}."


def _times(row: ComparedMetric) -> str:
    if row.different != "yes":
        return f"no faster that could be found ({bounded_text(row.ratio, *row.ci95)} times)"
    return f"{bounded_text(row.ratio, *row.ci95)} times as fast as cold"


def _proof(experiment: ExperimentResults) -> list[str]:
    """Tell how much was in the page cache just before the cold and the warm samples."""
    told = []
    for cache, word in zip(CACHES, ("most", "least"), strict=True):
        points = [point for point in experiment.points if point.factors.get("cache") == cache]
        shares = np.concatenate([measured(point, "resident")[0] for point in points] or [np.zeros(0)])
        if len(shares):
            end = float(shares.max() if cache == "cold" else shares.min())
            told.append(f"at {word} {_percent(end)} before each of {format_count(len(shares))} {cache} reads")
    return [f"Of the pages about to be read, there were in the page cache {listed(told)}."] if told else []


def _percent(share: float) -> str:
    return "0 %" if share == 0 else format_share(share)


def _table(curves: Curves, factors: Mapping[int, ComparedMetric], what: str) -> Table:
    every = [each for found in curves.values() for each in found]
    scale = shared_scale([each.summary for each in every], RATE_UNIT)
    by_size = {cache: {each.size: each for each in curves.get(cache, ())} for cache in CACHES}
    rows = []
    for size in sizes_of(curves):
        row = [format_bytes(size)]
        for cache in CACHES:
            row += cells(by_size[cache][size].summary if size in by_size[cache] else None, scale)
        cold, warm = reference.COLD.get(size), reference.WARM.get(size)
        cited = (
            [MISSING] * 3 if cold is None or warm is None else [str(cold), str(warm), f"{warm / cold:.1f}"]
        )
        rows.append([*row, ratio_text(factors.get(size)), *cited])
    columns = [
        "block size",
        f"cold [{scale.unit}]",
        f"95 % [{scale.unit}]",
        f"warm [{scale.unit}]",
        f"95 % [{scale.unit}]",
        "warm / cold (95 %)",
        f"original cold [{RATE_UNIT}]",
        f"original warm [{RATE_UNIT}]",
        "original warm / cold",
    ]
    note = "Medians; the factor is paired by block. The original's figures are of another machine."
    return Table(
        f"Cold and warm reads by block size, file of {what}",
        columns,
        rows,
        frozenset({1, 2, 3, 4, 6, 7, 8}),
        note,
    )

"""Cold and warm reading on one graph: what the page cache saves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from oscope.figures.analysed import measured
from oscope.figures.words import listed
from oscope.labs.disk import reference
from oscope.labs.engine.curves import (
    RATE,
    RATE_UNIT,
    Curves,
    curves_by,
    over_sizes,
    ratios,
    size_columns,
    sizes_of,
    source,
)
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, number, ratio, text
from oscope.labs.engine.words import judged, reasons, times, value
from oscope.model.document import Table
from oscope.model.formatting import format_count, format_share
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric

CACHES = ("cold", "warm")


def _curves(run: Run) -> Curves:
    return curves_by(run, RATE, "cache", CACHES, engine="read")


def _ratios(run: Run) -> dict[int, ComparedMetric]:
    return ratios(run, RATE, "cache", CACHES, engine="read")


def _headline(run: Run, _: Sequence[int]) -> str:
    rows, curves = _ratios(run), _curves(run)
    if not rows:
        ((cache, found), *_others) = curves.items()
        top = max(found, key=lambda each: each.summary.median)
        return f"Only {cache} reads were measured: up to {value(top.summary, RATE_UNIT)}, at {top.name}."
    most = max(rows, key=lambda size: rows[size].ratio)
    if rows[most].different != "yes":
        return f"No gain by the page cache was found: warm reads are {judged(rows[most], 'as fast')}."
    return (
        f"From the page cache, blocks of {format_bytes(most)} are read {times(rows[most])} as fast as cold."
    )


def _proof(run: Run) -> str:
    """Return a note of how much was in the page cache just before the cold and the warm samples."""
    said = []
    for cache, word in zip(CACHES, ("most", "least"), strict=True):
        points = [point for point in run.experiment.points if point.factors.get("cache") == cache]
        shares = np.concatenate([measured(point, "resident")[0] for point in points] or [np.zeros(0)])
        if len(shares):
            end = float(shares.max() if cache == "cold" else shares.min())
            share = "0 %" if end == 0 else format_share(end)
            said.append(f"at {word} {share} before each of {format_count(len(shares))} {cache} reads")
    return f" In the page cache were, of the pages to be read, {listed(said)}." if said else ""


def _cited(size: int) -> float | None:
    cold, warm = reference.COLD.get(size), reference.WARM.get(size)
    return None if cold is None or warm is None else warm / cold


def _table(run: Run, sizes: Sequence[int]) -> Table:
    curves, rows = _curves(run), _ratios(run)
    every: Curves = {cache: curves.get(cache, ()) for cache in CACHES}
    table: TableOf[int] = TableOf(
        f"Cold and warm reads by block size, file of {source(run.experiment, curves)}",
        (
            *size_columns(every, RATE_UNIT),
            ratio("warm / cold", rows.get),
            *(
                text(f"original {cache} [{RATE_UNIT}]", partial(reference.cited, figures), numeric=True)
                for cache, figures in zip(CACHES, (reference.COLD, reference.WARM), strict=True)
            ),
            number("original warm / cold", _cited, ".1f"),
        ),
        "Medians; the factor is paired by block. The original's figures are of another "
        f"machine.{_proof(run)}",
    )
    return table.of(sizes)


section = Question(
    title="Cold and warm",
    experiment="disk.read",
    rows=lambda run: sizes_of(_curves(run)),
    headline=_headline,
    tables=(_table),
    figures=(
        lambda run, _: over_sizes(
            f"Speed of reading a file of {source(run.experiment, _curves(run))}, cold and warm",
            _curves(run),
            RATE_UNIT,
        )
    ),
    factors=("cache", "engine", "block_size"),
    missing=lambda run: reasons(run.experiment, engine="read"),
)

"""Columns of medians in a table on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oscope.figures.tables import row_scale, shared_scale
from oscope.model import formatting
from oscope.model.clocks import PER
from oscope.report.terminal import aligned

if TYPE_CHECKING:
    from oscope.statistics import Summary

TIMES = ("ns", "µs", "ms", "s", "min", "h")
"""Units in which a time may be shown, by its size."""


def measurement_columns(name: str, summaries: Sequence[Summary], unit: str) -> list[list[str]]:
    """Return the columns of the median and of its 95 % interval; a row has the same decimals in both."""
    scale = shared_scale(summaries, unit)
    rows = [row_scale(scale, s) for s in summaries]
    medians = [row.text(s.median) for row, s in zip(rows, summaries, strict=True)]
    intervals = [row.span(s.ci95) for row, s in zip(rows, summaries, strict=True)]
    return [aligned([_heading(name, scale.unit), *medians]), ["95 % interval", *intervals]]


def median_column(name: str, summaries: Sequence[Summary | None], unit: str) -> list[str]:
    """Return the column of a further metric's medians, with the digits that their intervals allow."""
    present = [s for s in summaries if s]
    scale = shared_scale(present, unit)
    texts = [row_scale(scale, s).text(s.median) if s else formatting.MISSING for s in summaries]
    return aligned([_heading(name, scale.unit), *texts])


def _heading(metric: str, unit: str) -> str:
    """Return a metric's name with its unit, which stands once even where the name ends in it."""
    name, _, end = metric.rpartition("_")
    if unit in ("", metric):
        return metric
    if unit.endswith(("/s", PER)):
        what = metric.removesuffix("_per_s")
        return unit if unit == f"{what}/s" else f"{what} [{unit}]"
    has_unit = (
        end in ("ns", unit) or (end == "s" and unit in TIMES) or (end == "bytes" and unit.endswith("B"))
    )
    return f"{name if name and has_unit else metric} [{unit}]"

"""Histograms of traced times as figures and words: bins are powers of two, so a value is known to its bin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from oscope.figures import plots
from oscope.model.document import Figure
from oscope.model.formatting import format_value
from oscope.questions.table import Column, text
from oscope.trace.reading import Histogram, quantile

_Row = TypeVar("_Row")


def columns(of: Callable[[_Row], Histogram | None], median: str = "median") -> list[Column[_Row]]:
    """Return the columns median and 99th percentile of a histogram, each a bin: `1.02 µs to 2.05 µs`."""

    def column(heading: str, share: float) -> Column[_Row]:
        def bin_text(row: _Row) -> str | None:
            ends = quantile(found, share) if (found := of(row)) is not None else None
            return ends and f"{_nanoseconds(ends[0])} to {_nanoseconds(ends[1] + 1)}"

        return text(heading, bin_text)

    return [column(median, 0.5), column("99th percentile", 0.99)]


def figure(title: str, axis_title: str, histograms: Mapping[str, Histogram], note: str) -> Figure:
    """Draw the share of each histogram's values in each bin, a line each, at the bin's geometric middle."""
    lines = []
    for colour, (name, histogram) in enumerate(histograms.items()):
        total = sum(count for _, _, count in histogram)
        row = [
            (_middle(low, high), plots.Dot(name, 100 * count / total))
            for low, high, count in _filled(histogram)
            if total
        ]
        if row:
            lines.append(plots.Line(name, row, colour))
    axes = (plots.axis(axis_title, scale="log"), plots.axis("share [%]", rangemode="tozero"))
    whole = f"Shares of each line's values by powers of two, each drawn at its middle. {note}"
    return plots.lines(title, axes, lines, whole)


def _filled(histogram: Histogram) -> list[tuple[int, int, int]]:
    """Return the bins in rising order, with the empty powers of two between them, which no list holds."""
    counts = {(low, high): count for low, high, count in histogram}
    for low, high in sorted(counts):
        after = min((other for other, _ in counts if other > high), default=0)
        while high + 1 < after:
            low, high = high + 1, 2 * high + 1
            counts[low, high] = 0
    return [(low, high, count) for (low, high), count in sorted(counts.items())]


def _middle(low: int, high: int) -> float:
    return float(f"{np.sqrt(max(low, 1) * (high + 1)):.5g}")


def _nanoseconds(value: int) -> str:
    size = next((step for step in (1e9, 1e6, 1e3) if value >= step), 1.0)
    return format_value(value * 1e-9, 0.01 * size * 1e-9, "s")

"""Figures of a whole and its parts: shares as stacked bars, and predictions beside what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Protocol

from oscope.figures import plots
from oscope.model.document import Figure
from oscope.model.formatting import Scale
from oscope.questions.curves import size_axis
from oscope.questions.drawing import interval
from oscope.statistics import Summary


class Bounds(Protocol):
    """A figure with bounds; NaN where they are not known."""

    @property
    def value(self) -> float:
        """The figure itself."""

    @property
    def low(self) -> float:
        """The lower bound."""

    @property
    def high(self) -> float:
        """The upper bound."""


Sized = Mapping[str, Iterable[tuple[int, Bounds | None]]]
"""Lines by name: a size in bytes, and the figure there, if it is known."""


def stacked_shares(
    title: str,
    shares: Mapping[str, Mapping[str, float | None]],
    wholes: Sequence[Summary],
    colours: Sequence[int],
    note: str = "",
) -> Figure:
    """Draw for each category the shares of its parts, and the interval of the whole that they are parts of.

    All categories have the same parts, each with its colour; None: it is not known.
    """
    series = []
    for name, colour in zip(next(iter(shares.values())), colours, strict=True):
        percent = [None if (share := parts[name]) is None else 100 * share for parts in shares.values()]
        if any(value is not None for value in percent):
            series.append(plots.Bars(name, percent, colour=colour))
    figure = plots.bars(title, _share_axis(shares), list(shares), series, note)
    intervals = [interval(whole.ci95, whole.median / 100) for whole in wholes]
    return plots.with_estimates(plots.stacked(figure), "measured", [100.0] * len(wholes), intervals)


def _share_axis(shares: Mapping[str, Mapping[str, float | None]]) -> dict[str, object]:
    """Return an axis that holds all bars: an interval over few blocks may reach far beyond them."""
    known = [[100 * value for value in parts.values() if value is not None] for parts in shares.values()]
    low = min(sum(value for value in each if value < 0) for each in known)
    high = max(sum(value for value in each if value > 0) for each in known)
    span = max(high, 100.0) - low
    ends = [low - 0.05 * span if low < 0 else 0.0, max(high, 100.0) + 0.15 * span]
    return plots.axis("share of the measured time [%]", range=plots.significant(ends))


def predicted_over_sizes(
    title: str, what: str, measured: Sized, predicted: Sized, scale: Scale, note: str
) -> Figure:
    """Draw lines over the block size: solid what was measured, dashed what was predicted of it."""
    rows = {name: list(row) for name, row in {**measured, **predicted}.items()}
    sizes = sorted({size for row in rows.values() for size, _ in row})
    known = {
        name: [(float(sizes.index(size)), value) for size, value in row if value is not None]
        for name, row in rows.items()
    }
    lines = [
        plots.Line(
            name,
            [(place, _dot(name, value, scale.factor)) for place, value in row],
            colour,
            "dash" if name in predicted else "solid",
        )
        for colour, (name, row) in enumerate((name, row) for name, row in known.items() if row)
    ]
    axes = (size_axis(sizes), plots.axis(f"{what} [{scale.unit}]", scale="log"))
    return plots.lines(title, axes, lines, note)


def _dot(name: str, value: Bounds, factor: float) -> plots.Dot:
    known = isfinite(value.low) and isfinite(value.high)
    ends = (value.low / factor, value.high / factor) if known else None
    return plots.Dot(name, value.value / factor, ends)

"""The figure of counted values: which share of them lies at or below each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oscope.figures.plots import axis, significant
from oscope.model.document import Figure


@dataclass(frozen=True)
class Ecdf:
    """Counted values above 0, and how many lie at 0 or below, or are none at all."""

    name: str
    counts: Sequence[tuple[int, int]]
    """Values with their counts, in rising order."""
    below: int = 0


def ecdf(title: str, axes: tuple[str, str], series: Sequence[Ecdf], note: str = "") -> Figure:
    """Draw the share of counted values at or below each, a line each, with a step at every value."""
    every = [value for each in series for value, _ in each.counts]
    left, right = min(every, default=1) / 2, 2 * max(every, default=1)
    traces = []
    for colour, each in enumerate(series):
        total = each.below + sum(count for _, count in each.counts)
        shares = 100 * np.cumsum([each.below, *(count for _, count in each.counts)]) / max(total, 1)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": each.name,
                "x": significant([left, *(value for value, _ in each.counts), right]),
                "y": [*np.round(shares, 3).tolist(), round(float(shares[-1]), 3)],
                "line": {"shape": "hv"},
                "meta": {"role": "series", "colour": colour},
            }
        )
    layout = {
        "xaxis": axis(axes[0], scale="log"),
        "yaxis": axis(axes[1], range=[0, 101]),
        "height": 380,
        "showlegend": True,
    }
    return Figure(title, traces, layout, note)

"""What a rate over wall time lacks beside a cost from which waiting is kept out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from oscope.figures.answer_text import listed
from oscope.model.factors import Level
from oscope.model.formatting import format_share
from oscope.model.samples import PointSamples
from oscope.questions.run import Point, Run
from oscope.questions.section_text import bracketed
from oscope.statistics import Summary

EXPLAINS = 0.5
"""Part of what a rate lacks from which on waiting is called its reason."""


def waited_share(point: PointSamples) -> float | None:
    """Return the share of its time for which a point's thread waited for a CPU: the median of its samples."""
    waited, counted = (point.covariates.get(name) for name in ("run_delay_ns", "counted_ns"))
    if waited is None or counted is None:
        return None
    shares = (waited / counted)[np.isfinite(waited) & (counted > 0)]
    return float(np.median(shares)) if len(shares) else None


def why_fewer(found: Iterable[tuple[str, Point, Summary | None]]) -> str | None:
    """Say for how much of a second the thread waited, where fewer calls fit in than their cost (ns) leads to.

    `found` has each call, its calls a second, and its cost in a loop.
    """
    fewer = {
        name: (1 - rate.summary.median * cost.median / 1e9, share)
        for name, rate, cost in found
        if cost and cost.ci95 and rate.summary.ci95 and rate.summary.ci95[1] * cost.ci95[1] < 1e9
        if (share := waited_share(rate.samples)) is not None
    }
    if not fewer:
        return None
    text = f"Fewer calls than 1 / cost in a loop, beyond the intervals: {listed(list(fewer))}."
    explained = [share for lacking, share in fewer.values() if share >= EXPLAINS * lacking]
    if len(explained) < len(fewer):
        return f"{text} Waiting for a CPU does not explain it."
    return (
        f"{text} A second here is wall time: the thread waited for a CPU for up to "
        f"{format_share(max(explained), 0.01)} of it (median of a call's samples); samples of the cost that "
        "waited were repeated."
    )


def time_of(run: Run, metric: str, **levels: Level) -> str:
    """Return `94 µs [92, 95]` of a time in ns at the first point with these levels; empty without one."""
    point = run.point(metric, **levels)
    return bracketed(point.summary, "ns") if point is not None else ""

"""Quantities: figures of a point, made of one or several of its metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oscope.figures.answer_text import median
from oscope.model.formatting import MISSING, format_count, format_value
from oscope.model.samples import ExperimentResults, Floats, PointSamples
from oscope.model.units import MEBIBYTE
from oscope.statistics import Summary, summarise

Values = Callable[[PointSamples], Floats]
"""What is computed for each sample of a point."""


def metric(point: PointSamples, name: str) -> Floats:
    """Return the values of a metric; NaN where the point has none."""
    return point.metrics.get(name, np.full(len(point), np.nan))


def derived(
    experiment: ExperimentResults, point: PointSamples, values: Values, *, resolution: float = 0.0
) -> Summary | None:
    """Summarise what is computed for each sample of the point; None where no sample has it.

    `resolution` is the clock's step in the unit of what is computed, as `summarise` takes it.
    """
    if not len(point) or not point.metrics:
        return None
    found = values(point)
    if not np.isfinite(found).any():
        return None
    return summarise(found, point.block, boot=point.boot, seed=experiment.seed, resolution=resolution)


@dataclass(frozen=True)
class Quantity:
    """A figure of a point, from one or several of its metrics."""

    name: str
    unit: str
    """Empty for what is counted."""
    of: Values
    key: str = ""
    """The metric it is made of, by which a figure of the original report is found."""
    factor: Callable[[PointSamples], float] = lambda _: 1.0
    """What one unit of that metric is in the unit of this quantity."""

    def summary(self, experiment: ExperimentResults, point: PointSamples | None) -> Summary | None:
        """Return its summary; None where no sample has it."""
        if point is None:
            return None
        step = experiment.resolution(point, self.key) if self.key in experiment.metrics else 0.0
        return derived(experiment, point, self.of, resolution=step * self.factor(point))

    def text(self, experiment: ExperimentResults, point: PointSamples | None) -> str:
        """Return the median with its interval, or that it is missing."""
        return figure_text(self.summary(experiment, point), self.unit)


def plain(name: str, key: str, unit: str = "") -> Quantity:
    """Return a metric as it is."""
    return Quantity(name, unit, lambda point: metric(point, key), key)


def scaled(name: str, unit: str, key: str, factor: Callable[[PointSamples], float]) -> Quantity:
    """Return a metric times a number that a point has."""
    return Quantity(name, unit, lambda point: metric(point, key) * factor(point), key, factor)


def over_metric(name: str, key: str, other: str) -> Quantity:
    """Return a metric over another one, where that is above 0."""

    def of(point: PointSamples) -> Floats:
        divisor = metric(point, other)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(divisor > 0, metric(point, key) / divisor, np.nan)

    return Quantity(name, "", of)


def a_mebibyte(name: str, unit: str, of: Values) -> Quantity:
    """Return what is computed for each sample, over the MiB that it moved."""
    return Quantity(name, unit, lambda point: of(point) / (metric(point, "bytes") / MEBIBYTE))


def figure(summary: Summary, unit: str) -> str:
    """Return a median with its interval; what is the same in every sample stands alone."""
    return median(summary, unit) if summary.minimum < summary.maximum else plain_number(summary.median, unit)


def figure_text(summary: Summary | None, unit: str) -> str:
    """Return the same, or that it is missing."""
    return MISSING if summary is None else figure(summary, unit)


def plain_number(value: float, unit: str = "") -> str:
    """Return a figure without uncertainty: whole numbers with all digits, others with four."""
    if value == round(value):
        return " ".join(filter(None, [format_count(value), unit]))
    return format_value(value, None, unit)


class Change(NamedTuple):
    """What something was before and after an act, and by how much it became less."""

    before: Summary
    after: Summary
    less: Summary
    """Before less after."""
    share: Summary
    """That over what was there before; below zero where more was there afterwards."""


def change(experiment: ExperimentResults, point: PointSamples, before: str, after: str) -> Change | None:
    """Return how a point's metric `after` differs from that `before`; None where none was above 0."""
    values = metric(point, before), metric(point, after)
    keep = np.isfinite(values[0]) & np.isfinite(values[1]) & (values[0] > 0)
    if not keep.any():
        return None
    first, last, block = values[0][keep], values[1][keep], point.block[keep]
    amounts = (summarise(each, block, seed=experiment.seed) for each in (first, last))
    less = (
        summarise(each, block, seed=experiment.seed, kind="difference")
        for each in (first - last, (first - last) / first)
    )
    return Change(*amounts, *less)

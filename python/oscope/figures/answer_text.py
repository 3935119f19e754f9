"""Pieces of sentences and cells that the answers of several labs need."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from oscope.figures.analysed import Analysed, measured
from oscope.figures.tables import uncertainty
from oscope.model.clocks import PER
from oscope.model.formatting import Scale, format_count, format_share
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics import Summary

_FIGURE = re.compile(r"\d[\d.\N{NARROW NO-BREAK SPACE}]*")
_PROCESS = re.compile(r"(/proc/|\bpid |\bprocess )\d+\b")


def median(summary: Summary, unit: str) -> str:
    """Return `98.1 ns (97.9 to 98.4)`: the median and its 95 % interval, in the digits of a table's row."""
    scale = Scale.of(summary.median, uncertainty(summary), unit)
    interval = "" if summary.ci95 is None else f" ({scale.span(summary.ci95)})"
    return f"{scale.with_unit(summary.median)}{interval}"


def cause(note: str) -> str:
    """Return a note without the process that met its cause: another one that meets it is no other cause."""
    return _PROCESS.sub(r"\1PID", note)


def kind(note: str) -> str:
    """Return a note without its figures: two of one kind differ in them alone, such as a buffer's bytes."""
    return _FIGURE.sub("#", note)


def emulation(experiments: Sequence[ExperimentResults]) -> str | None:
    """Say that the times of some experiments are an emulated guest's; None where none are."""
    count = sum(each.emulated for each in experiments)
    some = f" in {count} of {len(experiments)} experiments" if count < len(experiments) else ""
    text = f"The guest was emulated{some}: its time is that of QEMU's emulation of a machine (tcg)"
    return f"{text}, not of a machine." if count else None


def counted(number: int, noun: str) -> str:
    """Return `1 point`, `2 points`."""
    return f"{format_count(number)} {noun}" + ("" if number == 1 else "s")


def share(part: float, low: float, high: float) -> str:
    """Return a share of the variance with its interval, in per cent."""
    return f"{format_share(part, 0.01)} ({format_share(low, 0.01)} to {format_share(high, 0.01)})"


def listed(names: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def iteration(point: PointSamples) -> str:
    """Return what one sample of `syscall.cost` is: a call, or the mean of several."""
    if point.factors.get("style") == "single":
        return "one call each"
    loops = np.unique(point.iterations)
    each = format_count(loops[0]) if len(loops) == 1 else f"{format_count(loops[0])} or more"
    return f"the mean of {each} calls in a loop each"


def with_samples(
    results: Analysed, experiment: ExperimentResults, metric: str
) -> list[tuple[PointSamples, Summary]]:
    """Return the points that have values of `metric`, with their summaries."""
    found = []
    for point in experiment.points:
        summary = results.summary(experiment, point, metric) if len(measured(point, metric)[0]) else None
        if summary is not None:
            found.append((point, summary))
    return found


def excludes_zero(summary: Summary) -> bool:
    """Say whether the median's interval lies on one side of 0, further from it than half a step of the clock.

    The interval is wider by half a step already; both readings of a difference step.
    """
    margin = summary.resolution / 2
    return summary.ci95 is not None and (summary.ci95[0] > margin or summary.ci95[1] < -margin)


_TIMES = ("ns", "µs", "ms", "s", "min", "h")
"""Units in which a time may be shown, by its size."""


def with_unit(metric: str, unit: str) -> str:
    """Return a metric's name with its unit, which stands once even where the name ends in it."""
    name, _, end = metric.rpartition("_")
    if unit in ("", metric):
        return metric
    if unit.endswith(("/s", PER)):
        what = metric.removesuffix("_per_s")
        return unit if unit == f"{what}/s" else f"{what} [{unit}]"
    has_unit = (
        end in ("ns", unit) or (end == "s" and unit in _TIMES) or (end == "bytes" and unit.endswith("B"))
    )
    return f"{name if name and has_unit else metric} [{unit}]"

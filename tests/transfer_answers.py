"""The transfer lab's answers to its invented survey, by title, and changes of what was measured."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import synthetic_transfer
from oscope.model.document import Section
from oscope.model.samples import ExperimentResults, PointSamples

LARGE = "Large inputs: mmap against read and write"
SMALL_FILES = "Small files: 1, 5 and 10 an execution"
CONTENT = "Zeros against random bytes"
WHERE = "Where the time goes"
TRACED = "A transfer, traced"
INPUTS = "Five large inputs in one execution"
STEP = "The original report’s jumps of 900 ms"
DEVICE = "Through devices in the kernel: fcntl against mmap"
PAIRS = "Every way of sending and receiving"
LINE = "Over a line with a rate, a delay and losses"
EQUAL = "Every file is equal to its source"


@functools.cache
def surveyed() -> dict[str, Section]:
    """Return all answers by title, made once in a process."""
    return synthetic_transfer.sections(*synthetic_transfer.survey().experiments)


def changed(made: ExperimentResults, change: Callable[[PointSamples], PointSamples]) -> ExperimentResults:
    """Return the results with each point as `change` makes it."""
    return dataclasses.replace(made, points=tuple(change(point) for point in made.points))


def scaled(point: PointSamples, factor: float, *names: str) -> PointSamples:
    """Return the point with these metrics multiplied."""
    metrics = {name: values * factor if name in names else values for name, values in point.metrics.items()}
    return dataclasses.replace(point, metrics=metrics)

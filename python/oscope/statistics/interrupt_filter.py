"""Which samples count for a metric: those that an interrupt fell into are left out where it can be.

By the instructions clock an interrupt adds the instructions of its handler to a count that is else the same
each time. Where at least half of a point's boots (or blocks) have samples without any interrupt, only these
count; where repetitions are so long that an interrupt falls into most of them, all count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from oscope.model.clocks import counted
from oscope.model.formatting import format_count
from oscope.model.samples import Column, PointSamples
from oscope.statistics import replication

Bools = npt.NDArray[np.bool_]

COVARIATES = ("interrupts", "timer_interrupts")
CPU_TIME = "cpu_ns"
CENSORED = ("user_ns", "system_ns", "max_rss_bytes")
"""Metrics that only runs of some length or size have (`command.run`): the values there are the largest."""


@dataclass(frozen=True)
class Tally:
    """How many of the samples with a value had an interrupt in them, and what became of these."""

    samples: int
    interrupted: int
    left_out: bool
    known: bool = True
    """False where the record does not have interrupts."""
    why: str = "too few are without"
    """Why all are used, where none is left out."""

    @property
    def note(self) -> str | None:
        """What is to be reported about it, a sentence; None where there was no interrupt."""
        if not self.known:
            return "whether interrupts fell into the samples was not recorded"
        if not self.interrupted:
            return None
        had = f"{format_count(self.interrupted)} of {format_count(self.samples)} samples had an interrupt"
        if self.left_out:
            return f"{had} in them and {'is' if self.interrupted == 1 else 'are'} left out"
        return f"{had} in them; {self.why}, so all are used"


class Tallies:
    """The tallies of both sides of a comparison, summed over its points."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Tally], list[tuple[int, int]]] = {}
        self._metric: str | None = None

    def add(self, metric: str, a: Tally | None, b: Tally | None) -> None:
        """Count the samples of a point; of one metric, since those of another are the same."""
        if a is None or b is None:
            return
        self._metric = self._metric or metric
        if metric == self._metric:
            for side, tally in (("A", a), ("B", b)):
                kind = replace(tally, samples=0, interrupted=0)
                rows = self._found.setdefault((side, kind), [])
                rows.append((tally.samples, tally.interrupted))

    @property
    def notes(self) -> Iterator[str]:
        """A line for each side and what became of its interrupted samples."""
        for (side, kind), rows in self._found.items():
            samples, interrupted = (sum(column) for column in zip(*rows, strict=True))
            note = replace(kind, samples=samples, interrupted=interrupted).note
            if note is not None:
                yield f"{side}: {note}"


def without_interference(column: Column, *points: PointSamples) -> list[tuple[PointSamples, Tally | None]]:
    """Return the points, compared or one alone, with the samples that count for the metric `column`.

    All sides leave out their interrupted samples, or none does: a side with the handlers in it could not be
    compared with one without. No tally where the metric is not of the instructions clock. What only the
    longest or largest runs of a point have (`CENSORED`) is not measured there.
    """
    points = tuple(without_partial(point, column.name) for point in points)
    if not counted(column.unit):
        return [(point, None) for point in points]
    marks = [_interrupted(point) for point in points]
    measured = [np.isfinite(point.metrics[column.name]) for point in points]
    enough = [
        mark is not None and _enough(point, keep, mark)
        for point, keep, mark in zip(points, measured, marks, strict=True)
    ]
    spare = all(enough)
    found: list[tuple[PointSamples, Tally | None]] = []
    for point, keep, mark, own in zip(points, measured, marks, enough, strict=True):
        if mark is None:
            found.append((point, Tally(int(keep.sum()), 0, left_out=False, known=False)))
            continue
        tally = Tally(int(keep.sum()), int((keep & mark).sum()), left_out=spare)
        if own and not spare:
            known = all(other is not None for other in marks)
            why = "has too few without" if known else "does not record interrupts"
            tally = replace(tally, why=f"the other side {why}")
        found.append((point.only(~mark) if spare and tally.interrupted else point, tally))
    return found


def without_partial(point: PointSamples, metric: str) -> PointSamples:
    """Return the point, without any value of a `CENSORED` metric that not every run with CPU time has."""
    if metric not in CENSORED or not {metric, CPU_TIME} <= point.metrics.keys():
        return point
    values = point.metrics[metric]
    lacking = np.isfinite(point.metrics[CPU_TIME]) & ~np.isfinite(values)
    if not lacking.any() or lacking.all():
        return point
    return replace(point, metrics={**point.metrics, metric: np.full(len(values), np.nan)})


def _interrupted(point: PointSamples) -> Bools | None:
    """Return for each sample whether it is known to hold an interrupt; None where nothing is known."""
    columns = [point.covariates[name] for name in COVARIATES if name in point.covariates]
    if not columns or not any(np.isfinite(column).any() for column in columns):
        return None
    return np.asarray(np.any([column > 0 for column in columns], axis=0), dtype=np.bool_)


def _enough(point: PointSamples, measured: Bools, interrupted: Bools) -> bool:
    """Say whether half of the boots, or of the blocks of one boot, have a value without an interrupt."""
    if not measured.any():
        return True
    level, unit = replication.highest_level(point.block[measured], point.boot[measured])
    if level == "repetition":
        unit = np.zeros(len(unit), dtype=np.int64)
    clean = np.bincount(unit, weights=~interrupted[measured])
    return bool(2 * np.count_nonzero(clean) >= len(clean))

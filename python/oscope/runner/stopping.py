"""When enough is measured: a budget of time, or a precision that every point is to reach."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oscope.model.samples import ExperimentResults, PointSamples
from oscope.model.units import format_duration, format_share
from oscope.planning.plan import Plan, PlannedExperiment
from oscope.planning.precision import IN_A_ROW, Look, look, reached
from oscope.runner.point_state import PointState
from oscope.runner.run_events import RecordedEvent, RunEvent, SamplesTaken, note_once


@dataclass(frozen=True)
class Deadline:
    """A time of the monotonic clock, in seconds."""

    at_s: float = float("inf")

    @property
    def passed(self) -> bool:
        """Whether it is reached."""
        return time.monotonic() >= self.at_s


NEVER = Deadline()


class Budget:
    """The time that a run may take, counted from when this is made."""

    def __init__(self, seconds: float | None) -> None:
        """None: as long as it takes."""
        self._seconds = seconds
        self._end = NEVER if seconds is None else Deadline(time.monotonic() + seconds)

    @property
    def spent(self) -> bool:
        """Whether it ran out."""
        return self._end.passed

    def share(self, experiments: Sequence[PlannedExperiment]) -> Deadline:
        """Return when the time of the first of these ends, which share what is left as they are planned to.

        What an experiment took beyond its part, or left of it, is of all that come after it.
        """
        now, part = time.monotonic(), 1 / len(experiments)
        planned = [each.budget_s for each in experiments if each.budget_s is not None]
        if len(planned) == len(experiments):
            part = planned[0] / sum(planned)
        return Deadline(now + (self._end.at_s - now) * part)

    def __str__(self) -> str:
        """Return it for messages."""
        return f"the budget of {format_duration(self._seconds or 0.0)}"


class PrecisionRule:
    """Sees the events of an experiment, and says which of its points need more blocks."""

    def __init__(self, plan: Plan, points: Sequence[PointState], known: ExperimentResults) -> None:
        """Of `known`, what a resumed run has already counts from the start."""
        self._precision = plan.precision or 0.0
        self._points = points
        self._results = known
        self._taken: list[list[SamplesTaken]] = [[] for _ in points]
        """What is not yet part of the results."""
        self._looks: list[list[Look]] = [[] for _ in points]

    def see(self, event: RunEvent) -> None:
        """Remember samples, and the clock that they are read with."""
        match event:
            case SamplesTaken(point=point):
                self._taken[point.number].append(event)
            case RecordedEvent(kind="boot" | "program", data={"environment": environment}):
                self._read_with(event.kind, environment)

    def unfinished(self) -> set[int]:
        """Return the numbers of the points that need more blocks than they were looked at after."""
        return {
            number
            for number, (point, found) in enumerate(zip(self._points, self._looks, strict=True))
            if not point.skipped and not reached(found, self._precision)
        }

    def look(self, numbers: set[int], block: int) -> dict[int, Look]:
        """Look at these points after `block`; return what each look says."""
        points = map(_with_samples, self._results.points, self._taken)
        self._results = replace(self._results, points=tuple(points))
        self._taken = [[] for _ in self._points]
        found = {number: look(self._results, number, block) for number in numbers}
        for number, each in found.items():
            self._looks[number].append(each)
        return found

    def notes(self, budget: Budget) -> Iterator[RunEvent]:
        """Note of each measured point what precision it has."""
        for point, looks in zip(self._points, self._looks, strict=True):
            if any(point.taken.values()):
                yield from note_once(self._describe(looks, budget), point)

    def _describe(self, looks: Sequence[Look], budget: Budget) -> str:
        precision = format_share(self._precision)
        last = [found.half_width for found in looks[-IN_A_ROW:] if found.half_width is not None]
        if not last:
            return f"a precision of {precision} was asked for; there is no interval to judge it by"
        if reached(looks, self._precision):
            return f"the precision of {precision} is reached: {100 * last[-1]:.2g} %"
        why = f", but after {looks[-1].blocks} blocks only" if max(last) <= self._precision else ""
        return f"the precision of {precision} is not reached within {budget}: {100 * max(last):.2g} %{why}"

    def _read_with(self, kind: str, environment: dict[str, Any]) -> None:
        """Read samples with the clock of the first guest or program (see `storage.reader`)."""
        if kind == "boot" or "program" not in self._results.environment:
            joined = {**self._results.environment, **environment}
            self._results = replace(self._results, environment=joined)


def _with_samples(point: PointSamples, taken: Sequence[SamplesTaken]) -> PointSamples:
    """Return `point` with samples more, in the order of the store.

    Which samples failed or met interference is left out: failed ones have no value, and all others count.
    """
    if not taken:
        return point
    rows = [
        (event, rep, sample) for event in taken for rep, sample in enumerate(event.samples, event.first_rep)
    ]
    number = len(point) + len(rows)

    def whole(before: Any, more: Sequence[object]) -> Any:
        return np.concatenate((before, np.array(more, dtype=before.dtype)))

    block = whole(point.block, [event.block for event, _, _ in rows])
    rep = whole(point.rep, [rep for _, rep, _ in rows])
    order = np.lexsort((rep, block))

    def values(before: Any, more: Sequence[object]) -> Any:
        return whole(np.full(number - len(rows), np.nan) if before is None else before, more)[order]

    samples = [sample for _, _, sample in rows]
    covariates = dict.fromkeys([*point.covariates, *(name for each in samples for name in each.covariates)])
    return replace(
        point,
        block=block[order],
        rep=rep[order],
        process=values(point.process, [event.process for event, _, _ in rows]),
        boot=values(point.boot, [event.boot for event, _, _ in rows]),
        started_ns=values(point.started_ns, [each.started_ns for each in samples]),
        raw=values(point.raw, [each.raw for each in samples]),
        iterations=values(point.iterations, [each.iterations for each in samples]),
        correction=values(point.correction, [each.correction for each in samples]),
        metrics={
            name: values(before, [each.metrics.get(name) for each in samples])
            for name, before in point.metrics.items()
        },
        covariates={
            name: values(point.covariates.get(name), [each.covariates.get(name) for each in samples])
            for name in covariates
        },
        failed=(),
        interference=(),
        again=(),
    )

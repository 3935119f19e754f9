"""Where a run stands. Only its events change that, so that a resumed run stands where it stood."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, TypeVar

from oscope.planning.plan import Plan
from oscope.probe.wire import Sample
from oscope.runner.announcements import Announcements
from oscope.runner.interference import Interference
from oscope.runner.point_state import PointState
from oscope.runner.run_events import ProcessBegan, RecordedEvent, RunEvent, SamplesTaken, seen

_Value = TypeVar("_Value")


class RunState:
    """Where the points of a run stand, and what was counted."""

    def __init__(self, plan: Plan, ids: Mapping[tuple[str, int], int]) -> None:
        """Begin where nothing is measured; `ids` are the points' keys in the store."""
        covariates = [each.name for each in plan.covariates]
        self.points: dict[str, list[PointState]] = {
            experiment.name: [
                PointState(
                    ids[experiment.name, number], experiment, number, (*experiment.metrics, *covariates)
                )
                for number in range(len(experiment.points))
            ]
            for experiment in plan.experiments
        }
        self.interference = Interference(plan, self.points)
        self.announcements = Announcements()
        self.finished = 0
        """Samples there are."""
        self.total = plan.total
        """Samples there will be; None where a precision or the time decides."""
        self.again = 0
        """Samples of the total that the plan has not: repetitions after interference."""
        self.inspected: set[str] = set()
        """Inspections that were made, also those that were skipped."""
        self.process = 0
        """Number of the last probe process."""
        self.boots: list[str | None] = []
        """Ids of the boots seen, numbered in this order."""
        self.failures: list[str] = []
        """What went wrong since the run began or resumed, a line each."""
        self._boot = 0

    def samples_taken(self, point: PointState, block: int, samples: Sequence[Sample]) -> SamplesTaken:
        """Return the event that samples of a point came together, by the last process."""
        known = frozenset(point.columns[len(point.experiment.metrics) :])
        new = tuple(sorted({name for sample in samples for name in sample.covariates.keys() - known}))
        first = point.taken.get(block, 0)
        columns = (*point.columns, *new)
        return SamplesTaken(point, block, samples, first, self.process, self._boot, columns, new)

    def advance(self, events: Generator[RunEvent, None, _Value], /) -> Generator[RunEvent, None, _Value]:
        """Yield the events, each once the state has advanced by it; return what comes of them."""
        return (yield from seen(events, self.apply))

    def apply(self, event: RunEvent) -> None:
        """Advance by what happened."""
        self.interference.see(event)
        match event:
            case SamplesTaken():
                event.point.keep(event.block, event.samples, event.columns)
                self.finished += len(event.samples)
            case ProcessBegan():
                self._begin_process(event.environment)
            case RecordedEvent():
                if event.failure and event.shown is not None:
                    self.failures.append(event.shown)
                if event.kind == "inspection":
                    self.inspected.add(event.data["inspection"])
                if event.point is not None:
                    self.apply_to_point(event.point, event.kind, event.data)

    def apply_to_point(self, point: PointState, kind: str, data: Any) -> None:
        """Advance by what happened to a point, now or before the run was resumed."""
        point.apply(kind, data)
        # What is repeated comes in addition.
        if kind == "again" and self.total is not None:
            self.total += data["count"]
            self.again += data["count"]

    def _begin_process(self, environment: Mapping[str, Any]) -> None:
        boot = environment.get("boot_id")
        if boot not in self.boots:
            self.boots.append(boot)
        self._boot = self.boots.index(boot)
        self.process += 1

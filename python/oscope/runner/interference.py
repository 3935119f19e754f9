"""Which samples of a run met interference, and what is repeated for that (`oscope.planning.interference`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from oscope.model import clocks
from oscope.model.samples import COUNTED, ExperimentResults
from oscope.planning import interference
from oscope.planning.plan import Plan
from oscope.runner.point_state import PointState
from oscope.runner.run_events import ProcessBegan, RecordedEvent, RunEvent, SamplesTaken


class Interference:
    """Sees the events of a run, and says what is to be repeated."""

    def __init__(self, plan: Plan, points: Mapping[str, Sequence[PointState]]) -> None:
        """Watch those `points` of `plan`, by experiment, that are repeated after interference."""
        self._points = points
        self._shown_by = {
            point.id: interference.telling(plan, point.experiment, point.factors)
            for each in points.values()
            for point in each
        }
        """Covariates that show whether a sample was affected; none where nothing is repeated."""
        self._affected: dict[tuple[int, int], Counter[str]] = {}
        """Affected samples by point and block, and by the covariate that shows it."""
        self._hz: float | None = None
        """Of the clock of `raw`."""

    @property
    def watched(self) -> Iterator[str]:
        """Names of the experiments of which anything may be repeated."""
        return (name for name, each in self._points.items() if any(self._shown_by[p.id] for p in each))

    def restore(self, known: ExperimentResults) -> None:
        """Remember the affected samples of an experiment that a run has which is resumed."""
        for point, samples in zip(self._points[known.experiment], known.points, strict=True):
            for index, name in samples.interference:
                self._count(point, int(samples.block[index]), [name])

    def see(self, event: RunEvent) -> None:
        """Remember which of the samples that were taken are affected."""
        match event:
            case ProcessBegan():
                self._hz = clocks.hz_of(event.environment)
            case SamplesTaken():
                self._count(event.point, event.block, self._find(event))

    def order(self, point: PointState, block: int) -> RecordedEvent | None:
        """Return the order of the repetitions after interference in a complete block; None for a second time.

        None as well where no sample was affected, or where nothing can be measured any more.
        """
        found = self._affected.get((point.id, block))
        is_complete = point.taken.get(block) == point.experiment.block_reps(block)
        if not found or not is_complete or point.skipped or block in point.again or block in point.closed:
            return None
        order = {
            "block": block,
            "first_rep": point.taken[block],
            "count": found.total(),
            "disturbed": dict(found),
        }
        return RecordedEvent("again", order, point)

    def _count(self, point: PointState, block: int, names: Sequence[str]) -> None:
        self._affected.setdefault((point.id, block), Counter()).update(names)

    def _find(self, event: SamplesTaken) -> list[str]:
        """Return for each affected sample the covariate that shows it."""
        shown_by, samples = self._shown_by[event.point.id], event.samples
        if not shown_by or self._hz is None:
            return []
        raw = np.array([sample.raw for sample in samples], dtype=np.float64)
        columns = {
            name: np.array([sample.covariates.get(name) for sample in samples], dtype=np.float64)
            for name in (*shown_by, COUNTED)
        }
        return [name for _, name in interference.find(columns, raw * (1e9 / self._hz), shown_by)]

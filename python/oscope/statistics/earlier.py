"""What earlier runs say of a point that is compared: its medians, quantiles, and how fast the core was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from oscope.model.samples import Column, ExperimentResults, Floats, PointSamples
from oscope.statistics.core_clock import core_loads
from oscope.statistics.pairing import is_alike


@dataclass(frozen=True)
class EarlierPoints:
    """A metric at one point in earlier runs, in order of time; runs without a value are left out."""

    points: tuple[PointSamples, ...] = ()
    metric: str = ""
    same_setup: bool = True
    """Whether both sides ran under the earlier runs' kernel on their machine, with the same settings."""

    def quantile(self, quantile: float) -> Floats:
        """Return a quantile of each run; 0.5 is the median."""
        return np.array([np.nanquantile(point.metrics[self.metric], quantile) for point in self.points])

    def core_loads(self) -> Floats:
        """Return how long the loads from the core's first cache took in each run, in ns; NaN if not known."""
        return np.array([core_loads(point) for point in self.points])


@dataclass(frozen=True)
class EarlierRuns:
    """The runs that may be compared with A without more ado."""

    a: ExperimentResults
    runs: tuple[ExperimentResults, ...]
    same_setup: bool
    digests: tuple[Mapping[object, str], ...]
    """Of A and then of each run: by point the digests of their users' programs, with what those ran in."""

    @classmethod
    def of(cls, a: ExperimentResults, b: ExperimentResults, runs: Iterable[ExperimentResults]) -> EarlierRuns:
        """Choose of `runs`, in order of time, those that are `unchanged`."""
        alike = list(unchanged(a, b, reversed(list(runs))))[::-1]
        same_setup = is_alike(a, b) and a.settings.get("tuned") == b.settings.get("tuned")
        return cls(a, tuple(alike), same_setup, tuple(map(digests_of, (a, *alike))))

    def points(self, point: PointSamples, metric: Column) -> EarlierPoints:
        """Return the points of earlier runs that are measured as `point` of A is, of the same code.

        Of a bench these are the points whose digest is equal: it covers a command's input, working folder and
        other conditions. One that an older version made by another rule is equal only to its like.
        """
        found, own = [], self.digests[0].get(_place(point))
        for run, digests in zip(self.runs, self.digests[1:], strict=True):
            key = self.a.key(point, run)
            other = next((each for each in run.points if run.key(each, self.a) == key), None)
            values = other.metrics.get(metric.name) if other is not None else None
            if other is None or values is None or digests.get(_place(other)) != own:
                continue
            if np.isfinite(values).any():
                found.append(other)
        return EarlierPoints(tuple(found), metric.name, self.same_setup)


def unchanged(
    a: ExperimentResults, b: ExperimentResults, newest_first: Iterable[ExperimentResults]
) -> Iterator[ExperimentResults]:
    """Yield the runs that show how much runs of A differ, but A and B themselves, as they come.

    Runs of another build of a program of the user's own are no unchanged runs, and those whose self-check
    failed say nothing. The newest of runs that were interleaved stands for all: they share their time, and
    so its mood.
    """
    counted = {a.run_id, b.run_id}
    for run in newest_first:
        if run.has_failed_self_check:
            continue
        together = {run.run_id, *(run.settings.get("interleaved") or ())}
        if not together & counted and is_alike(a, run) and _program(a) == _program(run):
            yield run
            counted |= together


def _program(results: ExperimentResults) -> object:
    """Return the digest of the program that measured, if it is the user's own."""
    return (results.environment.get("program") or {}).get("sha256")


def digests_of(results: ExperimentResults) -> dict[object, str]:
    """Return the digest of the program or function that each point measured, where it is the user's own.

    See `oscope.programs.identity` for what it covers.
    """
    return {
        frozenset(each["factors"].items()): each["sha256"] for each in results.settings.get("programs") or ()
    }


def _place(point: PointSamples) -> object:
    return frozenset(point.factors.items())

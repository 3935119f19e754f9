"""Measured data as columns: what the store gives and what statistics and reports take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from oscope.model import clocks
from oscope.model.factors import Conditions, Factors, Level, meaningful

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Columns = Literal["all", "metrics"]
"""Which of a sample's values are read: summaries and verdicts need no covariates, which take most time."""

COUNTED = "counted_ns"
"""Covariate: for how long the other covariates were counted; records of older probes lack it."""


@dataclass(frozen=True)
class Column:
    """What a column of figures is: its unit and what is better."""

    name: str
    unit: str
    doc: str = ""
    better: str | None = None
    """"less" or "more" for a metric; None for a covariate."""
    null_when: str | None = None
    """In which case it has no value, such as `without a counter`; None where that is not known."""

    @property
    def shown_unit(self) -> str:
        """The unit as it is printed: a count has none, and a rate of events names the events."""
        if self.unit == "1/s":
            return _EVENT_RATES.get(self.name, self.unit)
        return "" if self.unit == "1" else self.unit


_EVENT_RATES = {"calls_per_s": "calls/s", "faults_per_s": "faults/s", "simulation_rate": "accesses/s"}
"""Units of the metrics that older records have in 1/s."""


@dataclass(frozen=True, eq=False)
class PointSamples:
    """All samples of one point, in the order in which they were taken; equal to itself alone.

    Every array has one entry a sample. Metric values of failed samples, and values that this machine cannot
    give, are NaN.
    """

    factors: Mapping[str, Level]
    block: Ints
    """Which randomised block (pass over all points); the points of an experiment share it, and pair by it."""
    process: Ints
    """Which probe process took the sample (unique within a run)."""
    boot: Ints
    """Which boot of the machine (0 for the first one seen in the run)."""
    rep: Ints
    started_ns: Ints
    """CLOCK_REALTIME at the start of the repetition."""
    raw: Floats
    iterations: Ints
    correction: Floats
    metrics: Mapping[str, Floats]
    covariates: Mapping[str, Floats]
    failed: tuple[tuple[int, str], ...] = ()
    """(sample index, reason) of each failed sample."""
    interference: tuple[tuple[int, str], ...] = ()
    """(sample index, covariate that shows it) of each affected sample, where that was looked for (see
    `oscope.planning.interference`)."""
    again: tuple[int, ...] = ()
    """Indices of the samples that were taken because others of their block were affected by interference."""
    notes: tuple[str, ...] = ()
    skipped: str | None = None
    """Why nothing was measured, if so."""
    remedy: str | None = None
    traces: tuple[Mapping[str, Any], ...] = ()
    """What tracers found, a reading for each block (see `oscope.trace.reading`)."""

    def __len__(self) -> int:
        """Return the number of samples, failed ones included."""
        return len(self.block)

    def only(self, keep: npt.NDArray[np.bool_]) -> PointSamples:
        """Return the point with those samples for which `keep` is true."""
        place = np.cumsum(keep) - 1
        return replace(
            self,
            block=self.block[keep],
            process=self.process[keep],
            boot=self.boot[keep],
            rep=self.rep[keep],
            started_ns=self.started_ns[keep],
            raw=self.raw[keep],
            iterations=self.iterations[keep],
            correction=self.correction[keep],
            metrics={name: values[keep] for name, values in self.metrics.items()},
            covariates={name: values[keep] for name, values in self.covariates.items()},
            failed=tuple((int(place[index]), reason) for index, reason in self.failed if keep[index]),
            interference=tuple((int(place[index]), name) for index, name in self.interference if keep[index]),
            again=tuple(int(place[index]) for index in self.again if keep[index]),
        )


_OF_THE_WHOLE = frozenset({"time_ns", "cycles", "set_ns"})
"""Metrics that are the time of the whole measured region over a number; others time a part of it."""


@dataclass(frozen=True)
class ExperimentResults:
    """One experiment of a run, with the descriptions that its figures need."""

    run_id: str
    experiment: str
    workload: str
    workload_version: int
    started: str
    seed: int
    points: tuple[PointSamples, ...]
    metrics: Mapping[str, Column]
    """Headline metric first."""
    covariates: Mapping[str, Column]
    environment: Mapping[str, Any]
    title: str = ""
    question: str = ""
    timing_model: str = ""
    status: str = "done"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Profile, repetitions, blocks, precision asked for, budget, place, whether points are repeated after
    interference."""
    factor_types: Mapping[str, str] = field(default_factory=dict)
    """Type of each factor, by which its levels are written: choice, integer, bytes, duration, boolean or
    path."""
    conditions: Conditions = field(default_factory=dict)
    """Where those factors have a meaning that do not always have one; the records of an earlier Oscope do not
    tell."""
    defaults: Factors = field(default_factory=dict)
    """Level of each parameter that is no factor; the records of an earlier Oscope have only those that
    conditions name."""

    @property
    def clock(self) -> clocks.Clock:
        """Which of the two clocks its figures come from; wall where the record names none."""
        return clocks.clock_of(self.environment)

    @property
    def emulated(self) -> bool:
        """Whether its times are those of an emulated machine."""
        return self.clock == "wall" and (self.environment.get("guest") or {}).get("accelerator") == "tcg"

    @property
    def headline(self) -> str:
        """Name of the metric shown first."""
        return next(iter(self.metrics))

    @property
    def has_failed_self_check(self) -> bool:
        """Whether the probe's self-check failed: then nothing holds."""
        return (self.environment.get("self_check") or {}).get("ok") is False

    @property
    def has_samples(self) -> bool:
        """Whether any point has a sample, failed ones included."""
        return any(map(len, self.points))

    def resolution(self, point: PointSamples, metric: str) -> float:
        """Return the clock's step in the unit of `metric`, spread over what a repetition is divided by.

        That is its iterations, and what each of them has several of, such as pages that are touched. 0 for
        metrics that are no time, and where the record does not show the step. A count of instructions steps
        by one a repetition.
        """
        unit = self.metrics[metric].unit
        if clocks.counted(unit) and len(point):
            return clocks.step(metric, unit, float(np.median(point.iterations)))
        clock = self.environment.get("clock") or {}
        hz, step = clock.get("hz"), clock.get("resolution")
        if not hz or not step or not len(point) or unit not in {"ns", "cycles"}:
            return 0.0
        parts, in_ticks = float(np.median(point.iterations)), float(hz) / 1e9 if unit == "ns" else 1.0
        values, whole = point.metrics[metric], point.raw - point.correction
        known = np.isfinite(values) & np.isfinite(whole)
        if metric in _OF_THE_WHOLE and known.any() and (value := float(np.median(values[known]))) > 0:
            parts = max(parts, float(round(float(np.median(whole[known])) / (value * in_ticks))))
        return float(step) / parts / in_ticks

    def duration_ns(self, point: PointSamples) -> Floats | None:
        """Return how long each repetition at `point` took in all; None where no clock of time was used."""
        hz = clocks.hz_of(self.environment)
        return None if hz is None else point.raw * (1e9 / hz)

    def iteration_ns(self, point: PointSamples) -> float:
        """Return the median time of one iteration of the measured region, without that of timing."""
        ticks = float(np.median((point.raw - point.correction) / point.iterations))
        return ticks * 1e9 / float(self.environment["clock"]["hz"])

    def varied(self) -> tuple[str, ...]:
        """Names of the factors that have more than one level here."""
        return tuple(name for name in self.names if len(self.levels(name)) > 1)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the factors that have a meaning at any point."""
        return tuple(dict.fromkeys(name for point in self.points for name in point.factors))

    def levels(self, name: str) -> tuple[Level, ...]:
        """Return the levels of a factor, in the order of the points; where it has no meaning it has none."""
        return tuple(dict.fromkeys(p.factors[name] for p in self.points if name in p.factors))

    def key(
        self, point: PointSamples, other: ExperimentResults | None = None
    ) -> frozenset[tuple[str, Level]]:
        """Return by what a point is found again, in the results of another run as well.

        A factor of the other run that is none here has its default here. What one of both runs says to have
        no meaning at a point does not count there: the points of an earlier Oscope have it all the same.
        """
        if other is None:
            return frozenset(meaningful(point.factors, self.conditions, self.defaults).items())
        conditions = {**other.conditions, **self.conditions}
        levels = self.levels_of(point.factors, other.names)
        return frozenset(meaningful(levels, conditions, {**other.defaults, **self.defaults}).items())

    def levels_of(self, factors: Factors, names: Iterable[str]) -> dict[str, Level]:
        """Return the factors of a point, and the defaults of those of `names` that are none there."""
        more = {name: self.defaults[name] for name in names if name not in factors and name in self.defaults}
        return {**factors, **more}

    def counterpart(self, point: PointSamples, factor: str, level: Level) -> PointSamples | None:
        """Return the point with this level of a factor and else the levels of `point`, where they apply."""
        levels = {**point.factors, factor: level}
        for candidate in self.points:
            if candidate.factors.get(factor) == level and all(
                candidate.factors.get(name, each) == each
                and (name in candidate.factors or name in self.conditions)
                for name, each in levels.items()
            ):
                return candidate
        return None

    def point(self, **factors: Level) -> PointSamples | None:
        """Return the first point whose factors include `factors`."""
        for candidate in self.points:
            if all(candidate.factors.get(name) == level for name, level in factors.items()):
                return candidate
        return None


@dataclass(frozen=True)
class Inspected:
    """What one inspection of a run found, or why it found nothing."""

    run_id: str
    inspection: str
    title: str
    question: str
    started: str
    """When it was looked at (UTC, ISO 8601); of one that was not reached, when the run began."""
    environment: Mapping[str, Any]
    result: Mapping[str, Any] | None
    """The inspection's JSON object; None where it is skipped."""
    skipped: str | None = None
    """Why nothing was found, if so."""
    remedy: str | None = None


@dataclass(frozen=True)
class Results:
    """The experiments and inspections of one or several runs, as a report or a lab's answers take them."""

    experiments: tuple[ExperimentResults, ...]
    inspections: tuple[Inspected, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all experiments, then of all inspections, as often as they are here."""
        return (*(e.experiment for e in self.experiments), *(i.inspection for i in self.inspections))

    @property
    def parts(self) -> tuple[ExperimentResults | Inspected, ...]:
        """All experiments, then all inspections."""
        return (*self.experiments, *self.inspections)

    def inspected(self, name: str) -> Inspected | None:
        """Return the latest inspection called `name`, or None if it was not asked for."""
        found = [i for i in self.inspections if i.inspection == name]
        return found[-1] if found else None

    def get(self, name: str) -> ExperimentResults | None:
        """Return the latest experiment called `name`, or None if it was not run."""
        found = [e for e in self.experiments if e.experiment == name]
        return found[-1] if found else None

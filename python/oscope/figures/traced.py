"""The traced points of an experiment, each beside the same point without a tracer."""

from __future__ import annotations

from dataclasses import dataclass

from oscope.figures.analysed import label, measured
from oscope.model.factors import Factors
from oscope.model.formatting import MISSING, bounded_text
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics import ComparedMetric, compare_points
from oscope.trace.factor import UNTRACED
from oscope.trace.reading import Reading, merge

_THREADED = ("disk.read", "memory.bandwidth", "memory.fault")
"""Workloads whose factor `threads` is their number of threads; any other's may be anything."""
_TWO_SIDES = ("ipc.latency", "ipc.throughput")


@dataclass(frozen=True)
class Traced:
    """A point that was traced."""

    name: str
    """The levels that tell it from the others, but for the tracer."""
    tracer: str
    point: PointSamples
    plain: PointSamples | None
    """The same point without a tracer."""
    reading: Reading
    """Of all blocks together."""
    effect: ComparedMetric | None
    """The headline time traced over untraced, paired by block: the probe effect."""
    threads: int = 1
    """That share the marks of a region; 0 where that is not known, such as one for each CPU."""

    @property
    def time_ns(self) -> float:
        """Return the measured time of all threads together; 0 where it is not known.

        `region_ns` sums processes, while the threads of one share its marks.
        """
        return float(self.reading.get("region_ns") or 0) * self.threads

    @property
    def effect_text(self) -> str:
        """Return the probe effect as `1.25 (1.21 to 1.29)`."""
        return MISSING if self.effect is None else bounded_text(self.effect.ratio, *self.effect.ci95)


def _threads(workload: str, factors: Factors) -> int:
    if workload in _TWO_SIDES:
        return 2 if factors.get("mode") == "2thread" else 1
    return int(factors.get("threads", 1)) if workload in _THREADED else 1


def traced(experiment: ExperimentResults, metric: str, kind: str) -> list[Traced]:
    """Return the points whose traces hold `kind`, such as `calls`; the probe effect is on `metric`."""
    names = [name for name in experiment.varied() if name != "tracer"]
    found = []
    for point in experiment.points:
        # A tracer of the whole process saw more than the repetitions.
        readings = [each for each in point.traces if kind in each and "scope" not in each]
        if not readings:
            continue
        other = experiment.point(**{**point.factors, "tracer": UNTRACED})
        found.append(
            Traced(
                label(experiment, point.factors, names) or experiment.experiment,
                str(point.factors.get("tracer", "")),
                point,
                other,
                merge(readings),
                probe_effect(experiment, other, point, metric),
                _threads(experiment.workload, point.factors),
            )
        )
    return found


def probe_effect(
    experiment: ExperimentResults, plain: PointSamples | None, point: PointSamples, metric: str
) -> ComparedMetric | None:
    """Return `metric` of a traced point over that of the same point untraced, paired by block."""
    if plain is None or plain is point:
        return None
    if not (len(measured(plain, metric)[0]) and len(measured(point, metric)[0])):
        return None
    return compare_points(plain, point, experiment.metrics[metric], same_run=True)

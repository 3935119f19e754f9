"""Results with their summaries computed once: what the report and the labs' answers share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from oscope.model.clocks import counted
from oscope.model.factors import Level
from oscope.model.samples import ExperimentResults, Floats, Ints, PointSamples, Results
from oscope.model.units import format_bytes, format_duration
from oscope.statistics import Attribution, Summary, attribute, order, summarise, summarise_point
from oscope.statistics.interrupt_filter import without_interference, without_partial

WORDS = frozenset({"xor"})
"""Metrics that are 32-bit words: they are equal or not, and have neither median nor interval."""


@dataclass(frozen=True)
class Analysed(Results):
    """Results that remember the summary of each point's metrics, and what makes them vary."""

    memo: dict[tuple[PointSamples, str], Summary] = field(default_factory=dict, compare=False, repr=False)
    causes: dict[tuple[PointSamples, str], Attribution] = field(
        default_factory=dict, compare=False, repr=False
    )

    @classmethod
    def of(cls, results: Results) -> Analysed:
        """Return `results` itself if it already remembers."""
        return results if isinstance(results, Analysed) else cls(results.experiments, results.inspections)

    def summary(self, experiment: ExperimentResults, point: PointSamples, metric: str) -> Summary | None:
        """Return the summary of `metric` at `point`, or None where no sample has it."""
        # The point itself, not its id(): labs derive points that die, and another may have the id then.
        key = (point, metric)
        if key not in self.memo:
            if not len(measured(point, metric)[0]):
                return None
            self.memo[key] = summarise_point(experiment, point, metric)
        return self.memo[key]

    def attribution(self, experiment: ExperimentResults, point: PointSamples, metric: str) -> Attribution:
        """Return the covariates associated with the variance of `metric` at `point`."""
        key = (point, metric)
        if key not in self.causes:
            self.causes[key] = attribute(
                point.metrics[metric],
                point.covariates,
                point.block,
                started_ns=point.started_ns,
                duration_ns=experiment.duration_ns(point),
                is_rate=experiment.metrics[metric].better == "more",
                seed=experiment.seed,
            )
        return self.causes[key]


def measured(point: PointSamples, metric: str) -> tuple[Floats, Ints]:
    """Return the finite values of `metric` at `point`, in the order taken, and their indices.

    There is none of a metric that only the longest or largest runs have.
    """
    values = without_partial(point, metric).metrics.get(metric, np.zeros(0))
    keep = np.flatnonzero(np.isfinite(values))
    return values[keep], keep


def words(points: Iterable[PointSamples], metric: str) -> list[str]:
    """Return every word that `metric` was at these points, as 8 hexadecimal digits, each once."""
    values = np.concatenate([np.zeros(0), *(measured(point, metric)[0] for point in points)])
    return [f"{int(value):08x}" for value in np.unique(values)]


def block_medians(point: PointSamples, metric: str) -> dict[int, float]:
    """Return the median of `metric` in each block in which it was measured."""
    values, keep = measured(point, metric)
    block = point.block[keep]
    return {int(name): order.median(values[block == name]) for name in np.unique(block)}


def shown_metrics(experiment: ExperimentResults) -> list[str]:
    """Return the metrics that have a value anywhere, those of the headline's kind in front."""
    return [name for name in experiment.metrics if any(len(measured(p, name)[0]) for p in experiment.points)]


def level_text(level: Level, kind: str | None) -> str:
    """Return a level as a person writes it; `kind`, its factor's type, gives bytes and durations a unit."""
    if isinstance(level, bool):
        return "yes" if level else "no"
    if kind == "bytes" and isinstance(level, int):
        return format_bytes(level)
    if kind == "duration" and isinstance(level, int | float):
        return format_duration(float(level))
    return str(level) or "none"


def levels(experiment: ExperimentResults, factors: Mapping[str, Level]) -> dict[str, str]:
    """Return each factor's level as a person writes it."""
    return {name: level_text(level, experiment.factor_types.get(name)) for name, level in factors.items()}


def plain_levels(
    experiment: ExperimentResults, points: Sequence[Mapping[str, Level]], names: Iterable[str]
) -> dict[str, list[float | None]]:
    """Return the levels that `level_text` writes with a unit as numbers, under a heading that has it."""
    units = {"bytes": "B", "duration": "s"}
    kinds = {name: experiment.factor_types.get(name, "") for name in names}
    return {
        f"{name} [{units[kind]}]": [
            level if isinstance(level := factors.get(name), int | float) else None for factors in points
        ]
        for name, kind in kinds.items()
        if kind in units
    }


def label(experiment: ExperimentResults, factors: Mapping[str, Level], names: Iterable[str]) -> str:
    """Return the levels of `names`, joined: the name of a point in a figure or a table."""
    written = levels(experiment, factors)
    return " · ".join(written[name] for name in names if name in written)


def paired_difference(
    results: ExperimentResults, a: PointSamples, b: PointSamples, metric: str
) -> Summary | None:
    """Summarise b - a, one difference of medians for each block both have; None without one."""
    first, second = (
        block_medians(point, metric) for point, _ in without_interference(results.metrics[metric], a, b)
    )
    shared = sorted(first.keys() & second.keys())
    if not shared:
        return None
    exact = counted(results.metrics[metric].unit)
    step = 0.0 if exact else max(results.resolution(point, metric) for point in (a, b))
    differences = [second[block] - first[block] for block in shared]
    return summarise(differences, shared, resolution=step, kind="difference")

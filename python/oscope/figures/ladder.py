"""The latency ladder and the throughputs: the figures of a run that describe a machine at a glance.

`oscope.figures.rungs` declares from which experiment, metric and point each figure is taken. A rung's summary
is that of `Analysed`, so it equals what the tables of the same point show. A figure that was not measured is
absent and says why; none is estimated from others. Only what a wall clock measured, without a tracer, is
taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oscope.figures.analysed import Analysed, levels, measured
from oscope.figures.rungs import RUNGS, Kind, RungSpec, Usual
from oscope.model.factors import Level, as_typed
from oscope.model.formatting import Scale
from oscope.model.samples import ExperimentResults, PointSamples, Results
from oscope.model.units import format_bytes
from oscope.statistics import Summary

SECONDS: Mapping[str, float] = {"ns": 1e-9, "s": 1.0}
BYTES_PER_S: Mapping[str, float] = {"B/s": 1.0, "MiB/s": float(1 << 20)}
WIDEST = 100.0
"""Largest ratio of an interval's end to the median, and of the median to its other end, that is shown."""
BEYOND = 2
"""A memory that is so many times larger than a cache is not held by it; half of it surely is."""


@dataclass(frozen=True)
class Rung:
    """One figure: the summary of a metric at one point."""

    key: str
    name: str
    kind: Kind
    detail: str
    """The levels that chose the point, and those that the experiment varied, as a person writes them."""
    run_id: str
    experiment: str
    metric: str
    factors: Mapping[str, Level]
    unit: str
    """Unit of the summary: ns, s, MiB/s or B/s."""
    summary: Summary = field(repr=False)

    @property
    def median(self) -> float:
        """Return the median, in `unit`."""
        return self.summary.median

    @property
    def ci95(self) -> tuple[float, float] | None:
        """Return the 95 % interval of the median, in `unit`; None without repetition, or beyond `WIDEST`."""
        known = self.summary.ci95
        is_usable = known and known[0] * WIDEST >= self.median >= known[1] / WIDEST
        return known if is_usable else None

    @property
    def interval(self) -> str:
        """Return the ends of the interval, or in brackets why there is none."""
        if self.ci95 is not None:
            return self.scale.span(self.ci95)
        return "(once)" if self.summary.ci95 is None else "(too few samples)"

    @property
    def base_factor(self) -> float:
        """Return how many seconds (latency) or bytes a second (throughput) one `unit` is."""
        return (SECONDS if self.kind == "latency" else BYTES_PER_S)[self.unit]

    @property
    def scale(self) -> Scale:
        """Return the unit and the decimals in which the median and its interval are shown."""
        spread = None if self.ci95 is None else (self.ci95[1] - self.ci95[0]) / 2
        return Scale.of(self.median, spread or self.summary.std or None, self.unit)

    @property
    def command(self) -> str:
        """Return the command that measures just this point again."""
        chosen = " ".join(f"--set {name}={as_typed(level)}" for name, level in sorted(self.factors.items()))
        return f"oscope run {self.experiment} {chosen}"


@dataclass(frozen=True)
class AbsentRung:
    """A figure that this run does not have."""

    key: str
    name: str
    kind: Kind
    experiment: str
    why: str
    remedy: str | None = None
    """What to do about it, where that is known."""


@dataclass(frozen=True)
class Ladder:
    """The figures of a run: latencies from short to long, throughputs from high to low."""

    latencies: tuple[Rung, ...]
    throughputs: tuple[Rung, ...]
    absent: tuple[AbsentRung, ...]

    def rung(self, key: str) -> Rung | None:
        """Return the figure called `key`, or None where it is absent."""
        return next((rung for rung in (*self.latencies, *self.throughputs) if rung.key == key), None)


def ladder(results: Results) -> Ladder:
    """Return the figures that `results` have, and why each other one is absent.

    Summaries are computed for the chosen points only; an `Analysed` remembers them.
    """
    analysed = Analysed.of(results)
    found = [_rung(analysed, spec) for spec in RUNGS]
    rungs = [each for each in found if isinstance(each, Rung)]
    return Ladder(
        tuple(sorted((r for r in rungs if r.kind == "latency"), key=_in_base_units)),
        tuple(sorted((r for r in rungs if r.kind == "throughput"), key=_in_base_units, reverse=True)),
        tuple(each for each in found if isinstance(each, AbsentRung)),
    )


def _in_base_units(rung: Rung) -> float:
    return rung.median * rung.base_factor


def _rung(results: Analysed, spec: RungSpec) -> Rung | AbsentRung:
    """Return the figure from the latest experiment that has it, or why the latest has it not."""
    named = [each for each in results.experiments if each.experiment == spec.experiment]
    if not named:
        return _absent(spec, f"{spec.experiment} was not run", f"oscope run {spec.experiment}")
    found = [_rung_of(results, experiment, spec) for experiment in reversed(named)]
    return next((each for each in found if isinstance(each, Rung)), found[0])


def _rung_of(results: Analysed, experiment: ExperimentResults, spec: RungSpec) -> Rung | AbsentRung:
    if experiment.clock != "wall" or spec.metric not in experiment.metrics:
        return _absent(spec, f"{spec.experiment} was not measured by a wall clock")
    qualified = [point for point in experiment.points if _qualifies(point, spec)]
    if not qualified:
        return _absent(spec, f"{spec.experiment} was not run at {_described(spec)}")
    values = [point for point in qualified if len(measured(point, spec.metric)[0])]
    if not values:
        return _absent(spec, *_reason(qualified))
    fitting = [point for point in values if _fits(experiment, point, spec.level)]
    if not fitting:
        return _absent(
            spec, f"no memory size measured lies well within {spec.level} and beyond the level before"
        )
    point = _preferred(fitting, spec.usual)
    summary = results.summary(experiment, point, spec.metric)
    if summary is None or not summary.median > 0:
        return _absent(spec, f"the median of {spec.experiment} is not above zero: too short for this clock")
    return Rung(
        key=spec.key,
        name=_name(experiment, point, spec),
        kind=spec.kind,
        detail=_detail(experiment, point, spec),
        run_id=experiment.run_id,
        experiment=spec.experiment,
        metric=spec.metric,
        factors=dict(point.factors),
        unit=experiment.metrics[spec.metric].unit,
        summary=summary,
    )


def _absent(spec: RungSpec, why: str, remedy: str | None = None) -> AbsentRung:
    return AbsentRung(spec.key, spec.name, spec.kind, spec.experiment, why, remedy)


def _reason(points: Sequence[PointSamples]) -> tuple[str, str | None]:
    """Return why none of these points has a value, and the remedy."""
    for point in points:
        if point.skipped is not None:
            return point.skipped, point.remedy
        if point.failed:
            return f"every sample failed: {point.failed[0][1]}", None
    return "the run ended before this point", None


def _qualifies(point: PointSamples, spec: RungSpec) -> bool:
    """Say whether a point has the levels asked for, and no tracer; a factor it lacks has no meaning there."""
    is_traced = point.factors.get("tracer", "none") != "none"
    has_size = spec.sized is None or bool(point.factors.get(spec.sized))
    has_levels = all(point.factors.get(name, level) == level for name, level in spec.where.items())
    return has_levels and has_size and not is_traced


def _preferred(points: Sequence[PointSamples], usual: Usual) -> PointSamples:
    """Return the point that has most of the usual levels, the factors named first counting first."""
    remaining = list(points)
    for name, level in usual.items():
        with_factor = [point for point in remaining if name in point.factors]
        if not with_factor:
            continue
        if level in ("smallest", "largest"):
            choose: Callable[..., Any] = min if level == "smallest" else max
            level = choose(with_factor, key=lambda point: point.factors[name]).factors[name]
        elif not isinstance(level, str) and all(point.factors[name] != level for point in with_factor):
            level = max(with_factor, key=lambda point: point.factors[name]).factors[name]
        remaining = [point for point in with_factor if point.factors[name] == level] or remaining
    return remaining[0]


def caches(environment: Mapping[str, Any]) -> dict[str, int]:
    """Return the size in bytes of each cache of data that the machine reports, by its level: L1, L2, L3."""
    found = (environment.get("cpu") or {}).get("caches") or ()
    return {
        f"L{each['level']}": int(each["size_bytes"])
        for each in sorted(found, key=lambda each: int(each["level"]))
        if str(each.get("type")).lower() != "instruction"
    }


def _fits(experiment: ExperimentResults, point: PointSamples, level: str | None) -> bool:
    """Say whether the memory of a point lies in a cache level, as far as the machine reports its caches.

    Where it reports none, the smallest memory and the largest still have a figure, whose name then is their
    size.
    """
    if level is None:
        return True
    known, size = caches(experiment.environment), int(point.factors["size"])
    if level == "DRAM" or (level == "L1" and not known):
        return True
    if level not in known:
        return False
    inner = [held for name, held in known.items() if name < level]
    return size * BEYOND <= known[level] and all(size >= BEYOND * held for held in inner)


def _name(experiment: ExperimentResults, point: PointSamples, spec: RungSpec) -> str:
    """Return the name of a figure; a load whose level is not certain is named by the size of its memory."""
    if spec.sized is not None:
        return f"{spec.name}, {format_bytes(int(point.factors[spec.sized]))}"
    if spec.level is None:
        return spec.name
    known, size = caches(experiment.environment), int(point.factors["size"])
    is_certain = bool(known) and (spec.level != "DRAM" or size >= BEYOND * max(known.values()))
    return spec.name if is_certain else f"{spec.name.removeprefix(spec.level).strip()}, {format_bytes(size)}"


def _detail(experiment: ExperimentResults, point: PointSamples, spec: RungSpec) -> str:
    written = levels(experiment, point.factors)
    chosen = dict.fromkeys((*spec.where, *spec.usual, *experiment.varied()))
    return ", ".join(f"{name}={written[name]}" for name in chosen if name in written)


def _described(spec: RungSpec) -> str:
    size = f", with {spec.sized} above 0" if spec.sized else ""
    return ", ".join(f"{name}={level}" for name, level in spec.where.items()) + size

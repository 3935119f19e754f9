"""The points of a transfer experiment by the way in which files are moved, and how two ways compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from oscope.figures import plots
from oscope.figures.analysed import Analysed, measured
from oscope.figures.experiments import dot
from oscope.figures.tables import shared_scale
from oscope.figures.words import counted
from oscope.labs.curve import At, has, not_different, ratio_text
from oscope.labs.curve import unmeasured as all_unmeasured
from oscope.labs.transfer import PLAIN, pair
from oscope.model.factors import Level
from oscope.model.formatting import MISSING
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics import ComparedMetric, Summary, compare_within

MEBIBYTE = 1 << 20
GIBIBYTE = 1 << 30
TIME, RECEIVER_TIME, SENDER_TIME, RATE = "time_ns", "receiver_time_ns", "sender_time_ns", "bytes_per_s"
WAY = "way"
ARROW = " → "
CALLS = "readwrite"
MAPPED = "mmap"


@dataclass(frozen=True)
class Sides:
    """Which metrics hold the times of both sides."""

    sender: str
    receiver: str


COPIED = Sides(TIME, RECEIVER_TIME)
DEVICE = Sides(SENDER_TIME, TIME)
"""The device's time is the receiver's, as in the document."""


def way(factors: Mapping[str, Level]) -> str:
    """Return how a point moves files: the device's method, or those of sender and receiver."""
    if "method" in factors:
        return str(factors["method"])
    return named(pair(factors))


def named(methods: tuple[str, str]) -> str:
    """Return `mmap` where both sides have the method, else `sendfile → readwrite`."""
    sender, receiver = methods
    return sender if sender == receiver else f"{sender}{ARROW}{receiver}"


PLAIN_WAY = named(PLAIN)


def untraced(experiment: ExperimentResults, **levels: Level) -> list[PointSamples]:
    """Return the points with these levels that no tracer watched, measured or not."""
    return [
        point
        for point in experiment.points
        if point.factors.get("tracer", "none") == "none" and has(point, levels)
    ]


def known(experiment: ExperimentResults, metric: str, **levels: Level) -> list[PointSamples]:
    """Return the points with these levels that have values of `metric`."""
    return [point for point in untraced(experiment, **levels) if len(measured(point, metric)[0])]


def ways(points: Sequence[PointSamples]) -> list[str]:
    """Return the ways of these points, in the order of the experiment."""
    return list(dict.fromkeys(way(point.factors) for point in points))


def sizes(points: Sequence[PointSamples]) -> list[int]:
    """Return the sizes of these points, rising."""
    return sorted({int(point.factors["size"]) for point in points if "size" in point.factors})


def curves(
    results: Analysed, experiment: ExperimentResults, metric: str, **levels: Level
) -> dict[str, list[At]]:
    """Return for each way its points by rising size; of several at one size, the first."""
    found: dict[str, dict[int, At]] = {}
    for point in known(experiment, metric, **levels):
        summary = results.summary(experiment, point, metric)
        if summary is not None and "size" in point.factors:
            size = int(point.factors["size"])
            found.setdefault(way(point.factors), {}).setdefault(size, At(size, point, summary))
    return {name: [each[size] for size in sorted(each)] for name, each in found.items()}


def dots(
    results: Analysed,
    experiment: ExperimentResults,
    points: Sequence[PointSamples],
    metric: str,
    row: Callable[[PointSamples], str],
) -> tuple[dict[str, list[plots.Dot]], str]:
    """Return for each way a dot of each of its points, named by `row`, and the unit of all."""
    summaries = [one for each in points if (one := summary(results, experiment, each, metric)) is not None]
    scale = shared_scale(summaries, experiment.metrics[metric].unit)
    series = {
        name: [
            dot(results, experiment, (point, metric), scale, name=row(point), colour=colour)
            for point in points
            if way(point.factors) == name
        ]
        for colour, name in enumerate(ways(points))
    }
    return series, scale.unit


def against(
    experiment: ExperimentResults, metrics: Sequence[str], a: str, b: str, **levels: Level
) -> list[ComparedMetric]:
    """Return how way `b` compares with way `a` at each point that both have, paired by block (Holm)."""

    def renamed(point: PointSamples) -> PointSamples:
        rest = {
            name: level
            for name, level in point.factors.items()
            if name not in ("sender", "receiver", "method", "tracer")
        }
        return replace(point, factors={**rest, WAY: way(point.factors)})

    points = tuple(renamed(point) for point in untraced(experiment, **levels) if way(point.factors) in (a, b))
    return levels_compared(replace(experiment, points=points), metrics, WAY, (a, b))


def levels_compared(
    experiment: ExperimentResults, metrics: Sequence[str], factor: str, ends: tuple[Level, Level]
) -> list[ComparedMetric]:
    """Return how the second level of a factor compares with the first, paired by block (Holm).

    There is a row for each of the metrics at each combination of the other factors, but for what either side
    has no value of.
    """
    columns = {
        # Of what was done, such as calls, neither more nor less is better; it is compared all the same.
        name: replace(experiment.metrics[name], better=experiment.metrics[name].better or "less")
        for name in metrics
        if name in experiment.metrics
    }
    narrow = replace(experiment, metrics=columns)
    shared = False
    for point in narrow.points:
        other = narrow.point(**{**point.factors, factor: ends[1]})
        if point.factors.get(factor) == ends[0] and other is not None:
            shared |= any(len(measured(point, name)[0]) and len(measured(other, name)[0]) for name in columns)
    return list(compare_within(narrow, factor, *ends).rows) if shared else []


def at(rows: Sequence[ComparedMetric], metric: str, **levels: Level) -> ComparedMetric | None:
    """Return the row of a metric at these levels, if there is one."""
    for row in rows:
        if row.metric == metric and all(row.factors.get(name) == level for name, level in levels.items()):
            return row
    return None


def verdict(row: ComparedMetric | None) -> list[str]:
    """Return three cells: a ratio with its interval, whether there is a difference, whether it matters."""
    return [MISSING] * 3 if row is None else [ratio_text(row), row.different, row.matters]


def times(row: ComparedMetric, what: str) -> str:
    """Return `1.46 (1.45 to 1.47) times WHAT`, and where that is no difference, or cannot be told, that."""
    text = f"{ratio_text(row)} times {what}"
    return text if row.different == "yes" else f"{text}, {not_different(row)}"


def first(experiment: ExperimentResults, metric: str, name: str, **levels: Level) -> PointSamples | None:
    """Return the first point of a way that has these levels and values of `metric`."""
    found = (point for point in known(experiment, metric, **levels) if way(point.factors) == name)
    return next(found, None)


def summary(
    results: Analysed, experiment: ExperimentResults, point: PointSamples, name: str
) -> Summary | None:
    """Return the summary of a metric that the experiment may not have."""
    return results.summary(experiment, point, name) if name in experiment.metrics else None


def lasting(sizes: Sequence[int], holds: Callable[[int], bool]) -> int | None:
    """Return the size from which on `holds` is true of every size; None where it is not of the largest."""
    start = None
    for size in sorted(sizes, reverse=True):
        if not holds(size):
            break
        start = size
    return start


def narrowed(experiment: ExperimentResults, *known: str) -> ExperimentResults:
    """Return the points at the first measured level of every factor that varies and is not `known`."""
    others = [name for name in experiment.varied() if name not in known]
    if not others:
        return experiment
    first = experiment.points[0].factors
    levels = {name: first[name] for name in others if name in first}
    return replace(experiment, points=tuple(each for each in experiment.points if has(each, levels)))


def busy(experiment: ExperimentResults) -> str:
    """Return a caution where more wanted to run than there were CPUs when the measurement began."""
    load, cpus = experiment.environment.get("load"), experiment.environment.get("cpu") or {}
    allowed = len(cpus.get("allowed") or ())
    if not load or not allowed or load[0] <= allowed:
        return ""
    return (
        f"The machine was busy when this was measured (a load of {load[0]:.1f} on "
        f"{counted(allowed, 'CPU')}): times are longer, and fewer differences are found, than on an idle one."
    )


def missing(*experiments: ExperimentResults | None) -> str:
    """Tell the points that could not be measured, each reason once."""
    told = dict.fromkeys(all_unmeasured(each) for each in experiments if each is not None)
    return " ".join(filter(None, told))


def spread_cells(found: Summary | None, scale_text: Callable[[float | None], str]) -> list[str]:
    """Return mean and standard deviation as two cells."""
    if found is None:
        return [MISSING, MISSING]
    return [scale_text(found.mean), MISSING if found.std is None else scale_text(found.std)]

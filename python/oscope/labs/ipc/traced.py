"""The traced points of an experiment, each beside the same point without a tracer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oscope.digits import MISSING, format_count
from oscope.labs.curve import NOT_RUN, bounded_text, unmeasured
from oscope.labs.words import listed
from oscope.report.analysis import label, measured
from oscope.samples import ExperimentResults, PointSamples
from oscope.statistics import ComparedMetric, compare_points
from oscope.trace.reading import Reading, merge

UNTRACED = "none"
WITHOUT = "What follows is what is known without a tracer"


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

    @property
    def effect_text(self) -> str:
        """Return the probe effect as `1.25 (1.21 to 1.29)`."""
        return MISSING if self.effect is None else bounded_text(self.effect.ratio, *self.effect.ci95)


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


def effect_note(found: Iterable[Traced]) -> str:
    """Return the probe effect of what a figure shows: every point's, or the span of many."""
    known = [(each, each.effect) for each in found if each.effect is not None]
    if not known:
        return "Probe effect: not known, since no point was measured without the tracer as well."
    if len(known) <= 2:
        told = listed([f"{each.effect_text} at {each.name}" for each, _ in known])
    else:
        low, high = (end(known, key=lambda pair: pair[1].ratio)[0] for end in (min, max))
        told = f"from {low.effect_text} at {low.name} to {high.effect_text} at {high.name}"
    return f"Probe effect (time traced over untraced, 95 %): {told}."


def losses(found: Iterable[Traced]) -> list[str]:
    """Tell what the tracers lost while attached, each loss once; nothing where nothing was lost."""
    told: dict[str, list[str]] = {}
    for each in found:
        parts = _lost(each.reading.get("losses", {}))
        if parts:
            told.setdefault(listed(parts), []).append(each.name)
    if not told:
        return []
    rows = [
        f"{what} ({names[0] if len(names) == 1 else f'at each of {len(names)} points'})"
        for what, names in told.items()
    ]
    return [f"Lost while the tracer was attached, so that counts here are lower bounds: {'; '.join(rows)}."]


def _lost(lost: Mapping[str, Any]) -> list[str]:
    parts = [f"{format_count(lost['ring'])} events that found the ring full"] if lost.get("ring") else []
    parts += [
        f"{format_count(count)} updates that the full map {name} refused"
        for name, count in lost.get("map_full", {}).items()
        if count
    ]
    if lost.get("recursion"):
        parts.append(f"{format_count(lost['recursion'])} runs of a program within another one")
    return parts


def untold(experiment: ExperimentResults | None, name: str, found: Sequence[Traced]) -> str:
    """Say why there are no traces, or not at every point, with the remedy; empty where nothing is missing."""
    if experiment is None:
        return "" if found else f"{NOT_RUN.format(name, name)}."
    why = unmeasured(experiment)
    if found or why:
        return why
    return (
        f"{name} has no traces: `oscope run {name} --trace syscalls,sched,faults` takes them, as root "
        "and with bpftrace."
    )

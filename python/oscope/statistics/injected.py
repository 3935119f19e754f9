"""What is reported of results into which interference was injected on purpose, and when it was at work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from oscope.model.formatting import Scale, format_count
from oscope.model.injection import injected_causes
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics.candidates import INJECTED


def caveats(sides: Mapping[str, ExperimentResults]) -> list[str]:
    """Return a caveat for each side, given under its name, that was measured with injected interference."""
    return [
        f"{name} was measured with injected interference ({', '.join(causes)}): no clean measurement"
        for name, side in sides.items()
        if (causes := causes_of(side))
    ]


def causes_of(experiment: ExperimentResults) -> tuple[str, ...]:
    """Return what was injected into an experiment, as `--inject` takes it; empty for a clean measurement."""
    injection = experiment.settings.get("injection")
    return injected_causes(injection) if injection else ()


def banner(experiments: Sequence[ExperimentResults]) -> str | None:
    """Return what stands above the figures of an injected run; None of a clean one.

    It has how many samples were affected, where the samples show that, and of a single point both medians.
    """
    found = [each for each in experiments if causes_of(each)]
    if not found:
        return None
    names = ", ".join(dict.fromkeys(name for each in found for name in causes_of(each)))
    where = f" into {len(found)} of {len(experiments)} experiments" if len(found) < len(experiments) else ""
    text = f"Interference was injected on purpose{where}: {names}: no clean measurement."
    return f"{text}{_extent(found)}"


def _extent(experiments: Iterable[ExperimentResults]) -> str:
    """Say in how many samples it was at work; empty where that is not known of all."""
    parts = [(each, point, at_work(each, point)) for each in experiments for point in each.points]
    masks = [mask for _, point, mask in parts if mask is not None]
    if not masks or len(masks) < len(parts):
        return ""
    affected, of = sum(int(mask.sum()) for mask in masks), sum(map(len, masks))
    if not of:
        return ""
    text = f" It was at work in {format_count(affected)} of {format_count(of)} samples"
    measured = [(each, point, mask) for each, point, mask in parts if mask is not None and len(mask)]
    return f"{text}{_medians(*measured[0]) if len(measured) == 1 else ''}."


def at_work(experiment: ExperimentResults, point: PointSamples) -> npt.NDArray[np.bool_] | None:
    """Return in which samples of a point interference was at work; None where the results do not show it.

    A delay was where the sample has waited. A cause that acts on the machine was where one of its phases
    overlaps the sample: a long sample has several. A run that was killed has recorded no phases.
    """
    injection = experiment.settings["injection"]
    found = np.zeros(len(point), dtype=bool)
    if not len(point):
        return found
    if injection["delay_ns"] or injection["drift_ns_per_s"]:
        if (waited := point.covariates.get(INJECTED)) is None:
            return None
        found |= np.nan_to_num(waited) > 0
    if injection["causes"]:
        duration_ns = experiment.duration_ns(point)
        if duration_ns is None or not injection.get("phases"):
            return None
        ended = point.started_ns + duration_ns
        for phase in injection["phases"]:
            found |= (point.started_ns < phase["to_ns"]) & (ended > phase["from_ns"])
    return found


def _medians(experiment: ExperimentResults, point: PointSamples, mask: npt.NDArray[np.bool_]) -> str:
    """Return the medians of the headline with and without interference; empty where one has no value."""
    name = experiment.headline
    values = point.metrics[name]
    sides = [values[chosen & np.isfinite(values)] for chosen in (mask, ~mask)]
    if not all(map(len, sides)):
        return ""
    unit = experiment.metrics[name].shown_unit
    with_it, without = (Scale.of(m, None, unit).with_unit(m) for m in (float(np.median(s)) for s in sides))
    return f": median {with_it} with it, {without} without"

"""How much has to be measured so that a difference of a given size is found, by the machine's certificate."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from oscope.analysis.calibration import certificate
from oscope.analysis.calibration.certificate import INTERLEAVED, POWER, TIMES_S, Entry
from oscope.analysis.calibration.spec import DUET, QUICK_REPS
from oscope.model.errors import UsageError
from oscope.model.experiment import Experiment
from oscope.model.factors import Factors, Level, as_typed
from oscope.model.formatting import format_share
from oscope.planning.plan import Plan, PlannedExperiment, counts_instructions

Exclude = Callable[[Factors], bool]
"""Says of a point that it cannot be."""


@dataclass(frozen=True)
class Sized:
    """A plan whose amounts follow from what is to be found."""

    plan: Plan
    notes: tuple[str, ...]
    """For people, before it starts: how much that is, how long it takes, and what it rests on."""


def size_run(
    plan: Plan,
    effect: float,
    calibrated: Mapping[str, Any] | None,
    experiments: Iterable[Experiment] = (),
) -> Sized:
    """Return the plan of a run so long that a difference of `effect` from another such run is found.

    `calibrated` is the machine's newest calibration in brief, `experiments` are those planned. Raises
    UsageError where there is no calibration, or where runs on this machine differ by too much for any length.
    """
    sized, notes = [], []
    excluded = {each.name: each.exclude for each in experiments}
    for experiment in plan.experiments:
        entry, assumed = _entry(experiment, calibrated)
        blocks = entry.blocks_for(effect)
        if blocks is None:
            remedy = _remedy(experiment, entry, effect, excluded.get(experiment.name))
            raise UsageError(_too_small(experiment, entry, effect), remedy=remedy)
        reps = blocks * QUICK_REPS
        seconds = blocks * entry.pair_s / 2 * len(experiment.points)
        notes.append(
            f"{experiment.name}: {blocks} blocks of {QUICK_REPS} samples at each of {_points(experiment)}, "
            f"{about(seconds)}; two such runs show {format_share(effect)} in {format_share(POWER)} of "
            f"cases{assumed}"
        )
        sized.append(replace(experiment, reps=reps, blocks=blocks))
    return Sized(replace(plan, experiments=tuple(sized)), tuple(notes))


def size_interleaved(
    plan: Plan, effect: float, calibrated: Mapping[str, Any] | None, duet: Collection[str] = ()
) -> Sized:
    """Return the plan of one of two interleaved sides, with the time in which `effect` is found as budget.

    Each experiment has the part of it that it needs. `duet` names the experiments that both sides measure at
    the same time. Raises UsageError where there is no calibration, or where no such time is reasonable.
    """
    sized, notes = [], []
    for experiment in plan.experiments:
        way = DUET if experiment.name in duet else INTERLEAVED
        entry, assumed = _entry(experiment, calibrated, way)
        pairs = entry.pairs_for(effect)
        if pairs is None:
            raise UsageError(
                f"{experiment.name}: {format_share(effect)} would take days to find on this machine",
                remedy=f"ask for {_share_up(entry.interleaved(TIMES_S[-1]))}, which takes 10 minutes",
            )
        seconds = pairs * entry.pair_s * len(experiment.points)
        sized.append(replace(experiment, budget_s=seconds))
        notes.append(
            f"{experiment.name}: {pairs} {way} pairs of blocks at each of {_points(experiment)}, "
            f"{about(seconds)}; a difference of {format_share(effect)} is found in {format_share(POWER)} of "
            f"cases{assumed}"
        )
    total = round(sum(each.budget_s or 0.0 for each in sized), 1) or 0.1
    return Sized(replace(plan, budget_s=total, experiments=tuple(sized)), tuple(notes))


def about(seconds: float) -> str:
    """Write an expected time: `about 12 s`."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"about {seconds / size:.2g} {unit}"
    return f"about {max(seconds, 0.1):.2g} s" if seconds < 100 else f"about {seconds:.0f} s"


def _entry(
    experiment: PlannedExperiment, calibrated: Mapping[str, Any] | None, way: str = INTERLEAVED
) -> tuple[Entry, str]:
    if counts_instructions(experiment):
        raise UsageError(
            f"{experiment.name} counts instructions, which repeat: --detect has nothing to choose",
            remedy="give --reps",
        )
    entries = certificate.from_object((calibrated or {}).get("certificate", ()))
    found = certificate.entry_for(entries, experiment.name, way)
    if found is None:
        raise UsageError(
            f"--detect needs to know how {'duet ' if way == DUET else ''}measurements vary on this machine, "
            "and it was not calibrated",
            remedy="run `oscope calibrate --quick`, which takes 2 minutes",
        )
    entry, own = found
    assumed = "" if own else f" (taken from {entry.subject}, the least precise class calibrated here)"
    return entry, assumed


def _points(experiment: PlannedExperiment) -> str:
    count = len(experiment.points)
    return "1 point" if count == 1 else f"{count} points"


def _too_small(experiment: PlannedExperiment, entry: Entry, effect: float) -> str:
    known = f"runs differ by {format_share(_rounded(entry.run_deviation))} though nothing was changed"
    if not entry.knows_runs:
        known = "how much separate runs differ is not known"
    return f"{experiment.name}: no length of separate runs shows {format_share(effect)} here: {known}"


def _remedy(experiment: PlannedExperiment, entry: Entry, effect: float, exclude: Exclude | None) -> str:
    detectable = entry.separate(TIMES_S[-1])
    runs = f", or ask for {_share_up(detectable)}" if detectable < 1 else ""
    verb, sides = "oscope ab", "builds of the probe"
    if experiment.guest is not None:
        verb, sides = "oscope kernel ab", "kernels"
    elif experiment.program is not None:
        sides = "builds of the program"
    how = f"`{interleaved_command(experiment, effect)}`"
    if len(experiment.points) < _combinations(experiment, exclude):
        how = f"{verb}, which measures each combination of their levels, not these points alone"
    return f"compare two {sides} in one interleaved run ({how}){runs}"


def _combinations(experiment: PlannedExperiment, exclude: Exclude | None) -> int:
    """Return how many points there are where every level of each factor is typed."""
    levels = _levels(experiment)
    every = (dict(zip(levels, each, strict=True)) for each in itertools.product(*levels.values()))
    points = {tuple(experiment.workload.meaningful(each).items()) for each in every}
    return sum(exclude is None or not exclude(dict(point)) for point in points)


def _levels(experiment: PlannedExperiment) -> dict[str, list[Level]]:
    """Return the levels of each factor, each once."""
    names = dict.fromkeys(name for point in experiment.points for name in point)
    return {
        name: list(dict.fromkeys(point[name] for point in experiment.points if name in point))
        for name in names
    }


def interleaved_command(experiment: PlannedExperiment, effect: float) -> str:
    """Return the command that measures these points on two sides, interleaved, to find `effect`.

    It names the levels of every factor: those left out would be what the design has, which may be more. That
    of kernels leaves out `effect`, since `oscope kernel ab` takes none.
    """
    words = ["oscope", "ab", "OLD/oscope-probe", "NEW/oscope-probe", experiment.name]
    last = ["--detect", f"{100 * effect:g}%"]
    if experiment.guest is not None:
        words = ["oscope", "kernel", "ab", "--patch", "PATCH", experiment.name]
        last = ["--clock", experiment.guest.clock]
    elif experiment.program is not None:
        words[2:4] = ["./OLD", "./NEW"]
    for name, levels in _levels(experiment).items():
        words += ["--set", f"{name}={','.join(map(as_typed, levels))}"]
    return shlex.join([*words, *last])


def _rounded(share: float) -> float:
    return float(f"{share:.2g}")


def _share_up(share: float) -> str:
    """Write a share with two digits, rounded up."""
    rounded = _rounded(share)
    return format_share(rounded if rounded >= share else _rounded(1.05 * share))

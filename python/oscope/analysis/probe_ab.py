"""The same measurement by two builds of the probe, or of a program of one's own, interleaved or as a duet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from oscope.analysis.calibration import certificate
from oscope.model.errors import UsageError
from oscope.model.experiment import Experiment
from oscope.model.factors import Level
from oscope.planning.plan import Plan, draw_seed, make_plan
from oscope.probe.catalogue import Catalogue
from oscope.runner.duet_cpus import DuetAffinity, is_possible, why_not

BLOCK_REPS = 5
"""Samples of each point in a block: a process starts in milliseconds, and many pairs tell more than long
ones."""

BuildsWay = Literal["auto", "interleaved", "duet"]
"""How both builds are measured; auto: what finds a smaller difference, by the machine's certificate."""

_USUAL_S = 10.0
"""Measuring time at which the ways are compared where none is given."""


@dataclass(frozen=True)
class Chosen:
    """How two builds are measured."""

    duet: frozenset[str] = frozenset()
    """The experiments that both measure at the same time."""
    notes: tuple[str, ...] = ()
    """For people: what was chosen, and why."""


def choose_way(
    plan: Plan, way: BuildsWay, calibrated: Mapping[str, Any] | None = None, seconds: float | None = None
) -> Chosen:
    """Choose for each experiment of `plan` whether it is measured as a duet; else it is interleaved.

    `calibrated` is the machine's newest calibration in brief, which decides where `way` is auto: by what
    either finds in `seconds`, of which each experiment has an equal part, as when they are measured. Raises
    UsageError where a duet is demanded and this process may use too few CPUs.
    """
    if way == "duet":
        # Raises where it cannot be.
        DuetAffinity()
        reasons = {each.name: why_not(each) for each in plan.experiments}
        return Chosen(
            frozenset(name for name, reason in reasons.items() if reason is None),
            tuple(f"{name} is measured interleaved: {reason}" for name, reason in reasons.items() if reason),
        )
    if way == "interleaved" or calibrated is None or not is_possible():
        return Chosen()

    entries = certificate.from_object(calibrated.get("certificate", ()))
    share = (_USUAL_S if seconds is None else seconds) / len(plan.experiments)
    chosen = frozenset(
        each.name
        for each in plan.experiments
        if why_not(each) is None and certificate.duet_is_better(entries, each.name, share / len(each.points))
    )
    return Chosen(
        chosen,
        tuple(
            f"{name}: both builds at the same time (duet), which finds smaller differences on this machine"
            for name in sorted(chosen)
        ),
    )


def find_build(text: str) -> Path:
    """Return the path of a build of the probe. Raises UsageError where there is no such program."""
    path = Path(text).absolute()
    if not path.is_file():
        raise UsageError(f"there is no program {text}", remedy="give the path of a built oscope-probe")
    return path


def _check_factors(
    builds: Sequence[tuple[Catalogue, Sequence[Experiment]]], settings: Mapping[str, Sequence[Level]]
) -> None:
    """Raise UsageError for a factor of `settings` that not all builds have."""
    names = [experiments[0].program.name if experiments[0].program else "" for _, experiments in builds]
    sides = [name or side for name, side in zip(names, ("OLD", "NEW"), strict=True)]
    known = [
        {
            parameter.name
            for each in experiments
            for parameter in described.workload(each.workload, each.program).parameters
        }
        for described, experiments in builds
    ]
    for factor in settings:
        without = [side for side, own in zip(sides, known, strict=True) if factor not in own]
        if len(without) == 1:
            raise UsageError(
                f"{without[0]} has no factor {factor!r}, and both builds are measured at the same levels",
                remedy=f"leave out --set {factor}: the other build then has its default",
            )


def make_plans(
    builds: Sequence[tuple[Catalogue, Sequence[Experiment]]],
    settings: Mapping[str, Sequence[Level]],
    budget_s: float,
    seed: int | None = None,
    names: Sequence[str | None] = (None, None),
) -> tuple[Plan, ...]:
    """Plan the same measurement by each build: short blocks, until the budget has passed.

    Of each build there is what it describes, and the experiments; `names` are those of builds of the probe.
    Raises UsageError where the builds do not have the same workload, or a request cannot be.
    """
    seed = draw_seed() if seed is None else seed
    _check_factors(builds, settings)
    plans = [
        make_plan(experiments, described, profile="quick", settings=settings, seed=seed)
        for described, experiments in builds
    ]
    first = plans[0]
    for plan in plans[1:]:
        for own, other in zip(first.experiments, plan.experiments, strict=True):
            if own.workload.version != other.workload.version:
                raise UsageError(
                    f"{own.name}: the builds have versions {own.workload.version} and "
                    f"{other.workload.version} of {own.workload.name}, which do not mean the same",
                    remedy="compare builds of one version of the workload",
                )
    return tuple(
        replace(
            plan,
            budget_s=budget_s,
            experiments=tuple(replace(each, reps=BLOCK_REPS, blocks=None) for each in plan.experiments),
            build=name,
        )
        for plan, name in zip(plans, names, strict=True)
    )

"""The same measurement by two builds of the probe, their blocks in turns: what a change of the probe does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from oscope import catalogue
from oscope.errors import UsageError
from oscope.experiment import Experiment, Level
from oscope.plan import Plan, draw_seed, make_plan

BLOCK_REPS = 5
"""Samples of each point in a block: a process starts in milliseconds, and many pairs tell more than long
ones."""


def find_build(text: str) -> Path:
    """Return the path of a build of the probe. Raises UsageError where there is no such program."""
    path = Path(text).absolute()
    if not path.is_file():
        raise UsageError(f"there is no program {text}", remedy="give the path of a built oscope-probe")
    return path


def make_plans(
    builds: Sequence[Path],
    experiments: Sequence[Experiment],
    settings: Mapping[str, Sequence[Level]],
    budget_s: float,
    seed: int | None = None,
) -> tuple[Plan, ...]:
    """Plan the same measurement by each build: short blocks, until the budget has passed.

    Raises UsageError where the builds do not have the same workload, or a request cannot be.
    """
    seed = draw_seed() if seed is None else seed
    plans = [
        make_plan(experiments, catalogue.load(build), profile="quick", settings=settings, seed=seed)
        for build in builds
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
        )
        for plan in plans
    )

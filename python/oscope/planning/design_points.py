"""The points of an experiment: the product of its factors' levels, and errors in levels set by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from oscope.model.errors import UnknownFactorError, UsageError
from oscope.model.experiment import Design, Experiment
from oscope.model.factors import Factors, Level, Profile
from oscope.probe.catalogue import Workload, bounded_below, check_level, nearest
from oscope.trace.factor import TRACER

RESIDENT_IN_PAGES = "process.create"
"""The workload that touches whole pages before it measures."""
LEAST_HUGE_PAGE_BYTES = 2 << 20
"""The smallest huge page of x86-64 and arm64: what is no multiple of it is none of a larger one."""


def with_tracer(design: Design, workload: Workload, settings: Mapping[str, Sequence[Level]]) -> Workload:
    """Return `workload` with the laboratory's own factor `tracer`, where the experiment has it."""
    if TRACER.name not in design.factors and TRACER.name not in settings:
        return workload
    return replace(workload, parameters=(*workload.parameters, TRACER))


def check_names(settings: Mapping[str, Sequence[Level]], workloads: Iterable[Workload]) -> None:
    """Raise UsageError for a factor that no experiment has, or one without a level."""
    known = {parameter.name: None for workload in workloads for parameter in workload.parameters}
    for name, levels in settings.items():
        if name not in known:
            raise UnknownFactorError(name, known, nearest(name, known))
        if not levels:
            raise UsageError(f"{name} has no level", remedy=f"write --set {name}=LEVEL[,LEVEL]…")


def check_meaning(
    settings: Mapping[str, Sequence[Level]],
    experiments: Sequence[Experiment],
    workloads: Mapping[str, Workload],
    profile: Profile,
) -> None:
    """Raise UsageError for a factor set by hand that has no meaning at any point."""
    for name in settings:
        planned = [(e, workloads[e.name]) for e in experiments if workloads[e.name].parameter(name)]
        points = [_product(e, workload, e.design(profile), settings) for e, workload in planned]
        if any(name in point for product in points for point in product):
            continue
        needed = dict.fromkeys(str(c) for _, workload in planned for c in workload.conditions[name])
        raise UsageError(
            f"{name} has no meaning here: it has one only with {' and '.join(needed)}",
            remedy=f"leave out --set {name}, or set {' and '.join(needed)}",
        )


def plan_points(
    experiment: Experiment,
    workload: Workload,
    design: Design,
    settings: Mapping[str, Sequence[Level]],
) -> tuple[Factors, ...]:
    """Return the product of the levels without the combinations excluded."""
    product = _product(experiment, workload, design, settings)
    by_hand = any(name in settings and len(given) > 1 for name, given in design.factors.items())
    rules = [rule for rule in (experiment.exclude, None if by_hand else design.omit) if rule is not None]
    points = tuple(p for p in product if not any(rule(p) for rule in rules))
    if not points:
        raise UsageError(
            f"{experiment.name}: these levels exclude each other", remedy="set others, or fewer of them"
        )
    _check_huge_pages(experiment, workload, points, settings)
    return points


def _check_huge_pages(
    experiment: Experiment,
    workload: Workload,
    points: Iterable[Factors],
    settings: Mapping[str, Sequence[Level]],
) -> None:
    """Raise UsageError where a process would have a part of a huge page resident: the probe refuses that."""
    if workload.name != RESIDENT_IN_PAGES:
        return
    for point in points:
        resident = point.get("resident", 0)
        if point.get("pages") == "huge" and isinstance(resident, int) and resident % LEAST_HUGE_PAGE_BYTES:
            usual = "" if "pages" in settings else ", which is measured as well unless pages is set"
            raise UsageError(
                f"{experiment.name}: resident={resident}: must be a multiple of {LEAST_HUGE_PAGE_BYTES} B "
                f"with pages=huge{usual}",
                remedy="give --set pages=4K, or a multiple such as --set resident=2M",
            )


def _product(
    experiment: Experiment,
    workload: Workload,
    design: Design,
    settings: Mapping[str, Sequence[Level]],
) -> list[dict[str, Level]]:
    """Return the product of the levels, set or else designed, each point with what has a meaning there."""
    levels: dict[str, Sequence[Level]] = dict(design.factors)
    levels.update({name: chosen for name, chosen in settings.items() if workload.parameter(name)})
    try:
        checked = {name: _levels(experiment, workload, name, given) for name, given in levels.items()}
    except UsageError as error:
        raise UsageError(f"{experiment.name}: {error.message}", remedy=error.remedy) from None
    combinations = (
        dict(zip(checked, combination, strict=True)) for combination in itertools.product(*checked.values())
    )
    # Points that differ only in what has no meaning there are one.
    return [
        dict(point) for point in dict.fromkeys(tuple(workload.meaningful(c).items()) for c in combinations)
    ]


def _levels(
    experiment: Experiment, workload: Workload, name: str, given: Sequence[Level]
) -> tuple[Level, ...]:
    parameter = workload.parameter(name)
    if parameter is None:
        raise UsageError(
            f"{workload.name} has no parameter {name!r}",
            remedy=nearest(name, [p.name for p in workload.parameters]),
        )
    bounded = bounded_below(parameter, experiment.least)
    return tuple(dict.fromkeys(check_level(bounded, level) for level in given))

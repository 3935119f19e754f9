"""Which points of two results belong together, and which results may be compared at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from oscope.model.errors import UsageError
from oscope.model.factors import Level
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics import carryover
from oscope.statistics.machines import KERNEL, MACHINE, refuse, refuse_other_machine

ALLOWED = frozenset({KERNEL, MACHINE})
"""What may differ between sides if that is the question."""


@dataclass(frozen=True)
class Match:
    """Two points that differ only in what is compared."""

    factors: Mapping[str, Level]
    a: PointSamples
    b: PointSamples


def match_points(a: ExperimentResults, b: ExperimentResults) -> tuple[list[Match], list[str]]:
    """Pair the points with equal factors; say how many have no partner. Raises UsageError if none has."""
    others: dict[object, PointSamples] = {}
    for point in b.points:
        others.setdefault(b.key(point, a), point)
    keys: dict[object, PointSamples] = {}
    for point in a.points:
        keys.setdefault(a.key(point, b), point)
    matches = [Match(p.factors, p, others[key]) for key, p in keys.items() if key in others]
    if not matches:
        raise UsageError(
            f"runs {a.run_id} and {b.run_id} have no point in common",
            remedy="give both the same factors and levels",
        )
    missing = []
    for points, side in ((a.points, "A"), (b.points, "B")):
        lonely = len(points) - len(matches)
        if lonely:
            missing.append(f"{lonely} of {len(points)} points are only in {side} and were left out")
    return matches, missing


def refuse_unlike(a: ExperimentResults, b: ExperimentResults, allow: frozenset[str]) -> list[str]:
    """Raise UsageError where figures of `a` and `b` do not mean the same; return caveats."""
    unknown = allow - ALLOWED
    if unknown:
        raise UsageError(
            f"allow={','.join(sorted(unknown))}", remedy="only machine and kernel can be allowed to differ"
        )
    if (a.run_id, a.experiment) == (b.run_id, b.experiment):
        if not _has_same_samples(a, b):
            raise UsageError(
                f"the two copies of run {a.run_id} differ: one was changed after it was measured, or cut",
                remedy="compare with another run",
            )
        raise UsageError(
            f"run {a.run_id} cannot be compared with itself",
            remedy=f"choose another run; oscope compare {a.run_id} --by FACTOR=A,B compares two levels of it",
        )
    refuse("workload", a.workload, b.workload, "compare runs of the same workload")
    refuse(
        f"version of {a.workload}",
        a.workload_version,
        b.workload_version,
        "measure both with the same version of Oscope",
    )
    refuse(
        "way of measuring (duet: beside the other side)",
        a.settings.get("way", "alone"),
        b.settings.get("way", "alone"),
        "compare two runs that were measured alike",
    )
    caveats = []
    clocks = _clock_kind(a), _clock_kind(b)
    if None in clocks:
        caveats.append("a record does not say which clock it used")
    else:
        refuse("clock", *clocks, "the two clocks do not count the same; measure both with one")
    for name in set(a.metrics) & set(b.metrics):
        refuse(
            f"unit of {name}",
            a.metrics[name].shown_unit,
            b.metrics[name].shown_unit,
            "measure both with the same version",
        )
    return [*caveats, *refuse_other_machine(a, b, allow), *carryover.caveats(a, b)]


def _has_same_samples(a: ExperimentResults, b: ExperimentResults) -> bool:
    """Say whether two copies of a run have the same readings and values."""
    matches, missing = match_points(a, b)
    return not missing and all(
        np.array_equal(one, other, equal_nan=True)
        for match in matches
        for one, other in [
            (match.a.raw, match.b.raw),
            *((match.a.metrics[name], match.b.metrics[name]) for name in a.metrics if name in b.metrics),
        ]
    )


def is_alike(a: ExperimentResults, b: ExperimentResults, allow: frozenset[str] = frozenset()) -> bool:
    """Say whether figures of `a` and `b` mean the same."""
    try:
        refuse_unlike(a, b, allow)
    except UsageError:
        return False
    return True


def interleaved(a: ExperimentResults, b: ExperimentResults) -> bool:
    """Say whether equal block numbers are pairs: blocks that took turns, and so are neighbours in time.

    So are boots that count instructions and measured the same points in the same order, at any time: a count
    does not drift, and only the system itself can make them differ.
    """
    names = a.settings.get("interleaved") or ()
    took_turns = names == b.settings.get("interleaved") and {a.run_id, b.run_id} <= set(names)
    return took_turns or carryover.same_order(a, b)


def _clock_kind(results: ExperimentResults) -> str | None:
    clock = results.environment.get("clock") or {}
    return clock.get("kind")

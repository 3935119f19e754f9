"""Invented results of a whole assignment: every point of its plan, with values that are known."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np

import synthetic
import synthetic_kernel
from oscope.assignments.model import Document
from oscope.model.factors import Profile
from oscope.model.samples import Column, ExperimentResults, PointSamples, Results
from oscope.planning.plan import Plan, PlannedExperiment, make_plan
from oscope.probe.catalogue import load

RUN = "20260101-000000-assigned"
XOR = 0xA7EEB2D9
SPREAD = 0.02
SIZES = {
    "ns": 5e5,
    "s": 0.02,
    "cycles": 1e6,
    "MiB/s": 900.0,
    "B/s": 3e6,
    "KiB": 17_000.0,
    "B": float(1 << 20),
}
"""Typical values by unit; what is not listed is some thousands."""
SHARES = {"resident": 1.0}
"""Metrics that are no counts though they have no unit."""


def plan(document: Document, profile: Profile = "quick") -> Plan:
    """Return the plan that the command makes, without guests."""
    asked = [each for each in document.experiments if profile == "full" or each.quick is not None]
    return make_plan(asked, load(), profile=profile, seed=1)


def results(document: Document, profile: Profile = "quick", *, guests: bool = True) -> Results:
    """Return invented results of the whole plan; without `guests`, none of what is measured in one."""
    in_guest = {each.name for each in document.experiments if each.guest is not None}
    chosen = [each for each in plan(document, profile).experiments if guests or each.name not in in_guest]
    return Results(tuple(_results(each, profile, each.name in in_guest) for each in chosen))


def _results(planned: PlannedExperiment, profile: Profile, in_guest: bool) -> ExperimentResults:
    columns = {
        metric.name: Column(metric.name, metric.unit, metric.doc, metric.better)
        for metric in planned.workload.metrics
    }
    environment = {**synthetic.ENVIRONMENT, "cpu": {**synthetic.ENVIRONMENT["cpu"], "allowed": [0, 1]}}
    if in_guest:
        environment |= {"guest": synthetic_kernel.environment("wall")["guest"]}
    maker = synthetic.Maker(zlib.crc32(planned.name.encode()))
    blocks = planned.blocks or planned.reps
    points = tuple(
        _valued(maker.point(factors, 1e5, reps=planned.reps, blocks=blocks), planned, columns, index)
        for index, factors in enumerate(planned.points)
    )
    return ExperimentResults(
        run_id=RUN,
        experiment=planned.name,
        workload=planned.workload.name,
        workload_version=planned.workload.version,
        started="2026-01-01T00:00:00+00:00",
        seed=1,
        points=points,
        metrics={name: columns[name] for name in planned.metrics},
        covariates=synthetic.COVARIATES,
        environment=environment,
        title=planned.title,
        question=planned.question,
        settings={"profile": profile, "place": "guest" if in_guest else "local", "reps": planned.reps},
        factor_types={each.name: each.type for each in planned.workload.parameters},
    )


def _valued(
    point: PointSamples, planned: PlannedExperiment, columns: dict[str, Column], index: int
) -> PointSamples:
    """Give every metric values that differ between points, and by 2 % between samples."""
    hardware = point.factors.get("counters") == "hardware"
    if hardware:
        none = point.only(np.zeros(len(point), bool))
        return replace(none, metrics={}, skipped="no hardware counters", remedy="use a bare machine")
    random = np.random.default_rng(index + zlib.crc32(planned.name.encode()))
    metrics = {}
    for name, column in columns.items():
        if name == "xor":
            metrics[name] = np.full(len(point), float(XOR))
        elif name in SHARES:
            metrics[name] = np.full(len(point), 0.0 if point.factors.get("cache") == "cold" else 1.0)
        else:
            middle = SIZES.get(column.unit, 4000.0) * (1 + 0.1 * (index % 7))
            metrics[name] = middle * random.lognormal(0, SPREAD, len(point))
    return replace(point, metrics=metrics)

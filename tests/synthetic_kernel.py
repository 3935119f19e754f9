"""Invented results of the kernel lab with known causes in them, for tests of what reads results.

Printing makes the call `PRINTED` times as dear; each policy multiplies the faults by its `FAULTS`. A guest
that counts instructions repeats exactly; one under the wall clock does not.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import synthetic
import synthetic_instructions
from oscope.labs.kernel import CALLS, COUNTS, MAPPINGS, POLICIES
from oscope.model.clocks import Clock
from oscope.model.factors import Level
from oscope.model.samples import Column, ExperimentResults, Floats, PointSamples, Results

BOOTS = 5
SILENT = 200.0
PRINTED = 20.0
COST = dict(zip(CALLS, (SILENT, SILENT * PRINTED, 230.0, 240.0), strict=True))
"""Instructions, and nanoseconds, of a call."""
FORK = {"child": 300_000.0, "parent": 200_000.0, "total": 450_000.0}
FAULTS = {
    "anonymous": {"own": 1.0, "reclaim-active": 1.25, "reclaim-referenced": 1.25, "mglru": 1.0},
    "private": {"own": 1.0, "reclaim-active": 1.0, "reclaim-referenced": 1.5, "mglru": 0.5},
    "shared": {"own": 1.0, "reclaim-active": 1.5, "reclaim-referenced": 2.0, "mglru": 0.5},
}
MAJOR, MINOR = 2400.0, 1600.0
KERNEL = "my_precious+reclaim-policy"


def environment(clock: Clock) -> dict[str, Any]:
    """Return that of a guest under `clock`."""
    counted = synthetic_instructions.guest(KERNEL, clock=clock)
    if clock == "instructions":
        return counted
    return {**counted, "clock": synthetic.ENVIRONMENT["clock"]}


def point(factors: Mapping[str, Level], metrics: Mapping[str, Floats], reps: int = 1) -> PointSamples:
    """Return a point with `reps` repetitions in each of the boots, which are blocks too."""
    n = BOOTS * reps
    boot = np.repeat(np.arange(BOOTS), reps).astype(np.int64)
    return PointSamples(
        factors=dict(factors),
        block=boot,
        process=boot,
        boot=boot,
        rep=np.tile(np.arange(reps), BOOTS).astype(np.int64),
        started_ns=(synthetic.STARTED_NS + np.arange(n) * 1_000_000).astype(np.int64),
        raw=np.full(n, 1e6),
        iterations=np.full(n, 1000, np.int64),
        correction=np.zeros(n),
        metrics=dict(metrics),
        covariates={"interrupts": np.zeros(n), "timer_interrupts": np.zeros(n)},
    )


def _values(value: float, clock: Clock, reps: int, seed: int) -> Floats:
    """Return the same each time under the instructions clock, and with a spread of 1 % under the other."""
    if clock == "instructions":
        return np.full(BOOTS * reps, value)
    spread: Floats = np.random.default_rng(seed).lognormal(0, 0.01, BOOTS * reps)
    return value * spread


def _results(name: str, clock: Clock, points: list[PointSamples], columns: list[Column]) -> ExperimentResults:
    named = name if clock == "instructions" else f"{name}-wall"
    made = synthetic._results(named, tuple(points), tuple(columns), "time = raw - correction")
    covariates = {each: Column(each, "count", each) for each in ("interrupts", "timer_interrupts")}
    return replace(
        made,
        environment=environment(clock),
        covariates=covariates,
        settings={"profile": "full", "place": "guest"},
    )


def _columns(clock: Clock, stem: str) -> list[Column]:
    """Return the metrics that stand for a time under `clock`."""
    if clock == "instructions":
        name = f"{stem}_instructions" if stem else "instructions"
        return [Column(name, "instructions", name, "less")]
    ticks = f"{stem}_cycles" if stem else "cycles"
    return [Column(f"{stem or 'time'}_ns", "ns", stem, "less"), Column(ticks, "cycles", ticks, "less")]


def _timed(clock: Clock, stem: str, value: float, reps: int, seed: int) -> dict[str, Floats]:
    first, *others = _columns(clock, stem)
    values = _values(value, clock, reps, seed)
    return {first.name: values, **{each.name: values * synthetic.HZ / 1e9 for each in others}}


def precious(clock: Clock) -> ExperimentResults:
    """`kernel.precious`, by this clock."""
    points = [
        point({"call": call, "style": "loop"}, _timed(clock, "", cost, 12, seed), 12)
        for seed, (call, cost) in enumerate(COST.items())
    ]
    return _results("kernel.precious", clock, points, _columns(clock, ""))


def fork(clock: Clock) -> ExperimentResults:
    """`kernel.fork`, by this clock."""
    metrics: dict[str, Floats] = {}
    for seed, (who, cost) in enumerate(FORK.items()):
        metrics |= _timed(clock, who, cost, 12, seed)
    made = point({"how": "fork", "resident": 0, "pages": "4K"}, metrics, 12)
    columns = [each for who in FORK for each in _columns(clock, who)]
    return _results("kernel.fork", clock, [replace(made, iterations=np.ones(len(made), np.int64))], columns)


def reclaim(clock: Clock) -> ExperimentResults:
    """`kernel.reclaim`, by this clock."""
    patterns = ("random", "seq") if clock == "instructions" else ("random",)
    stems = ("instructions", "cpu_instructions") if clock == "instructions" else ("time_s", "cpu_s")
    unit = "instructions" if clock == "instructions" else "s"
    points = []
    for number, (policy, mapping, pattern) in enumerate(itertools.product(POLICIES, MAPPINGS, patterns)):
        more = FAULTS[mapping][policy]
        # Boots differ by a fault at most, each in its own way.
        stray = np.random.default_rng(number).integers(0, 2, BOOTS) if mapping == "shared" else 0
        counts = {name: np.full(BOOTS, 3000.0) * more for name in COUNTS}
        counts |= {"minflt": np.full(BOOTS, MINOR) * more + stray, "majflt": np.full(BOOTS, MAJOR) * more}
        scale = 1e8 if clock == "instructions" else 0.1
        costs = {name: np.rint(_values(scale * more, clock, 1, number) * 1e6) / 1e6 for name in stems}
        factors: dict[str, Level] = {"policy": policy, "mapping": mapping, "pattern": pattern}
        made = point({**factors, "sets": 512, "size": 8 << 20}, {**costs, **counts})
        points.append(replace(made, iterations=np.ones(len(made), np.int64)))
    columns = [
        *(Column(name, unit, name, "less") for name in stems),
        *(Column(name, "1", name) for name in COUNTS),
    ]
    return _results("kernel.reclaim", clock, points, columns)


def survey() -> Results:
    """All six experiments."""
    clocks: tuple[Clock, ...] = ("instructions", "wall")
    return Results(tuple(make(clock) for clock in clocks for make in (precious, fork, reclaim)))


sections = synthetic.sections_of("kernel")

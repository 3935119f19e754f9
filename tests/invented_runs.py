"""Invented runs of one experiment, for tests of what judges runs: as many as wanted, of known cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import null_compare as null
from oscope.model.samples import Column, ExperimentResults, Floats, PointSamples, Results
from oscope.storage import record

ENVIRONMENT: dict[str, Any] = {
    "boot_id": "boot-1",
    "machine": "0123456789abcdef",
    "kernel": {"release": "6.1.0", "version": "#1 SMP", "cmdline": "quiet", "arch": "x86_64"},
    "clock": {"kind": "tsc"},
    "laboratory": {"oscope": "0.1.0", "git_commit": "a" * 40},
}
TIME = Column("time_ns", "ns", "time", "less")
RATE = Column("calls_per_s", "1/s", "calls a second", "more")
QUIET = null.Scenario("quiet", blocks=(10, 10), reps=(5, 5), process_spread=0.004, spread=0.001)


def run(
    costs: Mapping[str, float],
    number: int = 0,
    *,
    seed: int | None = None,
    scenario: null.Scenario = QUIET,
    environment: Mapping[str, Any] = ENVIRONMENT,
) -> ExperimentResults:
    """Return a run of `syscall.cost` in which each call costs so many ns; `number` gives its date."""
    random = np.random.default_rng(number if seed is None else seed)
    points = tuple(_point(call, cost, scenario, random) for call, cost in costs.items())
    (side, _) = null.simulate(scenario, random)
    return replace(
        side,
        run_id=f"202601{number + 1:02d}-120000-aaaa",
        started=f"2026-01-{number + 1:02d}T12:00:00+00:00",
        points=points,
        metrics={**null.METRIC, RATE.name: RATE},
        environment=environment,
        factor_types={"call": "choice"},
    )


def _point(call: str, cost: float, scenario: null.Scenario, random: np.random.Generator) -> PointSamples:
    drawn = null.simulate(scenario, random)[0].points[0]
    time = drawn.metrics["time_ns"] * cost / 100
    return replace(drawn, factors={"call": call}, metrics={"time_ns": time, RATE.name: 1e9 / time})


def write(results: ExperimentResults, path: Path) -> str:
    """Write its record, and return the file's name."""
    record.write(Results((results,)), path)
    return path.name


def results(side: int, values: Floats, metric: Column = TIME, *, together: bool = True) -> ExperimentResults:
    """Return a run of one point with these values, blocks x repetitions."""
    count, reps = values.shape
    size, block = values.size, np.repeat(np.arange(count), reps)
    begun = 20_000_000 * block + 1_000_000 * np.tile(np.arange(reps), count)
    point = PointSamples(
        factors={"call": "getppid"},
        block=block,
        process=block,
        boot=np.zeros(size, dtype=np.int64),
        rep=np.tile(np.arange(reps), count),
        started_ns=begun + side * (10_000_000 if together else 10**12),
        raw=np.zeros(size),
        iterations=np.ones(size, dtype=np.int64),
        correction=np.zeros(size),
        metrics={metric.name: values.ravel()},
        covariates={},
    )
    settings = {"interleaved": ["run0", "run1"]} if together else {}
    environment = {"machine": "0", "clock": {"kind": "tsc"}}
    named = {metric.name: metric}
    head = (f"run{side}", "syscall.cost", "syscall.cost", 1, "", 0)
    return ExperimentResults(*head, (point,), named, {}, environment, settings=settings)

"""Invented results of the instructions clock: boots that repeat exactly, save where an interrupt fell in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import synthetic
from oscope.model.samples import Column, ExperimentResults, Floats, PointSamples

ITERATIONS = 508
OVERHEAD = 36.0
HANDLER = 4_321.0
"""Instructions of the handler of one interrupt."""
COLUMN = Column(
    "instructions", "instructions", "Instructions of one iteration, the clock's own taken off", "less"
)
RATE = Column("calls_per_s", "calls/Ginstr", "Calls in 10^9 instructions.", "more")


def guest(kernel: str = "base", **changes: Any) -> dict[str, Any]:
    """Return the environment of a guest; `changes` are of what it says of the guest."""
    return {
        **synthetic.ENVIRONMENT,
        "boot_id": f"boot-of-{kernel}",
        "cpu": {**synthetic.ENVIRONMENT["cpu"], "model": "QEMU TCG CPU", "logical": 1, "allowed": [0]},
        "clock": {
            "kind": "instructions",
            "hz": 1e9,
            "overhead": OVERHEAD,
            "overhead_mad": 0.0,
            "resolution": 1,
            "why": None,
        },
        "guest": {
            "kernel": {"id": f"{len(kernel):012x}", "name": kernel, "release": "6.1.192", "patches": []},
            "accelerator": "tcg",
            "why": "the instructions clock needs emulation",
            "cpus": 1,
            "memory_bytes": 1 << 30,
            "clock": "instructions",
            "cpu_model": "max,-rdrand,-rdseed",
            "kernel_options": ["nokaslr", "norandmaps"],
            "qemu": "7.2",
            "virtme": "1.42",
            **changes,
        },
    }


def point(
    call: str,
    cost: float,
    interrupted: Sequence[Sequence[int]],
    *,
    reps: int = 10,
    iterations: int = ITERATIONS,
    boot_effect: Sequence[float] = (),
) -> PointSamples:
    """Return a point with a boot for each entry of `interrupted`: its repetitions with an interrupt.

    `boot_effect` is what each boot adds to the cost of an iteration.
    """
    boots = len(interrupted)
    n = boots * reps
    boot = np.repeat(np.arange(boots), reps)
    rep = np.tile(np.arange(reps), boots)
    hit: Floats = np.array(
        [r in interrupted[b] for b, r in zip(boot.tolist(), rep.tolist(), strict=True)], float
    )
    added = np.array(boot_effect or [0.0] * boots)[boot]
    raw = (float(cost) + added) * iterations + OVERHEAD + HANDLER * hit
    each = (raw - OVERHEAD) / iterations
    return PointSamples(
        factors={"call": call},
        block=boot.astype(np.int64),
        process=boot.astype(np.int64),
        boot=boot.astype(np.int64),
        rep=rep.astype(np.int64),
        started_ns=(synthetic.STARTED_NS + np.arange(n) * 1_000_000).astype(np.int64),
        raw=raw,
        iterations=np.full(n, iterations, np.int64),
        correction=np.full(n, OVERHEAD),
        metrics={"instructions": each, "calls_per_s": 1e9 / each},
        covariates={"interrupts": hit, "timer_interrupts": hit.copy(), "instructions": np.full(n, np.nan)},
    )


def results(
    *points: PointSamples, kernel: str = "base", run: str = "20260101-000000-aaaa", **changes: Any
) -> ExperimentResults:
    """Return these points as `syscall.cost` in a guest with `kernel`."""
    whole = synthetic.cost(reps=12, blocks=2)
    covariates = {
        name: Column(name, "count", name) for name in ("interrupts", "timer_interrupts", "instructions")
    }
    return replace(
        whole,
        run_id=run,
        points=points,
        metrics={COLUMN.name: COLUMN, RATE.name: RATE},
        covariates=covariates,
        environment=guest(kernel, **changes),
        timing_model="instructions = (raw - correction) / iterations",
        settings={"profile": "quick", "place": "guest", "reps": 50},
        factor_types={"call": "choice"},
    )


SOME = ((), (3,), (), (0, 7), ())
"""Interrupts as they fall: 3 of 50 samples."""


def pair(k: float = 0.0, **changes: Any) -> tuple[ExperimentResults, ExperimentResults]:
    """Return two guests of five boots each; the second one's kernel takes `k` instructions more a call."""
    a = results(point("getppid", 236, SOME), kernel="base")
    b = results(
        point("getppid", 236 + k, ((1,), (), (), (), (9,))),
        kernel="my_precious",
        run="20260101-000001-bbbb",
        **changes,
    )
    return a, b

"""A record of 1,000,000 samples: stored, summarised, compared, reported, with the memory that each takes."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from bars import Bar, Bench, Figure, Part
from measuring import BIN
from oscope import labs
from oscope.planning.plan import Amount, make_plan
from oscope.probe import catalogue
from oscope.storage.store import Store, StoredEvent

STORED = Bar("1,000,000 samples: stored", "samples/s", least=50_000)
COMMANDS = ("show", "compare", "report")
SECONDS = {command: Bar(f"1,000,000 samples: oscope {command}", "s", most=10) for command in COMMANDS}
MEMORY = {command: Bar(f"1,000,000 samples: memory of {command}", "MiB", most=1024) for command in COMMANDS}
SIZE = Bar("1,000,000 samples: the report's size", "MB", most=12)
BLOCKS = 50
REPS = 10_000
FEW_REPS = 10
"""For a round that only shows that it works."""
BATCH = 10_000
"""Rows committed together, as many as arrive at once when the probe is quick."""
HZ = 2.6e9
OVERHEAD = 52


def fill(store: Store, seed: int, reps: int) -> tuple[str, float]:
    """Store a run of two points with BLOCKS x `reps` samples each; return its id and the samples a second."""
    known = catalogue.load()
    plan = make_plan(
        [labs.experiment("syscall.cost")],
        known,
        settings={"call": ["getppid", "read"], "style": ["single"]},
        amount=Amount(reps=BLOCKS * reps),
        seed=seed,
    )
    environment = {
        "boot_id": "b",
        "machine": "m",
        "clock": {"kind": "tsc", "hz": HZ, "overhead": OVERHEAD, "resolution": 1},
    }
    run = store.create_run(plan, [StoredEvent("environment", environment)])
    rng = np.random.default_rng(seed)
    spent = 0.0
    for block in range(BLOCKS):
        for point in store.point_ids(run).values():
            rows = samples(rng, point, block, reps, len(plan.covariates))
            begin = time.monotonic()
            for first in range(0, reps, BATCH):
                store.add(run, rows[first : first + BATCH])
            spent += time.monotonic() - begin
    store.add(run, (), [StoredEvent("status", "done")])
    return run, BLOCKS * reps * 2 / spent


def samples(
    rng: np.random.Generator, point: int, block: int, reps: int, covariates: int
) -> list[dict[str, Any]]:
    """Rows as the recorder makes them of single calls: readings in ticks, covariates that are mostly 0."""
    raw = (260 * np.exp(rng.normal(0, 0.01)) + rng.gamma(2, 5, reps)).astype(int) + OVERHEAD
    others = rng.poisson(0.02, (reps, covariates)).tolist()
    return [
        {
            "point_id": point,
            "block": block,
            "rep": rep,
            "process": block + 1,
            "boot": 0,
            "started_ns": 1_790_000_000_000_000_000
            + (block * 2 * reps + rep) * 10_000
            + int(rng.integers(999)),
            "raw": ticks,
            "iterations": 1,
            "correction": float(OVERHEAD),
            "failed": None,
            "values": orjson.dumps(
                [(ticks - OVERHEAD) / HZ * 1e9, float(ticks - OVERHEAD), *others[rep]]
            ).decode(),
        }
        for rep, ticks in enumerate(raw.tolist())
    ]


def measured(store: Path, *arguments: str) -> tuple[float, float]:
    """Run a command; return its seconds and the most memory it had, in MiB."""
    begin = time.monotonic()
    child = subprocess.Popen(
        [BIN / "oscope", *arguments],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "OSCOPE_STORE": str(store)},
    )
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise RuntimeError(f"oscope {' '.join(arguments)} ended with status {status}")
    return time.monotonic() - begin, usage.ru_maxrss / 1024


def scale(bench: Bench) -> Iterator[Figure]:
    """Store two runs, and summarise, compare and report them."""
    path, report = bench.folder / "scale.db", bench.folder / "report.html"
    reps = bench.pick(FEW_REPS, REPS, REPS)
    with Store.open(path) as store:
        (one, rate), (two, other) = fill(store, 1, reps), fill(store, 2, reps)
    yield Figure(STORED, min(rate, other), detail="the slower of two runs")
    words = {"show": (one,), "compare": (one, two), "report": (one, "-o", str(report))}
    for command, arguments in words.items():
        seconds, mib = measured(path, command, *arguments)
        yield Figure(SECONDS[command], seconds)
        yield Figure(MEMORY[command], mib)
    yield Figure(SIZE, report.stat().st_size / 1e6)


PARTS = (
    Part(
        "Two runs of 1,000,000 made-up samples are stored as a run stores them; then commands read them.",
        (STORED, *(bar for command in COMMANDS for bar in (SECONDS[command], MEMORY[command])), SIZE),
        scale,
        short_s=80,
        full_s=90,
    ),
)

"""A record of 1,000,000 samples: stored, summarised, compared, reported, with the memory that each takes."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from bars import BIN, Bar
from oscope import catalogue, labs
from oscope.plan import Amount, make_plan
from oscope.store import Happening, Store

BLOCKS = 50
REPS = 10_000
BATCH = 10_000
"""Rows committed together, as many as arrive at once when the probe is quick."""
HZ = 2.6e9
OVERHEAD = 52


def fill(store: Store, seed: int) -> tuple[str, float]:
    """Store a run of two points with BLOCKS x REPS samples each; return its id and the samples a second."""
    known = catalogue.load()
    plan = make_plan(
        [labs.experiment("syscall.cost")],
        known,
        settings={"call": ["getppid", "read"], "style": ["single"]},
        amount=Amount(reps=BLOCKS * REPS),
        seed=seed,
    )
    environment = {
        "boot_id": "b",
        "machine": "m",
        "clock": {"kind": "tsc", "hz": HZ, "overhead": OVERHEAD, "resolution": 1},
    }
    run = store.create_run(plan, [Happening("environment", environment)])
    rng = np.random.default_rng(seed)
    spent = 0.0
    for block in range(BLOCKS):
        for point in store.point_ids(run).values():
            rows = samples(rng, point, block, len(plan.covariates))
            begin = time.monotonic()
            for first in range(0, REPS, BATCH):
                store.add(run, rows[first : first + BATCH])
            spent += time.monotonic() - begin
    store.add(run, (), [Happening("status", "done")])
    return run, BLOCKS * REPS * 2 / spent


def samples(rng: np.random.Generator, point: int, block: int, covariates: int) -> list[dict[str, Any]]:
    """Rows as the recorder makes them of single calls: readings in ticks, covariates that are mostly 0."""
    raw = (260 * np.exp(rng.normal(0, 0.01)) + rng.gamma(2, 5, REPS)).astype(int) + OVERHEAD
    others = rng.poisson(0.02, (REPS, covariates)).tolist()
    return [
        {
            "point_id": point,
            "block": block,
            "rep": rep,
            "process": block + 1,
            "boot": 0,
            "started_ns": 1_790_000_000_000_000_000
            + (block * 2 * REPS + rep) * 10_000
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


def bars() -> Iterator[Bar]:
    """Everything of this module."""
    with tempfile.TemporaryDirectory(prefix="oscope-bench-") as name:
        path = Path(name) / "scale.db"
        with Store.open(path) as store:
            (one, rate), (two, other) = fill(store, 1), fill(store, 2)
        slower = min(rate, other)
        yield Bar(
            "1,000,000 samples stored",
            f"{slower:,.0f} samples/s",
            "at least 50,000 samples/s",
            met=slower >= 50_000,
        )
        shown, shown_mib = measured(path, "show", one)
        compared, compared_mib = measured(path, "compare", one, two)
        text = (
            f"show {shown:.1f} s, {shown_mib:.0f} MiB; "
            f"compare with another million {compared:.1f} s, {compared_mib:.0f} MiB"
        )
        met = max(shown, compared) <= 10 and max(shown_mib, compared_mib) <= 1024
        yield Bar("... summarised, and compared", text, "10 s, 1024 MiB", met=met)
        report = Path(name) / "report.html"
        seconds, mib = measured(path, "report", one, "-o", str(report))
        size = report.stat().st_size / 1e6
        text = f"{seconds:.1f} s, {size:.1f} MB, {mib:.0f} MiB"
        yield Bar(
            "... reported", text, "10 s, 12 MB, 1024 MiB", met=seconds <= 10 and size <= 12 and mib <= 1024
        )

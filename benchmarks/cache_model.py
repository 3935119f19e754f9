"""The model of the caches beside cachegrind: what both count for the walk of CS380L lab 2, and how fast."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from bars import Bar, Bench, Figure, Part, median, ratio
from measuring import CPU, compile_c, interleaved, probe

SIZE = 1 << 30
SETS = 2048
FEWER_SETS = 256
SIMULATED_SETS = 32768
"""More than cachegrind gets, for the model is faster."""
ACCESSES_A_SET = 16 * 512
COUNTS = {
    (pattern, footprint): Bar(f"model off cachegrind, {pattern} {footprint}", "%", most=1)
    for pattern in ("seq", "random")
    for footprint in ("full", "first64th")
}
SPEED = {pattern: Bar(f"model's speed / cachegrind's, {pattern}", least=5) for pattern in ("seq", "random")}
RATE = Bar("model's speed, seq", "M accesses/s", least=100)
EVENTS = {"reads": "Dr", "writes": "Dw", "read misses": "D1mr", "write misses": "D1mw"}
METRICS = {
    "reads": "simulated_l1d_read_access",
    "writes": "simulated_l1d_write_access",
    "read misses": "simulated_l1d_read_miss",
    "write misses": "simulated_l1d_write_miss",
}


def cachegrind(pattern: str, footprint: str, sets: int, out: Path) -> None:
    """Run the C loop under cachegrind with the L1D of the geometry zen3; its counts go to `out`."""
    subprocess.run(
        [
            *("taskset", "-c", str(CPU), "valgrind", "--tool=cachegrind", "--cache-sim=yes"),
            *("--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"),
            f"--cachegrind-out-file={out}",
            *(compile_c("access"), pattern, footprint, str(SIZE), str(sets), "1"),
        ],
        input=b"\n",
        capture_output=True,
        check=True,
        timeout=600,
    )


def counts_of(out: Path, function: str) -> dict[str, int]:
    """Return what cachegrind counted in one function alone."""
    text = out.read_text()
    events = re.search(r"^events: (.*)$", text, re.MULTILINE)
    parts = re.findall(rf"^fn={function}\n((?:\d.*\n)+)", text, re.MULTILINE)
    if events is None or not parts:
        raise RuntimeError(f"cachegrind did not count {function}: its file has {len(text)} characters")
    rows = [line.split()[1:] for part in parts for line in part.splitlines()]
    totals = np.sum(np.array(rows, dtype=np.int64), axis=0)
    found = dict(zip(events[1].split(), totals.tolist(), strict=True))
    return {name: found[event] for name, event in EVENTS.items()}


def simulated(pattern: str, footprint: str, sets: int) -> dict[str, float]:
    """Return the metrics of `memory.access` with simulated counters and the geometry zen3."""
    request = {
        "workload": "memory.access",
        "params": {
            "pattern": pattern,
            "footprint": footprint,
            "size": SIZE,
            "sets": sets,
            "counters": "simulated",
            "geometry": "zen3",
        },
    }
    metrics: dict[str, float] = probe(request)[0][0]["metrics"]
    return metrics


def counts(bench: Bench) -> Iterator[Figure]:
    """Set references and misses beside each other. cachegrind sees the few of the loop itself as well."""
    out, sets = bench.folder / "cachegrind.out", bench.pick(16, SETS, SETS)
    for (pattern, footprint), bar in COUNTS.items():
        cachegrind(pattern, footprint, sets, out)
        theirs = counts_of(out, "do_mem_access")
        metrics = simulated(pattern, footprint, sets)
        ours = {name: metrics[metric] for name, metric in METRICS.items()}
        errors = {name: 100 * abs(ours[name] / theirs[name] - 1) for name in EVENTS}
        worst = max(errors, key=errors.__getitem__)
        yield Figure(bar, errors[worst], detail=f"{worst}: {ours[worst]:.0f} and {theirs[worst]}")


def cachegrind_rate(pattern: str, out: Path, sets: tuple[int, int]) -> float:
    """Return accesses/s of cachegrind, its start taken off by a run of fewer sets."""
    seconds = []
    for count in sets:
        begin = time.monotonic()
        cachegrind(pattern, "full", count, out)
        seconds.append(time.monotonic() - begin)
    return (sets[0] - sets[1]) * ACCESSES_A_SET / (seconds[0] - seconds[1])


def model_rate(pattern: str, sets: int) -> float:
    """Return accesses/s of the model, by its own account."""
    return simulated(pattern, "full", sets)["simulation_rate"]


def rates(bench: Bench) -> Iterator[Figure]:
    """Set the speeds beside each other, in interleaved rounds on one CPU."""
    out = bench.folder / "cachegrind.out"
    sets = bench.pick((1024, 16), (SETS, FEWER_SETS), (SETS, FEWER_SETS))
    for pattern, bar in SPEED.items():
        sides = {
            "model": partial(model_rate, pattern, bench.pick(256, SIMULATED_SETS, SIMULATED_SETS)),
            "cachegrind": partial(cachegrind_rate, pattern, out, sets),
        }
        values = interleaved(sides, bench.pick(1, 7, 11))
        yield ratio(bar, values["model"], values["cachegrind"])
        if pattern == "seq":
            yield median(RATE, [rate / 1e6 for rate in values["model"]])


PARTS = (
    Part(
        "How far the model's references and misses are from cachegrind's, for the same walk and cache; the "
        "farthest of four.",
        tuple(COUNTS.values()),
        counts,
        short_s=15,
        full_s=40,
        needs=("valgrind",),
    ),
    Part(
        "Accesses/s that the model simulates, over cachegrind's; interleaved rounds on one CPU.",
        (*SPEED.values(), RATE),
        rates,
        short_s=65,
        full_s=200,
        needs=("valgrind",),
    ),
)

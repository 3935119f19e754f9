"""The model of the caches beside cachegrind: what both count for the document's walk, and how fast."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from bars import CPU, Bar, compile_c, interleaved, probe, ratio

SIZE = 1 << 30
SETS = 2048
FEWER_SETS = 256
SIMULATED_SETS = 32768
"""More than cachegrind gets, for the model is faster."""
ACCESSES_A_SET = 16 * 512
ROUNDS = 7
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


def counts(out: Path) -> Iterator[Bar]:
    """Set references and misses beside each other. cachegrind sees the few of the loop itself as well."""
    for pattern in ("seq", "random"):
        for footprint in ("full", "first64th"):
            cachegrind(pattern, footprint, SETS, out)
            theirs = counts_of(out, "do_mem_access")
            metrics = simulated(pattern, footprint, SETS)
            ours = {name: metrics[metric] for name, metric in METRICS.items()}
            errors = {name: ours[name] / theirs[name] - 1 for name in EVENTS}
            worst = max(errors, key=lambda name: abs(errors[name]))
            yield Bar(
                f"model / cachegrind, {pattern} {footprint}",
                f"at most {errors[worst]:+.3%} ({worst}: {ours[worst]:.0f} and {theirs[worst]})",
                "references and misses within 1 %",
                met=abs(errors[worst]) <= 0.01,
            )


def cachegrind_rate(pattern: str, out: Path) -> float:
    """Return accesses/s of cachegrind, its start taken off by a run of fewer sets."""
    seconds = []
    for sets in (SETS, FEWER_SETS):
        begin = time.monotonic()
        cachegrind(pattern, "full", sets, out)
        seconds.append(time.monotonic() - begin)
    return (SETS - FEWER_SETS) * ACCESSES_A_SET / (seconds[0] - seconds[1])


def model_rate(pattern: str) -> float:
    """Return accesses/s of the model, by its own account."""
    return simulated(pattern, "full", SIMULATED_SETS)["simulation_rate"]


def rates(out: Path) -> Iterator[Bar]:
    """Set the speeds beside each other, in interleaved rounds on one CPU."""
    for pattern in ("seq", "random"):
        sides = {"model": partial(model_rate, pattern), "cachegrind": partial(cachegrind_rate, pattern, out)}
        values = interleaved(sides, ROUNDS)
        middle, low, high = ratio(values["model"], values["cachegrind"])
        yield Bar(
            f"model's speed / cachegrind's, {pattern}",
            f"{middle:.1f} [{low:.1f}, {high:.1f}], {ROUNDS} rounds",
            ">= 5",
            met=middle >= 5,
        )
        if pattern == "seq":
            rate = float(np.median(values["model"])) / 1e6
            spread = f"{min(values['model']) / 1e6:.0f} to {max(values['model']) / 1e6:.0f}"
            yield Bar("model's speed, seq", f"{rate:.0f} M/s ({spread})", ">= 100 M/s", met=rate >= 100)


def bars() -> Iterator[Bar]:
    """Everything of this module."""
    if shutil.which("valgrind") is None:
        missing = "valgrind is not installed: apt-get install valgrind"
        yield Bar("model / cachegrind", missing, "references and misses within 1 %", met=False)
        return
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "cachegrind.out"
        yield from counts(out)
        yield from rates(out)

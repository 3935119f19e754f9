"""System calls: Oscope beside a C loop and perf bench, single calls against the loop, the empty workload."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator

import numpy as np

from bars import CPU, Bar, compile_c, interleaved, probe, ratio

ROUNDS = 21


def oscope_loop() -> float:
    """Median ns a getppid, as the probe has it, in a fresh process."""
    request = {
        "workload": "syscall.cost",
        "params": {"call": "getppid", "style": "loop"},
        "reps": 9,
        "min_time_ns": 4_000_000,
    }
    return float(np.median([s["metrics"]["time_ns"] for s in probe(request)[0]]))


def c_loop() -> float:
    """Median ns a getppid, as a C loop has it, in a fresh process."""
    program = compile_c("getppid")
    answer = subprocess.run(
        [program, "25000", "9", str(CPU)], capture_output=True, text=True, check=True, timeout=60
    )
    return float(np.median([float(line) for line in answer.stdout.split()]))


def perf_bench() -> float:
    """Ns a getppid, as `perf bench syscall basic` has it (one interval over the whole loop)."""
    command = ["taskset", "-c", str(CPU), "perf", "bench", "syscall", "basic", "--loop", "250000"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found = re.search(r"Total time: ([\d.]+) \[sec\]\s+([\d.]+) usecs/op", answer.stdout)
    if not found:
        raise RuntimeError(f"perf bench said nothing that could be read: {answer.stdout!r}")
    return float(found[2]) * 1000.0


def peers() -> Iterator[Bar]:
    """Set the loop beside each peer, interleaved, a fresh process each time."""
    sides = {"oscope": oscope_loop, "c": c_loop}
    if shutil.which("perf"):
        sides["perf"] = perf_bench
    values = interleaved(sides, ROUNDS)
    for name, title, low, high in (
        ("c", "getppid loop / C loop", 0.98, 1.02),
        ("perf", "getppid loop / perf bench syscall basic", 0.97, 1.03),
    ):
        wanted = f"{low} to {high}"
        if name not in values:
            yield Bar(title, "perf is not installed: apt-get install linux-perf", wanted, met=False)
            continue
        middle, least, most = ratio(values["oscope"], values[name])
        text = f"{middle:.4f} [{least:.4f}, {most:.4f}], {ROUNDS} rounds, {np.median(values[name]):.1f} ns"
        yield Bar(title, text, wanted, met=low <= middle <= high)


def single_against_loop() -> Iterator[Bar]:
    """Set calls timed one by one, the timer's cost taken off, beside calls in a loop."""
    for call in ("getpid", "getppid", "read", "lseek", "clock_gettime", "gethostid"):
        differences, loops = [], []
        for _ in range(11):
            loop, single = (
                np.median([s["metrics"]["time_ns"] for s in samples])
                for samples in probe(
                    {"workload": "syscall.cost", "params": {"call": call, "style": "loop"}, "reps": 15},
                    {"workload": "syscall.cost", "params": {"call": call, "style": "single"}, "reps": 101},
                )
            )
            differences.append(single - loop)
            loops.append(loop)
        difference = float(np.median(differences))
        text = f"{difference:+.1f} ns (loop {np.median(loops):.1f} ns), 11 rounds"
        yield Bar(f"single - loop, {call}", text, "within 15 ns", met=abs(difference) <= 15)


def empty() -> Iterator[Bar]:
    """Ask the instrument what it says when nothing is done."""
    for style, reps in (("loop", 21), ("single", 501)):
        medians = [
            float(
                np.median(
                    [
                        s["metrics"]["time_ns"]
                        for s in probe({"workload": "null", "params": {"style": style}, "reps": reps})[0]
                    ]
                )
            )
            for _ in range(11)
        ]
        middle = float(np.median(medians))
        text = f"{middle:+.3f} ns a call, 11 processes ({min(medians):+.3f} to {max(medians):+.3f})"
        yield Bar(f"empty workload, {style}", text, "0 within 0.5 ns", met=abs(middle) <= 0.5)


def bars() -> Iterator[Bar]:
    """Everything of this module."""
    yield from peers()
    yield from single_against_loop()
    yield from empty()

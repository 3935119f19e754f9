"""System calls: Oscope beside a C loop and perf bench, single calls against the loop, the empty workload."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import numpy as np

from bars import Bar, Bench, Figure, Part, median, ratio
from measuring import CPU, compile_c, interleaved, probe

LOOP_C = Bar("getppid loop / C loop", least=0.98, most=1.02)
LOOP_PERF = Bar("getppid loop / perf bench syscall basic", least=0.97, most=1.03, needs=("perf",))
CALLS = ("getpid", "getppid", "read", "lseek", "clock_gettime", "gethostid")
SINGLE = {call: Bar(f"single - loop, {call}", "ns", -15, 15) for call in CALLS}
STYLES = {"loop": 21, "single": 501}
"""Repetitions of the empty workload in a process."""
EMPTY = {style: Bar(f"empty workload, {style}", "ns", -0.5, 0.5) for style in STYLES}


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


def peers(bench: Bench) -> Iterator[Figure]:
    """Set the loop beside each peer, interleaved, a fresh process each time."""
    compile_c("getppid")
    sides = {"oscope": oscope_loop, "c": c_loop}
    if not LOOP_PERF.lacks:
        sides["perf"] = perf_bench
    values = interleaved(sides, bench.pick(2, 21, 41))
    for name, bar in (("c", LOOP_C), ("perf", LOOP_PERF)):
        if name in values:
            yield ratio(bar, values["oscope"], values[name], f"of {np.median(values[name]):.1f} ns")


def single_against_loop(bench: Bench) -> Iterator[Figure]:
    """Set calls timed one by one, the timer's cost taken off, beside calls in a loop."""
    for call, bar in SINGLE.items():
        differences, loops = [], []
        for _ in range(bench.pick(1, 11, 21)):
            loop, single = (
                float(np.median([s["metrics"]["time_ns"] for s in samples]))
                for samples in probe(
                    {"workload": "syscall.cost", "params": {"call": call, "style": "loop"}, "reps": 15},
                    {"workload": "syscall.cost", "params": {"call": call, "style": "single"}, "reps": 101},
                )
            )
            differences.append(single - loop)
            loops.append(loop)
        yield median(bar, differences, f"loop {np.median(loops):.1f} ns")


def empty(bench: Bench) -> Iterator[Figure]:
    """Ask the instrument what it says when nothing is done."""
    for style, reps in STYLES.items():
        request = {"workload": "null", "params": {"style": style}, "reps": reps}
        medians = [
            float(np.median([s["metrics"]["time_ns"] for s in probe(request)[0]]))
            for _ in range(bench.pick(1, 11, 21))
        ]
        yield median(EMPTY[style], medians, f"{min(medians):+.3f} to {max(medians):+.3f} ns")


PARTS = (
    Part(
        "Median time of a getppid in a loop over the same by a C program and by perf; interleaved rounds, a "
        "fresh process each.",
        (LOOP_C, LOOP_PERF),
        peers,
        short_s=20,
        full_s=50,
    ),
    Part(
        "Calls timed one by one, the timer's cost taken off, less calls in a loop; a fresh process a round.",
        tuple(SINGLE.values()),
        single_against_loop,
        short_s=15,
        full_s=40,
    ),
    Part(
        "Time of a call of the workload that does nothing; a fresh process each.",
        tuple(EMPTY.values()),
        empty,
        short_s=5,
        full_s=12,
    ),
)

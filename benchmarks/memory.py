"""The memory lab's workloads beside minimal C programs; what is touched, and what pressure leaves behind."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bars import Bar, Bench, Figure, Part, ratio
from measuring import BIN, CPU, compile_c, interleaved, interleaved_steps, probe

MEBIBYTE = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
LINE = 64
WALKS = 16
SET_LINES = 512
REPETITIONS = 5
"""Repetitions of one process, whose median is one value."""
LATENCIES = {
    16 << 10: ("4K", 200_000, 11, 21),
    512 << 10: ("huge", 100_000, 15, 31),
    256 << 20: ("4K", 5_000, 11, 21),
}
"""Of each size: pages, loads of a repetition, rounds of a short and a full run."""
LATENCY = {
    size: Bar(f"memory.latency {size >> 10} KiB, {pages} pages / C", least=0.95, most=1.05)
    for size, (pages, *_) in LATENCIES.items()
}
BANDWIDTH = {
    (operation, who): Bar(f"memory.bandwidth {operation}, {who} / C -O3", least=0.97)
    for operation in ("read", "write", "copy")
    for who in ("one core", "all")
}
PATTERNS = ("seq", "random")
ACCESS = {pattern: Bar(f"memory.access {pattern} / C", least=0.98, most=1.02) for pattern in PATTERNS}
FOOTPRINTS = {
    footprint: (
        Bar(f"memory.access {footprint}: pages off the formula", least=0, most=0),
        Bar(f"memory.access {footprint}: minor faults beyond the formula", least=0, most=16),
    )
    for footprint in ("first64th", "full")
}
COUNTS = {
    pattern: Bar(f"memory.access {pattern}: accesses off the formula, as the model counts", least=0, most=0)
    for pattern in PATTERNS
}
FAULTS = Bar("major faults under pressure, fewest of a repetition", least=1)
SLOWER = Bar("time under pressure / alone", least=1)
LEFT = Bar("what differs on the machine after pressure", least=0, most=0)


def c_median(program: Path, *words: object) -> float:
    """Return the median of the figures that a C program prints, on CPU unless it chooses its own."""
    command: list[str | Path] = ["taskset", "-c", str(CPU), program, *map(str, words)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return float(np.median([float(line) for line in answer.stdout.split()]))


def our_median(workload: str, metric: str, params: dict[str, Any], **fields: Any) -> float:
    """Return the median of a metric over the repetitions of one probe process."""
    request = {"workload": workload, "params": params, "reps": REPETITIONS, **fields}
    return float(np.median([sample["metrics"][metric] for sample in probe(request)[0]]))


def beside_c(bar: Bar, ours: partial[float], reference: partial[float], rounds: int) -> Figure:
    """Return the median ratio of interleaved rounds."""
    values = interleaved({"ours": ours, "C": reference}, rounds)
    return ratio(bar, values["ours"], values["C"], f"of {np.median(values['C']):.6g}")


def latency(bench: Bench) -> Iterator[Figure]:
    """Return a dependent load's time over the C program's.

    Which physical pages a process gets decides how much of 512 KiB stays in a cache of that size. Huge
    pages leave less of it to chance, and every value is of a fresh process. Repetitions are shorter than a
    turn of the scheduler, so that others disturb few of them.
    """
    turns = 25
    for size, (pages, loads, short, full) in LATENCIES.items():
        params = {"size": size, "stride": LINE, "pages": pages}
        yield beside_c(
            LATENCY[size],
            partial(our_median, "memory.latency", "time_ns", params, iterations=loads, reps=turns),
            partial(c_median, compile_c("chase"), size, LINE, loads, turns, CPU, pages),
            bench.pick(1, short, full),
        )


def bandwidth(bench: Bench) -> Iterator[Figure]:
    """Return what is read, written and copied in a second over the C loops' at -O3, by one core and all."""
    size = bench.pick(16, 256, 256) * MEBIBYTE
    program = compile_c("bandwidth", "-O3", "-march=native")
    everywhere = sorted(os.sched_getaffinity(0))
    for (operation, who), bar in BANDWIDTH.items():
        threads, cpus = (1, [CPU]) if who == "one core" else (0, everywhere)
        params = {"operation": operation, "threads": threads, "size": size}
        yield beside_c(
            bar,
            partial(our_median, "memory.bandwidth", "throughput", params, cpu=cpus[0]),
            partial(c_median, program, operation, size, REPETITIONS, *cpus),
            bench.pick(1, 9, 15),
        )


def access(bench: Bench) -> Iterator[Figure]:
    """Return the time of a set over that of the loop of CS380L lab 2 in C."""
    size, sets = 64 * MEBIBYTE, bench.pick(64, 4096, 4096)
    steps = bench.pick(1, 10, 25)
    for pattern, bar in ACCESS.items():
        params = {"pattern": pattern, "footprint": "full", "size": size, "sets": sets}
        words = ("taskset", "-c", CPU, compile_c("access"), pattern, "full", size, sets, steps)
        ours, theirs = interleaved_steps("memory.access", "set_ns", params, words, steps, bench.pick(1, 4, 4))
        yield ratio(bar, ours, theirs, f"of {np.median(theirs):.0f} ns a set")


def touched(footprint: str, size: int) -> int:
    """Return how many pages all sets touch: the bounds of CS380L lab 2 leave out the last set's."""
    lines = size // LINE
    last_base = lines - 2 * SET_LINES
    unit = LINE if footprint == "full" else 1
    last_byte = last_base * unit + (SET_LINES - 1) * LINE
    return last_byte // PAGE + 1


def footprints(bench: Bench) -> Iterator[Figure]:
    """Show that one footprint touches a 64th of the pages and the other all but a set's."""
    size = bench.pick(1 << 26, 1 << 30, 1 << 30)
    sets = size // LINE // SET_LINES
    for footprint, (pages_off, faults_off) in FOOTPRINTS.items():
        params = {"footprint": footprint, "size": size, "sets": sets}
        metrics = probe({"workload": "memory.access", "params": params})[0][0]["metrics"]
        expected = touched(footprint, size)
        pages, faults = int(metrics["touched_pages"]), int(metrics["minflt"])
        resident = int(metrics["resident_kib"]) * 1024 // PAGE
        text = f"{pages} pages touched, {resident} resident, {faults} faults of {size // PAGE}"
        yield Figure(pages_off, max(abs(pages - expected), abs(resident - expected)), detail=text)
        yield Figure(faults_off, faults - expected, detail=text)


def counts(bench: Bench) -> Iterator[Figure]:
    """Show that the accesses that the model is fed with are as many as the formula has them.

    An eighth of the 2^20 sets of CS380L lab 2: simulating all takes more than a minute for each pattern.
    """
    sets = bench.pick(1 << 8, 1 << 15, 1 << 17)
    accesses = sets * WALKS * SET_LINES
    expected = {"read": accesses - accesses // 8, "write": accesses // 8}
    for pattern, bar in COUNTS.items():
        # Not the host's geometry, which a hypervisor can hide: what is counted here does not depend on it.
        params = {"pattern": pattern, "sets": sets, "counters": "simulated", "geometry": "skylake"}
        metrics = probe({"workload": "memory.access", "params": params})[0][0]["metrics"]
        found = {kind: int(metrics[f"simulated_l1d_{kind}_access"]) for kind in expected}
        text = f"{found['read']:,} reads, {found['write']:,} writes, {sets:,} sets"
        yield Figure(bar, sum(abs(found[kind] - expected[kind]) for kind in expected), detail=text)


@dataclass(frozen=True)
class Host:
    """The settings of a machine that pressure changes and must restore."""

    swaps: str
    blocks: tuple[str, ...]
    groups: tuple[str, ...]
    mounts: str
    probes: tuple[int, ...]
    files: tuple[str, ...]

    @classmethod
    def now(cls, directory: Path) -> Host:
        """Look at the machine, and at the directory that was given for files."""
        return cls(
            swaps=Path("/proc/swaps").read_text(),
            blocks=tuple(sorted(device.name for device in Path("/sys/block").iterdir())),
            groups=tuple(sorted(folder for folder, _, _ in os.walk("/sys/fs/cgroup"))),
            mounts=Path("/proc/self/mounts").read_text(),
            probes=tuple(probes()),
            files=tuple(sorted(file.name for file in directory.iterdir())),
        )


def probes() -> Iterator[int]:
    """Yield the processes that are a probe, the competitor among them."""
    program = (BIN / "oscope-probe").resolve()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "exe").resolve(strict=True) == program:
                yield int(process.name)
        except OSError:
            continue  # It ended meanwhile, or is the kernel's.


def pressure(bench: Bench) -> Iterator[Figure]:
    """Show that a competitor makes major faults and costs time, and that nothing of it is left."""
    size, reps = bench.pick(32, 256, 256) * MEBIBYTE, bench.pick(1, 5, 9)
    common = {
        "pattern": "random",
        "footprint": "full",
        "size": size,
        "sets": bench.pick(2048, 16384, 16384),
    }
    with tempfile.TemporaryDirectory(prefix="oscope-bench-", dir="/var/tmp") as name:
        pressed = {
            **common,
            "pressure": "compete",
            "limit": size // 2,
            "swap_size": 4 * size,
            "wait": bench.pick(0.2, 1.0, 1.0),
            "directory": name,
        }
        before = Host.now(Path(name))
        alone, crowded = (
            [sample["metrics"] for sample in samples]
            for samples in probe(
                {"workload": "memory.access", "params": common, "reps": reps},
                {"workload": "memory.access", "params": pressed, "reps": reps},
            )
        )
        after = Host.now(Path(name))
    faults = [int(each["majflt"]) for each in crowded]
    yield Figure(FAULTS, min(faults), detail=", ".join(map(str, faults)))
    alone_ns = [each["set_ns"] for each in alone]
    yield ratio(
        SLOWER, [each["set_ns"] for each in crowded], alone_ns, f"of {np.median(alone_ns):.0f} ns a set"
    )
    differing = [field for field in vars(before) if getattr(before, field) != getattr(after, field)]
    yield Figure(LEFT, len(differing), detail=", ".join(differing))


PARTS = (
    Part(
        "Time of a dependent load over that of a C program; interleaved rounds, a fresh process each.",
        tuple(LATENCY.values()),
        latency,
        short_s=25,
        full_s=70,
    ),
    Part(
        "MiB/s over those of C loops compiled by gcc -O3 -march=native; interleaved rounds, fresh processes.",
        tuple(BANDWIDTH.values()),
        bandwidth,
        short_s=45,
        full_s=80,
    ),
    Part(
        "Time of a working set over that of the same walk in C; interleaved step by step.",
        tuple(ACCESS.values()),
        access,
        short_s=20,
        full_s=70,
    ),
    Part(
        "Pages touched, resident and faulted in, less those that the formula has; the function's own code "
        "and stack may fault as well.",
        tuple(bar for pair in FOOTPRINTS.values() for bar in pair),
        footprints,
        short_s=8,
        full_s=10,
    ),
    Part(
        "Reads and writes that the model of the caches counts, less those of the formula.",
        tuple(COUNTS.values()),
        counts,
        short_s=12,
        full_s=60,
    ),
    Part(
        "The walk beside a competitor for a control group's memory, and what differs on the machine "
        "afterwards: swaps, devices, groups, mounts, processes, files.",
        (FAULTS, SLOWER, LEFT),
        pressure,
        short_s=40,
        full_s=80,
        root=True,
    ),
)

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

from bars import BIN, CPU, Bar, compile_c, in_turns, interleaved, probe, ratio

MEBIBYTE = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
LINE = 64
WALKS = 16
SET_LINES = 512
REPETITIONS = 5
"""Repetitions of one process, whose median is one value."""


def c_median(program: Path, *words: object) -> float:
    """Return the median of the figures that a C program prints, on CPU unless it chooses its own."""
    command: list[str | Path] = ["taskset", "-c", str(CPU), program, *map(str, words)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return float(np.median([float(line) for line in answer.stdout.split()]))


def our_median(workload: str, metric: str, params: dict[str, Any], **fields: Any) -> float:
    """Return the median of a metric over the repetitions of one probe process."""
    request = {"workload": workload, "params": params, "reps": REPETITIONS, **fields}
    return float(np.median([sample["metrics"][metric] for sample in probe(request)[0]]))


def beside_c(ours: partial[float], reference: partial[float], rounds: int) -> tuple[float, str]:
    """Return the median ratio of interleaved rounds, and the same in words with its interval."""
    values = interleaved({"ours": ours, "C": reference}, rounds)
    middle, low, high = ratio(values["ours"], values["C"])
    return middle, f"{middle:.3f} [{low:.3f}, {high:.3f}] of {np.median(values['C']):.6g}"


def latency() -> Iterator[Bar]:
    """Return a dependent load's time over the C program's.

    Which physical pages a process gets decides how much of 512 KiB stays in a cache of that size. Huge
    pages leave less of it to chance, and every value is of a fresh process. Repetitions are shorter than a
    turn of the scheduler, so that others disturb few of them.
    """
    turns = 25
    for size, pages, loads, rounds in (
        (16 << 10, "4K", 200_000, 15),
        (512 << 10, "huge", 100_000, 31),
        (256 << 20, "4K", 5_000, 15),
    ):
        params = {"size": size, "stride": LINE, "pages": pages}
        middle, text = beside_c(
            partial(our_median, "memory.latency", "time_ns", params, iterations=loads, reps=turns),
            partial(c_median, compile_c("chase"), size, LINE, loads, turns, CPU, pages),
            rounds,
        )
        name = f"memory.latency {size >> 10} KiB, {pages} pages / C"
        yield Bar(name, f"{text} ns, {rounds} rounds", "0.95 to 1.05", met=0.95 <= middle <= 1.05)


def bandwidth() -> Iterator[Bar]:
    """Return what is read, written and copied in a second over the C loops' at -O3, by one core and all."""
    size = 256 * MEBIBYTE
    program = compile_c("bandwidth", "-O3", "-march=native")
    for operation in ("read", "write", "copy"):
        for who, threads, cpus in (("one core", 1, [CPU]), ("all", 0, sorted(os.sched_getaffinity(0)))):
            params = {"operation": operation, "threads": threads, "size": size}
            middle, text = beside_c(
                partial(our_median, "memory.bandwidth", "throughput", params, cpu=cpus[0]),
                partial(c_median, program, operation, size, REPETITIONS, *cpus),
                rounds=15,
            )
            name = f"memory.bandwidth {operation}, {who} / C -O3"
            yield Bar(name, f"{text} MiB/s", "at least 0.97", met=middle >= 0.97)


def access() -> Iterator[Bar]:
    """Return the time of a set over that of the document's loop in C."""
    size, sets, steps = 64 * MEBIBYTE, 4096, 25
    for pattern in ("seq", "random"):
        params = {"pattern": pattern, "footprint": "full", "size": size, "sets": sets}
        words = ("taskset", "-c", CPU, compile_c("access"), pattern, "full", size, sets, steps)
        ours, theirs = in_turns("memory.access", "set_ns", params, words, steps)
        middle, low, high = ratio(ours, theirs)
        text = f"{middle:.3f} [{low:.3f}, {high:.3f}] of {np.median(theirs):.0f} ns a set"
        yield Bar(f"memory.access {pattern} / C", text, "0.98 to 1.02", met=0.98 <= middle <= 1.02)


def touched(footprint: str, size: int) -> int:
    """Return how many pages all sets in turn touch: the document's bounds leave out the last set's."""
    lines = size // LINE
    last_base = lines - 2 * SET_LINES
    unit = LINE if footprint == "full" else 1
    last_byte = last_base * unit + (SET_LINES - 1) * LINE
    return last_byte // PAGE + 1


def footprints() -> Iterator[Bar]:
    """Show that one footprint touches a 64th of the pages and the other all but a set's."""
    size = 1 << 30
    sets = size // LINE // SET_LINES
    for footprint in ("first64th", "full"):
        params = {"footprint": footprint, "size": size, "sets": sets}
        metrics = probe({"workload": "memory.access", "params": params})[0][0]["metrics"]
        expected = touched(footprint, size)
        pages, faults = int(metrics["touched_pages"]), int(metrics["minflt"])
        resident = int(metrics["resident_kib"]) * 1024 // PAGE
        text = f"{pages} pages touched, {resident} resident, {faults} faults of {size // PAGE}"
        # The function's own code and stack may fault as well.
        met = pages == resident == expected and expected <= faults <= expected + 16
        yield Bar(f"memory.access {footprint}", text, f"{expected} pages, as many faults", met=met)


def counts() -> Iterator[Bar]:
    """Show that the accesses that the model is fed with are as many as the formula has them.

    An eighth of the document's 2^20 sets: simulating all of them takes more than a minute for each pattern.
    """
    sets = 1 << 17
    accesses = sets * WALKS * SET_LINES
    wanted = (accesses - accesses // 8, accesses // 8)
    text = "{} reads, {} writes"
    for pattern in ("seq", "random"):
        params = {"pattern": pattern, "sets": sets, "counters": "simulated"}
        metrics = probe({"workload": "memory.access", "params": params})[0][0]["metrics"]
        found = tuple(int(metrics[f"simulated_l1d_{kind}_access"]) for kind in ("read", "write"))
        name = f"memory.access {pattern}, 2^17 sets, as the model counts"
        yield Bar(name, text.format(*found), text.format(*wanted), met=found == wanted)


@dataclass(frozen=True)
class Host:
    """What pressure changes on a machine, and must put back."""

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


def pressure() -> Iterator[Bar]:
    """Show that a competitor makes major faults and costs time, and that nothing of it is left."""
    common = {"pattern": "random", "footprint": "full", "size": 256 * MEBIBYTE, "sets": 16384}
    with tempfile.TemporaryDirectory(prefix="oscope-bench-", dir="/var/tmp") as name:
        pressed = {
            **common,
            "pressure": "compete",
            "limit": 128 * MEBIBYTE,
            "swap_size": 1024 * MEBIBYTE,
            "wait": 1.0,
            "directory": name,
        }
        before = Host.now(Path(name))
        alone, crowded = (
            [sample["metrics"] for sample in samples]
            for samples in probe(
                {"workload": "memory.access", "params": common, "reps": 5},
                {"workload": "memory.access", "params": pressed, "reps": 5},
            )
        )
        after = Host.now(Path(name))
    faults = [int(each["majflt"]) for each in crowded]
    text = ", ".join(map(str, faults))
    yield Bar("major faults under pressure", text, "more than 0 each time", met=min(faults) > 0)
    before_ns, under_ns = (np.median([each["set_ns"] for each in side]) for side in (alone, crowded))
    times = under_ns / before_ns
    text = f"{times:.1f} times {before_ns:.0f} ns a set, medians of 5"
    yield Bar("time under pressure / alone", text, "more than 1", met=times > 1)
    differing = [field for field in vars(before) if getattr(before, field) != getattr(after, field)]
    text = f"{', '.join(differing) or 'nothing'} differs"
    wanted = "nothing differs: swaps, devices, groups, mounts, processes, files"
    yield Bar("the machine after pressure", text, wanted, met=not differing)


def bars() -> Iterator[Bar]:
    """Everything of this module."""
    yield from latency()
    yield from bandwidth()
    yield from access()
    yield from footprints()
    yield from counts()
    yield from pressure()

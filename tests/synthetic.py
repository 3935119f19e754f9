"""Invented results of the system-call lab with known causes in them, for tests of what reads results."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from oscope.model.document import Section, Table
from oscope.model.factors import Level
from oscope.model.samples import Column, ExperimentResults, PointSamples, Results
from oscope.statistics.compared import Answer, ComparedMetric

HZ = 2_599_998_000.0
CLOCK_OVERHEAD = 38.0
STARTED_NS = 1_760_000_000_000_000_000

COVARIATES = {
    "run_delay_ns": Column("run_delay_ns", "ns", "time runnable but not running"),
    "steal_ticks": Column("steal_ticks", "ticks", "time the hypervisor gave to others"),
    "interrupts": Column("interrupts", "", "interrupts taken by the CPU"),
    "migrations": Column("migrations", "", "moves to another CPU"),
    "minor_faults": Column("minor_faults", "", "page faults without I/O"),
}

ENVIRONMENT: dict[str, Any] = {
    "boot_id": "00000000-0000-0000-0000-000000000001",
    "machine": "0123456789abcdef",
    "hostname_hash": "fedcba9876543210",
    "kernel": {"release": "6.1.0-test", "version": "#1 SMP", "cmdline": "quiet", "arch": "x86_64"},
    "cpu": {
        "model": "Synthetic CPU @ 2.60GHz",
        "vendor": "GenuineIntel",
        "logical": 2,
        "allowed": 2,
        "flags_hash": "aa",
        "microcode": None,
        "caches": [
            {"level": 1, "type": "Data", "size_bytes": 49152, "line_bytes": 64, "ways": 12},
            {"level": 2, "type": "Unified", "size_bytes": 2097152, "line_bytes": 64, "ways": 16},
        ],
        "smt": False,
        "governor": None,
        "turbo": None,
        "mitigations": {"spectre_v2": "Mitigation: Enhanced IBRS", "meltdown": "Not affected"},
    },
    "memory": {
        "total_bytes": 8 << 30,
        "available_bytes": 7 << 30,
        "swap_total_bytes": 0,
        "page_bytes": 4096,
        "thp": "madvise",
        "lru_gen": None,
        "overcommit": 0,
    },
    "hypervisor": "KVM",
    "clocksource": "tsc",
    "clock": {
        "kind": "tsc",
        "hz": HZ,
        "overhead": CLOCK_OVERHEAD,
        "overhead_mad": 1.0,
        "resolution": 2,
        "why": None,
    },
    "tsc_offsets": {"cpus": [0, 1], "ticks": [0.0, 12.0], "error_ticks": [0.0, 150.0]},
    "counters": {
        "available": [],
        "unavailable": {"cache_misses": "no PMU in this guest", "instructions": "no PMU in this guest"},
    },
    "self_check": {
        "ratio_of_double_work": 2.003,
        "empty_ticks": 0.0,
        "empty_mad_ticks": 1.0,
        "kernel_clock_ratio": 1.000002,
        "ok": True,
    },
    "cgroup": {"version": 2, "cpu_max": None, "memory_max": None},
    "load": [0.1, 0.2, 0.1],
    "uptime_s": 1000.0,
    "uid": 0,
    "libc": "glibc 2.36",
    "limits": {"processes": "unlimited", "open_files": 1024},
    "unavailable": {"governor": "no cpufreq in this guest", "microcode": "hidden by the hypervisor"},
}

COST_NS = {
    "getpid": 95.0,
    "getppid": 98.0,
    "read": 240.0,
    "lseek": 110.0,
    "gethostid": 5200.0,
    "clock_gettime": 24.0,
}


def _covariates(generator: np.random.Generator, n: int, interrupted: np.ndarray) -> dict[str, np.ndarray]:
    columns = {name: np.zeros(n) for name in COVARIATES}
    columns["interrupts"] = interrupted.astype(float)
    columns["run_delay_ns"] = np.where(
        generator.random(n) < 0.01, generator.integers(5_000, 60_000, n), 0
    ).astype(float)
    columns["minor_faults"] = generator.integers(0, 2, n).astype(float)
    columns["steal_ticks"] = np.full(n, np.nan)
    return columns


TYPES: Mapping[str, str] = {
    name: kind
    for kind, names in {
        "choice": "call style pages how cache engine tool sync value operation work channel mode sockbuf "
        "placement tracer kind pattern footprint mapping initialise counters pressure order policy system "
        "sender receiver sizes content digest where meeting writes method",
        "bytes": "resident block_size buffer size total window stride limit rate",
        "integer": "threads queue_depth count files sets loss",
        "duration": "duration longest wait delay late",
        "boolean": "populate",
        "path": "directory",
    }.items()
    for name in names.split()
}
"""Of every factor of the labs' experiments."""


def every(**levels: tuple[Level, ...] | Level) -> Iterator[dict[str, Any]]:
    """Yield the factors of each combination of these levels, the last one varying fastest."""
    rows = (each if isinstance(each, tuple) else (each,) for each in levels.values())
    return (dict(zip(levels, row, strict=True)) for row in itertools.product(*rows))


def sections_of(lab: str) -> Callable[..., dict[str, Section]]:
    """Return what gives a lab's answers to some experiments, by their titles."""
    from oscope import labs

    def sections(*experiments: ExperimentResults) -> dict[str, Section]:
        return {each.title: each for each in labs.lab(lab).sections(Results(experiments))}

    return sections


class Maker:
    """Makes points whose readings follow a stated cost, an effect of each process, and interrupts."""

    def __init__(self, seed: int = 0) -> None:
        self.generator = np.random.default_rng(seed)
        self.now = STARTED_NS
        self.processes = 0

    def point(
        self,
        factors: Mapping[str, Level],
        cost_ns: float,
        *,
        reps: int,
        blocks: int,
        iterations: int = 1,
        interrupt_ns: float = 4000,
    ) -> PointSamples:
        """Return a point whose one call costs `cost_ns`, in `blocks` processes that differ by 0.2 %."""
        n = reps
        block = np.sort(np.arange(n) % blocks)
        effect = self.generator.normal(0, 0.002, blocks)[block]
        interrupted = self.generator.random(n) < 0.15
        spread = self.generator.lognormal(0, 0.003, n) * (1 + effect)
        ticks = (cost_ns * iterations * spread + interrupted * interrupt_ns) * HZ / 1e9 + CLOCK_OVERHEAD
        raw = np.rint(ticks)
        each = (raw - CLOCK_OVERHEAD) / iterations
        self.now += 10**9
        started = self.now + np.cumsum(self.generator.integers(1_000_000, 1_200_000, n))
        self.now = int(started[-1])
        process = self.processes + block
        self.processes += blocks
        return PointSamples(
            factors=dict(factors),
            block=block.astype(np.int64),
            process=process.astype(np.int64),
            boot=np.zeros(n, np.int64),
            rep=np.concatenate([np.arange((block == b).sum()) for b in range(blocks)]).astype(np.int64),
            started_ns=started.astype(np.int64),
            raw=raw,
            iterations=np.full(n, iterations, np.int64),
            correction=np.full(n, CLOCK_OVERHEAD),
            metrics={"time_ns": each * 1e9 / HZ, "cycles": each},
            covariates=_covariates(self.generator, n, interrupted),
        )


def _results(
    name: str, points: Iterable[PointSamples], metrics: tuple[Column, ...], timing_model: str
) -> ExperimentResults:
    from oscope import labs

    experiment = labs.experiment(name)
    return ExperimentResults(
        run_id="20260101-000000-synthetic",
        experiment=name,
        workload=experiment.workload,
        workload_version=1,
        started="2026-01-01T00:00:00+00:00",
        seed=7,
        points=tuple(points),
        metrics={column.name: column for column in metrics},
        covariates=COVARIATES,
        environment=ENVIRONMENT,
        title=experiment.title,
        question=experiment.question,
        timing_model=timing_model,
        settings={"profile": "quick", "place": "local"},
        factor_types=TYPES,
    )


TIME = Column("time_ns", "ns", "time of one call", "less")
CYCLES = Column("cycles", "cycles", "TSC cycles of one call", "less")


def cost(seed: int = 0, reps: int = 120, blocks: int = 6) -> ExperimentResults:
    """`syscall.cost`: every call in both styles; one failed sample, one note."""
    maker = Maker(seed)
    points = [
        maker.point(
            factors, COST_NS[factors["call"]] + extra, reps=reps, blocks=blocks, iterations=iterations
        )
        for factors in every(call=tuple(COST_NS), style=("loop", "single"))
        for iterations, extra in [(8000, 0.0) if factors["style"] == "loop" else (1, 6.0)]
    ]
    failed = points[0]
    metrics = {name: np.concatenate([[np.nan], values[1:]]) for name, values in failed.metrics.items()}
    why = ((0, "1 of 8000 calls gave a wrong value"),)
    points[0] = replace(failed, metrics=metrics, failed=why, notes=("pinned to CPU 1",))
    return _results("syscall.cost", points, (TIME, CYCLES), "time_ns = (raw - correction) / iterations")


def throughput(seed: int = 1, reps: int = 5) -> ExperimentResults:
    """`syscall.throughput`: the document's four calls."""
    maker = Maker(seed)
    points = []
    for call in ("read", "lseek", "getpid", "gethostid"):
        calls = round(0.5e9 / COST_NS[call])
        factors = {"call": call, "duration": 0.5}
        timed = maker.point(factors, COST_NS[call], reps=reps, blocks=reps, iterations=calls)
        rate = 1e9 / timed.metrics["time_ns"]
        points.append(replace(timed, metrics={"calls_per_s": rate, "bytes_per_s": rate.copy()}))
    columns = (
        Column("calls_per_s", "1/s", "calls a second", "more"),
        Column("bytes_per_s", "B/s", "bytes a second as the document counts them", "more"),
    )
    return _results("syscall.throughput", points, columns, "calls_per_s = calls / (raw - correction)")


def create(seed: int = 2, reps: int = 64, blocks: int = 8) -> ExperimentResults:
    """`process.create`: fork and clone3 pay 900 ns for a MiB of resident memory; one point was skipped."""
    maker = Maker(seed)
    parent_ns = {"fork": 9e4, "vfork": 4e4, "clone3": 8.5e4, "posix_spawn": 5e4, "thread": 1.5e4}
    points = []
    for factors in every(how=tuple(parent_ns), resident=(0, 64 << 20, 1 << 30), pages=("4K", "huge")):
        how, resident, pages = factors.values()
        if pages == "huge" and resident == 0:
            continue
        slope = (900.0 if pages == "4K" else 20.0) if how in ("fork", "clone3") else 0.0
        parent = parent_ns[how] + slope * resident / (1 << 20)
        timed = maker.point(factors, parent, reps=reps, blocks=blocks, interrupt_ns=20_000)
        late = maker.generator.lognormal(np.log(40_000), 0.5, reps)
        cycles = timed.metrics["cycles"]
        whole = {"child": cycles + late * HZ / 1e9, "parent": cycles, "total": cycles + 2.5e5}
        ticks = {f"{who}_cycles": np.rint(values) for who, values in whole.items()}
        times = {name.replace("cycles", "ns"): values * 1e9 / HZ for name, values in ticks.items()}
        points.append(replace(timed, metrics=times | ticks))
    points[-1] = skipped(points[-1].factors)
    columns = tuple(
        Column(f"{what}_{unit}", unit, doc, "less")
        for unit in ("ns", "cycles")
        for what, doc in (
            ("child", "call to the child's first instruction"),
            ("parent", "call to return"),
            ("total", "call to reaped"),
        )
    )
    model = "child_ns = child's first reading - first reading - correction"
    return _results("process.create", points, columns, model)


def skipped(factors: Mapping[str, Level]) -> PointSamples:
    point = Maker().point(factors, 1.0, reps=1, blocks=1)
    none = point.only(np.zeros(1, bool))
    remedy = "echo 600 > /proc/sys/vm/nr_hugepages"
    return replace(none, metrics={}, covariates={}, skipped="no huge pages are free", remedy=remedy)


def prose(section: Section) -> str:
    """Return everything that a section says beside its tables: the headline, and the details under it."""
    return " ".join([section.answer, *section.text])


def number(cell: str) -> float:
    """Return the first figure of a cell."""
    return float(cell.replace("\u202f", "").split()[0])


def column(table: Table, heading: str) -> list[str]:
    """Return the cells of a column."""
    return [row[list(table.columns).index(heading)] for row in table.rows]


def survey() -> Results:
    """All three experiments."""
    return Results((cost(), throughput(), create()))


def large(samples: int = 1_000_000, blocks: int = 20) -> Results:
    """`syscall.cost` with `samples` samples in ten points."""
    maker = Maker(3)
    calls = ("getpid", "getppid", "read", "lseek", "clock_gettime")
    iterations, each = {"loop": 8000, "single": 1}, {"reps": samples // 10, "blocks": blocks}
    points = [
        maker.point(factors, COST_NS[factors["call"]], iterations=iterations[factors["style"]], **each)
        for factors in every(call=calls, style=tuple(iterations))
    ]
    model = "time_ns = (raw - correction) / iterations"
    return Results((_results("syscall.cost", points, (TIME, CYCLES), model),))


def compared(
    ratio: float, low: float, high: float, *, different: Answer = "yes", unit: str = "ns"
) -> ComparedMetric:
    """Return a row of a comparison, of which these figures matter."""
    return ComparedMetric(
        factors={},
        metric="time_ns",
        unit=unit,
        ratio=ratio,
        difference=(ratio - 1) * 100,
        ci95=(low, high),
        p=0.01,
        p_holm=0.01,
        different=different,
        matters="cannot tell",
        detectable=0.01,
        n_a=50,
        n_b=50,
        clusters_a=5,
        clusters_b=5,
        median_a=100.0,
        median_b=100.0 * ratio,
        method="paired by boot",
        sentence="",
    )

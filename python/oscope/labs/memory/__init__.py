"""The memory lab: access patterns, mappings, faults and pressure, and what the caches and TLBs are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oscope.figures.lazy_answers import Lazy
from oscope.model.experiment import Design, Experiment, Lab
from oscope.model.factors import Level
from oscope.model.units import GIBIBYTE, KIBIBYTE, MEBIBYTE, PAGE

SETS = 1 << 20
"""The original report's working sets."""
FEW_SETS = 1 << 15
"""As many as a sequential pass over 1 GiB has; figures of the quick survey are compared by set."""
PATTERNS = ("seq", "random")
FOOTPRINTS = ("first64th", "full")
MAPPINGS = ("anonymous", "private", "shared")
LINE = 64
WALKS, SET_LINES, WRITTEN = 16, 512, 8
"""A working set: so many walks over so many lines, of which one in so many is written."""
FLUSHED = 16 * MEBIBYTE
"""Bytes of the buffer that is written over before the function, to flush the first cache."""
PAGE_AND_LINE = PAGE + LINE
"""A stride that takes another page each time, and yet uses all sets of a cache."""
_STRIDES = (LINE, 4 * LINE, PAGE_AND_LINE)
SIZES = tuple(1 << power for power in range(12, 31))
"""4 KiB to 1 GiB."""
FEW_SIZES = tuple(1 << power for power in (*range(13, 22), *range(23, 28)))
"""Close together where the first two levels of caches and TLBs end."""
FAULTS = ("zero-page", "anonymous", "file", "file-major", "copy-on-write", "huge", "swap-in")

GETRUSAGE = ("utime_s", "stime_s", "minflt", "majflt", "maxrss_kib", "inblock", "oublock")
"""Metrics that the initialisation has, too, with `init_` before them."""
_INIT = tuple(f"init_{name}" for name in GETRUSAGE)
_WALK: dict[str, Any] = {"pattern": PATTERNS, "footprint": FOOTPRINTS}
_MUCH: dict[str, Any] = {"sets": SETS, "size": GIBIBYTE}


ACCESS = Experiment.of(
    "memory.access",
    "Walking memory in sequence and at random",
    "How much longer do random sets take than sequential ones, by how much memory they reach?",
    Design.of(5, 5, **_WALK, mapping="anonymous", counters="none", **_MUCH),
    quick=lambda full: full.replace(sets=FEW_SETS),
    quick_share="about 15 s: 4 points of 32768 sets (the original report has 1048576) in 1 GiB, 5 times each",
    metrics=("set_ns", "time_s", *GETRUSAGE, "resident_kib", "touched_pages", "accesses", "reads", "writes"),
)

COUNTERS = Experiment.of(
    "memory.counters",
    "Hits and misses of caches and TLBs",
    "How many accesses miss caches and TLBs, by a model and, where there are any, by counters?",
    # In one process the simulation, which is the same every time, is done once for all repetitions.
    Design.of(5, 1, counters=("simulated", "hardware"), **_WALK, mapping="anonymous", **_MUCH),
    workload="memory.access",
    quick=lambda full: full.replace(reps=1, sets=1 << 12),
    quick_share="about 5 s: 4 points of 4096 sets, simulated once",
    metrics=(
        *("simulated_l1d_read_access", "simulated_l1d_write_access", "simulated_l1d_read_miss"),
        *("simulated_l1d_write_miss", "simulated_l2_miss", "simulated_dtlb_read_miss"),
        *("simulated_dtlb_write_miss", "simulated_stlb_miss", "l1d_read_access", "l1d_write_access"),
        *("l1d_read_miss", "dtlb_read_miss", "dtlb_write_miss", "simulation_rate", "accesses"),
        *("reads", "writes"),
    ),
)

FILES = Experiment.of(
    "memory.mapping",
    "Mapping a file instead of anonymous memory",
    "What do mappings of a file change: faults, resident memory, blocks read and written?",
    Design.of(5, 5, mapping=MAPPINGS, **_WALK, **_MUCH),
    workload="memory.access",
    quick=lambda full: full.replace(footprint="first64th", sets=1 << 12, size=256 * MEBIBYTE),
    quick_share="about 4 s: 6 points of 4096 sets in 256 MiB, 5 times each",
    metrics=("set_ns", "time_s", *GETRUSAGE, *_INIT, "touched_pages"),
)


def _prepared_twice(factors: Mapping[str, Level]) -> bool:
    """Leave out what both populates and sets the memory: the setting faults in what is missing anyway."""
    return bool(factors["populate"]) and factors["initialise"] != "none"


INITIALISE = Experiment.of(
    "memory.initialise",
    "Populating and setting memory before it is used",
    "What do MAP_POPULATE, memset and msync do at once, and what do they save later?",
    Design.of(
        5,
        5,
        mapping=MAPPINGS,
        populate=(False, True),
        initialise=("none", "memset", "memset+msync"),
        pattern="seq",
        footprint="first64th",
        **_MUCH,
    ),
    workload="memory.access",
    quick=lambda full: full.replace(omit=_prepared_twice, sets=1 << 12, size=64 * MEBIBYTE),
    quick_share="about 7 s: 12 points of 4096 sets in 64 MiB, 5 times each",
    metrics=("init_time_s", "set_ns", *_INIT, *GETRUSAGE, "resident_kib", "touched_pages"),
)

PRESSURE = Experiment.of(
    "memory.pressure",
    "Memory that another process wants, too",
    "How much longer does the same work take while another process takes all memory, and why?",
    Design.of(
        5,
        5,
        pressure=("none", "compete"),
        pattern="random",
        footprint="first64th",
        initialise="memset",
        **_MUCH,
        limit=GIBIBYTE // 2,
        wait=5.0,
    ),
    workload="memory.access",
    quick=lambda full: full.replace(sets=1 << 13, size=64 * MEBIBYTE, limit=32 * MEBIBYTE, wait=1.0),
    quick_share="about 20 s: 2 points of 8192 sets in 64 MiB, 5 times each, after a wait of 2 s or more",
    metrics=("set_ns", "time_s", *GETRUSAGE, "resident_kib", "pressure_resident_kib", "pressure_wait_s"),
)

FAULT = Experiment.of(
    "memory.fault",
    "What a page fault costs",
    "How long does touching a page take that is not mapped, by what the kernel has to do for it?",
    Design.of(20, 10, kind=FAULTS, threads=(1, 2), size=64 * MEBIBYTE),
    quick=lambda full: full.replace(5, 5, size=4 * MEBIBYTE),
    quick_share="about 8 s: 7 kinds by 1 and 2 threads, 4 MiB touched 5 times each",
    metrics=("time_ns", "faults_per_s", "faults", "major"),
)


def _few_places(factors: Mapping[str, Level]) -> bool:
    """Leave out the stride of a page where it has so few places that every TLB holds them."""
    return factors["stride"] == PAGE_AND_LINE and int(factors["size"]) < 128 * KIBIBYTE


LATENCY = Experiment.of(
    "memory.latency",
    "The time of a dependent load",
    "How long does a load take that waits for the one before, by size of memory, stride and page?",
    Design.of(
        5, 5, size=SIZES, stride=_STRIDES, pages=("4K", "huge"), order="random", min_time_ns=20_000_000
    ),
    quick=lambda full: full.replace(
        min_time_ns=2_000_000, omit=_few_places, size=FEW_SIZES, stride=(LINE, PAGE_AND_LINE)
    ),
    quick_share="about 8 s: 48 points, 2 ms of loads 5 times each",
    metrics=("time_ns", "cycles"),
    # Exclude memory that has no second place to go to.
    exclude=lambda factors: int(factors.get("size", 2 * LINE)) < 2 * int(factors.get("stride", LINE)),
)


def _windowless(factors: Mapping[str, Level]) -> bool:
    """Exclude windows where nothing is copied, and but for one thread."""
    windowed = factors.get("window", 0) != 0
    return windowed and (factors.get("operation") != "copy" or factors.get("threads") != 1)


BANDWIDTH = Experiment.of(
    "memory.bandwidth",
    "How fast memory is read, written and copied",
    "How fast can memory be streamed: what reading from the page cache can at most reach?",
    Design.of(
        20,
        10,
        operation=("read", "write", "copy"),
        threads=(1, 0),
        window=(0, 128 * KIBIBYTE, 4 * MEBIBYTE),
        size=256 * MEBIBYTE,
    ),
    quick=lambda full: full.replace(5, 5, size=64 * MEBIBYTE),
    quick_share="about 6 s: 8 points of 64 MiB, 5 times each",
    metrics=("throughput", "time_s"),
    exclude=_windowless,
)


LAB = Lab(
    name="memory",
    title="Memory",
    document="a student report that walked memory in sequence and at random, also beside another process",
    # What writes files and swap comes before what only computes, so that the next lab finds a quiet device.
    experiments=(ACCESS, FILES, INITIALISE, PRESSURE, FAULT, COUNTERS, LATENCY, BANDWIDTH),
    sections=Lazy(
        __name__,
        *("walks:PATTERNS", "walks:FOOTPRINT_PAGES", "counts:COUNTS", "counts:COUNTERS", "files:MAPPINGS"),
        *("files:INITIALISATION", "walks:PRESSURE", "loads:LATENCY", "loads:BANDWIDTH", "loads:FAULTS"),
    ),
    notebook="notebooks/memory.ipynb",
)

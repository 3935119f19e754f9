"""The disk lab: what sits between asking for data and having it."""

from __future__ import annotations

from collections.abc import Mapping

from oscope.figures.lazy_answers import Lazy
from oscope.labs import memory, syscalls
from oscope.model.experiment import Design, Experiment, Lab
from oscope.model.factors import Level
from oscope.model.units import KIBIBYTE, MEBIBYTE, PAGE

CACHES = ("cold", "warm")
TOOLS = ("oscope", "dd", "fio")
POWERS = tuple(1 << power for power in range(7, 23))
"""The original report's block sizes: 128 B to 4 MiB."""
FEW_POWERS = POWERS[::3]
"""Every third of them, both ends among them."""
XOR_POWERS = (64, *POWERS)
FEW_XOR_POWERS = (64, 512, PAGE, 32 * KIBIBYTE, 256 * KIBIBYTE, 4 * MEBIBYTE)
ENGINES = ("read", "pread", "mmap", "direct", "uring")
PAST_THE_CACHE = frozenset({"direct", "uring"})
"""Engines that read with O_DIRECT: the page cache has no part in them, and blocks must be aligned."""
COMPARED = (8 * KIBIBYTE, 512 * KIBIBYTE)
"""Block sizes at which the quick survey tries every engine."""


def _past_the_cache(factors: Mapping[str, Level]) -> bool:
    """Exclude reading past the cache that is warm, or by parts of pages."""
    if factors.get("engine") not in PAST_THE_CACHE:
        return False
    return factors.get("cache") == "warm" or int(factors.get("block_size", PAGE)) % PAGE != 0


def _slow_fio(factors: Mapping[str, Level]) -> bool:
    """Leave out fio, which takes a second to start, but for one block size."""
    return factors["tool"] == "fio" and factors["block_size"] != COMPARED[-1]


def _many_engines(factors: Mapping[str, Level]) -> bool:
    """Leave out engines other than `read` at most block sizes."""
    return factors["engine"] != "read" and factors["block_size"] not in COMPARED


READ = Experiment.of(
    "disk.read",
    "Reading a file, block by block",
    "How fast is a file read, by which block size, from the device and from the page cache?",
    Design.of(
        7,
        7,
        block_size=POWERS,
        cache=CACHES,
        engine=ENGINES,
        threads=1,
        queue_depth=32,
        size=256 * MEBIBYTE,
        longest=1.0,
    ),
    quick=lambda full: full.replace(
        5, 5, omit=_many_engines, block_size=FEW_POWERS, size=64 * MEBIBYTE, longest=0.1
    ),
    quick_share="about 10 s: 24 points, 64 MiB read 5 times each",
    metrics=("throughput", "time_s", "bytes", "calls", "cpu_s"),
    exclude=_past_the_cache,
    least={"block_size": 1},
)


WRITE = Experiment.of(
    "disk.write",
    "Writing a file, block by block",
    "How fast is a file written, and what does it cost to have it on the device?",
    Design.of(6, 6, block_size=POWERS, sync=("none", "fdatasync", "direct"), size=64 * MEBIBYTE),
    quick=lambda full: full.replace(
        5,
        5,
        # Leave out what waits for the device once a page.
        omit=lambda factors: factors["sync"] == "direct" and factors["block_size"] == PAGE,
        block_size=(128, PAGE, 128 * KIBIBYTE, 4 * MEBIBYTE),
        size=16 * MEBIBYTE,
    ),
    quick_share="about 3 s: 10 points, 16 MiB written 5 times each",
    metrics=("throughput", "time_s", "bytes", "calls", "cpu_s"),
    # Exclude writing past the cache by parts of pages.
    exclude=lambda factors: (
        factors.get("sync") == "direct" and int(factors.get("block_size", PAGE)) % PAGE != 0
    ),
)

XOR = Experiment.of(
    "disk.xor",
    "The XOR of a file’s words",
    "Which block size gives the XOR of a whole file first, and is it the same in every pass?",
    Design.of(
        7, 7, block_size=XOR_POWERS, cache=CACHES, engine="read", threads=0, work="xor", size=64 * MEBIBYTE
    ),
    workload="disk.read",
    quick=lambda full: full.replace(5, 5, block_size=FEW_XOR_POWERS, size=16 * MEBIBYTE),
    quick_share="about 4 s: 12 points, 16 MiB read 5 times each",
    metrics=("time_s", "xor", "throughput", "bytes", "calls"),
    exclude=_past_the_cache,
    least={"block_size": 1},
)

DROP_CACHES = Experiment.of(
    "disk.drop-caches",
    "What writing to drop_caches frees",
    "What do 1, 2 and 3, written to /proc/sys/vm/drop_caches, free of which cache?",
    Design.of(10, 10, value=("1", "2", "3"), size=64 * MEBIBYTE, files=2000),
    quick=lambda full: full.replace(5, 5, size=32 * MEBIBYTE, files=500),
    quick_share="about 6 s: 3 values, 5 times each, after filling the caches",
    metrics=(
        *("page_cache_before_bytes", "page_cache_after_bytes", "dentries_before", "dentries_after"),
        *("inodes_before", "inodes_after", "slab_before_bytes", "slab_after_bytes", "time_s"),
    ),
)


PEERS = Experiment.of(
    "disk.peers",
    "Reading beside dd and fio",
    "Do dd and fio read the same file as fast, by the same block sizes?",
    Design.of(6, 6, block_size=POWERS, tool=TOOLS, cache=CACHES, size=256 * MEBIBYTE, count=1 << 20),
    quick=lambda full: full.replace(
        5, 5, omit=_slow_fio, block_size=FEW_POWERS, cache="cold", size=32 * MEBIBYTE, count=1 << 18
    ),
    quick_share="about 9 s: dd beside oscope at 6 block sizes, fio at one, 32 MiB read 5 times each",
    metrics=("throughput", "time_s", "bytes", "whole_s"),
)


LAB = Lab(
    name="disk",
    title="Disk",
    document="a student report that read files by blocks of 128 B to 4 MiB, beside dd, and took their XOR",
    experiments=(
        READ,
        PEERS,
        XOR,
        memory.BANDWIDTH,
        syscalls.COST,
        syscalls.THROUGHPUT,
        # Last, since what they leave behind, dirty pages and empty caches, is of no use to the others.
        WRITE,
        DROP_CACHES,
    ),
    sections=Lazy(
        __name__,
        *("speeds:SWEEP", "speeds:COLD_AND_WARM", "time_breakdown", "speeds:ENGINES", "drift", "checksum"),
        *("speeds:WRITING", "drop_caches", "syscalls.cost:THROUGHPUT"),
    ),
    notebook="notebooks/disk.ipynb",
)

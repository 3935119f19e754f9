"""The NYU disk I/O assignment, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from oscope.assignments.model import Answer, Document, Step
from oscope.labs import disk, syscalls
from oscope.model.experiment import Design
from oscope.model.factors import Level

KIBIBYTE, MEBIBYTE, GIBIBYTE = 1 << 10, 1 << 20, 1 << 30
BASIC_BLOCK, BASIC_SIZE = KIBIBYTE, MEBIBYTE
"""Part 1 writes and reads 1024 blocks of 1024 B."""
THREADS = 4
"""Threads of `fast`, as in the document."""
CALLS = ("read", "lseek", "getpid", "gethostid")
MIXED = (
    "These levels are compared in one run, in random order, each after the page cache was emptied or filled."
)


def _but_part_one(factors: Mapping[str, Level]) -> bool:
    """Leave out the small file but for Part 1's block size."""
    return factors["size"] == BASIC_SIZE and (factors["block_size"], factors["cache"]) != (
        BASIC_BLOCK,
        "warm",
    )


def _reading(size: int, longest: float, reps: int) -> Design:
    factors: dict[str, tuple[Level, ...]] = {
        "block_size": disk.POWERS,
        "cache": ("cold", "warm"),
        "engine": ("read",),
        "threads": (1,),
        "size": (BASIC_SIZE, size),
        "longest": (longest,),
    }
    return Design(factors, reps=reps, blocks=reps, omit=_but_part_one)


def _beside_dd(size: int, count: int, reps: int) -> Design:
    factors: dict[str, tuple[Level, ...]] = {
        "block_size": disk.POWERS,
        "tool": ("oscope", "dd"),
        "cache": ("cold",),
        "size": (size,),
        "count": (count,),
    }
    return Design(factors, reps=reps, blocks=reps)


def _xor(size: int, reps: int) -> Design:
    factors: dict[str, tuple[Level, ...]] = {
        "block_size": disk.XOR_POWERS,
        "cache": ("cold", "warm"),
        "engine": ("read",),
        "threads": (THREADS,),
        "work": ("xor",),
        "size": (size,),
    }
    return Design(factors, reps=reps, blocks=reps)


_WRITE = Design({"block_size": (BASIC_BLOCK,), "sync": ("none",), "size": (BASIC_SIZE,)}, reps=10, blocks=5)

EXPERIMENTS = (
    replace(disk.READ, full=_reading(GIBIBYTE, 15.0, 5), quick=_reading(32 * MEBIBYTE, 0.1, 5)),
    replace(
        disk.PEERS,
        full=_beside_dd(GIBIBYTE, 1 << 23, 5),
        quick=_beside_dd(16 * MEBIBYTE, 1 << 16, 5),
    ),
    replace(
        syscalls.THROUGHPUT,
        full=Design({"call": CALLS, "duration": (10.0,)}, reps=5, blocks=5),
        quick=Design({"call": CALLS, "duration": (0.2,)}, reps=5, blocks=5),
    ),
    replace(disk.XOR, full=_xor(GIBIBYTE, 5), quick=_xor(8 * MEBIBYTE, 5)),
    replace(disk.WRITE, full=_WRITE, quick=_WRITE),
    disk.DROP_CACHES,
)

STEPS = (
    Step(
        "run",
        "step",
        "Part 1",
        "`run`: write and read a file, with a block size and a block count",
        commands=(
            "disk write sample --block-size 1024 --count 1024",
            "disk read sample --block-size 1024 --count 1024",
        ),
        measured=("disk.write", "disk.read"),
    ),
    Step(
        "run2",
        "step",
        "Part 2",
        "`run2`: a file size that is read in a reasonable time",
        commands=("disk size test128 --block-size 128 --keep",),
        measured=("disk.read",),
        note="The table computes the size from the rates of Part 3; the command finds it by reading.",
    ),
    Step(
        "cold",
        "table",
        "Part 3",
        "`raw_performance`: MiB/s by block size, the caches dropped before each pass",
        commands=("run disk.read --set engine=read --set cache=cold",),
        measured=("disk.read",),
        answers=(Answer("disk", "Reading cold, by block size, beside dd and fio"),),
    ),
    Step(
        "cold-even",
        "figure",
        "Part 3, first graph",
        "MiB/s by block size, block sizes evenly spaced",
        measured=("disk.read",),
    ),
    Step(
        "cold-scale",
        "figure",
        "Part 3, second graph",
        "MiB/s by block size, block sizes to scale",
        measured=("disk.read",),
    ),
    Step(
        "dd",
        "table",
        "Part 3, dd",
        "The same sweep with `dd`",
        commands=("run disk.peers --set tool=oscope,dd --set cache=cold",),
        measured=("disk.peers",),
        answers=(Answer("disk", "Reading cold, by block size, beside dd and fio"),),
        note="Oscope reads the same file in the same run, in random order with dd.",
    ),
    Step(
        "dd-graph",
        "figure",
        "Part 3, dd graph",
        "dd beside the own program",
        measured=("disk.peers",),
    ),
    Step(
        "caching",
        "table",
        "Part 4",
        "`caching`: MiB/s with and without the page cache",
        commands=("run disk.read --set engine=read",),
        measured=("disk.read",),
        answers=(Answer("disk", "Cold and warm"),),
    ),
    Step(
        "caching-even",
        "figure",
        "Part 4, first graph",
        "Cold and warm by block size, evenly spaced",
        measured=("disk.read",),
    ),
    Step(
        "caching-scale",
        "figure",
        "Part 4, second graph",
        "Cold and warm by block size, to scale",
        measured=("disk.read",),
    ),
    Step(
        "why-3",
        "question",
        "Extra credit",
        "Why 3 is written to drop_caches",
        commands=("run disk.drop-caches",),
        measured=("disk.drop-caches",),
        answers=(Answer("disk", "What drop_caches frees"),),
        fix="Run it as root: only root may write to /proc/sys/vm/drop_caches.",
    ),
    Step(
        "syscalls",
        "table",
        "Part 5",
        "System calls of one byte, for 10 s: MiB/s and calls/s",
        commands=("run syscall.throughput",),
        measured=("syscall.throughput",),
        answers=(Answer("disk", "How many calls fit into a second"),),
        note="Each call counts as one byte, as in the document; only `read` moves one.",
    ),
    Step(
        "syscalls-graph",
        "figure",
        "Part 5, graph",
        "Calls of each kind",
        measured=("syscall.throughput",),
    ),
    Step(
        "fast",
        "table",
        "Part 6",
        "`fast`: the XOR of a file by many threads, cold and warm, by block size",
        commands=(
            "disk fast ubuntu-21.04-desktop-amd64.iso",
            f"run disk.xor --set threads={THREADS}",
        ),
        measured=("disk.xor",),
        answers=(Answer("disk", "The XOR of a file"),),
    ),
    Step(
        "best",
        "question",
        "Part 6",
        "Which block size is the best",
        commands=("disk fast ubuntu-21.04-desktop-amd64.iso",),
        measured=("disk.xor",),
        note="`disk fast` chooses threads, block size and engine by itself and prints its choice.",
    ),
)

DOCUMENT = Document(
    key="disk",
    name="the NYU disk I/O assignment",
    title="Final Project – OS, CS-GY 6233, Fall 2023",
    about=(
        "A student project report for the operating-systems course CS-GY 6233. It makes reading from a disk "
        "as fast as possible in six parts, and looks at what caches and system calls cost on the way."
    ),
    machine="a laptop or PC under Linux; the report names neither its kernel nor its disk",
    steps=STEPS,
    experiments=EXPERIMENTS,
    quick_sizes=(
        "--quick reads at most 0.1 s of a file of 32 MiB (dd: 16 MiB, `fast`: 8 MiB) and makes system calls "
        "for 0.2 s. The full profile has 1 GiB and 10 s; the original report has 2 GB and 10 s."
    ),
)

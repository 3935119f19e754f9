"""The system-call lab: what a call costs, how many fit into a second, and what making a process costs."""

from __future__ import annotations

from oscope.figures.lazy_answers import Lazy
from oscope.model.experiment import Design, Experiment, Lab
from oscope.model.units import MEBIBYTE

CALLS = ("getpid", "getppid", "read", "lseek", "gethostid", "clock_gettime")
HOWS = ("fork", "vfork", "clone3", "posix_spawn", "thread")

COST = Experiment.of(
    "syscall.cost",
    "What one system call costs",
    "How long does one call take, timed by itself and in a loop, and what makes it vary?",
    Design.of(1000, 40, call=CALLS, style=("loop", "single")),
    quick=lambda full: full.replace(600, 20),
    quick_share="about 10 s: 12 points of 600 samples, enough for a 99th percentile",
    metrics=("time_ns", "cycles"),
)

THROUGHPUT = Experiment.of(
    "syscall.throughput",
    "How many calls fit into a second",
    "How many times a second can a program call read, lseek, getpid and gethostid?",
    Design.of(10, 10, call=("read", "lseek", "getpid", "gethostid"), duration=10.0),
    quick=lambda full: full.replace(5, 5, duration=0.5),
    quick_share="about 20 s: 4 calls for 0.5 s, 5 times, each after a warm-up",
    metrics=("calls_per_s", "bytes_per_s"),
)


CREATE = Experiment.of(
    "process.create",
    "What making a process costs",
    "How long until the child runs and the parent goes on, and what do page tables add?",
    Design.of(200, 20, how=HOWS, resident=(0, 64 * MEBIBYTE, 1024 * MEBIBYTE), pages=("4K", "huge")),
    quick=lambda full: full.replace(reps=120, resident=(0, 64 * MEBIBYTE), pages="4K"),
    quick_share="about 15 s: 5 ways, with and without 64 MiB of resident memory, 120 samples each",
    metrics=("child_ns", "parent_ns", "total_ns", "child_cycles", "parent_cycles", "total_cycles"),
    # Without resident memory there are no pages whose size could matter.
    exclude=lambda factors: factors.get("pages") == "huge" and factors.get("resident") == 0,
)


ENTRY = Experiment.of(
    "syscall.entry",
    "What entering the kernel costs",
    "How long does a call take that does not exist, beside getppid and sched_yield (24 on x86-64)?",
    Design.of(400, 20, call=("nr:1023", "getppid", "nr:24"), style="loop"),
    workload="syscall.cost",
    quick_share="not in it: syscall.cost has getppid",
    metrics=("time_ns", "cycles"),
)

URING = Experiment.of(
    "syscall.uring-nop",
    "What a request through io_uring costs",
    "What does a request cost that does nothing, if one system call submits 1 to 128 of them?",
    Design.of(400, 20, batch=(1, 2, 8, 32, 128)),
    quick_share="not in it: syscall.cost has what most programs use",
    metrics=("time_ns", "cycles"),
)

LAB = Lab(
    name="syscalls",
    title="System calls",
    document="two student reports: one timed a new system call and fork(), the other counted calls in 10 s",
    experiments=(COST, THROUGHPUT, CREATE, ENTRY, URING),
    sections=Lazy(
        __name__,
        *("cost:COST", "cost:THROUGHPUT", "create:PAGE_TABLES", "create:TABLE_ONE", "spread:SHAPE"),
        *("spread:CAUSES", "spread:ESTIMATOR", "cost:ENTRY", "cost:URING"),
    ),
    notebook="notebooks/syscalls.ipynb",
)

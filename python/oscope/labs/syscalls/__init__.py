"""The system-call lab: what a call costs, how many fit into a second, and what making a process costs."""

from __future__ import annotations

from collections.abc import Mapping

from oscope.labs.late import late
from oscope.model.experiment import Design, Experiment, Lab
from oscope.model.factors import Level

MEBIBYTE = 1 << 20

CALLS = ("getpid", "getppid", "read", "lseek", "gethostid", "clock_gettime")
HOWS = ("fork", "vfork", "clone3", "posix_spawn", "thread")

_COST = Design.of(1000, 40, call=CALLS, style=("loop", "single"))
COST = Experiment(
    name="syscall.cost",
    workload="syscall.cost",
    title="What one system call costs",
    question="How long does one call take, timed by itself and in a loop, and what makes it vary?",
    full=_COST,
    quick=_COST.replace(reps=600, blocks=20),
    quick_share="about 10 s: 12 points of 600 samples, enough for a 99th percentile",
    metrics=("time_ns", "cycles"),
)

_THROUGHPUT = Design.of(10, 10, call=("read", "lseek", "getpid", "gethostid"), duration=10.0)
THROUGHPUT = Experiment(
    name="syscall.throughput",
    workload="syscall.throughput",
    title="How many calls fit into a second",
    question="How many times a second can a program call read, lseek, getpid and gethostid?",
    full=_THROUGHPUT,
    quick=_THROUGHPUT.replace(reps=5, blocks=5, duration=0.5),
    quick_share="about 20 s: 4 calls for 0.5 s, 5 times, each after a warm-up",
    metrics=("calls_per_s", "bytes_per_s"),
)


def _huge_pages_of_nothing(factors: Mapping[str, Level]) -> bool:
    """Without resident memory there are no pages whose size could matter."""
    return factors.get("pages") == "huge" and factors.get("resident") == 0


_CREATE = Design.of(200, 20, how=HOWS, resident=(0, 64 * MEBIBYTE, 1024 * MEBIBYTE), pages=("4K", "huge"))
CREATE = Experiment(
    name="process.create",
    workload="process.create",
    title="What making a process costs",
    question="How long until the child runs and the parent goes on, and what do page tables add?",
    full=_CREATE,
    quick=_CREATE.replace(reps=120, resident=(0, 64 * MEBIBYTE), pages="4K"),
    quick_share="about 15 s: 5 ways, with and without 64 MiB of resident memory, 120 samples each",
    metrics=("child_ns", "parent_ns", "total_ns", "child_cycles", "parent_cycles", "total_cycles"),
    exclude=_huge_pages_of_nothing,
)


ENTRY = Experiment(
    name="syscall.entry",
    workload="syscall.cost",
    title="What entering the kernel costs",
    question="How long does a call take that does not exist, beside getppid and sched_yield (24 on x86-64)?",
    full=Design.of(400, 20, call=("nr:1023", "getppid", "nr:24"), style="loop"),
    quick=None,
    quick_share="not in it: syscall.cost has getppid",
    metrics=("time_ns", "cycles"),
)

LAB = Lab(
    name="syscalls",
    title="System calls",
    document=(
        "two laboratory reports: one timed a new system call and fork() with the time-stamp counter, the "
        "other made system calls for ten seconds"
    ),
    experiments=(COST, THROUGHPUT, CREATE, ENTRY),
    sections=late(
        "syscalls",
        *("cost:COST", "cost:THROUGHPUT", "create:PAGE_TABLES", "create:TABLE_ONE", "spread:SHAPE"),
        *("spread:CAUSES", "spread:ESTIMATOR", "cost:ENTRY"),
    ),
    notebook="notebooks/syscalls.ipynb",
)

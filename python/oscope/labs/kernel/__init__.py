"""The kernel lab: what a new system call costs, and what a changed reclaim does, on a kernel built for it."""

from __future__ import annotations

from oscope.figures.lazy_answers import Lazy
from oscope.model.experiment import Design, Experiment, GuestSpec, Lab
from oscope.model.units import MEBIBYTE

KERNEL = "my_precious+reclaim-policy"
"""Both patches, so that one kernel serves the whole lab."""
COUNTED = GuestSpec(KERNEL, "instructions")
TIMED = GuestSpec(KERNEL, "wall")
NOT_QUICK = (
    "not in it: it needs a guest under a kernel that is built first, in minutes (`oscope kernel build "
    f"--patch {KERNEL.replace('+', ' --patch ')}`)"
)

CALLS = ("my_precious", "my_precious_logged", "getpid", "getppid")
POLICIES = ("own", "reclaim-active", "reclaim-referenced", "mglru")
MAPPINGS = ("anonymous", "private", "shared")
COUNTS = (
    *("minflt", "majflt", "swap_ins", "swap_outs", "refaults_anon", "refaults_file", "activations"),
    *("scanned", "reclaimed"),
)
"""What the kernel counts under pressure: the first two of the measured process, the others of the machine."""

# The log has to be full before a line costs what it costs from then on: some 4000 lines, and a repetition is
# to have 1000 of them.
_CALLS = Design.of(60, 5, call=CALLS, style="loop", min_time_ns=4_000_000)

PRECIOUS = Experiment.of(
    "kernel.precious",
    "A new system call, silent and logged",
    "How many instructions does a new call take, and how many of them are its printing?",
    _CALLS,
    workload="syscall.cost",
    quick_share=NOT_QUICK,
    metrics=("time_ns",),
    guest=COUNTED,
)

PRECIOUS_WALL = Experiment.of(
    "kernel.precious-wall",
    "A new system call, silent and logged, in time",
    "How long does a new call take, and how much of it is its printing?",
    _CALLS,
    workload="syscall.cost",
    quick_share=NOT_QUICK,
    metrics=("time_ns", "cycles"),
    guest=TIMED,
)

_FORK = Design.of(60, 5, how="fork", resident=0, pages="4K")

FORK = Experiment.of(
    "kernel.fork",
    "fork beside the new system call",
    "How many instructions until the child of fork runs, and until the parent goes on?",
    _FORK,
    workload="process.create",
    quick_share=NOT_QUICK,
    metrics=("child_ns", "parent_ns", "total_ns"),
    guest=COUNTED,
)

FORK_WALL = Experiment.of(
    "kernel.fork-wall",
    "fork beside the new system call, in time",
    "How long until the child of fork runs, and until the parent goes on?",
    _FORK,
    workload="process.create",
    quick_share=NOT_QUICK,
    metrics=("child_ns", "parent_ns", "total_ns", "child_cycles", "parent_cycles"),
    guest=TIMED,
)


def _reclaim(patterns: tuple[str, ...]) -> Design:
    """Return a walk over memory that does not fit, with a competitor whose turns make its counts repeat."""
    return Design.of(
        5,
        5,
        policy=POLICIES,
        mapping=MAPPINGS,
        pattern=patterns,
        pressure="compete",
        initialise="memset",
        sets=512,
        size=8 * MEBIBYTE,
        limit=12 * MEBIBYTE,
        steps=16,
        # Swap in memory, and a RAM disk of the guest: no device of the host has a say in what is counted.
        swap="zram",
        swap_size=64 * MEBIBYTE,
        directory="/tmp",  # noqa: S108
    )


RECLAIM = Experiment.of(
    "kernel.reclaim",
    "Which pages the kernel reclaims",
    "What do faults, swap and instructions become where references do not spare a page?",
    _reclaim(("random", "seq")),
    workload="memory.access",
    quick_share=NOT_QUICK,
    metrics=("time_s", "cpu_s", *COUNTS),
    guest=COUNTED,
)

RECLAIM_WALL = Experiment.of(
    "kernel.reclaim-wall",
    "Which pages the kernel reclaims, in time",
    "What does the time become where references do not spare a page?",
    _reclaim(("random",)),
    workload="memory.access",
    quick_share=NOT_QUICK,
    metrics=("time_s", "cpu_s", *COUNTS),
    guest=TIMED,
)


LAB = Lab(
    name="kernel",
    title="The kernel",
    document="two student reports: one added a system call and timed it, the other changed page reclaim",
    experiments=(PRECIOUS, FORK, RECLAIM, PRECIOUS_WALL, FORK_WALL, RECLAIM_WALL),
    sections=Lazy(__name__, "calls:PRECIOUS", "calls:FORK_BESIDE", "calls:TABLE_ONE", "reclaim"),
    notebook="notebooks/kernel.ipynb",
    clocks=("wall", "instructions"),
)

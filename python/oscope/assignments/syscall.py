"""E0253 Assignment 0, step by step: a new system call, and fork, in cycles."""

from __future__ import annotations

from dataclasses import replace

from oscope.assignments.model import Answer, Document, Step
from oscope.labs import kernel, syscalls
from oscope.model.experiment import Design
from oscope.model.factors import Level

_Factors = dict[str, tuple[Level, ...]]
_FORK: _Factors = {"how": ("fork",), "resident": (0,), "pages": ("4K",)}
_CALL: _Factors = {"call": ("getppid",), "style": ("loop", "single")}
_PRECIOUS: _Factors = {"call": ("my_precious_logged", "my_precious"), "style": ("single",)}
BUILD = "`oscope kernel build --patch my_precious --patch reclaim-policy`"
NO_KERNEL = (
    f"my_precious needs a guest under a kernel with that call. {BUILD} builds one in minutes; then "
    "`oscope assignment syscall` measures the call and fork in that guest."
)

EXPERIMENTS = (
    replace(
        syscalls.CREATE, full=Design(_FORK, reps=200, blocks=20), quick=Design(_FORK, reps=120, blocks=20)
    ),
    replace(
        syscalls.COST, full=Design(_CALL, reps=2000, blocks=40), quick=Design(_CALL, reps=400, blocks=20)
    ),
    replace(
        kernel.PRECIOUS_WALL,
        full=Design(_PRECIOUS, reps=60, blocks=5),
        quick=Design(_PRECIOUS, reps=30, blocks=3),
    ),
    replace(kernel.FORK_WALL, full=Design(_FORK, reps=60, blocks=5), quick=Design(_FORK, reps=30, blocks=3)),
)

STEPS = (
    Step(
        "new-call",
        "step",
        "Part B, 2.1",
        "Add a system call that prints a line and returns 0",
        commands=("kernel build --patch my_precious",),
        note=(
            "The patch is kernel/patches/my_precious: it adds the call under a free number, with its line in "
            "the kernel log, and a second one without the line."
        ),
    ),
    Step(
        "boot",
        "step",
        "Part B, 2.1.7 and 2.1.8",
        "Compile the kernel, install it, boot it, and look at the release and the log",
        commands=("kernel boot my_precious -- uname -r",),
        note="The kernel runs in a guest: nothing of this machine is changed.",
    ),
    Step(
        "patch",
        "step",
        "Part B, 2.2",
        "Generate the patch file and check it with checkpatch.pl",
        commands=("kernel check-patch my_precious",),
    ),
    Step(
        "apply",
        "step",
        "Part B, 2.3",
        "Apply the patch file to the source of another tree",
        commands=("kernel build --patch my_precious --tree linux-5.0",),
    ),
    Step(
        "program",
        "step",
        "Part C, 3.1",
        "Time my_precious and fork by the time-stamp counter: child's first instruction, parent's return",
        commands=(
            "run kernel.precious-wall kernel.fork-wall --set style=single",
            "run process.create --set how=fork --set resident=0",
        ),
        measured=("kernel.precious-wall", "kernel.fork-wall", "process.create"),
        answers=(
            Answer("kernel", "The new call and fork in one table"),
            Answer("syscalls", "A call and fork in cycles, beside the original report"),
        ),
        note="The first sample of each stands in the place of the original's single run.",
    ),
    Step(
        "table-1",
        "table",
        "Part D, Table 1",
        "Ten iterations of my_precious, fork_child and fork_parent, with mean, median and standard deviation",
        commands=(
            "run kernel.precious-wall kernel.fork-wall --set style=single",
            "run process.create --set how=fork --set resident=0",
        ),
        measured=("kernel.precious-wall", "kernel.fork-wall", "process.create"),
        answers=(
            Answer("kernel", "The new call and fork in one table"),
            Answer("syscalls", "A call and fork in cycles, beside the original report"),
        ),
    ),
    Step(
        "variations",
        "question",
        "Part D, 4.1.1",
        "What causes the variations",
        commands=("run syscall.cost process.create", "explain-variation last"),
        measured=("process.create", "syscall.cost"),
        answers=(Answer("syscalls", "What makes the times vary"),),
        note="The original report has four guesses; here the covariates of every sample decide.",
    ),
    Step(
        "representative",
        "question",
        "Part D, 4.1.2",
        "Which value represents the cycles of a system call",
        commands=("run syscall.cost process.create",),
        measured=("process.create", "syscall.cost"),
        answers=(Answer("syscalls", "Which value stands for the cost"),),
    ),
)

DOCUMENT = Document(
    key="syscall",
    name="E0253 Assignment 0",
    title="E0253 – Operating Systems: Assignment 0",
    about=(
        "A student report for the operating-systems course E0253 at IISc Bangalore. It adds a system call "
        "without arguments to Linux 5.0, generates and applies the patch, and times that call and fork() in "
        "cycles of the time-stamp counter."
    ),
    machine="Linux 5.0, ten iterations; the report does not name the processor",
    steps=STEPS,
    experiments=EXPERIMENTS,
    quick_sizes="--quick takes fewer samples, and three boots of the guest instead of five.",
)

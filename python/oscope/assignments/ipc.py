"""Cambridge L41 lab 2, step by step: pipes and sockets, traced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from oscope.assignments.model import Answer, Document, Step
from oscope.labs import ipc
from oscope.model.experiment import Design
from oscope.model.factors import Level
from oscope.model.units import KIBIBYTE, MEBIBYTE, PAGE

BUFFER, TOTAL = 128 * KIBIBYTE, 16 * MEBIBYTE
"""The benchmark's defaults."""
CHANNELS = ("pipe", "local")
TRACED = ("none", "syscalls+sched+faults")


def _sized(factors: Mapping[str, Level]) -> bool:
    """Leave out the placing of sides whose socket buffers were set."""
    return factors["placement"] != "free"


def _throughput(buffers: tuple[int, ...], reps: int, blocks: int) -> Design:
    factors: dict[str, tuple[Level, ...]] = {
        "buffer": buffers,
        "channel": CHANNELS,
        "mode": ipc.MODES,
        "sockbuf": ("default", "buffer"),
        "placement": ("free",),
        "total": (TOTAL,),
    }
    return Design(factors, reps=reps, blocks=blocks, omit=_sized)


def _trace(buffers: tuple[int, ...], total: int, reps: int, blocks: int) -> Design:
    factors: dict[str, tuple[Level, ...]] = {
        "buffer": buffers,
        "channel": CHANNELS,
        "mode": ipc.MODES,
        "sockbuf": ("default",),
        "total": (total,),
        "tracer": TRACED,
    }
    return Design(factors, reps=reps, blocks=blocks)


def _narrowed(design: Design) -> Design:
    return replace(design, factors={**design.factors, "channel": CHANNELS})


EXPERIMENTS = (
    replace(
        ipc.THROUGHPUT,
        full=_throughput(ipc.POWERS, 14, 7),
        quick=_throughput(ipc.FEW_POWERS, 6, 3),
    ),
    replace(
        ipc.TRACE,
        full=_trace((256, PAGE, 64 * KIBIBYTE, BUFFER, MEBIBYTE), TOTAL, 14, 7),
        quick=_trace(ipc.COMPARED, 4 * MEBIBYTE, 6, 3),
    ),
    replace(
        ipc.EFFECT, full=_narrowed(ipc.EFFECT.full), quick=_narrowed(ipc.EFFECT.quick or ipc.EFFECT.full)
    ),
    ipc.FAULT,
)

_NO_TRACER = "Tracing needs root and bpftrace: `oscope doctor` says what is missing."

STEPS = (
    Step(
        "vm-fault",
        "step",
        "The Mach VM fault handler",
        "Trace the handler of page faults: which faults, of which kind, how long",
        commands=("trace --faults -- /bin/true", "run trace.fault"),
        measured=("trace.fault",),
        answers=(Answer("ipc", "Page faults"),),
        fix=_NO_TRACER,
    ),
    Step(
        "benchmark",
        "step",
        "The benchmark",
        "`ipc-static [-Bqsv] [-b buffersize] [-i pipe|local] [-t totalsize] mode`",
        commands=(
            "ipc -B -q -i local -s -b 131072 -t 16777216 2proc",
            "ipc -i pipe 2thread",
            "ipc -i pipe 1thread",
        ),
        note="The same modes, flags and defaults; further channels are `-i seqpacket|tcp|shm|vmsplice`.",
    ),
    Step(
        "verbose",
        "table",
        "The benchmark (3)",
        "The verbose output of `ipc-static -v -i pipe 1thread`",
        commands=("ipc -v -i pipe 1thread",),
        measured=("ipc.throughput",),
    ),
    Step(
        "configurations",
        "question",
        "Exploratory question 1",
        "How the configurations of the benchmark perform",
        commands=("run ipc.throughput --set channel=pipe,local --set placement=free",),
        measured=("ipc.throughput",),
        answers=(Answer("ipc", "How the configurations perform"),),
    ),
    Step(
        "returns",
        "question",
        "Exploratory question 2",
        "How the return values of read() and write() vary",
        commands=("run ipc.trace --set channel=pipe,local",),
        measured=("ipc.trace",),
        answers=(Answer("ipc", "What read and write return"),),
        fix=_NO_TRACER,
    ),
    Step(
        "sockbuf",
        "question",
        "Exploratory question 3",
        "What the socket-buffer size does to performance",
        commands=("run ipc.throughput --set channel=local --set sockbuf=default,buffer",),
        measured=("ipc.throughput",),
        answers=(Answer("ipc", "Setting the socket buffers"),),
    ),
    Step(
        "in-calls",
        "question",
        "Exploratory question 4",
        "How much time pipes and sockets spend in system calls",
        commands=("run ipc.trace --set channel=pipe,local",),
        measured=("ipc.trace",),
        answers=(Answer("ipc", "Time in system calls"),),
        fix=_NO_TRACER,
    ),
    Step(
        "switches",
        "question",
        "Exploratory question 5",
        "How context-switch rates vary across configurations",
        commands=("run ipc.throughput --set channel=pipe,local", "run ipc.trace --set channel=pipe,local"),
        measured=("ipc.throughput", "ipc.trace"),
        answers=(Answer("ipc", "Context switches"),),
    ),
    Step(
        "jupyter",
        "step",
        "Jupyter template",
        "Analyse the results in a notebook with pandas and matplotlib",
        commands=("export last --format csv --output samples.csv",),
        note="The notebook of this lab is notebooks/ipc.ipynb.",
    ),
    Step(
        "buffer-size",
        "question",
        "Experimental question 1",
        "How the buffer size affects performance, and why; sockets with and without -s",
        commands=("run ipc.throughput --set channel=pipe,local --set placement=free",),
        measured=("ipc.throughput",),
        answers=(
            Answer("ipc", "Where a larger buffer stops helping"),
            Answer("ipc", "Setting the socket buffers"),
        ),
    ),
    Step(
        "threads",
        "question",
        "Experimental question 2",
        "Are several threads faster or slower than several processes",
        commands=("run ipc.throughput --set mode=2thread,2proc --set channel=pipe,local",),
        measured=("ipc.throughput",),
        answers=(Answer("ipc", "Threads or processes"),),
    ),
    Step(
        "distributions",
        "question",
        "This lab session",
        "Distributions of system calls, of their times, arguments and return values",
        commands=("trace --syscalls -- /bin/true", "run ipc.trace --set channel=pipe,local"),
        measured=("ipc.trace",),
        answers=(Answer("ipc", "Which calls, and how long they take"),),
        note="bpftrace stands in for DTrace.",
        fix=_NO_TRACER,
    ),
    Step(
        "probe-effect",
        "question",
        "Aims of the lab",
        "Measure the probe effect: what tracing costs",
        commands=("run trace.effect",),
        measured=("trace.effect",),
        answers=(Answer("ipc", "The probe effect"),),
        fix=_NO_TRACER,
    ),
)

DOCUMENT = Document(
    key="ipc",
    name="Cambridge L41 lab 2",
    title="L41: Lab 2 – Kernel implications of IPC, 22 November 2016",
    about=(
        "The slides of a laboratory by Robert N. M. Watson and Graeme Jenkinson. Students build an IPC "
        "benchmark under FreeBSD, run it over pipes and local sockets within and between processes, and "
        "trace it with DTrace. The slides ask questions and have one figure of their own."
    ),
    machine="a BeagleBone board, 16 MiB through a pipe in one thread, once",
    steps=STEPS,
    experiments=EXPERIMENTS,
    quick_sizes="--quick has five buffer sizes and fewer samples; the total is the document's 16 MiB.",
)

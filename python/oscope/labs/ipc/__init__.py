"""The IPC lab: moving data between threads and processes, traced, and what the tracing itself costs."""

from __future__ import annotations

from collections.abc import Mapping

from oscope.figures.lazy_answers import Lazy
from oscope.model.experiment import Design, Experiment, Lab
from oscope.model.factors import Level
from oscope.model.units import KIBIBYTE, MEBIBYTE, PAGE

CHANNELS = ("pipe", "local", "seqpacket", "tcp", "shm", "vmsplice")
SOCKETS = frozenset({"local", "seqpacket", "tcp"})
MODES = ("1thread", "2thread", "2proc")
DOCUMENTED = frozenset({"pipe", "local"})
"""The original report's own channels; the quick survey measures the others at fewer points."""
POWERS = tuple(1 << power for power in range(6, 25))
"""64 B to 16 MiB."""
FEW_POWERS = (KIBIBYTE, PAGE, 64 * KIBIBYTE, 128 * KIBIBYTE, MEBIBYTE)
"""Sizes on both sides of what a pipe holds, the original report's default among them."""
TRACED = (256, PAGE, 64 * KIBIBYTE, 128 * KIBIBYTE, MEBIBYTE)
COMPARED = (PAGE, 128 * KIBIBYTE)
"""Sizes at which the quick survey measures every channel, traces, and compares tracers."""
TRACERS = ("none", "bpf-count", "bpf-histogram", "bpf-full", "perf-trace", "strace-count", "strace")
FEW_TRACERS = ("none", "bpf-histogram", "strace")
"""Attaching takes about a second, once a tracer and block: the quick survey has no time for all."""
ALL_KINDS = "syscalls+sched+faults"


def _impossible(factors: Mapping[str, Level]) -> bool:
    """Exclude socket buffers of what is no socket, and the placing of two threads where there is one."""
    no_socket = factors.get("sockbuf") == "buffer" and factors.get("channel") not in SOCKETS
    alone = factors.get("mode") == "1thread"
    return no_socket or (alone and factors.get("placement", "free") != "free")


def _beyond_the_document(factors: Mapping[str, Level]) -> bool:
    """Leave out most points of undocumented channels, and socket buffers but between processes."""
    if factors["channel"] in DOCUMENTED:
        return factors["sockbuf"] != "default" and factors["mode"] != "2proc"
    return (
        factors["mode"] != "2proc"
        or factors["buffer"] not in (*COMPARED, MEBIBYTE)
        or factors["sockbuf"] != "default"
    )


THROUGHPUT = Experiment.of(
    "ipc.throughput",
    "Moving data between threads and processes",
    "How fast does each channel move data, by which buffer size, within and between processes?",
    Design.of(
        14,
        7,
        buffer=POWERS,
        channel=CHANNELS,
        mode=MODES,
        sockbuf=("default", "buffer"),
        placement=("free", "same", "other"),
        total=16 * MEBIBYTE,
        # Leave out the placing of sides whose socket buffers were set.
        omit=lambda factors: factors["placement"] != "free" and factors["sockbuf"] != "default",
    ),
    quick=lambda full: full.replace(
        10, 5, omit=_beyond_the_document, buffer=FEW_POWERS, placement="free", total=4 * MEBIBYTE
    ),
    quick_share="about 12 s: 47 points, 4 MiB moved 10 times each",
    metrics=("throughput", "time_s", "cpu_s", "bytes", "writes", "reads", "capacity"),
    exclude=_impossible,
)


LATENCY = Experiment.of(
    "ipc.latency",
    "A message there and back",
    "How long does a round trip between two threads or processes take, and how much does it vary?",
    Design.of(
        20,
        10,
        size=(1, 64, KIBIBYTE, PAGE, 16 * KIBIBYTE, 64 * KIBIBYTE),
        channel=CHANNELS[:-1],
        mode=MODES[1:],
        placement=("free", "same", "other"),
        min_time_ns=50_000_000,
    ),
    quick=lambda full: full.replace(5, 5, min_time_ns=10_000_000, size=1, placement="free"),
    quick_share="about 3 s: 10 points, 10 ms of round trips 5 times each",
    metrics=("round_trip_ns", "mean_ns", "p90_ns", "p99_ns", "p999_ns", "cpu_ns", "voluntary"),
)

TRACE = Experiment.of(
    "ipc.trace",
    "Moving data, traced",
    "Which calls are made, what do they ask and get, how long do they take, and which side waits?",
    Design.of(
        14,
        7,
        buffer=TRACED,
        channel=CHANNELS,
        mode=MODES,
        sockbuf="default",
        total=16 * MEBIBYTE,
        tracer=("none", ALL_KINDS),
    ),
    workload="ipc.throughput",
    quick=lambda full: full.replace(10, 5, buffer=COMPARED, channel=("pipe", "local"), total=4 * MEBIBYTE),
    quick_share="about 8 s: 12 points with and without a tracer, 4 MiB moved 10 times each",
    metrics=("throughput", "time_s", "cpu_s", "bytes", "writes", "reads", "capacity"),
)

EFFECT = Experiment.of(
    "trace.effect",
    "Moving data under six tracers",
    "How much slower is the same work under each tracer, and which findings would have changed?",
    Design.of(
        14,
        7,
        buffer=TRACED,
        channel=("pipe", "local", "tcp", "shm"),
        mode="2proc",
        total=4 * MEBIBYTE,
        tracer=TRACERS,
    ),
    workload="ipc.throughput",
    quick=lambda full: full.replace(
        5, 5, buffer=COMPARED, channel=("pipe", "local"), total=MEBIBYTE, tracer=FEW_TRACERS
    ),
    quick_share="about 10 s: 4 points with two tracers and without, 1 MiB moved 5 times each",
    metrics=("throughput", "time_s", "cpu_s", "bytes", "writes", "reads"),
)

COST = Experiment.of(
    "trace.cost",
    "What a tracer adds to one system call",
    "How much longer does a system call that does nothing take under each tracer?",
    Design.of(100, 10, call="getppid", style="loop", tracer=TRACERS),
    workload="syscall.cost",
    quick=lambda full: full.replace(20, 5, tracer=FEW_TRACERS),
    quick_share="about 8 s: one call with two tracers and without, 20 samples each",
    metrics=("time_ns", "cycles"),
)

FAULT = Experiment.of(
    "trace.fault",
    "Page faults, timed and traced",
    "Which faults does touching a page make, and does their traced time agree with the touch?",
    Design.of(
        20,
        10,
        kind=("zero-page", "anonymous", "file", "file-major", "copy-on-write", "huge"),
        threads=(1, 2),
        size=64 * MEBIBYTE,
        tracer=("none", "faults"),
    ),
    workload="memory.fault",
    quick=lambda full: full.replace(5, 5, threads=1, size=4 * MEBIBYTE),
    quick_share="about 8 s: 6 kinds with and without a tracer, 4 MiB touched 5 times each",
    metrics=("time_ns", "faults_per_s", "faults", "major"),
)


LAB = Lab(
    name="ipc",
    title="IPC and tracing",
    document="a laboratory on pipes and sockets: buffers, calls and switches, traced, and the probe effect",
    experiments=(THROUGHPUT, LATENCY, TRACE, EFFECT, COST, FAULT),
    sections=Lazy(
        __name__,
        *("moving:PERFORMANCE", "moving:LATENCY", "returns", "moving:SOCKET_BUFFER", "calls:INSIDE"),
        *("moving:SWITCHING", "knee", "moving:THREADS", "calls:CALLS", "faults", "effect"),
    ),
    notebook="notebooks/ipc.ipynb",
)

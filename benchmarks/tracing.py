"""Tracing: its cost beside bpftrace's one-liner and strace, whether counts are exact and losses reported."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bars import Bar, Bench, Figure, Part, median, ratio
from measuring import PROBE, interleaved, measure, started
from oscope.probe.process import Probe
from oscope.trace import launch
from oscope.trace.bpf import BpfTracer, Room
from oscope.trace.tracer import Losses, Tracer, Tracing
from oscope.trace.tracers import make
from waiting import wait_until

CALLS = 100_000
ONE_LINER = Bar("null call: slow-down by --trace counts / by the bpftrace one-liner", most=1.1)
STRACE = Bar("null call: slow-down by --trace counts / by strace -c", most=0.0333, needs=("strace",))
COUNTED = {
    level: Bar(f"{CALLS:,} getppid, by {level}", "calls", CALLS, CALLS)
    for level in ("counts", "syscalls", "counts+syscalls+sched+faults")
}
MOVED = {
    (channel, mode): Bar(f"bytes and calls off the transfer's, {channel} {mode}", least=0, most=0)
    for channel, mode in (("pipe", "2proc"), ("local", "2thread"), ("pipe", "1thread"))
}
FULL_RING = Bar("a full ring is reported", "events lost", least=1)
FULL_MAP = Bar("a full map is reported", "updates lost", least=1)
TURNS = (10, 200)
ATTACHING = {
    (level, turns): Bar(f"attaching {level}, {turns} turns of points", "s", most=2)
    for level in ("counts", "syscalls", "syscalls+sched", "syscalls+sched+faults")
    for turns in TURNS
}
WRITES = ("write", "sendto")
READS = ("read", "recvfrom")


def null_call_ns(probe: Probe, iterations: int) -> float:
    """Median ns of a getppid in a loop."""
    samples = measure(
        probe, "syscall.cost", {"call": "getppid", "style": "loop"}, reps=7, iterations=iterations
    )
    return float(np.median([sample.metrics["time_ns"] for sample in samples]))


def untraced() -> float:
    """Ns of a call that nothing watches."""
    with started() as probe:
        return null_call_ns(probe, CALLS)


def by_level(level: str, iterations: int) -> float:
    """Ns of a call that a tracer of ours watches."""
    with started() as probe, attached(tracer_of(level), probe.pid):
        return null_call_ns(probe, iterations)


def tracer_of(level: str) -> Tracer:
    """Return the tracer of a level, not started."""
    tracer = make(level, PROBE, turns=4)
    if tracer is None:
        raise RuntimeError(f"{level} is no tracer")
    return tracer


@contextmanager
def attached(tracer: Tracer, pid: int) -> Iterator[list[Tracing]]:
    """Trace while the context lasts; what was found is in the list afterwards."""
    found: list[Tracing] = []
    try:
        tracer.start(pid)
        yield found
        found.append(tracer.stop())
    finally:
        tracer.kill()


def one_liner() -> float:
    """Ns of a call that the shortest bpftrace program of the same use counts."""
    with started() as probe, tempfile.NamedTemporaryFile() as out:
        program = f"tracepoint:raw_syscalls:sys_enter /pid == {probe.pid}/ {{ @[args->id] = count(); }}"
        # It needs tracefs, which may not be mounted.
        command = launch.command("bpftrace", "-f", "json", "-o", out.name, "-e", program)
        tracer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(
                lambda: b"attached_probes" in Path(out.name).read_bytes(), "bpftrace", tracer, limit_s=30
            )
            return null_call_ns(probe, CALLS)
        finally:
            # What it counted is not read: it may end as it likes.
            tracer.kill()
            tracer.wait(30)


def slow_down(bench: Bench) -> Iterator[Figure]:
    """Set the slow-down of a null call by our counting beside that by others."""
    sides = {"untraced": untraced, "counts": lambda: by_level("counts", CALLS), "one-liner": one_liner}
    if not STRACE.lacks:
        sides["strace -c"] = lambda: by_level("strace-count", 2000)
    values = interleaved(sides, bench.pick(1, 9, 15))

    def slower(name: str) -> list[float]:
        return [traced / plain for traced, plain in zip(values[name], values["untraced"], strict=True)]

    own = slower("counts")
    for name, bar in (("one-liner", ONE_LINER), ("strace -c", STRACE)):
        if name in values:
            text = f"{np.median(own):.2f} x and {np.median(slower(name)):.2f} x"
            text += f", untraced {np.median(values['untraced']):.0f} ns"
            yield ratio(bar, own, slower(name), text)


def exact(bench: Bench) -> Iterator[Figure]:
    """Count a known number of calls, and the bytes of a known transfer."""
    for level, bar in COUNTED.items():
        with started() as probe, attached(tracer_of(level), probe.pid) as found:
            measure(probe, "syscall.cost", {"call": "getppid", "style": "loop"}, reps=1, iterations=CALLS)
        yield Figure(bar, found[0].readings[1]["calls"]["getppid"]["count"])
    total = bench.pick(1, 16, 16) * 2**20 + 5
    for (channel, mode), bar in MOVED.items():
        with started() as probe, attached(tracer_of("syscalls"), probe.pid) as found:
            params = {"channel": channel, "mode": mode, "buffer": 5000, "total": total}
            (sample,) = measure(probe, "ipc.throughput", params, reps=1, warmup=1)
        calls = found[0].readings[1]["calls"]
        moved = {name: call["returned"] for name, call in calls.items() if call.get("returned")}
        claimed = [int(sample.metrics["writes"] or 0), int(sample.metrics["reads"] or 0)]
        seen = [sum(calls[name]["count"] for name in names if name in calls) for names in (WRITES, READS)]
        text = f"{moved} of {total} B; calls {seen}, by the probe {claimed}"
        # A side that is missing has moved nothing.
        sides = [*moved.values(), 0, 0][: max(2, len(moved))]
        yield Figure(
            bar,
            sum(abs(side - total) for side in sides)
            + sum(abs(one - other) for one, other in zip(seen, claimed, strict=True)),
            detail=text,
        )


def losses(_: Bench) -> Iterator[Figure]:
    """Force a ring and a map to overflow."""
    yield Figure(FULL_RING, overflowing("events", Room(4096, 1)).ring)
    yield Figure(FULL_MAP, sum(overflowing("syscalls", Room(4, 64)).map_full.values()))


def overflowing(kind: str, room: Room) -> Losses:
    """Return what a tracer with too little room lost."""
    tracer = BpfTracer(kind, (kind,), PROBE, room)
    with started() as probe, attached(tracer, probe.pid) as found:
        measure(probe, "syscall.cost", {"call": "getppid", "style": "loop"}, reps=1, iterations=CALLS)
    return found[0].losses


def attaching(bench: Bench) -> Iterator[Figure]:
    """Time how long a tracer takes to attach, once an experiment, for few turns and for many."""
    for (level, turns), bar in ATTACHING.items():
        times = [attach_and_detach_s(level, turns) for _ in range(bench.pick(1, 5, 9))]
        detach = np.median([detached for _, detached in times])
        text = f"{detach:.2f} s to detach and read"
        yield median(bar, [attached for attached, _ in times], text)


def attach_and_detach_s(level: str, turns: int) -> tuple[float, float]:
    """Seconds from the start of a tracer until it is ready, and from its stop until its findings are read."""
    tracer = make(level, PROBE, turns=turns)
    if tracer is None:
        raise RuntimeError(f"{level} is no tracer")
    with started() as probe:
        begun = time.monotonic()
        try:
            tracer.start(probe.pid)
            ready = time.monotonic()
            tracer.stop()
        finally:
            tracer.kill()
        return ready - begun, time.monotonic() - ready


PARTS = (
    Part(
        "How many times as long a getppid takes under our tracer, over the same under another; interleaved "
        "rounds, a fresh process and tracer each.",
        (ONE_LINER, STRACE),
        slow_down,
        short_s=45,
        full_s=100,
        needs=("bpftrace",),
        root=True,
    ),
    Part(
        "Calls of a known number, and bytes and calls of a known transfer, as the tracer counts them.",
        (*COUNTED.values(), *MOVED.values()),
        exact,
        short_s=20,
        full_s=25,
        needs=("bpftrace",),
        root=True,
    ),
    Part(
        "What a tracer with too little room for 100,000 calls reports as lost.",
        (FULL_RING, FULL_MAP),
        losses,
        short_s=8,
        full_s=10,
        needs=("bpftrace",),
        root=True,
    ),
    Part(
        "Seconds from the start of a tracer until it is ready.",
        tuple(ATTACHING.values()),
        attaching,
        short_s=75,
        full_s=200,
        needs=("bpftrace",),
        root=True,
    ),
)

"""Tracing: its cost beside bpftrace's own one-liner and strace, whether counts are exact and losses told."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bars import PROBE, Bar, interleaved, measure, ratio
from oscope.probe import Probe
from oscope.trace import launch
from oscope.trace.bpf import BpfTracer, Room
from oscope.trace.tracer import Tracer, Tracing
from oscope.trace.tracers import make

ROUNDS = 9
CALLS = 100_000


def null_call_ns(probe: Probe, iterations: int) -> float:
    """Median ns of a getppid in a loop."""
    samples = measure(
        probe, "syscall.cost", {"call": "getppid", "style": "loop"}, reps=7, iterations=iterations
    )
    return float(np.median([sample.metrics["time_ns"] for sample in samples]))


def untraced() -> float:
    """Ns of a call that nothing watches."""
    with Probe(PROBE) as probe:
        return null_call_ns(probe, CALLS)


def by_level(level: str, iterations: int) -> float:
    """Ns of a call that a tracer of ours watches."""
    with Probe(PROBE) as probe, attached(tracer_of(level), probe.pid):
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
    with Probe(PROBE) as probe, tempfile.NamedTemporaryFile() as out:
        program = f"tracepoint:raw_syscalls:sys_enter /pid == {probe.pid}/ {{ @[args->id] = count(); }}"
        # It needs tracefs, which may not be mounted.
        command = launch.command("bpftrace", "-f", "json", "-o", out.name, "-e", program)
        tracer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: b"attached_probes" in Path(out.name).read_bytes())
            return null_call_ns(probe, CALLS)
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(30)


def wait_for(happened: Any) -> None:
    """Wait up to 30 s."""
    end = time.monotonic() + 30
    while not happened():
        if time.monotonic() > end:
            raise RuntimeError("bpftrace did not attach")
        time.sleep(0.01)


def slow_down() -> Iterator[Bar]:
    """Set the slow-down of a null call by our counting beside that by others."""
    values = interleaved(
        {
            "untraced": untraced,
            "counts": lambda: by_level("counts", CALLS),
            "one-liner": one_liner,
            "strace -c": lambda: by_level("strace-count", 2000),
        },
        ROUNDS,
    )
    own = [traced / plain for traced, plain in zip(values["counts"], values["untraced"], strict=True)]
    for name, title, bound in (
        ("one-liner", "null call: slow-down by --trace counts / by the bpftrace one-liner", 1.1),
        ("strace -c", "null call: slow-down by --trace counts / by strace -c", 1 / 30),
    ):
        other = [traced / plain for traced, plain in zip(values[name], values["untraced"], strict=True)]
        middle, low, high = ratio(own, other)
        text = (
            f"{middle:.3g} [{low:.3g}, {high:.3g}]; {np.median(own):.2f} x and {np.median(other):.2f} x, "
            f"{ROUNDS} rounds, untraced {np.median(values['untraced']):.0f} ns"
        )
        yield Bar(title, text, f"at most {bound:.3g}", met=middle <= bound)


def exact() -> Iterator[Bar]:
    """Count a known number of calls, and the bytes of a known transfer."""
    counted = []
    for level in ("counts", "syscalls", "counts+syscalls+sched+faults"):
        with Probe(PROBE) as probe, attached(tracer_of(level), probe.pid) as found:
            measure(probe, "syscall.cost", {"call": "getppid", "style": "loop"}, reps=1, iterations=CALLS)
        counted.append(found[0].readings[1]["calls"]["getppid"]["count"])
    text = ", ".join(f"{count:,}" for count in counted)
    yield Bar(
        "100,000 getppid by counts, syscalls, all kinds", text, "100,000 each", met=set(counted) == {CALLS}
    )
    for channel, mode in (("pipe", "2proc"), ("local", "2thread"), ("pipe", "1thread")):
        total = 16 * 2**20 + 5
        with Probe(PROBE) as probe, attached(tracer_of("syscalls"), probe.pid) as found:
            params = {"channel": channel, "mode": mode, "buffer": 5000, "total": total}
            (sample,) = measure(probe, "ipc.throughput", params, reps=1, warmup=1)
        calls = found[0].readings[1]["calls"]
        moved = {name: call["returned"] for name, call in calls.items() if call.get("returned")}
        told = int(sample.metrics["writes"] or 0), int(sample.metrics["reads"] or 0)
        seen = [sum(calls[name]["count"] for name in names if name in calls) for names in (WRITES, READS)]
        text = f"{moved} of {total} B; calls {seen}, by the probe {told}"
        met = sorted(moved.values()) == [total, total] and tuple(seen) == told
        yield Bar(f"bytes by return values, {channel} {mode}", text, "both sides the total", met=met)


WRITES = ("write", "sendto")
READS = ("read", "recvfrom")


def losses() -> Iterator[Bar]:
    """Force a ring and a map to overflow."""
    for name, kind, room, lost_by in (
        ("a full ring is told", "events", Room(4096, 1), lambda lost: lost.ring),
        ("a full map is told", "syscalls", Room(4, 64), lambda lost: sum(lost.map_full.values())),
    ):
        tracer = BpfTracer(kind, (kind,), PROBE, room)
        with Probe(PROBE) as probe, attached(tracer, probe.pid) as found:
            measure(probe, "syscall.cost", {"call": "getppid", "style": "loop"}, reps=1, iterations=CALLS)
        lost = lost_by(found[0].losses)
        yield Bar(name, f"{lost:,} lost", "more than 0", met=lost > 0)


def attaching() -> Iterator[Bar]:
    """Time how long a tracer takes to attach, once an experiment, for few turns and for many."""
    for level in ("counts", "syscalls", "syscalls+sched", "syscalls+sched+faults"):
        for turns in (10, 200):
            times = [attach_and_detach_s(level, turns) for _ in range(5)]
            attach, detach = np.median(times, axis=0)
            yield Bar(
                f"attaching {level}, {turns} turns of points",
                f"{attach:.2f} s, and {detach:.2f} s to detach and read; medians of 5",
                "at most 2 s",
                met=attach <= 2,
            )


def attach_and_detach_s(level: str, turns: int) -> tuple[float, float]:
    """Seconds from the start of a tracer until it is ready, and from its stop until its findings are read."""
    tracer = make(level, PROBE, turns=turns)
    if tracer is None:
        raise RuntimeError(f"{level} is no tracer")
    with Probe(PROBE) as probe:
        begun = time.monotonic()
        try:
            tracer.start(probe.pid)
            ready = time.monotonic()
            tracer.stop()
        finally:
            tracer.kill()
        return ready - begun, time.monotonic() - ready


def bars() -> Iterator[Bar]:
    """Everything of this module."""
    yield from slow_down()
    yield from exact()
    yield from losses()
    yield from attaching()

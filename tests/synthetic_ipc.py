"""Invented results of the IPC lab with known causes in them, for tests of what reads results.

Time of a MiB by buffers of b bytes through a channel that holds c: calls * CALL_S + COPY_S, over the
channel's and the mode's speed, where each call moves min(b, c). So no buffer beyond c helps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import synthetic
from oscope.labs.ipc import ALL_KINDS, CHANNELS, COMPARED, DOCUMENTED, MODES, SOCKETS, TRACERS
from oscope.model.factors import Level
from oscope.model.samples import Column, ExperimentResults, PointSamples, Results
from synthetic import every
from synthetic_disk import MEBIBYTE, Maker, columns, results

SIZES = (256, 4096, 16384, 65536, 131072, MEBIBYTE)
CALL_S, COPY_S = 2e-6, 100e-6
CAPACITY = dict(zip(CHANNELS, (65536, 131072, 131072, 131072, 262144, 65536), strict=True))
SPEED = dict(zip(CHANNELS, (1.0, 0.8, 0.7, 0.5, 6.0, 2.0), strict=True))
MODE_SPEED = {"1thread": 1.0, "2thread": 0.9, "2proc": 0.8}
SWITCHES = 4.0
"""Voluntary switches of a side for a MiB, times the capacities in a MiB."""
SPINNING = "shm"
"""Keeps two CPUs busy; the others one."""
IN_CALLS = 0.7
"""Share of each side's time in system calls."""
TOTAL = 4 * MEBIBYTE
TRACED = 1.25
"""Time under `ALL_KINDS` over time without."""
SLOW: Mapping[str, float] = dict(zip(TRACERS, (1.0, 1.05, 1.1, 1.4, 2.0, 8.0, 20.0), strict=True))
CALL_NS = 100.0
TOUCH_NS = {
    "zero-page": 250.0,
    "anonymous": 500.0,
    "file": 400.0,
    "file-major": 80_000.0,
    "copy-on-write": 700.0,
    "huge": 90_000.0,
}
FAULT_KINDS = {"zero-page": "zero-fill", "anonymous": "zero-fill", "copy-on-write": "copy-on-write"}
SIDES = tuple(
    f"{side}_{name}"
    for side in ("sender", "receiver")
    for name in ("voluntary", "involuntary", "user_s", "system_s")
)
MOVED = columns("throughput", "time_s", "cpu_s") + tuple(
    Column(name, "B" if name in ("bytes", "capacity") else "s" if name.endswith("_s") else "1", name, None)
    for name in ("bytes", "writes", "reads", "short_writes", "short_reads", "refusals", *SIDES, "capacity")
)

Slow = Callable[[str, str, int], float]
"""Slow-down by tracer, channel and buffer."""


def capacity(factors: Mapping[str, Level]) -> int:
    """Return what the channel holds; with -s twice the buffer."""
    own = factors.get("sockbuf") == "buffer"
    return 2 * int(factors["buffer"]) if own else CAPACITY[str(factors["channel"])]


def calls_per_mebibyte(factors: Mapping[str, Level]) -> float:
    """Return the writes, or the reads, for a MiB."""
    return MEBIBYTE / min(int(factors["buffer"]), capacity(factors))


def moving(maker: Maker, factors: Mapping[str, Level], slow: float = 1.0, **changes: Any) -> PointSamples:
    """Return a point of `ipc.throughput`, `slow` times as slow as the model says."""
    channel, mode = str(factors["channel"]), str(factors["mode"])
    calls = calls_per_mebibyte(factors)
    time = (2 * calls * CALL_S + COPY_S) / SPEED[channel] / MODE_SPEED[mode] * slow * maker.spread()
    mebibytes = int(factors["total"]) / MEBIBYTE
    busy = 2.0 if channel == SPINNING else 1.0
    short = calls if capacity(factors) < int(factors["buffer"]) else 0.0
    alone = mode == "1thread"
    switches = 0.0 if alone else SWITCHES * MEBIBYTE / capacity(factors)
    side = {
        "voluntary": switches * mebibytes,
        "involuntary": 0 if alone else 1,
        "user_s": 0.1 * time * mebibytes,
        "system_s": 0.6 * time * mebibytes,
    }
    metrics = {
        "throughput": 1 / time,
        "time_s": time * mebibytes,
        "cpu_s": busy * time * mebibytes,
        "bytes": int(factors["total"]),
        "writes": calls * mebibytes,
        "reads": calls * mebibytes,
        "short_writes": short * mebibytes,
        "short_reads": short * mebibytes,
        "refusals": (calls if alone and short else 0) * mebibytes,
        **{f"sender_{name}": values for name, values in side.items()},
        **{f"receiver_{name}": values * (np.nan if alone else 1) for name, values in side.items()},
        "capacity": capacity(factors),
    }
    return maker.point(factors, metrics, **changes)


def _surveyed(factors: Mapping[str, Level]) -> bool:
    """Say whether the quick survey measures this point."""
    plain = factors["sockbuf"] == "default"
    if factors["channel"] in DOCUMENTED:
        return plain or factors["channel"] in SOCKETS
    return plain and factors["mode"] == "2proc"


def throughput(seed: int = 20, blocks: int = 5, sizes: tuple[int, ...] = SIZES) -> ExperimentResults:
    """`ipc.throughput`: as in the quick survey."""
    maker = Maker(seed, blocks)
    own = {"sockbuf": ("default", "buffer"), "placement": "free", "total": TOTAL}
    factors = every(buffer=sizes, channel=tuple(SPEED), mode=MODES, **own)
    points = [moving(maker, each) for each in factors if _surveyed(each)]
    return results("ipc.throughput", points, MOVED)


def latency(seed: int = 21) -> ExperimentResults:
    """`ipc.latency`: shm quickest, tcp slowest with a long tail."""
    maker = Maker(seed)
    middles = {"pipe": 6000.0, "local": 7000.0, "seqpacket": 7500.0, "tcp": 20_000.0, "shm": 5000.0}
    points = []
    for factors in every(size=1, channel=tuple(middles), mode=MODES[1:], placement="free"):
        time = middles[str(factors["channel"])] * maker.spread()
        tail = 9.0 if factors["channel"] == "tcp" else 3.0
        metrics = {
            "round_trip_ns": time,
            "mean_ns": 1.1 * time,
            "p90_ns": 1.5 * time,
            "p99_ns": tail * time,
            "p999_ns": np.nan,
            "max_ns": 20 * time,
            "cpu_ns": time,
            "voluntary": 2.0,
        }
        points.append(maker.point(factors, metrics))
    return results("ipc.latency", points)


def _histogram(middle_ns: float, count: int) -> list[list[int]]:
    """Return nine tenths of `count` in the bin of `middle_ns` and the rest three bins above."""
    low = 1 << int(np.log2(middle_ns))
    most = round(0.9 * count)
    return [[low, 2 * low - 1, most], [8 * low, 16 * low - 1, count - most]]


def _futex(calls: int) -> dict[str, Any]:
    """Return waits and wakes of which a quarter find nobody, and one returns something odd."""
    none = calls // 4
    results = [[0, 0, none], [1, 1, calls - none - 2], [4096, 8191, 1]]
    return {"count": calls, "errors": {"EINTR": 1}, "time_ns": calls, "results": results}


def reading(point: PointSamples, block: int, reps: int = 2) -> dict[str, Any]:
    """Return what a tracer of all kinds finds at a point of `moving` in one block."""
    factors = point.factors
    buffer, mode = int(factors["buffer"]), str(factors["mode"])
    calls = round(calls_per_mebibyte(factors) * int(factors["total"]) / MEBIBYTE) * reps
    region_ns = float(point.metrics["time_s"][block]) * 1e9 * reps
    sides = 1 if mode == "1thread" else 2
    processes = 2 if mode == "2proc" else 1
    each = IN_CALLS * region_ns * sides / 2 / calls
    moved = min(buffer, capacity(factors))
    refused = calls if mode == "1thread" and moved < buffer else 0
    call = {
        "count": calls + refused,
        "errors": {"EAGAIN": refused} if refused else {},
        "time_ns": round(each * calls),
        "times": _histogram(each, calls + refused),
        "asked": buffer * (calls + refused),
        "returned": moved * calls,
        "short": calls if moved < buffer else 0,
        "sizes": [[moved, calls]],
    }
    switches = round(SWITCHES * sides * calls) if sides == 2 else 0
    row = {"access": "write", "present": False, "by": "user"}
    return {
        "tracer": ALL_KINDS,
        "block": block,
        "reps": reps,
        "losses": {"ring": 0, "map_full": {}, "recursion": 0},
        "regions": reps * processes,
        "region_ns": round(region_ns * processes),
        "calls": {
            "read": call,
            "write": {**call, "errors": {}, "count": calls, "asked": buffer * calls},
            **({"futex": _futex(switches)} if switches else {}),
        },
        "switches": {
            "voluntary": switches,
            "involuntary": 0,
            "migrations": 1,
            "wakeups": switches,
            "wakeup_ns": _histogram(3000.0, switches) if switches else [],
        },
        "faults": [
            {**row, "class": known, "kind": kind, "count": n, "time_ns": n * ns, "times": _histogram(ns, n)}
            for known, kind, n, ns in (("anonymous", "zero-fill", 90, 500), ("file", "file", 10, 900))
        ],
        "fault_rate": [[0, 99_999, 60], [100_000, 199_999, 40]],
    }


def trace(seed: int = 22, traced: float = TRACED) -> ExperimentResults:
    """`ipc.trace`: everything takes `traced` times as long with the tracer."""
    maker = Maker(seed)
    points = []
    own = {"sockbuf": "default", "total": TOTAL}
    for factors in every(buffer=COMPARED, channel=("pipe", "local"), mode=MODES, **own):
        points.append(moving(maker, {**factors, "tracer": "none"}))
        point = moving(maker, {**factors, "tracer": ALL_KINDS}, traced)
        readings = tuple(reading(point, block) for block in range(maker.blocks))
        points.append(dataclasses.replace(point, traces=readings))
    return results("ipc.trace", points, MOVED)


def evenly(tracer: str, _channel: str, _buffer: int) -> float:
    """Slow every channel and size down alike."""
    return SLOW[tracer]


def effect(seed: int = 23, slow: Slow = evenly, blocks: int = 5) -> ExperimentResults:
    """`trace.effect`: two channels, two sizes, slowed down by `slow`."""
    maker = Maker(seed, blocks)
    factors = every(buffer=COMPARED, channel=("pipe", "local"), mode="2proc", total=MEBIBYTE, tracer=TRACERS)
    points = [
        moving(maker, each, slow(str(each["tracer"]), str(each["channel"]), int(each["buffer"])))
        for each in factors
    ]
    return results("trace.effect", points, MOVED)


def cost(seed: int = 24) -> ExperimentResults:
    """`trace.cost`: a null call of `CALL_NS`, slowed down by `SLOW`."""
    maker = Maker(seed)
    points = []
    for factors in every(call="getppid", style="loop", tracer=TRACERS):
        time = CALL_NS * SLOW[str(factors["tracer"])] * maker.spread()
        points.append(maker.point(factors, {"time_ns": time, "cycles": time * synthetic.HZ / 1e9}))
    return results("trace.cost", points, (synthetic.TIME, synthetic.CYCLES))


def fault(seed: int = 25, traced: Mapping[str, float] | None = None) -> ExperimentResults:
    """`trace.fault`: each kind timed, and traced with a handler of `traced` times the touch, else 0.9."""
    maker = Maker(seed)
    points = []
    for kind, touch in TOUCH_NS.items():
        for tracer in ("none", "faults"):
            time = touch * maker.spread() * (1.3 if tracer == "faults" else 1.0)
            metrics = {
                "time_ns": time,
                "faults_per_s": 1e9 / time,
                "faults": 4096,
                "major": 4096 if kind == "file-major" else 0,
            }
            factors = {"kind": kind, "threads": 1, "size": 16 * MEBIBYTE, "tracer": tracer}
            readings = []
            if tracer == "faults":
                each = touch * (traced or {}).get(kind, 0.9)
                row = {
                    "class": "file" if kind.startswith("file") else "anonymous",
                    "access": "write" if kind in ("anonymous", "copy-on-write") else "read",
                    "present": kind == "copy-on-write",
                    "by": "user",
                    "kind": FAULT_KINDS.get(kind, "file"),
                    "count": 4096,
                    "time_ns": round(4096 * each),
                    "times": _histogram(each, 4096),
                }
                readings = [
                    {
                        "tracer": "faults",
                        "block": block,
                        "reps": 1,
                        "losses": {"ring": 0, "map_full": {}, "recursion": 0},
                        "regions": 1,
                        "region_ns": round(4096 * touch * 1.3),
                        "faults": [row],
                        "fault_rate": [[0, 999_999, 4000], [1_000_000, 1_999_999, 96]],
                    }
                    for block in range(maker.blocks)
                ]
            points.append(maker.point(factors, metrics, traces=tuple(readings)))
    return results("trace.fault", points)


def survey() -> Results:
    """All experiments of the lab."""
    return Results((throughput(), latency(), trace(), effect(), cost(), fault()))


sections = synthetic.sections_of("ipc")

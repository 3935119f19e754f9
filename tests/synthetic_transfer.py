"""Invented results of the transfer lab with known causes in them, for tests of what reads results.

Time of an execution: START_NS + FILE_NS for each file beyond the first + bytes at the speed of the way. mmap
is slower to set up and faster a byte, so that it wins from `CROSSING` on; zeros and random bytes take the
same.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

import synthetic
import synthetic_instructions
from oscope import labs
from oscope.labs.transfer import ALL_KINDS, RETRY_S, SIZES, pair
from oscope.labs.transfer.ways import way
from oscope.model.experiment import Design
from oscope.model.factors import Condition, Level, meaningful
from oscope.model.samples import Column, ExperimentResults, PointSamples, Results
from oscope.originals.sizes import SMALL
from synthetic_disk import Maker

KIBIBYTE, MEBIBYTE, GIBIBYTE = 1 << 10, 1 << 20, 1 << 30
START_NS = 200_000.0
FILE_NS = 10_000.0
SETUP_NS = {"mmap": 40_000.0}
"""What a method needs before the first byte, beyond the others."""
SPEED = {
    "readwrite": 1.0,
    "mmap": 2.0,
    "sendfile": 1.6,
    "splice": 1.5,
    "zerocopy": 1.2,
    "uring": 1.1,
    "fcntl": 0.5,
}
"""GiB/s of a side."""
CROSSING = MEBIBYTE
"""The first of the lab's sizes at which mmap is the faster way on both sides."""
DIGEST_TAKES = {"blake3": 0.1, "sha512": 0.6, "none": 0.0}
"""Share of the throughput."""
CPU_S = 0.4
"""CPU seconds a GiB of a side, over its speed."""
ACKNOWLEDGEMENT_NS = 40e6
MEETING_NS = 150_000.0
ROUNDS = 6.0
LOSS_ROUNDS = 20.0
"""Further round trips for a thousandth lost."""
TRACED = 1.2
CONDITIONS = {
    "size": (Condition("sizes", ("equal",)),),
    "late": (Condition("meeting", ("retry", "receiver-retry")),),
}
"""As the probe describes its workloads, of the factors of these experiments."""
DEFAULTS: Mapping[str, Level] = {"sizes": "equal", "meeting": "ready"}


def _columns(*names: str) -> tuple[Column, ...]:
    """Return metrics with the units that their names end in; more bytes are neither better nor worse."""
    ends = {"_ns": "ns", "bytes": "B", "bytes_per_s": "B/s", "_s_per_gib": "s/GiB"}
    units = {name: next((unit for end, unit in ends.items() if name.endswith(end)), "1") for name in names}
    better: dict[str, str | None] = {"bytes": None, "bytes_per_s": "more"}
    return tuple(
        Column(name, unit, name.replace("_", " "), better.get(name, "less")) for name, unit in units.items()
    )


METRICS = _columns(
    *("time_ns", "receiver_time_ns", "bytes", "bytes_per_s", "calls", "receiver_calls", "switches"),
    *("receiver_switches", "cpu_s_per_gib", "receiver_cpu_s_per_gib", "wait_ns"),
)
DEVICE_METRICS = _columns(
    *("time_ns", "sender_time_ns", "bytes", "bytes_per_s", "calls", "sender_calls", "minflt")
)


def moved(factors: Mapping[str, Level]) -> int:
    """Return the bytes of an execution."""
    files = int(factors.get("files", 1))
    if factors.get("sizes") == "document":
        return sum(SMALL[5:]) if files == 5 else sum(SMALL[:files])
    if factors.get("sizes") == "large":
        return sum(SIZES[:files])
    return files * int(factors.get("size", MEBIBYTE))


def time_ns(factors: Mapping[str, Level], methods: tuple[str, ...], side: str) -> float:
    """Return the time of a side that uses the first of `methods`, the slower of them setting the pace."""
    slowest = min(SPEED[each] for each in methods) * (1 - DIGEST_TAKES[str(factors.get("digest", "blake3"))])
    setup = sum(SETUP_NS.get(each, 0.0) for each in methods)
    files = int(factors.get("files", 1))
    found = START_NS + setup + (files - 1) * FILE_NS + moved(factors) / slowest / GIBIBYTE * 1e9
    return found if side == "sender" else found - START_NS / 2


def _line_ns(factors: Mapping[str, Level]) -> float:
    """Return what the line adds."""
    rate, delay = float(factors.get("rate", 0)), float(factors.get("delay", 0.0))
    rounds = ROUNDS + LOSS_ROUNDS * int(factors.get("loss", 0))
    return ((moved(factors) / rate if rate else 0.0) + 2 * delay * rounds) * 1e9


def _slept_ns(factors: Mapping[str, Level]) -> float:
    """Return what the side that is refused sleeps."""
    if factors.get("meeting", "ready") == "ready":
        return 0.0
    return math.ceil(float(factors["late"]) / RETRY_S) * RETRY_S * 1e9


def _waited_ns(factors: Mapping[str, Level]) -> float:
    """Return what the receiver waits for the sender, from its own coming."""
    late = float(factors["late"]) * 1e9 if factors.get("meeting") == "retry" else 0.0
    return _slept_ns(factors) - late


def copied(maker: Maker, factors: Mapping[str, Level]) -> PointSamples:
    """Return a point of `transfer.copy`."""
    methods = pair(factors)
    waited = _waited_ns(factors)
    wait = _slept_ns(factors) + MEETING_NS if "meeting" in factors else 0.0
    small = factors.get("writes") == "small"
    extra = _line_ns(factors) + ACKNOWLEDGEMENT_NS * int(factors.get("files", 1)) * small
    traced = TRACED if factors.get("tracer", "none") != "none" else 1.0
    size, spread = moved(factors), maker.spread()
    sender = (time_ns(factors, methods, "sender") + extra) * spread * traced + wait
    receiver = (time_ns(factors, methods, "receiver") + extra) * spread * traced + waited
    calls = [size / (64 * KIBIBYTE) + 10 if name == "readwrite" else 12.0 for name in methods]
    metrics = {
        "time_ns": sender,
        "receiver_time_ns": receiver,
        "bytes": size,
        "bytes_per_s": size / (sender / 1e9),
        "calls": calls[0],
        "receiver_calls": calls[1],
        "switches": 8.0 + size / MEBIBYTE,
        "receiver_switches": 9.0 + size / MEBIBYTE,
        "cpu_s_per_gib": CPU_S / SPEED[methods[0]] * maker.spread(),
        "receiver_cpu_s_per_gib": CPU_S / SPEED[methods[1]] * maker.spread(),
        "wait_ns": wait * maker.spread() if wait else np.nan,
    }
    shaped = any(factors.get(name) for name in ("rate", "delay", "loss"))
    notes = ("each direction of the link: as asked (netem)",) if shaped else ()
    return maker.point(factors, metrics, notes=notes)


def driven(maker: Maker, factors: Mapping[str, Level]) -> PointSamples:
    """Return a point of `transfer.device`."""
    method, size, spread = str(factors["method"]), moved(factors), maker.spread()
    receiver = time_ns(factors, (method,), "receiver") * spread
    calls = size / (4 * KIBIBYTE) + 4 if method == "fcntl" else size / (2 * MEBIBYTE) + 4
    metrics = {
        "time_ns": receiver,
        "sender_time_ns": receiver + START_NS,
        "bytes": size,
        "bytes_per_s": size / (receiver / 1e9),
        "calls": calls,
        "sender_calls": calls + 2,
        "minflt": 40.0 if method == "fcntl" else 600.0,
    }
    return maker.point(factors, metrics)


def designed(name: str, design: Design) -> list[dict[str, Level]]:
    """Return the points that an experiment has by this design."""
    names = tuple(design.factors)
    every = (dict(zip(names, levels, strict=True)) for levels in itertools.product(*design.factors.values()))
    own = dict.fromkeys(tuple(meaningful(point, CONDITIONS, DEFAULTS).items()) for point in every)
    product = [dict(point) for point in own]
    assert labs.experiment(name).exclude is None
    return [point for point in product if design.omit is None or not design.omit(point)]


def experiment(name: str, seed: int = 0, **levels: Iterable[Level]) -> ExperimentResults:
    """Return every point of an experiment's full design, with other levels of some factors."""
    maker = Maker(seed)
    device = labs.experiment(name).workload == "transfer.device"
    make, metrics = (driven, DEVICE_METRICS) if device else (copied, METRICS)
    full = labs.experiment(name).full
    factors = {each: tuple(levels.get(each, own)) for each, own in full.factors.items()}
    points = [make(maker, each) for each in designed(name, dataclasses.replace(full, factors=factors))]
    made = synthetic._results(name, tuple(points), metrics, "time_ns = raw - correction")
    environment = {**made.environment, "cpu": {**made.environment["cpu"], "allowed": [0, 1, 2, 3]}}
    workload = labs.experiment(name).workload
    made = dataclasses.replace(
        made, workload=workload, environment=environment, conditions=CONDITIONS, defaults=DEFAULTS
    )
    if device:
        environment = synthetic_instructions.guest("base", clock="wall")
        made = dataclasses.replace(made, environment={**environment, "clock": synthetic.ENVIRONMENT["clock"]})
    return with_traces(made) if name == "transfer.trace" else made


def with_traces(made: ExperimentResults) -> ExperimentResults:
    """Return the results with a reading at each traced point: half of the time in one call, 0.6 in futex."""
    points = [
        dataclasses.replace(point, traces=(_reading(point),))
        if point.factors.get("tracer") == ALL_KINDS
        else point
        for point in made.points
    ]
    return dataclasses.replace(made, points=tuple(points))


def _reading(point: PointSamples) -> dict[str, Any]:
    reps = len(point)
    region = int(point.metrics["time_ns"].sum())
    name = "sendfile" if way(point.factors).startswith("sendfile") else "write"
    count = {"count": 160 * reps, "time_ns": region // 2, "asked": 10 * MEBIBYTE, "returned": 10 * MEBIBYTE}
    waits = {"count": reps, "time_ns": region // 4, "asked": 0, "returned": 0, "short": 0, "errors": {}}
    return {
        "tracer": ALL_KINDS,
        "block": 0,
        "reps": reps,
        "regions": reps,
        "region_ns": region,
        "losses": {"ring": 0, "map_full": {}, "recursion": 0},
        "calls": {
            name: {**count, "short": 0, "errors": {}},
            "read": waits,
            "futex": {**waits, "time_ns": region * 6 // 10},
        },
        "switches": {
            "voluntary": 20 * reps,
            "involuntary": reps,
            "migrations": 0,
            "wakeups": 20 * reps,
            "wakeup_ns": [[4096, 8191, 15 * reps], [8192, 16383, 5 * reps]],
        },
        "faults": [],
    }


def survey() -> Results:
    """All experiments of the lab."""
    return Results(tuple(experiment(each.name) for each in labs.lab("transfer").experiments))


sections = synthetic.sections_of("transfer")

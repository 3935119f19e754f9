"""Invented results of the disk lab with known causes in them, for tests of what reads results.

Time of a MiB read by blocks of b bytes: calls * (CALL_S + FILE_S) + 1 / COPY + OTHER_S; cold also WAIT_S.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import synthetic
from oscope.labs.disk import FEW_POWERS, FEW_XOR_POWERS
from oscope.model.factors import Level
from oscope.model.samples import Column, ExperimentResults, PointSamples, Results
from synthetic import every

MEBIBYTE = 1 << 20
CALL_S = 240e-9
"""As in `synthetic.COST_NS`."""
FILE_S = 160e-9
"""What a file adds to a call."""
COPY = 10_000.0
"""MiB/s."""
OTHER_S = 20e-6
WAIT_S = 600e-6
BLOCKS = 5
WORD = 0x00C0FFEE

COLD_NOTES = (
    "cold: drop_caches=3, then cachestat found 0 of 16384 pages",
    "a scratch file: ext4 on /dev/vda (virtio_blk); the hypervisor (kvm) may cache as well",
)


def columns(*names: str) -> tuple[Column, ...]:
    """Return metrics with the units that their names end in; what is a speed is better when more."""
    return tuple(
        Column(
            name,
            UNITS.get(name) or next((unit for end, unit in ENDINGS.items() if name.endswith(end)), "1"),
            name.replace("_", " "),
            "more" if name in ("throughput", "bytes") else "less",
        )
        for name in names
    )


UNITS = {"throughput": "MiB/s", "calls": "calls"}
ENDINGS = {"_per_s": "1/s", "_ns": "ns", "_s": "s", "bytes": "B"}


class Maker:
    """Makes points of `BLOCKS` processes, a sample each, that differ by 1 %."""

    def __init__(self, seed: int = 0, blocks: int = BLOCKS) -> None:
        self.generator = np.random.default_rng(seed)
        self.timed = synthetic.Maker(seed)
        self.blocks = blocks

    def spread(self) -> np.ndarray:
        """Return a factor for each sample, near 1."""
        return self.generator.lognormal(0, 0.01, self.blocks)

    def point(
        self, factors: Mapping[str, Level], metrics: Mapping[str, np.ndarray | float], **changes: Any
    ) -> PointSamples:
        """Return a point with these metrics; one figure is that of all samples."""
        timed = self.timed.point(factors, 1e6, reps=self.blocks, blocks=self.blocks)
        n = self.blocks
        full = {name: np.broadcast_to(np.asarray(each, float), n).copy() for name, each in metrics.items()}
        return dataclasses.replace(timed, metrics=full, **changes)


def results(
    name: str, points: list[PointSamples], metrics: tuple[Column, ...] | None = None
) -> ExperimentResults:
    """Return the points as results of the experiment `name`, with these metrics or those that they have."""
    metrics = metrics or columns(*points[0].metrics)
    return synthetic._results(name, tuple(points), metrics, "time_s = (raw - correction) / hz")


def seconds_per_mib(block_size: int, cache: str) -> tuple[float, float]:
    """Return time and CPU time of a MiB."""
    cpu = MEBIBYTE / block_size * (CALL_S + FILE_S) + 1 / COPY + OTHER_S
    return cpu + (WAIT_S if cache == "cold" else 0.0), cpu


def reading(maker: Maker, factors: Mapping[str, Level], speed: float = 1.0) -> PointSamples:
    """Return a point of `disk.read`, `speed` times as fast as the model says."""
    block_size, cache, size = int(factors["block_size"]), str(factors["cache"]), int(factors["size"])
    time, cpu = seconds_per_mib(block_size, cache)
    spread = maker.spread() / speed
    mebibytes = size / MEBIBYTE
    metrics = {
        "throughput": 1 / (time * spread),
        "time_s": time * spread * mebibytes,
        "bytes": size,
        "calls": size / block_size + 1,
        "cpu_s": cpu * spread * mebibytes,
        "xor": WORD if factors.get("work") == "xor" else np.nan,
        "resident": 0.0 if cache == "cold" else 1.0,
        "earlier_reads": maker.generator.integers(1, 30, maker.blocks),
    }
    return maker.point(factors, metrics, notes=COLD_NOTES if cache == "cold" else ())


ENGINE_SPEEDS = {"read": 1.0, "pread": 1.0, "mmap": 0.8, "direct": 0.5, "uring": 1.5}


def read(seed: int = 10, first: float = 1.0, blocks: int = BLOCKS) -> ExperimentResults:
    """`disk.read`; the first read of the file in each block is `first` times as fast as later ones."""
    maker = Maker(seed, blocks)
    points = []
    for engine, speed in ENGINE_SPEEDS.items():
        for block_size in FEW_POWERS if engine == "read" else (8192, 524288):
            for cache in ("cold", "warm") if engine in ("read", "pread", "mmap") else ("cold",):
                varied = {"block_size": block_size, "cache": cache, "engine": engine, "threads": 1}
                factors = {**varied, "queue_depth": 32, "size": 64 * MEBIBYTE, "longest": 0.3}
                points.append(reading(maker, factors, speed))
    cold = [point for point in points if point.factors["cache"] == "cold"]
    for block in range(blocks):
        metrics = cold[block % len(cold)].metrics
        metrics["earlier_reads"][block] = 0
        metrics["throughput"][block] *= first
    return results("disk.read", points)


def xor(seed: int = 11) -> ExperimentResults:
    """`disk.xor`: one word everywhere."""
    maker = Maker(seed)
    own = {"engine": "read", "threads": 0, "work": "xor", "size": 16 * MEBIBYTE}
    factors = every(block_size=FEW_XOR_POWERS, cache=("cold", "warm"), **own)
    points = [reading(maker, each) for each in factors]
    order = dict.fromkeys(("time_s", "xor", *points[0].metrics))
    return results("disk.xor", points, columns(*order))


def peers(seed: int = 12, dd: float = 0.8, fio: bool = True) -> ExperimentResults:
    """`disk.peers`: dd at `dd` times our speed, fio at ours; without `fio` its points are skipped."""
    maker = Maker(seed)
    points = []
    for block_size in FEW_POWERS:
        shared = maker.spread()
        for tool, speed in (("oscope", 1.0), ("dd", dd), ("fio", 1.0)):
            own = {"block_size": block_size, "tool": tool, "cache": "cold"}
            factors = {**own, "size": 32 * MEBIBYTE, "count": 1 << 18}
            if tool == "fio" and not fio:
                missing, remedy = synthetic.skipped(factors), "apt-get install fio"
                points.append(dataclasses.replace(missing, skipped="fio is not installed", remedy=remedy))
                continue
            noise = maker.generator.lognormal(0, 0.002, BLOCKS)
            time = seconds_per_mib(block_size, "cold")[0] * shared * noise / speed
            size = min(32 * MEBIBYTE, block_size << 18)
            whole = time * size / MEBIBYTE
            metrics = {"throughput": 1 / time, "time_s": whole, "bytes": size, "whole_s": whole + 0.01}
            points.append(maker.point(factors, metrics))
    return results("disk.peers", points)


def write(seed: int = 13, synced: float = 0.25) -> ExperimentResults:
    """`disk.write`: fdatasync at `synced` times the speed of none."""
    maker = Maker(seed)
    points = []
    speeds = {"none": 1.0, "fdatasync": synced, "direct": 0.5}
    sizes = (128, 4096, 131072, 4 * MEBIBYTE)
    for factors in every(block_size=sizes, sync=tuple(speeds), size=16 * MEBIBYTE):
        block_size, sync = int(factors["block_size"]), str(factors["sync"])
        if sync != "direct" or block_size >= 4096:
            time = seconds_per_mib(block_size, "warm")[0] / speeds[sync] * maker.spread()
            metrics = {
                "throughput": 1 / time,
                "time_s": 16 * time,
                "bytes": 16 * MEBIBYTE,
                "calls": 16 * MEBIBYTE / block_size,
                "cpu_s": 12 * time,
            }
            points.append(maker.point(factors, metrics))
    return results("disk.write", points)


KEPT = {"1": (0.02, 0.99, 0.98, 0.99), "2": (0.99, 0.1, 0.15, 0.3), "3": (0.01, 0.1, 0.15, 0.3)}
"""What each value leaves of page cache, dentries, inodes and slab."""


def drop_caches(seed: int = 14, kept: Mapping[str, tuple[float, ...]] = KEPT) -> ExperimentResults:
    """`disk.drop-caches`: each value leaves these shares."""
    maker = Maker(seed)
    names = ("page_cache_{}_bytes", "dentries_{}", "inodes_{}", "slab_{}_bytes")
    before = (100.0 * MEBIBYTE, 8000.0, 6000.0, 20.0 * MEBIBYTE)
    points = []
    for value, shares in kept.items():
        metrics = {}
        for name, start, share in zip(names, before, shares, strict=True):
            first = start * maker.spread()
            metrics[name.format("before")] = first
            metrics[name.format("after")] = first * share * maker.spread()
        metrics["time_s"] = 0.01 * maker.spread()
        points.append(maker.point({"value": value, "size": 64 * MEBIBYTE, "files": 2000}, metrics))
    return results("disk.drop-caches", points)


def bandwidth(seed: int = 15) -> ExperimentResults:
    """`memory.bandwidth`: copying at `COPY` into every window, reading twice as fast."""
    maker = Maker(seed)
    points = []
    for operation, windows in (("read", (0,)), ("copy", (0, 1 << 17, 1 << 22))):
        for window in windows:
            factors = {"operation": operation, "threads": 1, "window": window, "size": 128 * MEBIBYTE}
            rate = COPY * (2 if operation == "read" else 1) * maker.spread()
            points.append(maker.point(factors, {"throughput": rate, "time_s": 128 / rate}))
    return results("memory.bandwidth", points)


def throughput(seed: int = 16) -> ExperimentResults:
    """`syscall.throughput`: read takes CALL_S + FILE_S."""
    made = synthetic.throughput()
    rate = 1 / (CALL_S + FILE_S) * Maker(seed).spread()
    points = [
        dataclasses.replace(point, metrics={"calls_per_s": rate, "bytes_per_s": rate})
        if point.factors["call"] == "read"
        else point
        for point in made.points
    ]
    return dataclasses.replace(made, points=tuple(points))


def survey() -> Results:
    """All experiments of the lab, those it shares with the system-call lab among them."""
    own = (read(), peers(), xor(), bandwidth(), write(), drop_caches())
    return Results((*own, synthetic.cost(), throughput()))


sections = synthetic.sections_of("disk")


def changed(
    experiment: ExperimentResults,
    change: Callable[[PointSamples], Mapping[str, np.ndarray]],
    **factors: Level,
) -> ExperimentResults:
    """Return the experiment with the metrics that `change` gives at the points with these levels."""
    points = [
        dataclasses.replace(point, metrics={**point.metrics, **change(point)})
        if all(point.factors[name] == level for name, level in factors.items())
        else point
        for point in experiment.points
    ]
    return dataclasses.replace(experiment, points=tuple(points))


def with_first(experiment: ExperimentResults, **changes: Any) -> ExperimentResults:
    """Return the experiment with its first point changed."""
    first = dataclasses.replace(experiment.points[0], **changes)
    return dataclasses.replace(experiment, points=(first, *experiment.points[1:]))

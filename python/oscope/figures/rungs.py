"""Where each figure of the latency ladder and of the throughputs comes from: one declaration for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from oscope.model.factors import Level
from oscope.model.units import KIBIBYTE, MEBIBYTE

Kind = Literal["latency", "throughput"]
Pick = Literal["smallest", "largest"]
Usual = Mapping[str, Level | Pick]
"""Levels that are preferred, by factor."""


@dataclass(frozen=True)
class RungSpec:
    """Where one figure comes from.

    A point qualifies where its factors have the levels of `where`. Of those that qualify, the ones with the
    levels of `usual` are preferred, one factor after the other; a pick by size stands for a level.
    """

    key: str
    """Stable name for programs, such as `fork-resident`."""
    name: str
    """What a person reads."""
    experiment: str
    metric: str
    where: Mapping[str, Level]
    usual: Usual = field(default_factory=dict)
    kind: Kind = "latency"
    level: str | None = None
    """The cache level that has to hold the memory that is loaded from: L1, L2, L3, or DRAM."""
    sized: str | None = None
    """A factor of bytes whose level is part of the name: `fork start, 64 MiB`."""


_LOADS: Usual = {"stride": 64, "pages": "huge"}
_CREATED: Usual = {"pages": "4K", "placement": "free"}
_PROCESSES: Usual = {"placement": "free", "size": "smallest", "check": "ends"}
_MOVED: Usual = {"placement": "free", "sockbuf": "default", "check": "ends", "total": "largest"}
_READ: Usual = {"engine": "read", "threads": 1, "work": "none"}
_SENT: Usual = {
    "where": "loopback",
    "sender": "sendfile",
    "receiver": "readwrite",
    "digest": "blake3",
    "content": "random",
    "files": 1,
    "size": "largest",
}


def _load(key: str, level: str, pick: Pick) -> RungSpec:
    """Return the spec of a dependent load, from memory of a size that `level` holds."""
    return RungSpec(
        key,
        f"{level} load",
        "memory.latency",
        "time_ns",
        {"order": "random"},
        {**_LOADS, "size": pick},
        level=level,
    )


def _moved(key: str, name: str, channel: str, buffer: int) -> RungSpec:
    """Return the spec of bytes moved from one process to another."""
    return RungSpec(
        key,
        name,
        "ipc.throughput",
        "throughput",
        {"channel": channel, "mode": "2proc", "buffer": buffer},
        _MOVED,
        kind="throughput",
    )


def _made(key: str, name: str, how: str) -> RungSpec:
    """Return the spec of a start: from the call to the first instruction of the child."""
    return RungSpec(key, name, "process.create", "child_ns", {"how": how, "resident": 0}, _CREATED)


def _round_trip(key: str, name: str, channel: str) -> RungSpec:
    """Return the spec of a message to another process and back."""
    where = {"channel": channel, "mode": "2proc"}
    return RungSpec(key, name, "ipc.latency", "round_trip_ns", where, _PROCESSES)


def _fault(key: str, name: str, kind: str) -> RungSpec:
    """Return the spec of a page fault, as one thread sees it."""
    where: dict[str, Level] = {"kind": kind, "threads": 1}
    return RungSpec(key, name, "memory.fault", "time_ns", where, {"size": "largest"})


def _file(key: str, name: str, cache: str) -> RungSpec:
    """Return the spec of a file read by read(2) in blocks of 64 KiB, or of the largest size measured."""
    usual = {**_READ, "block_size": 64 * KIBIBYTE, "size": "largest"}
    return RungSpec(key, name, "disk.read", "throughput", {"cache": cache}, usual, kind="throughput")


RUNGS: tuple[RungSpec, ...] = (
    _load("load-l1", "L1", "smallest"),
    _load("load-l2", "L2", "largest"),
    _load("load-l3", "L3", "smallest"),
    _load("load-dram", "DRAM", "largest"),
    RungSpec(
        "null-call",
        "getppid",
        "syscall.cost",
        "time_ns",
        {"call": "getppid", "style": "loop"},
        {"entry": "function"},
    ),
    _fault("fault-anonymous", "page fault", "anonymous"),
    _fault("fault-major", "page fault, major", "file-major"),
    _made("thread", "thread start", "thread"),
    _made("fork-empty", "fork start", "fork"),
    RungSpec(
        "fork-resident",
        "fork start",
        "process.create",
        "child_ns",
        {"how": "fork"},
        {"resident": 64 * MEBIBYTE, **_CREATED},
        sized="resident",
    ),
    _made("spawn", "posix_spawn start", "posix_spawn"),
    _round_trip("pipe-round-trip", "pipe, round trip", "pipe"),
    _round_trip("local-round-trip", "unix, round trip", "local"),
    _round_trip("tcp-round-trip", "TCP, round trip", "tcp"),
    RungSpec(
        "memory-read",
        "memory read",
        "memory.bandwidth",
        "throughput",
        {"operation": "read", "threads": 1},
        {"window": 0, "pages": "4K", "size": "largest"},
        kind="throughput",
        level="DRAM",
    ),
    _moved("shm", "shm, 64 KiB", "shm", 64 * KIBIBYTE),
    _file("file-cached", "file, cached", "warm"),
    _file("file-cold", "file, cold", "cold"),
    RungSpec(
        "file-write",
        "file write, synced",
        "disk.write",
        "throughput",
        {"sync": "fdatasync"},
        {"block_size": 128 * KIBIBYTE, "size": "largest"},
        kind="throughput",
    ),
    _moved("unix", "unix, 64 KiB", "local", 64 * KIBIBYTE),
    _moved("tcp", "TCP, 64 KiB", "tcp", 64 * KIBIBYTE),
    _moved("pipe-4k", "pipe, 4 KiB", "pipe", 4 * KIBIBYTE),
    _moved("pipe-64k", "pipe, 64 KiB", "pipe", 64 * KIBIBYTE),
    RungSpec("transfer", "transfer", "transfer.copy", "bytes_per_s", {}, _SENT, kind="throughput"),
)
"""Every figure of the ladder, by subject."""

"""The contrasts that `notable` judges: two points of an experiment, and what one expects of them.

A table and no code: a lab's question whose answer may surprise is a row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from oscope.model.factors import Level

Expected = Literal["equal", "not slower"]
"""What nobody is surprised by: both points alike, or the second not slower than the first."""


@dataclass(frozen=True)
class NotableContrast:
    """Two points of an experiment, B against A."""

    experiment: str
    section: str
    """Title of the section of a lab that answers it; empty: the first one on the experiment."""
    metric: str
    a: Mapping[str, Level]
    b: Mapping[str, Level]
    slower: str
    """The sentence where B is slower. `{times}` is the ratio, above 1; `{per_mib}` the difference for each
    MiB of the one factor that is varied; `{companions}` the levels of `companions` that show none."""
    faster: str = ""
    """The sentence where B is faster; not needed where that is expected."""
    expected: Expected = "equal"
    fixed: Mapping[str, Level] = field(default_factory=dict)
    """Levels of both points; other factors are equal, at their first levels."""
    names: tuple[str, str] | None = None
    """What a small figure calls A and B; None: their levels."""
    companions: str = ""
    """A factor whose other levels may be named as not showing the effect."""


_KIB, _MIB = 1 << 10, 1 << 20

_SYSCALLS = (
    NotableContrast(
        "process.create",
        "What page tables cost",
        "parent_ns",
        {"resident": 0},
        {"resident": 64 * _MIB},
        "fork takes {per_mib} longer to return for each MiB resident{companions}.",
        "fork returns {times} times faster with 64 MiB resident than with none.",
        fixed={"how": "fork", "pages": "4K"},
        names=("fork returns, 0 MiB", "fork returns, 64 MiB"),
        companions="how",
    ),
    NotableContrast(
        "process.create",
        "What page tables cost",
        "parent_ns",
        {"pages": "4K"},
        {"pages": "huge"},
        "fork of 64 MiB in huge pages is {times} times slower than in pages of 4 KiB.",
        "fork of 64 MiB in huge pages is {times} times faster than in pages of 4 KiB.",
        fixed={"how": "fork", "resident": 64 * _MIB},
        names=("4 KiB pages", "huge pages"),
    ),
    NotableContrast(
        "syscall.cost",
        "What a call costs",
        "time_ns",
        {"call": "getppid"},
        {"call": "gethostid"},
        "gethostid is {times} times slower than getppid: the C library reads a file for it.",
        "gethostid is {times} times faster than getppid.",
        fixed={"style": "loop"},
    ),
    NotableContrast(
        "syscall.cost",
        "What a call costs",
        "time_ns",
        {"call": "getppid"},
        {"call": "clock_gettime"},
        "clock_gettime is {times} times slower than getppid.",
        "clock_gettime is {times} times faster than getppid: it does not enter the kernel.",
        fixed={"style": "loop"},
    ),
)

_MEMORY = (
    NotableContrast(
        "memory.pressure",
        "Memory pressure",
        "set_ns",
        {"pressure": "none"},
        {"pressure": "compete"},
        "A second process that takes all memory makes the same work {times} times slower.",
        "A second process that takes all memory makes the same work {times} times faster.",
        names=("alone", "with a second process"),
    ),
    NotableContrast(
        "memory.fault",
        "What a page fault costs by its kind",
        "time_ns",
        {"threads": 1},
        {"threads": 2},
        "A page fault takes {times} times as long while a second thread faults too.",
        "A page fault is {times} times faster while a second thread faults too.",
        fixed={"kind": "anonymous"},
        names=("1 thread", "2 threads"),
    ),
    NotableContrast(
        "memory.fault",
        "What a page fault costs by its kind",
        "time_ns",
        {"kind": "anonymous"},
        {"kind": "copy-on-write"},
        "Copying a page on write takes {times} times as long as a new page.",
        "Copying a page on write is {times} times faster than a new page.",
        fixed={"threads": 1},
        names=("new page", "copy on write"),
    ),
    NotableContrast(
        "memory.access",
        "Sequential and random access",
        "set_ns",
        {"pattern": "seq"},
        {"pattern": "random"},
        "The same work at random addresses takes {times} times as long as in sequence.",
        "The same work at random addresses is {times} times faster than in sequence.",
        fixed={"footprint": "first64th"},
        names=("in sequence", "at random"),
    ),
    NotableContrast(
        "memory.latency",
        "Levels of caches and TLBs",
        "time_ns",
        {"pages": "4K"},
        {"pages": "huge"},
        "A load from 64 MiB of huge pages is {times} times slower than from pages of 4 KiB.",
        "A load from 64 MiB of huge pages is {times} times faster than from pages of 4 KiB.",
        fixed={"size": 64 * _MIB, "stride": 4160},
        names=("4 KiB pages", "huge pages"),
    ),
    NotableContrast(
        "memory.bandwidth",
        "Bandwidth",
        "throughput",
        {"threads": 1},
        {"threads": 0},
        "All cores together read {times} times less than one core alone.",
        expected="not slower",
        fixed={"operation": "read"},
        names=("one core", "all cores"),
    ),
)

_DISK = (
    NotableContrast(
        "disk.read",
        "Ways of reading",
        "throughput",
        {"engine": "read"},
        {"engine": "mmap"},
        "mmap reads a cached file {times} times slower than read, by blocks of 64 KiB; it copies nothing.",
        "mmap reads a cached file {times} times faster than read, by blocks of 64 KiB; it copies nothing.",
        fixed={"cache": "warm", "block_size": 64 * _KIB},
        names=("read", "mmap"),
    ),
    NotableContrast(
        "disk.read",
        "Ways of reading",
        "throughput",
        {"engine": "read"},
        {"engine": "uring"},
        "io_uring reads a file from the device {times} times slower than read, by blocks of 8 KiB.",
        "io_uring reads a file from the device {times} times faster than read, by blocks of 8 KiB.",
        fixed={"cache": "cold", "block_size": 8 * _KIB},
        names=("read", "io_uring"),
    ),
    NotableContrast(
        "disk.read",
        "Cold and warm",
        "throughput",
        {"block_size": 64 * _KIB},
        {"block_size": 4 * _MIB},
        "Reading a cached file by blocks of 4 MiB is {times} times slower than by 64 KiB.",
        expected="not slower",
        fixed={"cache": "warm", "engine": "read"},
    ),
    NotableContrast(
        "disk.peers",
        "Reading cold, by block size, beside dd and fio",
        "throughput",
        {"tool": "oscope"},
        {"tool": "dd"},
        "dd reads the same file {times} times slower than a plain loop of read, by blocks of 8 KiB.",
        "dd reads the same file {times} times faster than a plain loop of read, by blocks of 8 KiB.",
        fixed={"block_size": 8 * _KIB},
        names=("oscope", "dd"),
    ),
)

_IPC = (
    NotableContrast(
        "ipc.throughput",
        "Where a larger buffer stops helping",
        "throughput",
        {"buffer": 4 * _KIB},
        {"buffer": 64 * _KIB},
        "A pipe between two processes is {times} times slower with 64 KiB than with 4 KiB.",
        expected="not slower",
        fixed={"channel": "pipe", "mode": "2proc", "sockbuf": "default"},
        names=("4 KiB", "64 KiB"),
    ),
    NotableContrast(
        "ipc.throughput",
        "Threads or processes",
        "throughput",
        {"mode": "2thread"},
        {"mode": "2proc"},
        "A pipe is {times} times slower between processes than between threads, by 64 KiB.",
        "A pipe is {times} times faster between processes than between threads, by 64 KiB.",
        fixed={"channel": "pipe", "buffer": 64 * _KIB, "sockbuf": "default"},
        names=("two threads", "two processes"),
    ),
    NotableContrast(
        "ipc.throughput",
        "How the configurations perform",
        "throughput",
        {"mode": "1thread"},
        {"mode": "2proc"},
        "A second process makes a pipe of 4 KiB {times} times slower than one thread alone.",
        expected="not slower",
        fixed={"channel": "pipe", "buffer": 4 * _KIB, "sockbuf": "default"},
        names=("one thread", "two processes"),
    ),
    NotableContrast(
        "ipc.throughput",
        "Setting the socket buffers",
        "throughput",
        {"sockbuf": "default"},
        {"sockbuf": "buffer"},
        "Setting the socket buffers makes a local socket {times} times slower, by 64 KiB.",
        "Setting the socket buffers makes a local socket {times} times faster, by 64 KiB.",
        fixed={"channel": "local", "mode": "2proc", "buffer": 64 * _KIB},
        names=("default", "set"),
    ),
    NotableContrast(
        "ipc.latency",
        "Round trips",
        "round_trip_ns",
        {"channel": "pipe"},
        {"channel": "shm"},
        "A message there and back by shared memory takes {times} times as long as by a pipe.",
        "A message there and back by shared memory is {times} times faster than by a pipe.",
        fixed={"mode": "2proc"},
        names=("pipe", "shared memory"),
    ),
    NotableContrast(
        "ipc.latency",
        "Round trips",
        "round_trip_ns",
        {"channel": "pipe"},
        {"channel": "tcp"},
        "A message there and back by TCP takes {times} times as long as by a pipe.",
        "A message there and back by TCP is {times} times faster than by a pipe.",
        fixed={"mode": "2proc"},
        names=("pipe", "TCP"),
    ),
)

_TRANSFER = (
    NotableContrast(
        "transfer.large",
        "Large inputs: mmap against read and write",
        "time_ns",
        {"sender": "readwrite", "receiver": "readwrite"},
        {"sender": "mmap", "receiver": "mmap"},
        "A transfer of 10 MiB by mmap takes {times} times as long as by read and write.",
        "A transfer of 10 MiB by mmap is {times} times faster than by read and write.",
        fixed={"size": 10 * _MIB, "content": "random"},
        names=("read, write", "mmap"),
    ),
    NotableContrast(
        "transfer.large",
        "Zeros against random bytes",
        "time_ns",
        {"content": "zeros"},
        {"content": "random"},
        "A transfer of random bytes takes {times} times as long as of zeros.",
        "A transfer of random bytes is {times} times faster than of zeros.",
        fixed={"sender": "readwrite", "receiver": "readwrite", "size": 10 * _MIB},
        names=("zeros", "random bytes"),
    ),
    NotableContrast(
        "transfer.copy",
        "Every way of sending and receiving",
        "time_ns",
        {"digest": "none"},
        {"digest": "blake3"},
        "Checking the content (BLAKE3) makes a transfer take {times} times as long.",
        "Checking the content (BLAKE3) makes a transfer {times} times faster.",
        fixed={"sender": "readwrite", "receiver": "readwrite"},
        names=("unchecked", "checked"),
    ),
    NotableContrast(
        "transfer.meeting",
        "",
        "receiver_time_ns",
        {"meeting": "ready"},
        {"meeting": "retry"},
        "A receiver that is 0.1 s late makes a transfer take {times} times as long.",
        "A receiver that is 0.1 s late makes a transfer {times} times faster.",
        fixed={"writes": "whole", "late": 0.1},
        names=("in time", "0.1 s late"),
    ),
)

_FS = (
    NotableContrast(
        "fs.here",
        "Beside the local file system, on this machine (fs.here)",
        "time_ns",
        {"system": "local"},
        {"system": "oscope"},
        "Reading again what is cached takes {times} times as long through oscope-fs as locally.",
        "Reading again what is cached is {times} times faster through oscope-fs than locally.",
        fixed={"operation": "read-again"},
        names=("local", "oscope-fs"),
    ),
)

CONTRASTS: tuple[NotableContrast, ...] = (*_SYSCALLS, *_MEMORY, *_DISK, *_IPC, *_TRANSFER, *_FS)

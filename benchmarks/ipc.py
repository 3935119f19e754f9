"""Transfers beside a minimal C program, the default pipe, and the speed of copying memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bars import CPU, Bar, compile_c, in_turns, interleaved, probe, ratio

KIBIBYTE = 1 << 10
TOTAL = 32 << 20
ROUNDS = 7
"""Transfers whose median is one value."""
PLACEMENTS = ("free", "same", "other")
MODES = ("1thread", "2thread", "2proc")
STEP = 16 << 20
"""Bytes of a transfer beside the C program's."""
STEPS = 40
"""Transfers by a process."""


def ours(channel: str, mode: str, size: int, **params: Any) -> float:
    """Return MiB/s of `ipc.throughput`, unchecked as the reference is; the reader is on CPU."""
    request = {
        "workload": "ipc.throughput",
        "reps": ROUNDS,
        "params": {
            "channel": channel,
            "mode": mode,
            "buffer": size,
            "total": TOTAL,
            "check": "none",
            **params,
        },
    }
    return float(np.median([sample["metrics"]["throughput"] for sample in probe(request)[0]]))


def step_by_step(channel: str, mode: str, size: int) -> tuple[list[float], list[float]]:
    """Return MiB/s of the workload and of the C program, the two in turns."""
    params = {
        "channel": channel,
        "mode": mode,
        "buffer": size,
        "total": STEP,
        "check": "none",
        "placement": "same",
    }
    words = (compile_c("ipc"), channel, mode, size, STEP, STEPS, CPU, CPU)
    one, other = in_turns("ipc.throughput", "throughput", params, words, STEPS)
    return one, [kibibytes / KIBIBYTE for kibibytes in other]


def beside_c() -> Iterator[Bar]:
    """Return the workload's throughput over the C program's, both ends on one CPU.

    On two, what is measured is how long an idle CPU takes to wake, which varies from minute to minute.
    """
    for channel in ("pipe", "local"):
        for size in (4, 64, 128, 1024):
            for mode in MODES:
                one, other = step_by_step(channel, mode, size * KIBIBYTE)
                middle, low, high = ratio(one, other)
                text = f"{middle:.3f} [{low:.3f}, {high:.3f}] of {np.median(other):.0f} MiB/s"
                yield Bar(f"{channel} {size} KiB {mode} / C", text, "at least 0.98", met=middle >= 0.98)


def copying() -> float:
    """Return MiB/s at which one thread copies memory."""
    request = {"workload": "memory.bandwidth", "params": {"operation": "copy", "threads": 1}}
    return float(probe(request)[0][0]["metrics"]["throughput"])


def fastest() -> tuple[str, str, int]:
    """Return the channel, placement and block size that are the fastest between two processes."""
    candidates = [
        (channel, placement, size * KIBIBYTE)
        for channel in ("pipe", "local", "seqpacket", "tcp", "shm", "vmsplice")
        for placement in PLACEMENTS
        for size in (64, 128)
    ]
    return max(candidates, key=lambda c: ours(c[0], "2proc", c[2], placement=c[1]))


def beside_the_pipe() -> Iterator[Bar]:
    """Return the fastest channel between two processes, over the default pipe and over copying memory.

    It is chosen beforehand: the values that choose it are not among those that are compared.
    """
    channel, placement, size = fastest()
    # The pipe too has the placement that suits it best.
    seats = max(PLACEMENTS, key=lambda each: ours("pipe", "2proc", 128 * KIBIBYTE, placement=each))
    values = interleaved(
        {
            "best": lambda: ours(channel, "2proc", size, placement=placement),
            "pipe": lambda: ours("pipe", "2proc", 128 * KIBIBYTE, placement=seats),
            "copy": copying,
        },
        11,
    )
    name = f"2proc, {channel} {size // KIBIBYTE} KiB, {placement} CPU{'s' * (placement != 'same')}"
    for other, least, what in (
        ("pipe", 5.0, f"default pipe 128 KiB, {seats}"),
        ("copy", 0.5, "copying memory"),
    ):
        middle, low, high = ratio(values["best"], values[other])
        text = f"{middle:.2f} [{low:.2f}, {high:.2f}] of {np.median(values[other]):.0f} MiB/s"
        yield Bar(f"{name} / {what}", text, f"at least {least}", met=middle >= least)


def bars() -> Iterator[Bar]:
    """Everything of this module."""
    yield from beside_c()
    yield from beside_the_pipe()

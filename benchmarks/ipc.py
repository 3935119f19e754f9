"""Transfers beside a minimal C program, the default pipe, and the speed of copying memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bars import Bar, Bench, Figure, Part, ratio
from measuring import CPU, compile_c, interleaved, interleaved_steps, probe

KIBIBYTE = 1 << 10
TOTAL = 32 << 20
ROUNDS = 7
"""Transfers whose median is one value."""
PLACEMENTS = ("free", "same", "other")
MODES = ("1thread", "2thread", "2proc")
STEP = 16 << 20
"""Bytes of a transfer beside the C program's."""
BESIDE_C = {
    (channel, size, mode): Bar(f"{channel} {size} KiB {mode} / C", least=0.98)
    for channel in ("pipe", "local")
    for size in (4, 64, 128, 1024)
    for mode in MODES
}
BEST_PIPE = Bar("2proc, fastest channel / default pipe 128 KiB", least=5)
BEST_COPY = Bar("2proc, fastest channel / copying memory", least=0.5)


def ours(channel: str, mode: str, size: int, total: int = TOTAL, **params: Any) -> float:
    """Return MiB/s of `ipc.throughput`, unchecked as the reference is; the reader is on CPU."""
    given = {"channel": channel, "mode": mode, "buffer": size, "total": total, "check": "none", **params}
    request = {"workload": "ipc.throughput", "reps": ROUNDS, "params": given}
    return float(np.median([sample["metrics"]["throughput"] for sample in probe(request)[0]]))


def beside_c(bench: Bench) -> Iterator[Figure]:
    """Return the workload's throughput over the C program's, both ends on one CPU.

    On two, what is measured is how long an idle CPU takes to wake, which varies from minute to minute.
    """
    total, steps = bench.pick(1 << 20, STEP, STEP), bench.pick(1, 15, 40)
    for (channel, size, mode), bar in BESIDE_C.items():
        params = {
            "channel": channel,
            "mode": mode,
            "buffer": size * KIBIBYTE,
            "total": total,
            "check": "none",
            "placement": "same",
        }
        words = (compile_c("ipc"), channel, mode, size * KIBIBYTE, total, steps, CPU, CPU)
        one, other = interleaved_steps(
            "ipc.throughput", "throughput", params, words, steps, bench.pick(1, 4, 4)
        )
        theirs = [kibibytes / KIBIBYTE for kibibytes in other]
        yield ratio(bar, one, theirs, f"of {np.median(theirs):.0f} MiB/s")


def copying() -> float:
    """Return MiB/s at which one thread copies memory."""
    request = {"workload": "memory.bandwidth", "params": {"operation": "copy", "threads": 1}}
    return float(probe(request)[0][0]["metrics"]["throughput"])


def candidates(bench: Bench) -> list[tuple[str, str, int]]:
    """Return channels, placements and block sizes between two processes."""
    channels = ("pipe", "local", "seqpacket", "tcp", "shm", "vmsplice")
    return [
        (channel, placement, size * KIBIBYTE)
        for channel in bench.pick(("pipe", "shm"), channels, channels)
        for placement in bench.pick(("same",), PLACEMENTS, PLACEMENTS)
        for size in bench.pick((64,), (64, 128), (64, 128))
    ]


def beside_the_pipe(bench: Bench) -> Iterator[Figure]:
    """Return the fastest channel between two processes, over the default pipe and over copying memory.

    It is chosen beforehand: the values that choose it are not among those that are compared.
    """
    total = bench.pick(1 << 20, TOTAL, TOTAL)

    def speed(channel: str, placement: str, size: int) -> float:
        return ours(channel, "2proc", size, total, placement=placement)

    best = max(candidates(bench), key=lambda each: speed(*each))
    # The pipe too has the placement that suits it best.
    placements = bench.pick(PLACEMENTS[1:2], PLACEMENTS, PLACEMENTS)
    pipes = [("pipe", placement, 128 * KIBIBYTE) for placement in placements]
    pipe = max(pipes, key=lambda each: speed(*each))
    sides = {"best": lambda: speed(*best), "pipe": lambda: speed(*pipe), "copy": copying}
    values = interleaved(sides, bench.pick(1, 11, 21))
    name = f"{best[0]} {best[2] // KIBIBYTE} KiB, CPUs: {best[1]}"
    for other, bar, what in (("pipe", BEST_PIPE, f", CPUs: {pipe[1]}"), ("copy", BEST_COPY, "")):
        text = f"{name}; of {np.median(values[other]):.0f} MiB/s{what}"
        yield ratio(bar, values["best"], values[other], text)


PARTS = (
    Part(
        "MiB/s of a transfer over those of a minimal C program, both ends on one CPU; interleaved transfers.",
        tuple(BESIDE_C.values()),
        beside_c,
        short_s=45,
        full_s=320,
    ),
    Part(
        "The fastest of all channels, placements and block sizes between two processes, chosen beforehand, "
        "over the default pipe and over copying memory; interleaved rounds.",
        (BEST_PIPE, BEST_COPY),
        beside_the_pipe,
        short_s=25,
        full_s=40,
    ),
)

"""The two clocks that figures come from, a wall clock and the count of executed instructions; units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Clock = Literal["wall", "instructions"]

UNIT = "instructions"
PER = "/Ginstr"
"""End of the unit of a rate: per 10^9 instructions."""
CPU_TIME = "cpu_instructions"
CPU_TIME_STEP = 1000
"""Instructions in a microsecond, the step in which the kernel reports CPU time."""

UNSEEN = (
    (
        "caches and pipelines",
        (
            "Every instruction counts one, whatever it costs: misses of caches and TLBs, branches predicted "
            "wrongly and instructions executed side by side do not show."
        ),
    ),
    ("parallelism", "There is one CPU, which all threads share."),
    (
        "copies",
        (
            "A rep instruction counts once for each of its iterations, so that the ERMS and FSRM bits of the "
            "emulated CPU, by which the kernel chooses its copying loops, decide what a copy counts."
        ),
    ),
    (
        "who executes",
        "All instructions between two readings: other threads', the kernel's, those of interrupts.",
    ),
    (
        "idle time",
        (
            "It is jumped over and counts one instruction a nanosecond: where a repetition sleeps or waits "
            "for a timer, its figure is no count of instructions."
        ),
    ),
    (
        "the labs' answers",
        "Those that speak of nanoseconds and caches are drawn from what a wall clock measured only.",
    ),
)
"""What the clock does not see, or sees otherwise than a wall clock: a heading and a text each."""

UNSEEN_BRIEFLY = (
    "counts executed instructions, not time: caches, TLBs, branch prediction and parallelism do not show; "
    "rep counts once an iteration; idle time counts 1 a ns"
)


def clock_of(environment: Mapping[str, Any]) -> Clock:
    """Return which of the two clocks the record of an environment reports; wall where it names none."""
    clock = environment.get("clock") or {}
    return "instructions" if clock.get("kind") == "instructions" else "wall"


def hz_of(environment: Mapping[str, Any]) -> float | None:
    """Return how many units of a wall clock are a second; None for another clock or an unknown one."""
    hz = (environment.get("clock") or {}).get("hz")
    return float(hz) if hz and clock_of(environment) == "wall" else None


def counted(unit: str) -> bool:
    """Say whether a metric in `unit` comes from the instructions clock."""
    return unit == UNIT or unit.endswith(PER)


def step(metric: str, unit: str, iterations: float) -> float:
    """Return the step of a metric of the instructions clock, in its unit: an instruction over the iterations.

    0 for rates. A quantity that a lab names otherwise has the metric's name at its end, in brackets.
    """
    if unit != UNIT:
        return 0.0
    return (CPU_TIME_STEP if metric == CPU_TIME or metric.endswith(f"({CPU_TIME})") else 1) / iterations

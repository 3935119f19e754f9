"""What the probe found out about this machine by measuring, judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oscope.model.finding import Finding, as_root, why_missing

BUSY_SHARE = 0.5
"""Load for each CPU from which other programs are likely to disturb a measurement."""
_COUNTERS = {"tsc": "time-stamp counter", "cntvct": "cntvct_el0 (it counts no cycles)"}
"""The clocks that are a counter of the processor."""


def _self_check(environment: Mapping[str, Any]) -> Finding:
    check = environment["self_check"]
    double, empty = f"{check['ratio_of_double_work']:.3f}", _empty(environment)
    found = f"twice the work took {double} times as long, no work {empty}"
    if (ratio := check["kernel_clock_ratio"]) is not None:
        found += f"; the clock runs {ratio:.6f} times as fast as the kernel's"
    if check["ok"]:
        return Finding("self-check", "ok", found, "trust in every timing")
    return Finding(
        "self-check", "limited", found, "trust in every timing", "end what else is running (top), then repeat"
    )


def _empty(environment: Mapping[str, Any]) -> str:
    return f"{environment['self_check']['empty_ticks'] * 1e9 / environment['clock']['hz']:.1f} ns"


def _clock(environment: Mapping[str, Any]) -> Finding:
    clock = environment["clock"]
    needed_for = "timing single calls, figures in cycles"
    if clock["kind"] in _COUNTERS:
        cost = f"a reading costs {clock['overhead']:.0f} ticks, taken off"
        found = f"{_COUNTERS[clock['kind']]}, {clock['hz'] / 1e9:.3f} GHz; {cost}"
        return Finding("clock", "ok", found, needed_for)
    reason, remedy = why_missing(clock["why"])
    return Finding(
        "clock", "limited", f"{clock['kind']}: {reason}", needed_for, remedy or "use another machine"
    )


def _clock_offsets(environment: Mapping[str, Any]) -> Finding:
    offsets = environment["tsc_offsets"]
    needed_for = "times between two CPUs (process.create, child_ns)"
    if offsets is None:
        reason, remedy = why_missing(environment["unavailable"].get("tsc_offsets", "not measured"))
        return Finding("clock offsets", "limited", reason, needed_for, remedy)
    largest = max(abs(ticks) for ticks in offsets["ticks"])
    error = max(offsets["error_ticks"])
    found = f"{len(offsets['cpus'])} CPUs differ by at most {largest:.0f} ticks, known within {error:.0f}"
    return Finding("clock offsets", "ok", found, needed_for)


def _counters(environment: Mapping[str, Any]) -> Finding:
    available, unavailable = environment["counters"]["available"], environment["counters"]["unavailable"]
    needed_for = "instructions, cache misses and branch misses beside each sample"
    if not unavailable:
        return Finding("hardware counters", "ok", "proved by counting: " + ", ".join(available), needed_for)
    parted = [why_missing(why) for why in unavailable.values()]
    reasons = "; ".join(dict.fromkeys(reason for reason, _ in parted))
    remedies = "; ".join(dict.fromkeys(remedy for _, remedy in parted if remedy))
    if available:
        found = f"{', '.join(available)}; without {', '.join(unavailable)}: {reasons}"
        return Finding("hardware counters", "limited", found, needed_for, remedies or None)
    return Finding("hardware counters", "missing", reasons, needed_for, remedies or None)


def _governor(environment: Mapping[str, Any]) -> Finding:
    governor = environment["cpu"]["governor"]
    needed_for = "steady times"
    if governor is None:
        reason, remedy = why_missing(
            environment["unavailable"].get("governor", "not reported by this machine")
        )
        return Finding("frequency governor", "limited", reason, needed_for, remedy)
    if governor == "performance":
        return Finding("frequency governor", "ok", governor, needed_for)
    remedy = as_root("cpupower frequency-set -g performance")
    return Finding("frequency governor", "limited", governor, needed_for, remedy)


def _load(environment: Mapping[str, Any]) -> Finding:
    last_minute, cpus = environment["load"][0], len(environment["cpu"]["allowed"])
    found = f"{last_minute:.2f} over the last minute, on {cpus} CPUs"
    if last_minute <= BUSY_SHARE * cpus:
        return Finding("load", "ok", found, "steady times")
    return Finding("load", "limited", found, "steady times", "end what else is running: top")


ENVIRONMENT_CHECKS: tuple[Callable[[Mapping[str, Any]], Finding], ...] = (
    _self_check,
    _clock,
    _clock_offsets,
    _counters,
    _load,
    _governor,
)

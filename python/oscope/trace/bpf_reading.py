"""Makes readings, one a token, of what bpftrace found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from oscope.trace.bpf_faults import describe_fault
from oscope.trace.bpf_findings import Findings
from oscope.trace.calls import TRANSFERS, call_name, error_name
from oscope.trace.program import EXACT_RESULTS, Family, Marks, Program
from oscope.trace.tracer import Losses, Tracing

_FAMILY = 1
"""The token that a family's findings are kept under: 0 means that nothing is traced."""
_VOLUNTARY = 1
_FORKS = ("fork", "vfork", "clone", "clone3")
Readings = defaultdict[int, dict[str, Any]]


def read_findings(lines: Mapping[bytes, int], program: Program, tracer: str, recursion: int) -> Tracing:
    """Return what `program` found: `lines`, each with how often it came. Raises OscopeError for odd ones."""
    findings = Findings(program)
    for line, times in lines.items():
        findings.take(line, times)
    readings: Readings = defaultdict(dict)
    _add_regions(readings, findings, program)
    kinds: Mapping[str, Callable[[Readings, Findings], None]] = {
        "counts": _add_counts,
        "syscalls": _add_times,
        "events": _add_events,
        "sched": _add_switches,
        "faults": _add_faults,
    }
    for kind in program.kinds:
        kinds[kind](readings, findings)
    family = isinstance(program.selection, Family)
    if family and not readings:
        readings[_FAMILY] = {}
    losses = Losses(_lost_in_ring(findings), dict(findings.refused), recursion + findings.busy)
    named = {
        0 if family else token: {"tracer": tracer, **_whole(reading, program)}
        for token, reading in sorted(readings.items())
    }
    return Tracing(named, losses)


def _lost_in_ring(findings: Findings) -> int:
    """Return how many events were lost: bpftrace 0.17 reports a full ring, not what it left in one."""
    printed = sum(int(value) for *_, value in findings.keyed("printed"))
    return max(findings.ring, printed - sum(findings.events.values()))


def _whole(reading: Mapping[str, Any], program: Program) -> dict[str, Any]:
    """Return the reading with what was watched but did not occur."""
    empty: dict[str, Any] = {"regions": 0, "region_ns": 0}
    if {"counts", "syscalls", "events"} & set(program.kinds):
        empty["calls"] = {}
    if "sched" in program.kinds:
        empty["switches"] = _no_switches()
    if "faults" in program.kinds:
        empty |= {"faults": [], "fault_rate": []}
    return empty | dict(reading)


def _add_regions(readings: Readings, findings: Findings, program: Program) -> None:
    for name in ("regions", "region_ns"):
        for token, _, _, value in findings.keyed(name):
            readings[token][name] = value
    if isinstance(program.selection, Marks):
        return
    # Processes that live on: their time ends with the tracer's.
    reading = readings[_FAMILY]
    for begun in findings.maps.get("begun", {}).values():
        reading["regions"] = reading.get("regions", 0) + 1
        reading["region_ns"] = reading.get("region_ns", 0) + findings.maps["ended"] - begun


def _call(readings: Readings, token: int, number: int) -> dict[str, Any]:
    calls = readings[token].setdefault("calls", {})
    call: dict[str, Any] = calls.setdefault(call_name(number), {"count": 0, "errors": {}})
    return call


def _add_counts(readings: Readings, findings: Findings) -> None:
    for token, number, _, count in findings.keyed("calls"):
        _call(readings, token, number)["count"] += count


def _add_times(readings: Readings, findings: Findings) -> None:
    for token, number, _, times in findings.keyed("times"):
        call = _call(readings, token, number)
        call["times"] = times
        call["count"] += sum(count for _, _, count in times)
    for token, number, _, total in findings.keyed("time"):
        _call(readings, token, number)["time_ns"] = total
    for token, number, _, count in findings.keyed("unreturned"):
        _call(readings, token, number)["count"] += count
    # Calls under way when the tracer ended.
    for key, *_ in findings.maps.get("entered", {}).values():
        _call(readings, key >> 32, key & 0xFFFFFFFF)["count"] += 1
    for token, number, (result,), count in findings.keyed("errors"):
        _add_error(_call(readings, token, number), result, count)
    for token, number, (asked, returned), count in findings.keyed("sizes"):
        _add_size(_call(readings, token, number), call_name(number), (asked, returned), count)
    for token, number, (result,), count in findings.keyed("results"):
        _add_result(_call(readings, token, number), (result, result), count)
    for token, number, _, large in findings.keyed("large"):
        for low, high, count in large:
            _add_result(_call(readings, token, number), (low, high), count)
    _sort_returns(readings)


def _add_events(readings: Readings, findings: Findings) -> None:
    for (key, result), count in findings.events.items():
        token, number = key >> 32, key & 0xFFFFFFFF
        if result == 0 and call_name(number) in _FORKS:
            # The child's own first return from its parent's call.
            continue
        call = _call(readings, token, number)
        call["count"] += count
        if result < 0:
            _add_error(call, result, count)
        elif call_name(number) in TRANSFERS:
            _add_size(call, call_name(number), (None, result), count)
        else:
            _add_result(call, _result_bin(result), count)
    _sort_returns(readings)


def _add_error(call: dict[str, Any], result: int, count: int) -> None:
    name = error_name(result)
    if name is not None:
        call["errors"][name] = call["errors"].get(name, 0) + count


def _add_size(call: dict[str, Any], name: str, size: tuple[int | None, int], count: int) -> None:
    """Add `count` calls that asked for and returned `size`; one that failed moved nothing."""
    asked, returned = size
    call["returned"] = call.get("returned", 0) + returned * count
    sizes = call.setdefault("sizes", {})
    sizes[returned] = sizes.get(returned, 0) + count
    if asked is not None and TRANSFERS[name] is not None:
        call["asked"] = call.get("asked", 0) + asked * count
        call["short"] = call.get("short", 0) + (count if returned < asked else 0)


def _add_result(call: dict[str, Any], ends: tuple[int, int], count: int) -> None:
    """Add `count` calls that moved no bytes and returned a value between `ends`."""
    results = call.setdefault("results", {})
    results[ends] = results.get(ends, 0) + count


def _result_bin(result: int) -> tuple[int, int]:
    """Return the ends of the bin of a return value: itself, or the power of two that large ones lie in."""
    if result < EXACT_RESULTS:
        return result, result
    low = 1 << (result.bit_length() - 1)
    return low, 2 * low - 1


def _sort_returns(readings: Readings) -> None:
    for reading in readings.values():
        for call in reading.get("calls", {}).values():
            if "sizes" in call:
                call["sizes"] = [[size, count] for size, count in sorted(call["sizes"].items())]
            if "results" in call:
                call["results"] = [[*ends, count] for ends, count in sorted(call["results"].items())]


def _no_switches() -> dict[str, Any]:
    return {"voluntary": 0, "involuntary": 0, "migrations": 0, "wakeups": 0, "wakeup_ns": []}


def _add_switches(readings: Readings, findings: Findings) -> None:
    def switches(token: int) -> dict[str, Any]:
        found: dict[str, Any] = readings[token].setdefault("switches", _no_switches())
        return found

    for token, reason, _, count in findings.keyed("switches"):
        switches(token)["voluntary" if reason == _VOLUNTARY else "involuntary"] += count
    for token, _, _, count in findings.keyed("migrations"):
        switches(token)["migrations"] += count
    for token, _, _, latencies in findings.keyed("wakeups"):
        switches(token)["wakeup_ns"] = latencies
        switches(token)["wakeups"] = sum(count for _, _, count in latencies)


def _add_faults(readings: Readings, findings: Findings) -> None:
    spent = {(token, bits): total for token, bits, _, total in findings.keyed("fault_ns")}
    rows: dict[tuple[int, tuple[Any, ...]], dict[str, Any]] = {}
    for token, bits, _, times in findings.keyed("faults"):
        described = describe_fault(bits)
        row = rows.setdefault(
            (token, tuple(described.values())), {**described, "count": 0, "time_ns": 0, "times": {}}
        )
        row["count"] += sum(count for _, _, count in times)
        row["time_ns"] += spent[token, bits]
        for low, high, count in times:
            row["times"][low, high] = row["times"].get((low, high), 0) + count
    for (token, _), row in rows.items():
        row["times"] = [[low, high, count] for (low, high), count in sorted(row["times"].items())]
        readings[token].setdefault("faults", []).append(row)
    for reading in readings.values():
        reading.get("faults", []).sort(key=lambda row: -row["count"])
    for token, _, _, rate in findings.keyed("fault_rate"):
        readings[token]["fault_rate"] = rate

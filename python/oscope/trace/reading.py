"""Readings of a tracer: several made one, and what can be computed from one.

A reading is a JSON object with the keys `tracer`, `regions`, `region_ns` and, for each kind that was traced,
`calls`, `switches`, `faults` and `fault_rate`; in a run also `block`, `reps` and `losses`. A histogram is a
list of `[low, high, count]`, both ends inclusive, in ns.

What calls returned: of those that move bytes `sizes`, `[value, count]` each; of the others `results`,
`[low, high, count]`, exact below 4096 and by powers of two from there on; of those that failed `errors`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import Any

Reading = Mapping[str, Any]
Histogram = Sequence[Sequence[int]]

FAULT_NAMES = ("class", "access", "present", "by", "kind")
"""What distinguishes one row of faults from another."""


def merge(readings: Sequence[Reading]) -> dict[str, Any]:
    """Return one reading for all of `readings`, which are of one tracer: every count and time is summed.

    A kind that was not traced stays absent. Raises ValueError for none, or for those of several tracers.
    """
    tracers = list(dict.fromkeys(each["tracer"] for each in readings))
    if len(tracers) != 1:
        raise ValueError(f"readings of {len(tracers)} tracers cannot be merged: {tracers}")
    whole: dict[str, Any] = {"tracer": tracers[0]}
    for name in ("regions", "region_ns", "reps"):
        if any(name in each for each in readings):
            whole[name] = sum(each.get(name, 0) for each in readings)
    # Of an attachment, which may have served many turns, the losses are reported with each.
    lost = {
        each.get("attachment", -number): each["losses"]
        for number, each in enumerate(readings, 1)
        if "losses" in each
    }
    if lost:
        whole["losses"] = _losses(lost.values())
    kinds: Mapping[str, Callable[[Any], Any]] = {
        "calls": _calls,
        "switches": _switches,
        "faults": _faults,
        "fault_rate": _histogram,
    }
    for name, merged in kinds.items():
        found = [each[name] for each in readings if name in each]
        if found:
            whole[name] = merged(found)
    return whole


def time_in_calls_ns(reading: Reading) -> int | None:
    """Return the time from entry to return of all calls, waiting included; None if untimed."""
    times = [call["time_ns"] for call in reading.get("calls", {}).values() if "time_ns" in call]
    return sum(times) if times else None


def quantile(histogram: Histogram, share: float) -> tuple[int, int] | None:
    """Return the bin in which the value lies that `share` of the values do not exceed; None without any."""
    total = sum(count for _, _, count in histogram)
    below = 0
    for low, high, count in sorted(histogram, key=lambda each: each[0]):
        below += count
        if count and below >= share * total:
            return low, high
    return None


def upper_bound(histogram: Histogram, share: float, total: float | None = None) -> float | None:
    """Return what the value that `share` of the values do not exceed is at most; None without any.

    It is the end of a bin, or less where the sum `total` of all values allows less: each of the values from
    this one up is at least as large. One value alone is known exactly.
    """
    found = quantile(histogram, share)
    if found is None or total is None:
        return None if found is None else found[1]
    count = sum(number for _, _, number in histogram)
    from_here_up = count - max(ceil(share * count), 1) + 1
    return max(found[0], min(found[1], total / from_here_up))


def return_values(call: Mapping[str, Any]) -> list[tuple[str | tuple[int, int], int]]:
    """Return what a call returned and how often: errors by name, values by the ends of their bin.

    Empty where the tracer did not look at values: then errors are not all that there was.
    """
    if "sizes" in call:
        values = [((size, size), count) for size, count in call["sizes"]]
    else:
        values = [((low, high), count) for low, high, count in call.get("results", [])]
    if not values and sum(call["errors"].values()) < call["count"]:
        return []
    return [*call["errors"].items(), *values]


def _losses(lost: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    whole: dict[str, Any] = {"ring": 0, "map_full": Counter(), "recursion": 0}
    for each in lost:
        whole["ring"] += each["ring"]
        whole["map_full"].update(each["map_full"])
        whole["recursion"] += each["recursion"]
    return whole | {"map_full": dict(whole["map_full"])}


def _calls(found: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    names: dict[str, list[Mapping[str, Any]]] = {}
    for each in found:
        for name, call in each.items():
            names.setdefault(name, []).append(call)
    return {name: _call(same) for name, same in names.items()}


def _call(same: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    whole = _sums(same, ("count", "time_ns", "asked", "returned", "short"))
    errors: Counter[str] = Counter()
    for each in same:
        errors.update(each.get("errors", {}))
    whole["errors"] = dict(errors)
    times = [each["times"] for each in same if "times" in each]
    if times:
        whole["times"] = _histogram(times)
    results = [each["results"] for each in same if "results" in each]
    if results:
        whole["results"] = _histogram(results)
    sizes: Counter[int] = Counter()
    for each in same:
        sizes.update(dict(each.get("sizes", [])))
    if any("sizes" in each for each in same):
        whole["sizes"] = [[returned, count] for returned, count in sorted(sizes.items())]
    return whole


def _switches(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    whole = _sums(found, ("voluntary", "involuntary", "migrations", "wakeups"))
    return whole | {"wakeup_ns": _histogram([each["wakeup_ns"] for each in found if "wakeup_ns" in each])}


def _faults(found: Iterable[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    rows: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for each in found:
        for row in each:
            rows.setdefault(tuple(row[name] for name in FAULT_NAMES), []).append(row)
    merged = []
    for names, same in rows.items():
        whole = dict(zip(FAULT_NAMES, names, strict=True)) | _sums(same, ("count", "time_ns"))
        times = [each["times"] for each in same if "times" in each]
        merged.append(whole | ({"times": _histogram(times)} if times else {}))
    return sorted(merged, key=lambda row: -row["count"])


def _histogram(found: Iterable[Histogram]) -> list[list[int]]:
    counts: Counter[tuple[int, int]] = Counter()
    for histogram in found:
        for low, high, count in histogram:
            counts[(low, high)] += count
    return [[low, high, count] for (low, high), count in sorted(counts.items())]


def _sums(same: Sequence[Mapping[str, Any]], names: Iterable[str]) -> dict[str, Any]:
    """Return the sums of those of `names` that are there."""
    return {
        name: sum(each[name] for each in same if name in each)
        for name in names
        if any(name in each for each in same)
    }

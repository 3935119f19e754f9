"""What was traced at the points of any experiment, as tables; each row beside the slow-down by its tracer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from oscope.figures.traced import Traced, traced
from oscope.model.document import Table
from oscope.model.formatting import MISSING, format_share, format_value
from oscope.model.samples import ExperimentResults

MOST_ROWS = 8
"""System calls or faults that a point shows, the most frequent first; the record has them all."""
_TIMES = ("s", "ns")
_ONE_IN = 200
"""Figures here are sums without a spread of their own: three digits of them are shown."""


def tables(experiment: ExperimentResults, *, plain: bool = False) -> list[Table]:
    """Return a table for each kind of thing that was traced; none where nothing was.

    `plain`: for a program, with the point in a column also where it is the only one.
    """
    made = []
    metric = _time(experiment)
    for kind, (title, columns, rows) in _KINDS.items():
        found = traced(experiment, metric, kind)
        known = [(each, list(rows(each))) for each in found]
        traced_rows = [[each.name, each.effect_text, *row] for each, own in known for row in own[:MOST_ROWS]]
        if traced_rows:
            most = max(len(own) for _, own in known)
            shown: tuple[str, ...] = ("point", "slow-down", *columns)
            if len({each.name for each in found}) == 1 and not plain:
                # The only point has nothing that distinguishes it: the title has the experiment.
                shown, traced_rows = shown[1:], [row[1:] for row in traced_rows]
            made.append(
                Table(
                    f"{title} in {experiment.experiment}",
                    shown,
                    traced_rows,
                    frozenset(index for index, name in enumerate(shown) if name not in _TEXTS),
                    note=f"slow-down: {metric} traced over untraced, with its 95 % interval. "
                    "Counts, errors and bytes are those of one repetition; "
                    f"{_shares(experiment)}; "
                    f"times include what the tracer adds to them.{_left_out(most)}",
                )
            )
    return made


def _shares(experiment: ExperimentResults) -> str:
    if experiment.workload == "command.run":
        return "shares are of the command's run, and together more than it where several threads make calls"
    return "shares are of the time of all threads"


def _left_out(most: int) -> str:
    """Say that a point shows its most frequent rows alone, where one has `most` of them."""
    if most <= MOST_ROWS:
        return ""
    return f" The {MOST_ROWS} most frequent of up to {most} at a point; oscope export --format json has all."


def _time(experiment: ExperimentResults) -> str:
    """Return the metric that grows as things slow down; the headline where none is a time."""
    times = (
        name
        for name, column in experiment.metrics.items()
        if column.better == "less" and column.unit in _TIMES
    )
    return next(times, experiment.headline)


def _calls(found: Traced) -> Iterator[list[str]]:
    calls = found.reading["calls"]
    for name in sorted(calls, key=lambda name: -calls[name]["count"]):
        call = calls[name]
        yield [
            name,
            _each(found, call["count"]),
            *_times(found, call),
            ", ".join(f"{_each(found, n)} {errno}" for errno, n in call.get("errors", {}).items()) or "0",
            *(_each(found, call.get(key), "B") for key in ("asked", "returned")),
            _each(found, call.get("short")),
        ]


def _switches(found: Traced) -> Iterator[list[str]]:
    switches = found.reading["switches"]
    latencies = switches.get("wakeup_ns", [])
    count = sum(n for _, _, n in latencies)
    mean_ns = sum((low + high) / 2 * n for low, high, n in latencies) / count if count else None
    yield [
        *(_each(found, switches[name]) for name in ("voluntary", "involuntary", "migrations", "wakeups")),
        # Bins are powers of two: half of the middle is all that is known.
        MISSING if mean_ns is None else format_value(mean_ns, mean_ns / 2, "ns"),
    ]


def _faults(found: Traced) -> Iterator[list[str]]:
    for fault in found.reading["faults"]:
        yield [
            fault["class"],
            fault["access"],
            fault["by"],
            fault["kind"],
            _each(found, fault["count"]),
            *_times(found, fault),
        ]


def _each(found: Traced, total: float | None, unit: str = "") -> str:
    """Return a sum over all repetitions as that of one."""
    if total is None:
        return MISSING
    value = total / found.reading["reps"]
    return format_value(value, value / _ONE_IN, unit) if value else "0"


def _times(found: Traced, row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the mean time of a row, and its sum as a share of the traced time of all threads."""
    total = row.get("time_ns")
    if not total or not row["count"]:
        return MISSING, MISSING
    mean, whole = total / row["count"], found.time_ns
    return format_value(mean, mean / _ONE_IN, "ns"), format_share(total / whole if whole else None)


_TEXTS = ("point", "slow-down", "call", "errors", "where", "access", "by", "kind")
"""Columns that are no plain numbers."""
_KINDS: Mapping[str, tuple[str, Sequence[str], Callable[[Traced], Iterator[list[str]]]]] = {
    "calls": (
        "System calls traced",
        ("call", "a repetition", "mean time", "share of time", "errors", "asked", "got", "short"),
        _calls,
    ),
    "switches": (
        "Context switches traced",
        ("voluntary", "involuntary", "migrations", "wake-ups", "mean wake-up latency"),
        _switches,
    ),
    "faults": (
        "Page faults traced",
        ("where", "access", "by", "kind", "a repetition", "mean time", "share of time"),
        _faults,
    ),
}

"""perf stat: what its lines hold."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from oscope.probe.catalogue import Metric
from oscope.tools.importing.value import (
    NO_BLOCKS,
    NO_ENVIRONMENT,
    ONLY_MEANS,
    Imported,
    Reading,
    Series,
    WrongFileError,
)

_NOT_MEASURED = ("<not supported>", "<not counted>")
_SCALES = {
    "msec": ("ns", 1e6),
    "ms": ("ns", 1e6),
    "usec": ("ns", 1e3),
    "nsec": ("ns", 1.0),
    "ns": ("ns", 1.0),
}
_STAMP = re.compile(r"\s*\d+\.\d{9}|\s+\d+\.\d+")
"""The time that `-I` writes first in a line."""
_PARTS = frozenset(("cpu", "core", "die", "cluster", "cache", "socket", "node", "thread"))
"""What `-A` and `--per-…` add to a line of JSON."""
_PART = re.compile(r"CPU\d+|[SDN]\d+(-\w+)*|[^\d<].*-\d+")
"""What they, and `--per-thread`, write first in a line of CSV."""
Row = tuple[str, str, str]
"""An event of perf: its name, value and unit."""


def perf_json(text: str) -> list[Row]:
    """Return the events of `perf stat -j`; WrongFileError where a line is none.

    Derived figures are left out.
    """
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            data = json.loads(line)
            if found := sorted(_PARTS & data.keys()):
                raise _part(number, f"{found[0]} {data[found[0]]}")
            if "event" not in data and "metric-value" in data:
                continue
            rows.append((str(data["event"]), str(data["counter-value"]), str(data.get("unit") or "")))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise WrongFileError(f"line {number} is no event of perf stat -j") from None
    return rows


def perf_csv(text: str) -> list[Row]:
    """Return the events of `perf stat -x SEPARATOR`; WrongFileError where a line is none.

    Derived figures are left out.
    """
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        separator = next((each for each in (";", ",", "\t", "|") if line.count(each) >= 3), None)
        cells = line.split(separator) if separator else []
        if cells and _STAMP.fullmatch(cells[0]):
            del cells[0]
        if len(cells) > 3 and not any(cells[:3]):
            continue
        if len(cells) > 3 and _PART.fullmatch(cells[0].strip()):
            raise _part(number, cells[0])
        if len(cells) < 3 or not cells[2]:
            raise WrongFileError(f"line {number} is no event of perf stat -x")
        rows.append((cells[2], cells[0], cells[1]))
    return rows


def _part(number: int, what: str) -> WrongFileError:
    return WrongFileError(
        f"line {number} has counts of {what} alone, and only those of a whole command are read (perf stat "
        "without -A and --per-…)"
    )


def perf(rows: Sequence[Row]) -> Imported:
    """Return what perf counted of a command, as one sample; more where events come again (`-I`)."""
    samples: list[dict[str, float | None]] = [{}]
    metrics: dict[str, Metric] = {}
    for event, value, unit in rows:
        if event in samples[-1]:
            samples.append({})
        shown, scale = _SCALES.get(unit, (unit or "count", 1.0))
        metrics.setdefault(event, Metric(event, shown, "less", "As perf stat counted it."))
        samples[-1][event] = None if value in _NOT_MEASURED else scale * _value(value, event)
    if not metrics:
        raise WrongFileError("it has no event")
    readings = [Reading({name: each.get(name) for name in metrics}) for each in samples]
    lacks = (NO_BLOCKS, NO_ENVIRONMENT, ONLY_MEANS)
    # A metric without any value is no headline.
    ordered = sorted(
        metrics.values(), key=lambda metric: all(r.metrics[metric.name] is None for r in readings)
    )
    return Imported("perf-stat", tuple(ordered), (Series("command", readings),), lacks)


def _value(text: str, where: str) -> float:
    try:
        # Some locales write a decimal comma.
        return float(text.replace(",", "."))
    except ValueError:
        raise WrongFileError(f"the value of {where} is no number: {text[:40]!r}") from None

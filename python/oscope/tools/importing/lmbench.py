"""lmbench: the lines and the tables that its programs print."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from oscope.model.factors import Level
from oscope.probe.catalogue import Metric, Parameter
from oscope.tools.importing.value import (
    NO_BLOCKS,
    NO_ENVIRONMENT,
    ONLY_MEANS,
    Imported,
    Reading,
    Series,
    WrongFileError,
    merged,
)

_LINE = re.compile(r"(?P<name>[A-Za-z][^:\t]*?)\s*: (?P<value>[0-9.]+(?:e[-+]?\d+)?)(?: (?P<unit>\S+))?\s*")
_PAIR = re.compile(r"(\d+(?:\.\d+)?)\s+(\d+(?:\.\d+)?)(?: MB/sec)?\s*")
_FILES = re.compile(r"(\d+)k\s+\d+\s+(\d+(?:\.\d+)?)\s+(\d+(?:\.\d+)?)\s*")
_STRIDE = re.compile(r'"stride=(\d+)\s*')
_SWITCH = re.compile(r'"size=(\d+)k ovr=\S+\s*')
_HEADING = re.compile(r'"?([A-Za-z][^:\[\]]*?)\s*')
_RESULT = re.compile(r"\d+(\.\d+)?k?\s+\d|[^\[].*(: *\d+(\.\d+)?(\s\S+)?|\d [KM]B/sec)\s*$")
"""What has a figure, whether it is known of what or not. Nothing else that lmbench prints looks like that."""
_LOADS = ("Memory load latency", "Random load latency")
_TIMES = {"microseconds": 1e3, "usecs": 1e3, "nanoseconds": 1.0, "milliseconds": 1e6, "us": 1e3, "ns": 1.0}
_UNITS = {unit: ("time_ns", scale) for unit, scale in _TIMES.items()} | {
    "MB/sec": ("bytes_per_s", 1e6),
    "KB/sec": ("bytes_per_s", 1e3),
}
_METRICS = (
    Metric("time_ns", "ns", "less", "Time, as lmbench gives it."),
    Metric("bytes_per_s", "B/s", "more", "Bytes a second, as lmbench gives it."),
    Metric("creations_per_s", "1/s", "more", "Files created a second."),
    Metric("deletions_per_s", "1/s", "more", "Files deleted a second."),
    Metric("parallelism", "1", "more", "Loads or operations that run at the same time."),
)
_PARAMETERS = (
    Parameter("stride", "bytes", 0, doc="Distance from one load to the next."),
    Parameter("size", "bytes", 0, doc="Size of the buffer, file, mapping or message."),
    Parameter("working_set", "bytes", 0, doc="What each process sums up between two switches."),
    Parameter("processes", "integer", 0, doc="Processes that pass a token around."),
    Parameter("file_size", "bytes", 0, doc="Size of each file."),
)


@dataclass(frozen=True)
class _Figure:
    """One result: the benchmark's name, its levels and its metrics."""

    name: str
    metrics: Mapping[str, float]
    levels: Mapping[str, Level]


_Row = Callable[[str], _Figure | None]
"""Reads a row of a table; None where the line is no row."""


def lmbench(text: str) -> Imported:
    """Read what lmbench's programs print: the lines `NAME: VALUE UNIT`, and the tables below their headings.

    A benchmark that comes again at equal levels is another sample of one point. A figure without a heading,
    or of an unknown unit, is left out; the notes say which.
    """
    figures: list[_Figure] = []
    left: list[str] = []
    for line, figure in _figures(text.splitlines()):
        if figure is not None:
            figures.append(figure)
        elif _RESULT.match(line):
            left.append(line.strip())
    if not figures:
        raise WrongFileError(
            "it has no line like 'Simple syscall: 0.1 microseconds', and no table below its heading"
        )
    metrics = tuple(metric for metric in _METRICS if any(metric.name in each.metrics for each in figures))
    series = merged(
        Series(each.name, [Reading({m.name: each.metrics.get(m.name) for m in metrics})], each.levels)
        for each in figures
    )
    parameters = tuple(each for each in _PARAMETERS if any(each.name in one.levels for one in series))
    lacks = (NO_BLOCKS, NO_ENVIRONMENT, ONLY_MEANS)
    return Imported("lmbench", metrics, series, lacks, notes=_left_out(left), parameters=parameters)


def is_lmbench(line: str) -> bool:
    """Say whether a line is one of lmbench's results, or the heading of a table of them."""
    if _STRIDE.fullmatch(line) or _SWITCH.fullmatch(line):
        return True
    match = _LINE.fullmatch(line)
    return match is not None and match["unit"] in _UNITS


def _figures(lines: Sequence[str]) -> Iterator[tuple[str, _Figure | None]]:
    """Yield each line with the result that it holds."""
    row: _Row | None = None
    loads = "lat_mem_rd"
    for line in lines:
        if (figure := _of_line(line)) or (row is not None and (figure := row(line))):
            yield line, figure
            continue
        yield line, None
        if line.strip() in _LOADS:
            # The heading of several tables, one for each stride.
            loads = line.strip()
        row = _table(line, loads)


def _of_line(line: str) -> _Figure | None:
    """Return the result of a line `NAME: VALUE UNIT`."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    name, value = match["name"], float(match["value"])
    if match["unit"] is None and name.endswith(" parallelism"):
        return _Figure(name, {"parallelism": value}, {})
    if match["unit"] not in _UNITS:
        return None
    metric, scale = _UNITS[match["unit"]]
    return _Figure(name, {metric: scale * value}, {})


def _table(line: str, loads: str) -> _Row | None:
    """Return what reads the rows below the heading `line`; None where that heads no table that is known."""
    if match := _STRIDE.fullmatch(line):
        stride = int(match[1])
        return _pairs(loads, "time_ns", 1.0, lambda x: {"stride": stride, "size": _size(x, 512, 2**20)})
    if match := _SWITCH.fullmatch(line):
        working_set = 1024 * int(match[1])
        return _pairs(
            "context switch",
            "time_ns",
            1e3,
            lambda x: {"working_set": working_set, "processes": int(float(x))},
        )
    match = _HEADING.fullmatch(line)
    title = match[1] if match else ""
    if title == "File system latency":
        return _files
    if title == "mappings":
        return _pairs("mmap", "time_ns", 1e3, _bytes)
    if title.endswith(" parallelism"):
        return _pairs(title, "parallelism", 1.0, _bytes)
    if "bandwidth" in title or "bcopy" in title:
        return _pairs(title, "bytes_per_s", 1e6, _bytes)
    return None


def _pairs(name: str, metric: str, scale: float, levels: Callable[[str], Mapping[str, Level]]) -> _Row:
    def row(line: str) -> _Figure | None:
        match = _PAIR.fullmatch(line)
        return match and _Figure(name, {metric: scale * float(match[2])}, levels(match[1]))

    return row


def _files(line: str) -> _Figure | None:
    """Return a row of lat_fs: size in KiB, number of files, how many were created and deleted a second."""
    match = _FILES.fullmatch(line)
    if match is None:
        return None
    rates = {"creations_per_s": float(match[2]), "deletions_per_s": float(match[3])}
    return _Figure("File system latency", rates, {"file_size": 1024 * int(match[1])})


def _bytes(written: str) -> Mapping[str, Level]:
    return {"size": _size(written, 1, 10**6)}


def _size(written: str, grain: int, unit: int) -> int:
    """Return a size in bytes that lmbench printed in `unit` bytes, rounded.

    It is the power of two, or the multiple of `grain` bytes, that is printed alike; else what is printed.
    """
    value = float(written) * unit
    power = 2 ** round(math.log2(value)) if value >= 1 else 0
    decimals = len(written.partition(".")[2])
    for size in (power, grain * round(value / grain)):
        if f"{size / unit:.{decimals}f}" == written:
            return size
    return round(value)


def _left_out(lines: Sequence[str]) -> tuple[str, ...]:
    """Return a note on the figures that were not read."""
    if not lines:
        return ()
    shown = ", ".join(repr(line[:60]) for line in lines[:3])
    more = f" and {len(lines) - 3} more" if len(lines) > 3 else ""
    return (f"left out, since their heading or unit is not known: {shown}{more}",)

"""The tables of Cambridge L41 lab 2, from a run: the benchmark's verbose output, and its configurations."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oscope.assignments.ipc import BUFFER, CHANNELS, TOTAL
from oscope.assignments.tables import Heads, Line, Source, Unit, gaps, sizes, statistics, table
from oscope.figures.analysed import Analysed
from oscope.figures.tables import unmeasured
from oscope.labs import ipc
from oscope.model.document import Section, Table
from oscope.model.factors import Level
from oscope.model.formatting import MISSING

DEFAULTS: Mapping[str, Level] = {
    "channel": "pipe",
    "mode": "1thread",
    "buffer": BUFFER,
    "sockbuf": "default",
    "placement": "free",
}
ORIGINAL = {"time": "0.033753791", "KBytes/sec": "485397.29"}
"""Of the slides: a pipe in one thread, on their own board."""
KBYTES = Unit("KBytes/sec", 1 / 1024, "MiB/s")
"""A KByte is 1024 bytes, as in the benchmark's own output."""


def _point(metric: str, **levels: Level) -> Source:
    return Source("ipc.throughput", metric, {**DEFAULTS, **levels})


def verbose(results: Analysed) -> Section:
    """Draw the benchmark's verbose output: configuration, time and throughput."""
    configuration = {
        "buffersize": str(BUFFER),
        "totalsize": str(TOTAL),
        "blockcount": str(TOTAL // BUFFER),
        "mode": "1thread",
        "ipctype": "pipe",
    }
    rows = [[name, value, value] for name, value in configuration.items()]
    for name, metric, unit in (("time", "time_s", Unit("s")), ("KBytes/sec", "throughput", KBYTES)):
        rows.append([name, ORIGINAL[name], *_cells(results, _point(metric), unit)])
    columns = ["", "original", "here: mean", "std. dev.", "median", "95 % interval", "n"]
    note = f"Time in seconds; a KByte has 1024 bytes. {sizes(results, 'ipc.throughput')}"
    shown = Table("Verbose output of the benchmark", columns, rows, frozenset(), note)
    return Section("", "", tables=[shown], missing=gaps(results, [_point("time_s")]))


def _cells(results: Analysed, source: Source, unit: Unit) -> list[str]:
    summary = source.summary(results)
    if summary is None:
        found = source.find(results)
        return [MISSING if found is None else unmeasured(found[1], source.metric)]
    return [*statistics(summary, unit.scale([summary])), str(summary.n)]


def configurations(results: Analysed) -> Section:
    """Draw exploratory question 1: every configuration at the default buffer size."""
    lines = []
    for channel in CHANNELS:
        for mode in ipc.MODES:
            for sockbuf in ("default", "buffer"):
                if channel == "pipe" and sockbuf == "buffer":
                    continue
                flags = f"-i {channel}{' -s' if sockbuf == 'buffer' else ''} {mode}"
                levels: dict[str, Level] = {"channel": channel, "mode": mode, "sockbuf": sockbuf}
                cited = ORIGINAL["KBytes/sec"] if (channel, mode) == ("pipe", "1thread") else MISSING
                lines.append(
                    Line([flags], [cited], [_point("throughput", **levels), _point("time_s", **levels)])
                )
    heads = Heads(
        ["Flags"],
        ["KBytes/sec"],
        [("Throughput", KBYTES), ("time", Unit("s", suited=True))],
    )
    note = f"At the benchmark's default buffer of 128 KiB. {sizes(results, 'ipc.throughput')}"
    return Section("", "", tables=[table(results, "Configurations of the benchmark", heads, lines, note)])


DRAWN: Mapping[str, Callable[[Analysed], Section | None]] = {
    "verbose": verbose,
    "configurations": configurations,
}
"""By the key of the step."""

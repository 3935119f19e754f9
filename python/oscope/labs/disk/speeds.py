"""Reading and writing by block size: cold beside dd and fio, cold and warm, by engine, and synchronised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import measured
from oscope.figures.words import listed
from oscope.labs.disk import reference
from oscope.labs.engine import curves as curve
from oscope.labs.engine.curves import RATE, RATE_UNIT, At, Curves, curves_by, over_sizes, ratios, sizes_of
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run, narrowing
from oscope.labs.engine.table import Column, TableOf, count, number, ratio, stat, text
from oscope.labs.engine.words import NOT_RUN, capital, joined, judged, reasons, times, value
from oscope.model.document import Figure, Table
from oscope.model.formatting import MISSING, format_count, format_share, format_value
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric

MEBIBYTE = 1 << 20
CACHES = ("cold", "warm")
READ_FACTORS = ("cache", "engine", "block_size")


def _originals(cited: Mapping[str, Mapping[int, float]]) -> list[Column[int]]:
    """Return columns of the original report's speeds by block size."""
    return [
        text(f"{name} [{RATE_UNIT}]", partial(reference.cited, row), numeric=True)
        for name, row in cited.items()
    ]


# ---- cold, beside dd and fio: evenly spaced, and to scale

OURS, PEERS = "oscope", "disk.peers"
TOOLS = (OURS, "dd", "fio")


def _by_tool(run: Run) -> Curves:
    if run.experiment.experiment == PEERS:
        return curves_by(run, RATE, "tool", TOOLS, cache="cold")
    found = curve.curve(run, RATE, engine="read", cache="cold")
    return {OURS: found} if found else {}


def _both_ends(run: Run, _: Sequence[int]) -> str:
    """Give the ends of the first curve."""
    tool, found = next(iter(_by_tool(run).items()))
    low, high = found[0], found[-1]
    text = f"Cold, {tool} reads blocks of {low.name} at {value(low.summary, RATE_UNIT)}"
    return f"{text}." if low is high else f"{text}, of {high.name} at {value(high.summary, RATE_UNIT)}."


def _tool_table(run: Run, sizes: Sequence[int]) -> Table:
    curves = _by_tool(run)
    over = {
        tool: ratios(run, RATE, "tool", (tool, OURS), cache="cold") for tool in TOOLS[1:] if tool in curves
    }
    table: TableOf[int] = TableOf(
        f"Cold reads by block size, file of {curve.source(run.experiment, curves)}",
        (
            *curve.size_columns(curves, RATE_UNIT),
            *(ratio(f"{OURS} / {tool}", rows.get, "different") for tool, rows in over.items()),
            *_originals({"original": reference.COLD, "original dd": reference.DD}),
        ),
        "Medians. A ratio is paired by block, with its 95 % interval; above 1 oscope is the faster one. "
        f"{MISSING}: not measured.",
    )
    return table.of(sizes)


def _tool_figures(run: Run, sizes: Sequence[int]) -> list[Figure]:
    curves = _by_tool(run)
    title = f"Speed of cold reads, file of {curve.source(run.experiment, curves)}, block sizes"
    lines, axis = curve.lines_over(curves, RATE_UNIT, {size: size / MEBIBYTE for size in sizes})
    near = sum(size <= sizes[-1] / 40 for size in sizes)
    note = (
        f"The same figures; to scale, {near} of {len(sizes)} block sizes lie within a fortieth of the axis."
    )
    block = plots.axis("block size [MiB]", rangemode="tozero")
    even = over_sizes(f"{title} evenly spaced", curves, RATE_UNIT)
    return [even, plots.lines(f"{title} to scale", (block, axis), lines, note)]


SWEEP = Question(
    title="Reading cold, by block size, beside dd and fio",
    experiment=(PEERS, "disk.read"),
    rows=lambda run: sizes_of(_by_tool(run)),
    headline=_both_ends,
    text=(
        "All three read the same file, interleaved, each after the caches were dropped and found empty. "
        "The time is each tool's own account; in dd's is a write to /dev/null after each read."
    ),
    tables=_tool_table,
    figures=_tool_figures,
    factors=("tool", *READ_FACTORS),
    missing=lambda run: (
        reasons(run.experiment, cache="cold")
        if run.experiment.experiment == PEERS
        else f"dd and fio: {NOT_RUN.format(PEERS, PEERS)}."
    ),
)

# ---- cold and warm: what the page cache saves


def _by_cache(run: Run) -> Curves:
    return curves_by(run, RATE, "cache", CACHES, engine="read")


def _warm_over_cold(run: Run) -> dict[int, ComparedMetric]:
    return ratios(run, RATE, "cache", CACHES, engine="read")


def _gain(run: Run, _: Sequence[int]) -> str:
    rows = _warm_over_cold(run)
    if not rows:
        cache, found = next(iter(_by_cache(run).items()))
        top = max(found, key=lambda each: each.summary.median)
        return f"Only {cache} reads were measured: up to {value(top.summary, RATE_UNIT)}, at {top.name}."
    most = max(rows, key=lambda size: rows[size].ratio)
    if rows[most].different != "yes":
        return f"No gain by the page cache was found: warm reads are {judged(rows[most], 'as fast')}."
    return (
        f"From the page cache, blocks of {format_bytes(most)} are read {times(rows[most])} as fast as cold."
    )


def _proof(run: Run) -> str:
    """Return a note of how much was in the page cache just before the cold and the warm samples."""
    said = []
    for cache, word in zip(CACHES, ("most", "least"), strict=True):
        points = [point for point in run.experiment.points if point.factors.get("cache") == cache]
        shares = np.concatenate([measured(point, "resident")[0] for point in points] or [np.zeros(0)])
        if len(shares):
            end = float(shares.max() if cache == "cold" else shares.min())
            share = "0 %" if end == 0 else format_share(end)
            said.append(f"at {word} {share} before each of {format_count(len(shares))} {cache} reads")
    return f" In the page cache were, of the pages to be read, {listed(said)}." if said else ""


def _cited_ratio(size: int) -> float | None:
    cold, warm = reference.COLD.get(size), reference.WARM.get(size)
    return None if cold is None or warm is None else warm / cold


def _cache_table(run: Run, sizes: Sequence[int]) -> Table:
    curves = _by_cache(run)
    every: Curves = {cache: curves.get(cache, ()) for cache in CACHES}
    table: TableOf[int] = TableOf(
        f"Cold and warm reads by block size, file of {curve.source(run.experiment, curves)}",
        (
            *curve.size_columns(every, RATE_UNIT),
            ratio("warm / cold", _warm_over_cold(run).get),
            *_originals({"original cold": reference.COLD, "original warm": reference.WARM}),
            number("original warm / cold", _cited_ratio, ".1f"),
        ),
        "Medians; the factor is paired by block. The original's figures are of another "
        f"machine.{_proof(run)}",
    )
    return table.of(sizes)


COLD_AND_WARM = Question(
    title="Cold and warm",
    experiment="disk.read",
    rows=lambda run: sizes_of(_by_cache(run)),
    headline=_gain,
    tables=_cache_table,
    figures=lambda run, _: over_sizes(
        f"Speed of reading a file of {curve.source(run.experiment, _by_cache(run))}, cold and warm",
        _by_cache(run),
        RATE_UNIT,
    ),
    factors=READ_FACTORS,
    missing=lambda run: reasons(run.experiment, engine="read"),
)

# ---- ways of reading: read, pread, mmap, and past the page cache by O_DIRECT and io_uring

PLAIN = "read"


class Way(NamedTuple):
    """One engine at one block size, with the cache in one state."""

    cache: str
    engine: str
    at: At
    over_plain: ComparedMetric | None


def _shared(run: Run, cache: str) -> Curves:
    """Return the engines' curves at the block sizes at which at least two were measured."""
    curves = curves_by(run, RATE, "engine", cache=cache)
    counts = Counter(each.size for found in curves.values() for each in found)
    kept = {name: [each for each in found if counts[each.size] > 1] for name, found in curves.items()}
    return {name: found for name, found in kept.items() if found}


def _ways(run: Run) -> list[Way]:
    rows = []
    for cache in CACHES:
        for name, found in _shared(run, cache).items():
            over = ratios(run, RATE, "engine", (PLAIN, name), cache=cache) if name != PLAIN else {}
            rows += [Way(cache, name, at, over.get(at.size)) for at in found]
    return sorted(rows, key=lambda row: (row.cache, row.at.size))


def _fastest(_: Run, rows: Sequence[Way]) -> str:
    """Name the fastest at the largest block size, cold where that was measured, beside plain reading."""
    own = [row for row in rows if row.cache == rows[0].cache]
    best = max((r for r in own if r.at.size == own[-1].at.size), key=lambda row: row.at.summary.median)
    over, beside = best.over_plain, ""
    if over is not None and over.different != "yes":
        beside = f" (no difference from {PLAIN} was found)"
    elif over is not None:
        beside = f", {times(over)} that of {PLAIN}"
    copied = ", without copying anything" if best.engine == "mmap" else ""
    text = f"{capital(best.cache)}, {best.engine} is the fastest by blocks of {best.at.name}"
    return f"{text}: {value(best.at.summary, RATE_UNIT)}{beside}{copied}."


WAYS: TableOf[Way] = TableOf(
    "Ways of reading, {cache}",
    (
        text("block size", lambda row: row.at.name),
        text("engine", lambda row: row.engine),
        count("n", lambda row: row.at.summary.n),
        stat("median", lambda row: row.at.summary, RATE_UNIT),
        ratio(f"times {PLAIN}", lambda row: row.over_plain),
    ),
    "The factor is paired by block.",
)
ENGINES = Question(
    title="Ways of reading",
    experiment="disk.read",
    rows=_ways,
    headline=_fastest,
    text=(
        "`mmap` looks at one byte of each page and copies nothing. `direct` (O_DIRECT) and `uring` (the "
        "same, many blocks in flight) go past the page cache: no copy, but no read-ahead either."
    ),
    tables=lambda _, rows: (
        WAYS.of((row for row in rows if row.cache == cache), cache=cache) for cache in CACHES
    ),
    figures=lambda run, _: (
        figure
        for cache in CACHES
        for figure in curve.several(f"Speed by way of reading, {cache}", _shared(run, cache), RATE_UNIT)
    ),
    factors=READ_FACTORS,
)

# ---- writing by block size and synchronisation, and the file size that is read in 5 to 15 s

WRITE, READ = "disk.write", "disk.read"
SYNCS = ("none", "fdatasync", "direct")
LEAST_S, MOST_S = 5.0, 15.0
"""The time in which the original report wants its file to be read."""
SYNC = (
    "`none` returns when the data are in the page cache; `fdatasync` waits once at the end until the device "
    "has them; `direct` writes past the page cache."
)
PREDICTED = (
    "A cache below the kernel may make a large file slower or faster than predicted; `oscope disk "
    "size` reads."
)


def _written(run: Run) -> Curves:
    own = run.beside(WRITE)
    return curves_by(own, RATE, "sync", SYNCS) if own else {}


def _cold(run: Run) -> list[At]:
    own = run.beside(READ)
    return curve.curve(own, RATE, engine="read", cache="cold") if own else []


def _size(each: At, seconds: float) -> str:
    size = each.summary.median * MEBIBYTE * seconds
    return format_value(size, size / 5, "B")


def _power(each: At) -> str | None:
    """Return the largest power of two that is read in the time allowed; None if it is read too soon."""
    speed = each.summary.median
    most = int(speed * MEBIBYTE * MOST_S)
    size = 1 << (most.bit_length() - 1) if most > 0 else 0
    if size / MEBIBYTE < speed * LEAST_S:
        return None
    return f"{format_bytes(size)} ({size / MEBIBYTE / speed:.2g} s)"


def _top_speeds(run: Run, _: object) -> str:
    tops = {sync: max(found, key=lambda each: each.summary.median) for sync, found in _written(run).items()}
    if tops:
        parts = [f"{value(at.summary, RATE_UNIT)} with sync={sync}" for sync, at in list(tops.items())[:2]]
        return f"A file is written at up to {listed(parts)}."
    cold = _cold(run)
    sizes = [
        f"{_size(at, LEAST_S)} to {_size(at, MOST_S)} by blocks of {at.name}" for at in (cold[0], cold[-1])
    ]
    return (
        f"A file that is read cold in {LEAST_S:g} to {MOST_S:g} s should have "
        f"{' and '.join(dict.fromkeys(sizes))} (predicted from the measured speed)."
    )


def _how(run: Run, _: object) -> Iterable[str]:
    write = run.beside(WRITE)
    if write and _written(run):
        yield from (SYNC, *narrowing(write.experiment, ("sync", "block_size")))
    if _cold(run):
        yield PREDICTED


READ_IN: TableOf[At] = TableOf(
    "The file that is read in a reasonable time, predicted from cold reads of {what}",
    (
        text("block size", lambda at: at.name),
        stat("cold", lambda at: at.summary, RATE_UNIT),
        text(f"read in {LEAST_S:g} s", lambda at: _size(at, LEAST_S)),
        text(f"read in {MOST_S:g} s", lambda at: _size(at, MOST_S)),
        text("a power of two between", _power),
    ),
)


def _write_tables(run: Run, _: object) -> Iterable[Table]:
    write, read, written, cold = run.beside(WRITE), run.beside(READ), _written(run), _cold(run)
    if write and written:
        synced = ratios(write, RATE, "sync", ("fdatasync", "none"))
        over = [ratio("time with fdatasync / none", synced.get, "different")] if synced else []
        note = f"Medians. {MISSING}: not measured; past the page cache only whole pages are written."
        title = f"Writing speed by block size, file of {curve.source(write.experiment, written)}"
        columns = (*curve.size_columns(written, RATE_UNIT), *over)
        yield TableOf(title, columns, note).of(sizes_of(written))
    if read and cold:
        yield READ_IN.of(cold, what=curve.source(read.experiment, {"cold": cold}))


def _write_figures(run: Run, _: object) -> list[Figure]:
    write, written = run.beside(WRITE), _written(run)
    what = curve.source(write.experiment, written) if write else ""
    return curve.several(f"Speed of writing a file of {what}, by block size", written, RATE_UNIT)


WRITING = Question(
    title="Writing, and how large a file must be",
    experiment=(WRITE, READ),
    rows=lambda run: [*_written(run), *_cold(run)],
    headline=_top_speeds,
    text=_how,
    tables=_write_tables,
    figures=_write_figures,
    missing=lambda run: joined(
        *(f"{NOT_RUN.format(name, name)}." for name in (WRITE, READ) if run.beside(name) is None),
        reasons(own.experiment) if (own := run.beside(WRITE)) else "",
    ),
)

"""Reading and writing by block size: cold beside dd and fio, cold and warm, by engine, and synchronised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite

import numpy as np

from oscope import questions as q
from oscope.labs.disk import CACHES, TOOLS
from oscope.originals import disk as reference

READ_FACTORS = ("cache", "engine", "block_size")


def _plain(run: q.Run) -> q.Run:
    """Return the reads by read(2) at one level of every factor that is not shown."""
    return run.only(engine="read").narrowed("tool", *READ_FACTORS)


def _by_size(what: str, run: q.Run, curves: q.Curves, note: str, *more: q.Column[int]) -> q.Table:
    """Return a table of speeds over the block size, with further columns."""
    title = f"{what} by block size, file of {q.source(run.experiment, curves)}"
    return q.TableOf(title, *q.size_columns(curves, q.RATE_UNIT), *more, note=note).of(q.sizes_of(curves))


# ---- cold, beside dd and fio: evenly spaced, and to scale

OURS, PEERS = "oscope", "disk.peers"


def _by_tool(run: q.Run) -> q.Curves:
    if run.experiment.experiment == PEERS:
        return q.curves_by(_plain(run), q.RATE, "tool", TOOLS, cache="cold")
    found = q.curve(_plain(run), q.RATE, cache="cold")
    return {OURS: found} if found else {}


def _both_ends(run: q.Run, _: Sequence[int]) -> str:
    tool, found = next(iter(_by_tool(run).items()))
    low, high = found[0], found[-1]
    parts = (f"of {each.name} at {q.bracketed(each.summary, q.RATE_UNIT)}" for each in (low, high))
    return f"Cold, {tool} reads blocks {', '.join(dict.fromkeys(parts))}."


def _tool_table(run: q.Run, _: Sequence[int]) -> q.Table:
    curves = _by_tool(run)
    others = [tool for tool in TOOLS[1:] if tool in curves]
    over = {tool: q.ratios(_plain(run), q.RATE, "tool", (tool, OURS), cache="cold") for tool in others}
    return _by_size(
        "Cold reads",
        run,
        curves,
        f"Medians. A ratio is paired by block; above 1 oscope is the faster one. {q.MISSING}: not measured.",
        *(q.ratio(f"{OURS} / {tool}", rows.get, "different") for tool, rows in over.items()),
        q.cited("cold", q.RATE_UNIT, reference.COLD, "d"),
        q.cited("dd", q.RATE_UNIT, reference.DD, "d"),
    )


def _tool_figures(run: q.Run, _: Sequence[int]) -> list[q.Figure]:
    curves = _by_tool(run)
    title = f"Speed of cold reads, file of {q.source(run.experiment, curves)}, block sizes"
    even = q.over_sizes(f"{title} evenly spaced", curves, q.RATE_UNIT)
    return [even, q.to_scale(f"{title} to scale", curves, q.RATE_UNIT)]


SWEEP = q.Question(
    title="Reading cold, by block size, beside dd and fio",
    experiment=(PEERS, "disk.read"),
    rows=lambda run: q.sizes_of(_by_tool(run)),
    headline=_both_ends,
    text="All three read the same file, interleaved, after the caches were dropped; each times itself.",
    tables=_tool_table,
    figures=_tool_figures,
    factors=("tool", *READ_FACTORS),
    missing=lambda run: (
        q.reasons(run.experiment, cache="cold")
        if run.experiment.experiment == PEERS
        else f"dd and fio: {q.NOT_RUN.format(PEERS, PEERS)}."
    ),
)

# ---- cold and warm: what the page cache saves


def _by_cache(run: q.Run) -> q.Curves:
    return q.curves_by(_plain(run), q.RATE, "cache", CACHES)


def _warm_over_cold(run: q.Run) -> dict[int, q.ComparedMetric]:
    return q.ratios(_plain(run), q.RATE, "cache", CACHES)


def _gain(run: q.Run, _: Sequence[int]) -> str:
    rows = _warm_over_cold(run)
    if not rows:
        cache, found = next(iter(_by_cache(run).items()))
        top = max(found, key=lambda each: each.summary.median)
        speed = q.bracketed(top.summary, q.RATE_UNIT)
        return f"Only {cache} reads were measured: up to {speed}, at {top.name}."
    proven = {size: row for size, row in rows.items() if row.different == "yes" and isfinite(row.ratio)}
    most = max(proven or rows, key=lambda size: rows[size].ratio)
    if not proven:
        return f"No gain by the page cache was found: warm reads are {q.judged(rows[most], 'as fast')}."
    return f"From the page cache, blocks of {q.format_bytes(most)} are {q.times(rows[most])} as fast as cold."


def _proof(run: q.Run) -> str:
    """Return a note of how much was in the page cache just before the cold and the warm samples."""
    parts = []
    for cache, word in zip(CACHES, ("most", "least"), strict=True):
        points = [point for point in run.experiment.points if point.factors.get("cache") == cache]
        shares = np.concatenate([q.measured(point, "resident")[0] for point in points] or [np.zeros(0)])
        if len(shares):
            end = float(shares.max() if cache == "cold" else shares.min())
            share = "0 %" if end == 0 else q.format_share(end)
            parts.append(f"at {word} {share} before each of {q.format_count(len(shares))} {cache} reads")
    return f" In the page cache were, of the pages to be read, {q.listed(parts)}." if parts else ""


def _cache_table(run: q.Run, _: Sequence[int]) -> q.Table:
    curves = _by_cache(run)
    return _by_size(
        "Cold and warm reads",
        run,
        {cache: curves.get(cache, ()) for cache in CACHES},
        f"Medians; the factor is paired by block. The original is of another machine.{_proof(run)}",
        q.ratio("warm / cold", _warm_over_cold(run).get),
        q.cited("cold", q.RATE_UNIT, reference.COLD, "d"),
        q.cited("warm", q.RATE_UNIT, reference.WARM, "d"),
        q.cited(
            "warm / cold", "", lambda size: q.over(reference.WARM.get(size), reference.COLD.get(size)), ".1f"
        ),
    )


COLD_AND_WARM = q.Question(
    title="Cold and warm",
    experiment="disk.read",
    rows=lambda run: q.sizes_of(_by_cache(run)),
    headline=_gain,
    tables=_cache_table,
    figures=lambda run, _: q.over_sizes(
        f"Speed of reading a file of {q.source(run.experiment, _by_cache(run))}, cold and warm",
        _by_cache(run),
        q.RATE_UNIT,
    ),
    factors=READ_FACTORS,
    missing=lambda run: q.reasons(run.experiment, engine="read"),
)

# ---- ways of reading: read, pread, mmap, and past the page cache by O_DIRECT and io_uring

PLAIN = "read"


def _ways(run: q.Run) -> list[q.Point]:
    """Return the points at block sizes at which at least two engines were measured, cold ones first."""
    found = []
    for cache in CACHES:
        points = run.narrowed(*READ_FACTORS).only(cache=cache).points(q.RATE)
        counts = Counter(map(_block, points))
        found += sorted((each for each in points if counts[_block(each)] > 1), key=_block)
    return found


def _block(point: q.Point) -> int:
    return int(point.factors["block_size"])


def _over_plain(point: q.Point) -> q.ComparedMetric | None:
    return q.beside(point, "engine", PLAIN)


def _fastest(_: q.Run, rows: Sequence[q.Point]) -> str:
    own = [row for row in rows if row["cache"] == rows[0]["cache"]]
    best, alike = q.best_of([row for row in own if _block(row) == _block(own[-1])])
    over = f", {q.judged(row, f'that of {PLAIN}')}" if (row := _over_plain(best)) else ""
    text = f"{q.capital(best['cache'])}, {best['engine']} is the fastest by blocks of {best['block_size']}"
    bare = best["engine"] == "mmap" and best.factors.get("work", "none") == "none"
    moved = "; it reads one byte of each page, and copies none" if bare else ""
    others = f" (not distinguished from {q.listed([each['engine'] for each in alike])})" if alike else ""
    return f"{text}{others}{q.brackets(f': {best.value}{over}{moved}.')}"


WAYS: q.TableOf[q.Point] = q.TableOf(
    "Ways of reading, {cache}",
    q.level("block_size", "block size"),
    q.level("engine"),
    q.count("n", lambda row: row.summary.n),
    q.stat("median", lambda row: row.summary, q.RATE_UNIT),
    q.ratio(f"times {PLAIN}", _over_plain),
    note="The factor is paired by block.",
)


def _way_figures(_: q.Run, rows: Sequence[q.Point]) -> Iterator[q.Figure]:
    for cache, own in q.grouped(rows, lambda row: row["cache"]).items():
        engines = q.grouped(own, lambda row: row["engine"])
        curves = {name: [q.At(_block(p), p.samples, p.summary) for p in row] for name, row in engines.items()}
        yield from q.several(f"Speed by way of reading, {cache}", curves, q.RATE_UNIT)


ENGINES = q.Question(
    title="Ways of reading",
    experiment="disk.read",
    rows=_ways,
    headline=_fastest,
    text="`mmap` reads one byte of each page; `direct` and `uring` go past the page cache and read-ahead.",
    tables=lambda _, rows: (
        WAYS.of(own, cache=cache) for cache, own in q.grouped(rows, lambda row: row["cache"]).items()
    ),
    figures=_way_figures,
    factors=READ_FACTORS,
)

# ---- writing by block size and synchronisation, and the file size that is read in 5 to 15 s

WRITE, READ = "disk.write", "disk.read"
WRITE_FACTORS = ("sync", "block_size")
SYNCS = ("none", "fdatasync", "direct")
LEAST_S, MOST_S = 5.0, 15.0
"""The time in which the original report wants its file to be read."""
SYNC = "`none` leaves data in the page cache; `fdatasync` waits for the device; `direct` goes past the cache."
PREDICTED = "A cache below the kernel may make a large file slower or faster; `oscope disk size` reads."


def _written(run: q.Run) -> q.Curves:
    own = run.beside(WRITE)
    return q.curves_by(own.narrowed(*WRITE_FACTORS), q.RATE, "sync", SYNCS) if own else {}


def _cold(run: q.Run) -> list[q.At]:
    own = run.beside(READ)
    return q.curve(_plain(own), q.RATE, cache="cold") if own else []


def read_in(speed: q.Summary, seconds: float) -> str:
    """Return the size of a file that is read in this time; `speed` is in MiB/s."""
    size = speed.median * q.MEBIBYTE * seconds
    return q.format_value(size, size / 5, "B")


def reasonable(speed: q.Summary) -> str:
    """Return the sizes that are read in the time allowed, at this speed in MiB/s."""
    return f"{read_in(speed, LEAST_S)} to {read_in(speed, MOST_S)}"


def _power(each: q.At) -> str | None:
    """Return the largest power of two that is read in the time allowed; None if it is read too soon."""
    speed = each.summary.median
    most = int(speed * q.MEBIBYTE * MOST_S)
    size = 1 << (most.bit_length() - 1) if most > 0 else 0
    if size / q.MEBIBYTE < speed * LEAST_S:
        return None
    return f"{q.format_bytes(size)} ({size / q.MEBIBYTE / speed:.2g} s)"


def _top_speeds(run: q.Run, _: object) -> str:
    tops = {sync: max(found, key=lambda each: each.summary.median) for sync, found in _written(run).items()}
    if tops:
        parts = [f"{q.bracketed(at.summary, q.RATE_UNIT)} with sync={sync}" for sync, at in tops.items()]
        return f"A file is written at up to {q.listed(parts[:2])}."
    last = _cold(run)[-1]
    size = f"{read_in(last.summary, MOST_S)} by blocks of {last.name} (predicted from the measured speed)"
    return f"A file that is read cold in {MOST_S:g} s should have {size}."


def _how(run: q.Run, _: object) -> Iterable[str]:
    write = run.beside(WRITE)
    if write and _written(run):
        yield from (SYNC, *q.narrowing(write.experiment, WRITE_FACTORS))
    if _cold(run):
        yield PREDICTED


READ_IN: q.TableOf[q.At] = q.TableOf(
    "The file that is read in a reasonable time, predicted from cold reads of {what}",
    q.text("block size", lambda at: at.name),
    q.stat("cold", lambda at: at.summary, q.RATE_UNIT),
    q.text(f"read in {LEAST_S:g} s", lambda at: read_in(at.summary, LEAST_S)),
    q.text(f"read in {MOST_S:g} s", lambda at: read_in(at.summary, MOST_S)),
    q.text("a power of two between", _power),
)


def _write_tables(run: q.Run, _: object) -> Iterable[q.Table]:
    write, read, written, cold = run.beside(WRITE), run.beside(READ), _written(run), _cold(run)
    if write and written:
        synced = q.ratios(write.narrowed(*WRITE_FACTORS), q.RATE, "sync", ("fdatasync", "none"))
        over = [q.ratio("time with fdatasync / none", synced.get, "different")] if synced else []
        note = f"Medians. {q.MISSING}: not measured; past the page cache only whole pages are written."
        yield _by_size("Writing speed", write, written, note, *over)
    if read and cold:
        yield READ_IN.of(cold, what=q.source(read.experiment, {"cold": cold}))


def _write_figures(run: q.Run, _: object) -> list[q.Figure]:
    write, written = run.beside(WRITE), _written(run)
    what = q.source(write.experiment, written) if write else ""
    return q.several(f"Speed of writing a file of {what}, by block size", written, q.RATE_UNIT)


WRITING = q.Question(
    title="Writing, and how large a file must be",
    experiment=(WRITE, READ),
    rows=lambda run: [*_written(run), *_cold(run)],
    headline=_top_speeds,
    text=_how,
    tables=_write_tables,
    figures=_write_figures,
    missing=lambda run: q.joined(
        *(f"{q.NOT_RUN.format(name, name)}." for name in (WRITE, READ) if run.beside(name) is None),
        q.reasons(own.experiment) if (own := run.beside(WRITE)) else "",
    ),
)

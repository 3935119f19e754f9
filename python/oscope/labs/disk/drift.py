"""First and later cold reads of the same file: the drift that caches below the kernel cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from oscope import questions as q
from oscope.statistics.warmup import first_and_later

EARLIER = "earlier_reads"
MOST_BLOCKS = 24
"""Blocks drawn as rows of a figure."""
SPLITS = (1, 2, 4, 8, 16, 32, 64)
"""Where the groups of earlier reads begin, after the first read."""


class Cold(NamedTuple):
    """Every cold sample, as its MiB/s over the median of its point."""

    relative: q.Floats
    earlier: q.Floats
    """How often the process had read the file before."""
    block: q.Ints


def _rows(run: q.Run) -> list[Cold]:
    found = _cold(_points(run))
    return [found] if len(found.relative) else []


def _points(run: q.Run) -> list[q.PointSamples]:
    return [point for point in run.experiment.points if point.factors.get("cache") == "cold"]


def _cold(points: Sequence[q.PointSamples]) -> Cold:
    rows = [np.zeros((4, 0))]
    for point in points:
        values, keep = q.measured(point, q.RATE)
        earlier = point.metrics.get(EARLIER)
        if len(values) and earlier is not None and np.median(values) > 0:
            known = np.isfinite(earlier[keep])
            columns = (values / np.median(values), earlier[keep], point.block[keep], point.started_ns[keep])
            rows.append(np.array([each[known] for each in columns]))
    joined = np.concatenate(rows, axis=1)
    relative, earlier_reads, block, _ = joined[:, np.argsort(joined[3], kind="stable")]
    return Cold(relative, earlier_reads, block.astype(np.int64))


def _headline(_: q.Run, rows: Sequence[Cold]) -> str:
    found = first_over_later(rows[0])
    if found is None:
        return "Whether first cold reads differ from later ones is not known: no block has both."
    ratio = float(np.exp(found.median))
    if found.ci95 is None:
        return f"First cold reads are {ratio:.2f} times as fast in the one block: too little for a verdict."
    low, high = (float(np.exp(end)) for end in found.ci95)
    words = f"{q.brackets(q.bounded_text(ratio, low, high))} times as fast as later ones"
    if low <= 1 <= high:
        return f"No difference between first and later cold reads was found: the first are {words}."
    return f"First cold reads are {'slower' if high < 1 else 'faster'}: {words}."


def first_over_later(cold: Cold) -> q.Summary | None:
    """Summarise the logarithm of each block's first read over its later ones (medians); None without both."""
    first, later, blocks = first_and_later(cold.relative, cold.earlier == 0, cold.block)
    return q.summarise(np.log(first / later), blocks, kind="difference") if len(blocks) else None


def _trend(cold: Cold) -> str:
    found = q.summarise(cold.relative, cold.block).drift
    if not np.isfinite(found.relative) or not found.found:
        return "Over the run no drift was found."
    return f"Over the run cold reads drifted by {found.relative:+.1%}."


def _layers(run: q.Run, _: Sequence[Cold]) -> list[str]:
    """Name what lies below the page cache and how cold was made, as the probe noted."""
    notes = dict.fromkeys(note for point in _points(run) for note in point.notes)
    below = [note for note in notes if not note.startswith(("cold", "warm"))]
    made = [note.removeprefix("cold: ") for note in notes if note.startswith("cold")]
    lines = [f"Below the page cache, and out of its reach: {'; '.join(below)}."] if below else []
    return [*lines, *([f"What made the reads cold: {made[0]}."] if made else [])]


def _groups(cold: Cold) -> list[tuple[str, np.ndarray]]:
    """Return the samples by how often the file had been read, in groups that double."""
    groups = [("first read", cold.earlier == 0)]
    for low, high in zip(SPLITS, [*SPLITS[1:], np.inf], strict=True):
        name = f"{low} earlier" if high == low + 1 else f"{low} to {high - 1:g} earlier"
        here = (cold.earlier >= low) & (cold.earlier < high)
        groups.append((f"{low} earlier or more" if high == np.inf else name, here))
    return [(name, chosen) for name, chosen in groups if chosen.any()]


TABLE: q.TableOf[tuple[str, q.Summary]] = q.TableOf(
    "Cold reads by how often the file had been read",
    q.text("reads of the file", lambda row: row[0]),
    q.count("n", lambda row: row[1].n),
    q.count("blocks", lambda row: row[1].blocks),
    q.number("MiB/s over its point's median", lambda row: row[1].median, ".3f"),
    q.text("95 %", lambda row: (ends := row[1].ci95) and "{:.3f} to {:.3f}".format(*ends), numeric=True),
    q.text("std. dev.", lambda row: q.format_share(row[1].std, 0.01), numeric=True),
    note="1 is what a sample's point usually reaches. {trend}",
)


def _table(_: q.Run, rows: Sequence[Cold]) -> q.Table:
    (cold,) = rows
    found = ((name, q.summarise(cold.relative[keep], cold.block[keep])) for name, keep in _groups(cold))
    return TABLE.of(found, trend=_trend(cold))


def _by_block(cold: Cold) -> list[tuple[str, np.ndarray]]:
    """Return the samples in the order of the run, block by block or by several that follow each other."""
    blocks = np.unique(cold.block)
    groups = []
    for each in np.array_split(blocks, min(len(blocks), MOST_BLOCKS)):
        span = f"block {each[0] + 1}" if len(each) == 1 else f"blocks {each[0] + 1} to {each[-1] + 1}"
        groups.append((span, np.isin(cold.block, each)))
    return groups if len(groups) > 1 else []


def _strips(_: q.Run, rows: Sequence[Cold]) -> Iterator[q.Figure]:
    (cold,) = rows
    by_reads = ("Speed of cold reads by how often the process had read the file", _groups(cold))
    for title, groups in (by_reads, ("Speed of cold reads in the order of the run", _by_block(cold))):
        samples = ((name, cold.relative[chosen], cold.block[chosen]) for name, chosen in groups)
        if groups:
            yield q.sample_strips(title, "MiB/s over the median of its point", samples)


section = q.Question(
    title="First and later cold reads",
    experiment="disk.read",
    rows=_rows,
    headline=_headline,
    text=(_layers, "The verdict takes one value a block, since the reads of one process share its file."),
    tables=_table,
    figures=_strips,
    missing=lambda run: "" if _rows(run) else q.reasons(run.experiment, cache="cold"),
)

"""The XOR of a whole file by every block size: the same in every pass, and how long it took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from oscope import questions as q
from oscope.figures.analysed import words
from oscope.labs.disk import CACHES
from oscope.originals import disk as reference

METRIC = "time_s"
FACTORS = ("cache", "block_size")
SAME_DATA = ("file", "size", "directory")
"""Factors by which points read the same bytes, if no count or time bounds them."""
BOUNDED = ("count", "longest")
Read = Callable[[Iterable[q.PointSamples]], list[str]]


def _curves(run: q.Run) -> q.Curves:
    return run.once("curves", lambda: q.curves_by(run.narrowed(*FACTORS), METRIC, "cache", CACHES))


def _xors(points: Iterable[q.PointSamples]) -> list[str]:
    return words(points, "xor")


def _same(run: q.Run, _: object) -> str:
    """Say whether all passes over the same bytes gave the same XOR; shout where they did not."""
    experiment = run.experiment
    known = [point for point in experiment.points if len(q.measured(point, "xor")[0])]
    groups = q.grouped(known, lambda point: _data(experiment, point))
    wrong = [*_differing(groups, "gave", _xors), *_differing(groups, "was read as", _sizes)]
    wrong += [reason for point in experiment.points for _, reason in point.failed if "XOR" in reason]
    if wrong:
        what = q.listed(list(dict.fromkeys(wrong)))
        return f"ERROR: THE XOR IS NOT THE SAME IN EVERY PASS, so reads went wrong: {what}."
    if not groups:
        return ""
    passes = sum(len(q.measured(point, "xor")[0]) for point in known)
    if len(groups) > 1:
        return f"In {passes} passes over {len(groups)} sets of bytes, the XOR is the same for the same bytes."
    (word,) = [_xors(each)[0] for each in groups.values()]
    return f"The XOR is `{word}` in every one of {passes} passes."


def _differing(groups: Mapping[str, list[q.PointSamples]], verb: str, read: Read) -> list[str]:
    """Name the groups of which `read` gives more than one text."""
    found = {name: read(points) for name, points in groups.items()}
    return [f"{name or 'the file'} {verb} {q.listed(each)}" for name, each in found.items() if len(each) > 1]


def _data(experiment: q.ExperimentResults, point: q.PointSamples) -> str:
    """Name the bytes that a point reads; what a count or a time bounds is named by that, too."""
    names = [*SAME_DATA]
    if any(point.factors.get(name) for name in BOUNDED):
        names += [*BOUNDED, "block_size", "threads"]
    return q.label(experiment, point.factors, names)


def _sizes(points: Iterable[q.PointSamples]) -> list[str]:
    values = np.concatenate([q.measured(point, "bytes")[0] for point in points] or [np.zeros(0)])
    return [f"{q.format_count(value)} B" for value in np.unique(values)]


def _table(run: q.Run, _: object) -> q.Table:
    quickest = q.best_sizes(_curves(run), run.experiment, METRIC)

    def xor(size: int) -> str | None:
        read = _xors(point for point in run.experiment.points if point.factors.get("block_size") == size)
        return None if not read else read[0] if len(read) == 1 else f"DIFFERS: {', '.join(read)}"

    return q.TableOf[int](
        "Time and XOR of a whole file by block size",
        *q.size_columns({cache: _curves(run).get(cache, ()) for cache in CACHES}, "s"),
        q.text("XOR", xor),
        q.text("fastest, or not distinguished", lambda size: q.listed(quickest.get(size, ())) or None),
        q.cited("cold", "s", reference.XOR_COLD, "d"),
        q.cited("warm", "s", reference.XOR_WARM, "d"),
        note="Medians. The original read an image of Ubuntu 21.04, with four threads, each row once.",
    ).of(q.sizes_of(_curves(run)))


section = q.Question(
    title="The XOR of a file",
    experiment="disk.xor",
    # Where no pass has a time, its XOR is reported all the same.
    rows=lambda run: q.sizes_of(_curves(run)) or list(filter(None, [_same(run, None)])),
    headline=_same,
    text="The XOR is that of the file's little-endian 32-bit words, a short tail padded with zeros.",
    tables=_table,
    figures=lambda run, _: q.several("Time to the XOR of a whole file", _curves(run), "s"),
    factors=FACTORS,
)

"""The XOR of a whole file by every block size: the same in every pass, and how long it took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from oscope.figures.analysed import Analysed, label, measured, words
from oscope.figures.words import listed
from oscope.labs.disk import reference
from oscope.labs.engine.curves import Curves, best, curves_by, several, size_columns, sizes_of
from oscope.labs.engine.run import Run, narrowing
from oscope.labs.engine.table import TableOf, text
from oscope.labs.engine.words import reasons
from oscope.model.document import Section, Table
from oscope.model.formatting import MISSING, format_count
from oscope.model.samples import ExperimentResults, PointSamples

TITLE = "The XOR of a file"
METRIC = "time_s"
CACHES = ("cold", "warm")
SAME_DATA = ("file", "size", "directory")
"""Factors by which points read the same bytes, if no count or time bounds them."""
BOUNDED = ("count", "longest")


def section(results: Analysed) -> Section | None:
    """Answer C8."""
    run = Run.of(results, "disk.xor")
    if run is None:
        return None
    curves, missing = curves_by(run, METRIC, "cache", CACHES), reasons(run.experiment)
    if not curves:
        return Section(TITLE, _same(run), missing=missing) if missing else None
    return Section(
        title=TITLE,
        answer=_same(run),
        text=[
            "The XOR is that of the file's little-endian 32-bit words, a short tail padded with zeros.",
            *narrowing(run.experiment, ("cache", "block_size")),
        ],
        tables=[_table(run.experiment, curves)],
        figures=several("Time to the XOR of a whole file", curves, "s"),
        missing=missing,
    )


def _xors(points: Iterable[PointSamples]) -> list[str]:
    return words(points, "xor")


def _same(run: Run) -> str:
    """Say whether all passes over the same bytes gave the same XOR; shout where they did not."""
    experiment = run.experiment
    groups: dict[str, list[PointSamples]] = {}
    for point in experiment.points:
        if len(measured(point, "xor")[0]):
            groups.setdefault(_data(experiment, point), []).append(point)
    wrong = [*_differing(groups, "gave", _xors), *_differing(groups, "was read as", _sizes)]
    wrong += [reason for point in experiment.points for _, reason in point.failed if "XOR" in reason]
    if wrong:
        what = listed(list(dict.fromkeys(wrong)))
        return f"ERROR: THE XOR IS NOT THE SAME IN EVERY PASS, so reads went wrong: {what}."
    if not groups:
        return ""
    passes = sum(len(measured(point, "xor")[0]) for each in groups.values() for point in each)
    if len(groups) > 1:
        return f"In {passes} passes over {len(groups)} sets of bytes, the XOR is the same for the same bytes."
    (word,) = [_xors(each)[0] for each in groups.values()]
    return f"The XOR is `{word}` in every one of {passes} passes."


def _differing(
    groups: Mapping[str, list[PointSamples]], verb: str, read: Callable[[Iterable[PointSamples]], list[str]]
) -> list[str]:
    """Name the groups of which `read` gives more than one text."""
    found = {name: read(points) for name, points in groups.items()}
    return [f"{name or 'the file'} {verb} {listed(each)}" for name, each in found.items() if len(each) > 1]


def _data(experiment: ExperimentResults, point: PointSamples) -> str:
    """Name the bytes that a point reads; what a count or a time bounds is named by that, too."""
    names = [*SAME_DATA]
    if any(point.factors.get(name) for name in BOUNDED):
        names += [*BOUNDED, "block_size", "threads"]
    return label(experiment, point.factors, names)


def _sizes(points: Iterable[PointSamples]) -> list[str]:
    values = np.concatenate([measured(point, "bytes")[0] for point in points] or [np.zeros(0)])
    return [f"{format_count(value)} B" for value in np.unique(values)]


def _quickest(experiment: ExperimentResults, curves: Curves) -> dict[int, list[str]]:
    """Return the caches with which a size is the fastest, or is not distinguished from it."""
    found: dict[int, list[str]] = {}
    for cache, row in curves.items():
        first, alike = best(row, experiment, METRIC)
        for each in (first, *alike) if len(row) > 1 else ():
            found.setdefault(each.size, []).append(cache)
    return found


def _table(experiment: ExperimentResults, curves: Curves) -> Table:
    quickest = _quickest(experiment, curves)
    every: Curves = {cache: curves.get(cache, ()) for cache in CACHES}

    def xor(size: int) -> str | None:
        read = _xors(point for point in experiment.points if point.factors.get("block_size") == size)
        return None if not read else read[0] if len(read) == 1 else f"DIFFERS: {', '.join(read)}"

    def cited(place: int) -> Callable[[int], str]:
        return lambda size: (
            str(reference.XOR_SECONDS[size][place]) if size in reference.XOR_SECONDS else MISSING
        )

    table: TableOf[int] = TableOf(
        "Time and XOR of a whole file by block size",
        (
            *size_columns(every, "s"),
            text("XOR", xor),
            text("fastest, or not distinguished", lambda size: listed(quickest.get(size, ())) or None),
            text("original cold [s]", cited(0), numeric=True),
            text("original warm [s]", cited(1), numeric=True),
        ),
        "Medians. The original read an image of Ubuntu 21.04, with four threads, each row once.",
    )
    return table.of(sizes_of(curves))

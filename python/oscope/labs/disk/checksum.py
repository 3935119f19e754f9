"""The XOR of a whole file by every block size: the same in every pass, and how long it took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from oscope.figures.analysed import Analysed, label, measured, words
from oscope.figures.tables import shared_scale
from oscope.figures.words import listed, median
from oscope.labs.curve import At, Curves, best, cells, curve, narrowing, over_sizes, sizes_of, unmeasured
from oscope.labs.disk import reference
from oscope.model.document import Section, Table
from oscope.model.formatting import MISSING, format_count
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.model.units import format_bytes

METRIC = "time_s"
CACHES = ("cold", "warm")
SAME_DATA = ("file", "size", "directory")
"""Factors by which points read the same bytes, if no count or time bounds them."""
BOUNDED = ("count", "longest")


def section(results: Analysed) -> Section | None:
    """Answer C8."""
    experiment = results.get("disk.xor")
    if experiment is None:
        return None
    title = "The XOR of a file"
    missing = unmeasured(experiment)
    curves = {cache: curve(results, experiment, METRIC, cache=cache) for cache in CACHES}
    curves = {cache: found for cache, found in curves.items() if found}
    if not curves:
        return Section(title, _same(experiment), missing=missing) if missing else None
    return Section(
        title=title,
        answer=" ".join([_same(experiment), *(_fastest(experiment, *each) for each in curves.items())]),
        text=[
            (
                "The XOR is that of the file's little-endian 32-bit words, a short tail padded with zeros; "
                "it depends on every bit read, and not on who read it in which order. Each thread reads its "
                "own part of the file."
            ),
            *narrowing(experiment, ("cache",)),
        ],
        tables=[_table(experiment, curves)],
        figures=[over_sizes("Time to the XOR of a whole file", curves, "s")]
        if len(sizes_of(curves)) > 1
        else [],
        missing=missing,
    )


def _xors(points: Iterable[PointSamples]) -> list[str]:
    return words(points, "xor")


def _same(experiment: ExperimentResults) -> str:
    """Say whether all passes over the same bytes gave the same XOR; shout where they did not."""
    groups: dict[str, list[PointSamples]] = {}
    for point in experiment.points:
        if len(measured(point, "xor")[0]):
            groups.setdefault(_data(experiment, point), []).append(point)
    wrong = [*_differing(groups, "gave", _xors), *_differing(groups, "was read as", _sizes)]
    wrong += [reason for point in experiment.points for _, reason in point.failed if "XOR" in reason]
    if wrong:
        told = listed(list(dict.fromkeys(wrong)))
        return f"ERROR: THE XOR IS NOT THE SAME IN EVERY PASS, so reads went wrong: {told}."
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
    """Tell the groups of which `read` gives more than one text."""
    found = {name: read(points) for name, points in groups.items()}
    return [f"{name or 'the file'} {verb} {listed(each)}" for name, each in found.items() if len(each) > 1]


def _data(experiment: ExperimentResults, point: PointSamples) -> str:
    """Name the bytes that a point reads; what is bounded by a count or a time is told apart by that, too."""
    names = [*SAME_DATA]
    if any(point.factors.get(name) for name in BOUNDED):
        names += [*BOUNDED, "block_size", "threads"]
    return label(experiment, point.factors, names)


def _sizes(points: Iterable[PointSamples]) -> list[str]:
    values = np.concatenate([measured(point, "bytes")[0] for point in points] or [np.zeros(0)])
    return [f"{format_count(value)} B" for value in np.unique(values)]


def _fastest(experiment: ExperimentResults, cache: str, found: Sequence[At]) -> str:
    if len(found) < 2:
        return ""
    first, alike = best(found, experiment, METRIC)
    text = f"{cache.capitalize()}, blocks of {first.name} are the fastest, with {median(first.summary, 's')}"
    return (
        f"{text}, though {listed([each.name for each in alike])} cannot be told from them."
        if alike
        else f"{text}."
    )


def _table(experiment: ExperimentResults, curves: Curves) -> Table:
    every = [each for found in curves.values() for each in found]
    scale = shared_scale([each.summary for each in every], "s")
    by_size = {cache: {each.size: each for each in curves.get(cache, ())} for cache in CACHES}
    rows = []
    for size in sizes_of(curves):
        row = [format_bytes(size)]
        for cache in CACHES:
            row += cells(by_size[cache][size].summary if size in by_size[cache] else None, scale)
        here = [point for point in experiment.points if point.factors.get("block_size") == size]
        read = _xors(here)
        xor = MISSING if not read else read[0] if len(read) == 1 else f"DIFFERS: {', '.join(read)}"
        cited = reference.XOR_SECONDS.get(size)
        rows.append([*row, xor, *(map(str, cited) if cited else (MISSING, MISSING))])
    unit = f"[{scale.unit}]"
    columns = [
        "block size",
        f"cold {unit}",
        f"95 % {unit}",
        f"warm {unit}",
        f"95 % {unit}",
        "XOR",
        "original cold [s]",
        "original warm [s]",
    ]
    note = "Medians. The original read an image of Ubuntu 21.04, with four threads, each row once."
    return Table(
        "Time and XOR of a whole file by block size", columns, rows, frozenset({1, 2, 3, 4, 6, 7}), note
    )

"""What writing 1, 2 and 3 to drop_caches frees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed
from oscope.figures.tables import shared_scale
from oscope.figures.words import listed
from oscope.labs.curve import unmeasured
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import Scale, format_count, format_share
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics import Summary, summarise


@dataclass(frozen=True)
class Kind:
    """A kind of cache, as the metrics name it."""

    name: str
    before: str
    after: str
    unit: str
    promised: str | None = None
    """Which of 1 and 2 frees it by the kernel's documentation (Documentation/admin-guide/sysctl/vm.rst)."""


KINDS = (
    Kind("page cache", "page_cache_before_bytes", "page_cache_after_bytes", "B", "1"),
    Kind("dentries", "dentries_before", "dentries_after", "", "2"),
    Kind("inodes", "inodes_before", "inodes_after", "", "2"),
    Kind("reclaimable slab", "slab_before_bytes", "slab_after_bytes", "B"),
)
PROMISE = "1 for the page cache, 2 for dentries and inodes, 3 for both"
FINEST = 0.002
"""Half of the narrowest interval that gives digits."""

ALL = "3"
"""The value that frees whatever can be freed: what the others free is held against it."""

MOST = 0.5
"""Share of what 3 frees from which a value counts as freeing a cache."""


@dataclass(frozen=True)
class Freed:
    """What one value freed of one kind."""

    value: str
    kind: Kind
    before: Summary
    after: Summary
    freed: Summary
    """Before less after."""
    share: Summary
    """Freed over what was there before; below zero where more was there afterwards."""


def section(results: Analysed) -> Section | None:
    """Answer C6."""
    experiment = results.get("disk.drop-caches")
    if experiment is None:
        return None
    title = "What drop_caches frees"
    found = [
        each
        for point in experiment.points
        for kind in KINDS
        if (each := _freed(experiment, point, kind)) is not None
    ]
    missing = unmeasured(experiment)
    if not found:
        return Section(title, "", missing=missing) if missing else None
    return Section(
        title=title,
        answer=_answer(found),
        text=[
            (
                "The caches are filled first, with a file that is read and with many small files that are "
                "looked at; then the value is written, and what is left is counted (/proc/meminfo, "
                "/proc/sys/fs/dentry-state, /proc/sys/fs/inode-nr). The whole machine's caches are counted, "
                "with what others hold in them; what is in use stays, whatever is written. So what 3 frees "
                "is the measure of what can be freed."
            ),
            (
                "Reclaimable slab is held against no promise: what the kernel keeps of cached pages lies in "
                "it as well, and its memory comes free only where a whole page of objects has gone."
            ),
            *_slabs(experiment),
        ],
        tables=[_table(found)],
        figures=[_figure(found)],
        missing=missing,
    )


def _freed(experiment: ExperimentResults, point: PointSamples, kind: Kind) -> Freed | None:
    before, after = (point.metrics.get(name, np.zeros(0)) for name in (kind.before, kind.after))
    if len(before) != len(after):
        return None
    keep = np.isfinite(before) & np.isfinite(after) & (before > 0)
    if not keep.any():
        return None
    first, last, block = before[keep], after[keep], point.block[keep]
    amounts = [summarise(each, block, seed=experiment.seed) for each in (first, last)]
    freed = [
        summarise(each, block, seed=experiment.seed, kind="difference")
        for each in (first - last, (first - last) / first)
    ]
    return Freed(str(point.factors.get("value", "")), kind, *amounts, *freed)


def _answer(found: Sequence[Freed]) -> str:
    told = []
    for value in dict.fromkeys(each.value for each in found):
        shares = [
            f"{format_share(each.share.median, 0.1)} of the {each.kind.name}"
            for each in found
            if each.value == value
        ]
        told.append(f"Writing {value} freed {listed(shares)}.")
    return " ".join([*told, _promised(found)])


def _promised(found: Sequence[Freed]) -> str:
    """Hold the figures against the kernel's documentation, by what 3 freed."""
    judged = [each for each in found if each.value != ALL and each.kind.promised is not None]
    shares = [(each, _over_all(each, found)) for each in judged]
    other = [
        f"{each.value} freed {format_share(share, 0.1)} of the {each.kind.name} that {ALL} did"
        for each, share in shares
        if share is not None and (share >= MOST) != (each.value == each.kind.promised)
    ]
    if not shares or any(share is None for _, share in shares):
        return f"What can be freed at all is not known, so what is promised ({PROMISE}) is not judged."
    if not other:
        return f"By what {ALL} freed, that is what the kernel's documentation says: {PROMISE}."
    return f"The kernel's documentation says {PROMISE}; here {listed(other)}."


def _over_all(each: Freed, found: Sequence[Freed]) -> float | None:
    """Return what a value freed of a cache over what 3 did; None where 3 freed nothing in a sample."""
    whole = next((one.freed for one in found if one.value == ALL and one.kind is each.kind), None)
    if whole is None or whole.minimum <= 0:
        return None
    return each.freed.median / whole.median


def _slabs(experiment: ExperimentResults) -> list[str]:
    """Return what the probe told of the slabs, once for each value."""
    told = []
    for point in experiment.points:
        notes = [note for note in point.notes if "slabs that lost most" in note]
        told += [f"Writing {point.factors.get('value')}: {note}." for note in notes[:1]]
    return told


def _percent(share: Summary) -> str:
    if share.ci95 is None:
        return format_share(share.median, 0.01)
    # A cache that is freed whole leaves an interval narrower than is worth telling.
    half = max((share.ci95[1] - share.ci95[0]) / 2, FINEST)
    low, high = (format_share(end, half) for end in share.ci95)
    return f"{format_share(share.median, half)} ({low.removesuffix(' %')} to {high})"


def _table(found: Sequence[Freed]) -> Table:
    scales = {kind.name: _scale([each for each in found if each.kind is kind], kind) for kind in KINDS}
    rows = []
    for each in found:
        text = scales[each.kind.name].with_unit
        counts = [text(value.median) for value in (each.before, each.after, each.freed)]
        whole = format_share(_over_all(each, found), 0.1)
        rows.append(
            [each.value, each.kind.name, format_count(each.share.n), *counts, _percent(each.share), whole]
        )
    columns = [
        "value",
        "cache",
        "n",
        "before",
        "after",
        "freed",
        "share freed (95 %)",
        f"of what {ALL} freed",
    ]
    note = "Medians. Freed: before less after; below zero, more was there afterwards."
    return Table("Caches before and after writing to drop_caches", columns, rows, frozenset({2}), note)


def _scale(found: Sequence[Freed], kind: Kind) -> Scale:
    if not found or not kind.unit:
        return Scale("", 1.0, 0)
    scale = shared_scale([each.before for each in found], kind.unit)
    return Scale(scale.unit, scale.factor, 1)


def _figure(found: Sequence[Freed]) -> Figure:
    kinds = [kind.name for kind in KINDS if any(each.kind is kind for each in found)]
    by_value: Mapping[str, dict[str, Summary]] = {
        value: {each.kind.name: each.share for each in found if each.value == value}
        for value in dict.fromkeys(each.value for each in found)
    }
    series = []
    for value, shares in by_value.items():
        row = [shares.get(kind) for kind in kinds]
        intervals = [
            None if each is None or each.ci95 is None else (100 * each.ci95[0], 100 * each.ci95[1])
            for each in row
        ]
        series.append(
            plots.Bars(value, [None if each is None else 100 * each.median for each in row], intervals)
        )
    note = "Bars: medians; whiskers: 95 % intervals."
    return plots.bars("Share freed by writing 1, 2 and 3", plots.axis("freed [%]"), kinds, series, note)

"""What writing 1, 2 and 3 to drop_caches frees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

from oscope import questions as q


class Kind(NamedTuple):
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
ALL = "3"
"""The value that frees whatever can be freed: what the others free is compared with it."""

MOST = 0.5
"""Share of what 3 frees from which a value counts as freeing a cache."""


class Freed(NamedTuple):
    """What one value freed of one kind."""

    value: str
    kind: Kind
    was: q.Change


def _freed(run: q.Run) -> list[Freed]:
    return [
        Freed(str(point.factors.get("value", "")), kind, was)
        for point, kind in product(run.experiment.points, KINDS)
        if (was := q.change(run.experiment, point, kind.before, kind.after)) is not None
    ]


def _headline(_: q.Run, found: Sequence[Freed]) -> str:
    promised = [each for each in found if each.value == each.kind.promised] or found[:1]
    parts = [
        f"{each.value} freed {q.format_share(each.was.share.median, 0.1)} of the {each.kind.name}"
        for each in promised
    ]
    return f"Of the values written to drop_caches, {q.listed(parts[:2])}."


def _documented(each: Freed, found: Sequence[Freed]) -> str | None:
    """Say whether a value freed of a cache what the kernel's documentation says, by what 3 freed."""
    part = _over_all(each, found)
    if each.value == ALL or each.kind.promised is None or part is None:
        return None
    return "yes" if (part >= MOST) == (each.value == each.kind.promised) else "no"


def _over_all(each: Freed, found: Sequence[Freed]) -> float | None:
    """Return what a value freed of a cache over what 3 did; None where 3 freed nothing in a sample."""
    whole = next((one.was.less for one in found if one.value == ALL and one.kind is each.kind), None)
    if whole is None or whole.minimum <= 0:
        return None
    return each.was.less.median / whole.median


def _table(_: q.Run, found: Sequence[Freed]) -> q.Table:
    scales = {kind.name: _scale([each for each in found if each.kind is kind], kind) for kind in KINDS}

    def amount(heading: str, of: Callable[[q.Change], q.Summary]) -> q.Column[Freed]:
        return q.text(heading, lambda row: scales[row.kind.name].with_unit(of(row.was).median))

    return q.TableOf[Freed](
        "Caches before and after writing to drop_caches",
        q.text("value", lambda each: each.value),
        q.text("cache", lambda each: each.kind.name),
        q.count("n", lambda each: each.was.share.n),
        amount("before", lambda was: was.before),
        amount("after", lambda was: was.after),
        amount("freed", lambda was: was.less),
        q.text("share freed (95 %)", lambda each: q.share_text(each.was.share)),
        q.share(f"of what {ALL} freed", lambda each: _over_all(each, found), 0.1),
        q.text("as documented", lambda each: _documented(each, found)),
        note="Medians. Freed: before less after; below zero, more was there afterwards. The kernel's "
        f"documentation promises {PROMISE}.",
    ).of(found)


def _scale(found: Sequence[Freed], kind: Kind) -> q.Scale:
    if not found or not kind.unit:
        return q.Scale("", 1.0, 0)
    scale = q.shared_scale([each.was.before for each in found], kind.unit)
    return q.Scale(scale.unit, scale.factor, 1)


def _figure(_: q.Run, found: Sequence[Freed]) -> q.Figure:
    rows = ((each.value, each.kind.name, each.was.share) for each in found)
    # Shares as per cent.
    return q.bars("Share freed by writing 1, 2 and 3", q.plots.axis("freed [%]"), rows, factor=0.01)


section = q.Question(
    title="What drop_caches frees",
    experiment="disk.drop-caches",
    rows=_freed,
    headline=_headline,
    text="The caches are filled first; the whole machine's are counted. What 3 frees is what can be freed.",
    tables=_table,
    figures=_figure,
)

"""What read and write return: sizes asked and got, short transfers, refusals, and what the channel holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import measured
from oscope.figures.traced import Traced
from oscope.labs.engine.curves import size_of
from oscope.labs.engine.drawing import bars
from oscope.labs.engine.quantity import Quantity, metric
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import TableOf, count, text, written
from oscope.labs.engine.traced import effect_column, effect_note, losses
from oscope.labs.engine.words import EFFECT, bytes_text
from oscope.labs.ipc import COMPARED, returns
from oscope.labs.ipc.points import MOVED, NAMES, gaps, plain, traces
from oscope.model.document import Figure
from oscope.model.formatting import format_count, format_share, format_value

TITLE = "What read and write return"


@dataclass(frozen=True)
class Transfers:
    """The calls of one name at one point that moved bytes."""

    where: Traced
    call: str
    data: Mapping[str, int]
    """How many there were (`count`) and were short, and the bytes `asked` and `returned`."""
    refused: Mapping[str, int]
    """By errno."""
    sizes: Sequence[tuple[int, int]]
    """Sizes returned with their counts, the commonest first; where bytes were returned."""

    @property
    def short_share(self) -> float:
        """Share of the calls that returned less than was asked; errors are no short transfers."""
        return self.data["short"] / self.done if self.done else 0.0

    @property
    def done(self) -> int:
        """How many calls ended without an error."""
        return self.data["count"] - sum(self.refused.values())

    @property
    def returned(self) -> str | None:
        """Mean of what those returned."""
        return (self.done and format_value(self.data["returned"] / self.done, None, "B")) or None

    @property
    def errors(self) -> str:
        """Each error with its count."""
        said = [f"{name}: {format_count(number)}" for name, number in self.refused.items()]
        return ", ".join(said) or "none"

    @property
    def commonest(self) -> str | None:
        """The commonest return of short transfers with its share of the calls."""
        if not self.data["short"] or not self.sizes:
            return None
        size, number = self.sizes[0]
        return f"{bytes_text(size)} ({format_share(number / self.data['count'])})"

    @property
    def capacity(self) -> float | None:
        """Median of what the channel holds, in bytes."""
        found = measured(self.where.plain or self.where.point, "capacity")[0]
        return float(np.median(found)) if len(found) else None


def _transfers(run: Run) -> list[Transfers]:
    return [
        Transfers(point, name, call, call.get("errors", {}), _sizes(call.get("sizes", ())))
        for point in traces(run, "calls")
        for name, call in point.reading["calls"].items()
        if call.get("asked")
    ]


def _sizes(found: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    moved = ((size, count) for size, count in found if size > 0)
    return sorted(moved, key=lambda pair: (-pair[1], pair[0]))


def _headline(_: Run, found: Sequence[Transfers]) -> str:
    most = max(found, key=lambda each: each.short_share)
    if not most.short_share:
        return "Every call moves what it was asked to."
    text = f"Short calls are most frequent of `{most.call}` at {most.where.name}"
    return f"{text}: {format_share(most.short_share)}."


def _figure(_: Run, found: Sequence[Transfers]) -> Figure:
    names, calls = (
        list(dict.fromkeys(each)) for each in zip(*((e.where.name, e.call) for e in found), strict=True)
    )
    shares = {(each.where.name, each.call): each.short_share for each in found}
    series = {call: [shares.get((name, call)) for name in names] for call in calls}
    note = effect_note({each.where.name: each.where for each in found}.values())
    axis = plots.axis("short [% of the calls]", range=[0, 105])
    return bars("Share of short transfers", axis, names, series, note, 0.01)


TRACED = Question(
    title=TITLE,
    experiment=MOVED,
    rows=_transfers,
    headline=_headline,
    text=(
        (
            "A call is short when it returns fewer bytes than it was asked for; who reads gets what is "
            "there. The capacity is what the channel takes before a writer blocks, measured."
        ),
        lambda run, _: losses(traces(run, "calls")),
    ),
    tables=(
        TableOf(
            "Bytes asked for and returned",
            (
                text("point", lambda each: each.where.name),
                text("call", lambda each: each.call),
                count("calls", lambda each: each.data["count"]),
                text(
                    "asked, mean",
                    lambda each: format_value(each.data["asked"] / each.data["count"], None, "B"),
                ),
                text("returned, mean", lambda each: each.returned),
                text("short", lambda each: format_share(each.short_share) if each.data["short"] else "none"),
                text("errors", lambda each: each.errors),
                count("different returns", lambda each: len(each.sizes)),
                text("commonest, if short", lambda each: each.commonest),
                written("capacity", lambda each: each.capacity, bytes_text),
                effect_column(lambda each: each.where),
            ),
            f"Calls of all traced repetitions. Returned: mean of the calls without error. {EFFECT}",
        )
    ),
    figures=(_figure, lambda run, _: returns.figures(traces(run, "calls"))),
    missing=lambda run: gaps(run, "calls"),
    asked=lambda run: bool(_transfers(run)),
)

SHORT_READS = Quantity("short reads", "", lambda each: metric(each, "short_reads") / metric(each, "reads"))


def _counts(run: Run) -> list[Point]:
    points = plain(run).points("writes")
    return [each for each in points if size_of(each.samples) in COMPARED] or points


def _short_reads(point: Point) -> float:
    found = point.of(SHORT_READS)
    return 0.0 if found is None else found.median


def _counted(_: Run, points: Sequence[Point]) -> str:
    most = max(points, key=_short_reads)
    if not _short_reads(most):
        return "By the workload's own counts, no read is short."
    return (
        f"By the workload's own counts, reads are short most often at {most.label(NAMES)}: "
        f"{format_share(_short_reads(most))} of them."
    )


UNTRACED = Question(
    title=TITLE,
    experiment=MOVED,
    rows=_counts,
    headline=_counted,
    tables=(
        TableOf(
            "Calls by the workload's own counts",
            (
                text("point", lambda point: point.label(NAMES)),
                count("writes", "writes"),
                count("short writes", "short_writes"),
                count("reads", "reads"),
                count("short reads", "short_reads"),
                count("EAGAIN", "refusals"),
                written("capacity", "capacity", bytes_text),
            ),
            "Medians.",
        )
    ),
    missing=lambda run: gaps(run, "calls"),
    asked=lambda run: not _transfers(run),
)
sections = (TRACED, UNTRACED)

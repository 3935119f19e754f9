"""What read and write return: sizes asked and got, short transfers, refusals, and what the channel holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed, measured
from oscope.figures.traced import Traced, traced
from oscope.labs.engine.curves import size_of
from oscope.labs.engine.drawing import bars
from oscope.labs.engine.quantity import derived, metric
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import TableOf, count, text
from oscope.labs.engine.traced import effect_column, effect_note, losses, missing_traces
from oscope.labs.engine.words import EFFECT, bytes_text
from oscope.labs.ipc import COMPARED, returns
from oscope.labs.ipc.points import TIME, plain
from oscope.model.document import Figure, Section
from oscope.model.formatting import format_count, format_share, format_value

TITLE = "What read and write return"


@dataclass(frozen=True)
class Transfers:
    """The calls of one name at one point that moved bytes."""

    where: Traced
    call: str
    count: int
    refused: Mapping[str, int]
    """By errno."""
    asked: int
    returned: int
    short: int
    sizes: Sequence[tuple[int, int]]
    """Sizes returned with their counts, the commonest first; where bytes were returned."""
    capacity: float | None
    """Median of what the channel holds, in bytes."""

    @property
    def short_share(self) -> float:
        """Share of the calls that returned less than was asked; errors are no short transfers."""
        return self.short / self.done if self.done else 0.0

    @property
    def done(self) -> int:
        """How many calls ended without an error."""
        return self.count - sum(self.refused.values())


def section(results: Analysed) -> Section | None:
    """Answer E3, from traces where there are any, else from the workload's own counts."""
    trace, moved = Run.of(results, "ipc.trace"), Run.of(results, "ipc.throughput", "ipc.trace")
    points = traced(trace.experiment, TIME, "calls") if trace else []
    found = [each for point in points for each in _transfers(point)]
    if moved is None:
        return None
    missing = missing_traces(trace.experiment if trace else None, "ipc.trace", points)
    if not found:
        return _untraced(plain(moved), missing)
    return Section(
        title=TITLE,
        answer=_headline(found),
        text=[
            (
                "A call is short when it returns fewer bytes than it was asked for; who reads gets what is "
                "there. The capacity is what the channel takes before a writer blocks, measured."
            ),
            *losses(points),
        ],
        tables=[TABLE.of(found)],
        figures=[_figure(found), *returns.figures(points)],
        missing=missing,
    )


def _headline(found: Sequence[Transfers]) -> str:
    most = max(found, key=lambda each: each.short_share)
    if not most.short_share:
        return "Every call moves what it was asked to."
    text = f"`{most.call}` is short most often at {most.where.name}"
    return f"{text}: {format_share(most.short_share)} of the calls."


def _transfers(point: Traced) -> list[Transfers]:
    capacity = measured(point.plain or point.point, "capacity")[0]
    found = []
    for name, call in point.reading["calls"].items():
        if not call.get("asked"):
            continue
        sizes = sorted(
            ((size, count) for size, count in call.get("sizes", []) if size > 0),
            key=lambda pair: (-pair[1], pair[0]),
        )
        found.append(
            Transfers(
                point,
                name,
                call["count"],
                call.get("errors", {}),
                call["asked"],
                call["returned"],
                call["short"],
                sizes,
                float(np.median(capacity)) if len(capacity) else None,
            )
        )
    return found


def _commonest(each: Transfers) -> str | None:
    """Return the commonest return of short transfers with its share of the calls."""
    if not each.short or not each.sizes:
        return None
    size, number = each.sizes[0]
    return f"{bytes_text(size)} ({format_share(number / each.count)})"


def _errors(each: Transfers) -> str:
    return ", ".join(f"{name}: {format_count(number)}" for name, number in each.refused.items()) or "none"


TABLE: TableOf[Transfers] = TableOf(
    "Bytes asked for and returned",
    (
        text("point", lambda each: each.where.name),
        text("call", lambda each: each.call),
        count("calls", lambda each: each.count),
        text("asked, mean", lambda each: format_value(each.asked / each.count, None, "B")),
        text(
            "returned, mean",
            lambda each: (each.done and format_value(each.returned / each.done, None, "B")) or None,
        ),
        text("short", lambda each: format_share(each.short_share) if each.short else "none"),
        text("errors", _errors),
        count("different returns", lambda each: len(each.sizes)),
        text("commonest, if short", _commonest),
        text("capacity", lambda each: None if each.capacity is None else bytes_text(each.capacity)),
        effect_column(lambda each: each.where),
    ),
    f"Calls of all traced repetitions. Returned: mean of the calls without error. {EFFECT}",
)


def _figure(found: Sequence[Transfers]) -> Figure:
    names = list(dict.fromkeys(each.where.name for each in found))
    calls = list(dict.fromkeys(each.call for each in found))
    by_place = {(each.where.name, each.call): each for each in found}
    shares = {place: each.short_share for place, each in by_place.items()}
    series = {call: [shares.get((name, call)) for name in names] for call in calls}
    note = effect_note({each.where.name: each.where for each in found}.values())
    axis = plots.axis("short [% of the calls]", range=[0, 105])
    return bars("Share of short transfers", axis, names, series, note, 0.01)


def _untraced(run: Run, missing: str) -> Section | None:
    """Give what the workload counts itself."""
    points = run.points("writes")
    points = [each for each in points if size_of(each.samples) in COMPARED] or points
    if not points:
        return Section(TITLE, "", missing=missing) if missing else None
    return Section(TITLE, _counted(points), tables=[COUNTS.of(points)], missing=missing)


def _short_reads(point: Point) -> float:
    found = derived(
        point.run.experiment, point.samples, lambda each: metric(each, "short_reads") / metric(each, "reads")
    )
    return 0.0 if found is None else found.median


def _counted(points: Sequence[Point]) -> str:
    most = max(points, key=_short_reads)
    if not _short_reads(most):
        return "By the workload's own counts, no read is short."
    return (
        f"By the workload's own counts, reads are short most often at {most.label(NAMES)}: "
        f"{format_share(_short_reads(most))} of them."
    )


def _count_of(name: str) -> Callable[[Point], float | None]:
    return lambda point: None if (found := point.of(name)) is None else found.median


NAMES = ("channel", "mode", "buffer")
COUNTS: TableOf[Point] = TableOf(
    "Calls by the workload's own counts",
    (
        text("point", lambda point: point.label(NAMES)),
        count("writes", _count_of("writes")),
        count("short writes", _count_of("short_writes")),
        count("reads", _count_of("reads")),
        count("short reads", _count_of("short_reads")),
        count("EAGAIN", _count_of("refusals")),
        text(
            "capacity", lambda point: None if (n := _count_of("capacity")(point)) is None else bytes_text(n)
        ),
    ),
    "Medians.",
)

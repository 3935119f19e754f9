"""What sections show of traced system calls: which, how long they take, and what they return."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from oscope.figures import plots
from oscope.figures.ecdf import Ecdf, ecdf
from oscope.figures.traced import Traced
from oscope.model.document import Figure
from oscope.questions import histograms
from oscope.questions.drawing import bars
from oscope.questions.section_text import bytes_text, grouped, over
from oscope.questions.traced import effect_note
from oscope.trace.calls import TRANSFERS
from oscope.trace.reading import return_values

MOST_LINES = 7
"""Lines a figure can show apart."""
MOST_VALUES = 7
"""Return values that have a colour of their own."""


class Call(NamedTuple):
    """One system call at one point, or all of them."""

    where: Traced
    name: str
    data: Mapping[str, Any]
    """How often it was called (`count`), and what else the trace has of it; empty for all calls."""
    share: float | None
    """Of some time, as `calls_of` was given it; None where one of both is not known."""

    @property
    def failed(self) -> int:
        """How many returned an error."""
        return int(sum(self.data.get("errors", {}).values()))

    @property
    def done(self) -> int:
        """How many ended without an error."""
        return int(self.data["count"]) - self.failed

    @property
    def short(self) -> float:
        """Share of those without an error that moved fewer bytes than were asked."""
        return over(self.data.get("short"), self.done) or 0.0

    @property
    def commonest(self) -> tuple[int, float] | None:
        """The commonest number of bytes moved, and its share of the calls."""
        sizes = moved(self.data)
        return (sizes[0][0], sizes[0][1] / self.data["count"]) if sizes else None


def calls_of(point: Traced, whole_ns: float | None) -> list[Call]:
    """Return the calls of a point, each with the share of `whole_ns` that is spent in it."""
    calls = point.reading["calls"]
    return [Call(point, name, data, over(data.get("time_ns"), whole_ns)) for name, data in calls.items()]


def call_times(found: Sequence[Call], channel: str) -> Iterable[Figure]:
    """Draw the times of single calls, a figure for each level of a factor; of many those with most time."""
    timed = [each for each in found if each.data.get("times")]
    for level, here in grouped(timed, lambda each: each.where.point.factors.get(channel)).items():
        chosen = sorted(here, key=lambda each: -(each.data["time_ns"]))[:MOST_LINES]
        rows = {f"{each.name} · {each.where.name}": each.data["times"] for each in chosen}
        left = "" if len(chosen) == len(here) else f"The {MOST_LINES} that take most time. "
        note = left + effect_note(each.where for each in chosen)
        yield histograms.figure(f"Times of single calls, {level}", "time in the call [ns]", rows, note)


def moved(call: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Return the numbers of bytes that a call moved, with their counts, the commonest first."""
    sizes = ((size, number) for size, number in call.get("sizes", ()) if size > 0)
    return sorted(sizes, key=lambda pair: (-pair[1], pair[0]))


def returned(found: Sequence[Traced], channel: str, mode: str) -> Iterable[Figure]:
    """Draw what each call that moves bytes returned; then what the other calls did.

    There is a figure for each level of the factor `channel`, and of `mode` as well where one could not show
    all points apart.
    """
    names = dict.fromkeys(name for each in found for name in each.reading["calls"] if name in TRANSFERS)
    for call in names:
        moving = [each for each in found if each.reading["calls"].get(call, {}).get("sizes")]
        for level, own in grouped(moving, lambda each: each.point.factors.get(channel)).items():
            by_mode = grouped(own, lambda each: each.point.factors.get(mode))
            several = {f"{level}, {name}": here for name, here in by_mode.items()}
            for title, here in ({f"{level}": own} if len(own) <= MOST_LINES else several).items():
                yield _bytes(call, title, here)
    if (others := _others(found, channel)) is not None:
        yield others


def _bytes(call: str, title: str, found: Sequence[Traced]) -> Figure:
    lines = []
    for each in found:
        data = each.reading["calls"][call]
        nothing = sum(data["errors"].values()) + sum(count for size, count in data["sizes"] if size <= 0)
        failed = "".join(f", {name} {count / data['count']:.0%}" for name, count in data["errors"].items())
        lines.append(Ecdf(f"{each.name}{failed}", sorted(moved(data)), nothing))
    note = (
        "Each step is a number of bytes that calls returned, exactly; a line begins at the share that failed "
        f"or moved nothing. {effect_note(found)}"
    )
    axes = ("bytes returned [B]", "calls at or below [%]")
    return ecdf(f"Bytes that {call} returned, {title}", axes, lines, note)


def _others(found: Sequence[Traced], channel: str) -> Figure | None:
    rows: dict[str, Counter[str]] = {}
    for each in found:
        for name, call in each.reading["calls"].items():
            if name not in TRANSFERS and (values := return_values(call)):
                row = rows.setdefault(f"{name} · {each.point.factors.get(channel)}", Counter())
                for value, count in values:
                    row[_text(value)] += count
    if not rows:
        return None
    shares = {
        name: {value: count / row.total() for value, count in row.items()} for name, row in rows.items()
    }
    common = sum((Counter(row) for row in shares.values()), Counter())
    kept = [value for value, _ in common.most_common(MOST_VALUES)]
    drawn = [(value, name, row.get(value)) for value in kept for name, row in shares.items()]
    if len(common) > len(kept):
        left = {name: 1 - sum(row.get(value, 0.0) for value in kept) for name, row in shares.items()}
        drawn += [("other values", name, share if share > 1e-9 else None) for name, share in left.items()]
    note = f"Shares of the calls of each name, of all points with this {channel}. {effect_note(found)}"
    axis = plots.axis("share of the calls [%]", range=[0, 101])
    title = "Return values of the calls that move no bytes"
    return plots.stacked(bars(title, axis, drawn, note, 0.01))


def _text(value: str | tuple[int, int]) -> str:
    if isinstance(value, str):
        return value
    low, high = value
    return f"{low}" if low == high else f"{bytes_text(low)} to {bytes_text(high + 1)}"

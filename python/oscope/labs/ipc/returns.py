"""The distribution of what calls return: bytes of transfers, each value of the others, errors by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from oscope.figures import plots
from oscope.figures.plots import Ecdf
from oscope.figures.traced import Traced
from oscope.labs.engine.traced import effect_note
from oscope.labs.engine.words import bytes_text
from oscope.model.document import Figure
from oscope.trace.calls import TRANSFERS
from oscope.trace.reading import return_values

MOST_LINES = 7
"""Lines a figure can show apart."""
MOST_VALUES = 7
"""Return values that have a colour of their own."""
OTHER = "other values"


def figures(found: Sequence[Traced]) -> list[Figure]:
    """Draw what each call that moves bytes returned, a figure a channel; then what the other calls did."""
    drawn = []
    names = dict.fromkeys(name for each in found for name in each.reading["calls"] if name in TRANSFERS)
    for call in names:
        for title, points in _groups([each for each in found if _moves(each, call)]):
            drawn.append(_bytes(call, title, points))
    others = _others(found)
    return [*drawn, others] if others is not None else drawn


def _moves(point: Traced, call: str) -> bool:
    return bool(point.reading["calls"].get(call, {}).get("sizes"))


def _groups(found: Sequence[Traced]) -> list[tuple[str, list[Traced]]]:
    """Return the points by channel, and by mode as well where a figure could not show them apart."""
    grouped: dict[str, list[Traced]] = {}
    for each in found:
        grouped.setdefault(str(each.point.factors.get("channel")), []).append(each)
    groups = []
    for channel, points in grouped.items():
        if len(points) <= MOST_LINES:
            groups.append((channel, points))
            continue
        for mode in dict.fromkeys(each.point.factors.get("mode") for each in points):
            same = [each for each in points if each.point.factors.get("mode") == mode]
            groups.append((f"{channel}, {mode}", same))
    return groups


def _bytes(call: str, title: str, found: Sequence[Traced]) -> Figure:
    """Draw the share of the calls that returned at most so many bytes, a line a point."""
    lines = []
    for each in found:
        data = each.reading["calls"][call]
        nothing = sum(data["errors"].values()) + sum(count for size, count in data["sizes"] if size <= 0)
        moved = [(size, count) for size, count in data["sizes"] if size > 0]
        failed = "".join(f", {name} {count / data['count']:.0%}" for name, count in data["errors"].items())
        lines.append(Ecdf(f"{each.name}{failed}", moved, nothing))
    note = (
        "Each step is a number of bytes that calls returned, exactly; a line begins at the share that failed "
        f"or moved nothing. {effect_note(found)}"
    )
    axis_title = "bytes returned [B]"
    return plots.ecdf(
        f"Bytes that {call} returned, {title}", (axis_title, "calls at or below [%]"), lines, note
    )


def _others(found: Sequence[Traced]) -> Figure | None:
    """Draw what the calls that move no bytes returned, a bar for each call of each channel."""
    rows: dict[str, Counter[str]] = {}
    for each in found:
        for name, call in each.reading["calls"].items():
            if name not in TRANSFERS and (values := return_values(call)):
                row = rows.setdefault(f"{name} · {each.point.factors.get('channel')}", Counter())
                for value, count in values:
                    row[_text(value)] += count
    if not rows:
        return None
    shares = {name: _shares(row) for name, row in rows.items()}
    common = sum((Counter(row) for row in shares.values()), Counter())
    kept = [value for value, _ in common.most_common(MOST_VALUES)]
    series = [
        plots.Bars(value, [100 * row.get(value, 0.0) or None for row in shares.values()]) for value in kept
    ]
    if len(common) > len(kept):
        left = [1 - sum(row.get(value, 0.0) for value in kept) for row in shares.values()]
        series.append(plots.Bars(OTHER, [100 * share if share > 1e-9 else None for share in left]))
    note = f"Shares of the calls of each name, of all points with this channel. {effect_note(found)}"
    axis = plots.axis("share of the calls [%]", range=[0, 101])
    title = "Return values of the calls that move no bytes"
    return plots.stacked(plots.bars(title, axis, list(shares), series, note))


def _shares(row: Mapping[str, int]) -> dict[str, float]:
    total = sum(row.values())
    return {value: count / total for value, count in row.items()}


def _text(value: str | tuple[int, int]) -> str:
    """Return an error's name, a number, or the ends of a bin."""
    if isinstance(value, str):
        return value
    low, high = value
    return f"{low}" if low == high else f"{bytes_text(low)} to {bytes_text(high + 1)}"

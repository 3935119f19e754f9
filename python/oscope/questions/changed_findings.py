"""Findings on speeds that another condition changes, such as a tracer: orders of two, and best sizes."""

from __future__ import annotations

from collections.abc import Sequence

from oscope.model.units import format_bytes
from oscope.questions.curve_shapes import orders
from oscope.questions.curves import best, curve
from oscope.questions.run import Run


def changed_findings(
    before: Run, after: Run, metric: str, factor: str, names: Sequence[str]
) -> list[tuple[str, str]]:
    """Return what is found before, and what is found instead after, of the levels of a factor at each size.

    An order that is reversed comes before one that is only no longer found.
    """
    was, now = (orders(each.experiment, metric, factor, names) for each in (before, after))
    changed = [(key, one, now[key]) for key, one in was.items() if now.get(key, one) != one]
    changed.sort(key=lambda row: row[1] * row[2])
    return [
        *(
            (f"by {format_bytes(size)}, {_order(a, b, one)}", _order(a, b, other))
            for (a, b, size), one, other in changed
        ),
        *(
            text
            for level in before.levels(factor, names)
            if (text := _best_size((before, after), metric, factor, level))
        ),
    ]


def _order(a: str, b: str, which: int) -> str:
    if not which:
        return f"{a} and {b} cannot be distinguished"
    return f"{a} is faster than {b}" if which > 0 else f"{b} is faster than {a}"


def _best_size(sides: tuple[Run, Run], metric: str, factor: str, level: str) -> tuple[str, str] | None:
    """Return another best size of a level, if it is not what it was, nor like it."""
    found = [(curve(one, metric, **{factor: level}), one.experiment) for one in sides]
    if any(len(row) < 2 for row, _ in found):
        return None
    (was, _), (now, alike) = (best(row, experiment, metric) for row, experiment in found)
    if was.size in {now.size, *(each.size for each in alike)}:
        return None
    return f"the best buffer of {level} is {was.name}", f"it is {now.name}"

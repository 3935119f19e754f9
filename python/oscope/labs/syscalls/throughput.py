"""How many calls fit into a second, beside the original's figures and what the cost of one call predicts."""

from __future__ import annotations

from collections.abc import Sequence

from oscope.figures import plots
from oscope.figures.tables import shared_scale, uncertainty
from oscope.labs.engine.drawing import bars
from oscope.labs.engine.question import Question, points
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import TableOf, count, in_unit, level, number, stat
from oscope.labs.engine.words import value
from oscope.labs.syscalls import reference
from oscope.model.document import Figure
from oscope.statistics import Summary

UNIT = "calls/s"


def _call(point: Point) -> str:
    return point.level("call")


def _cited(point: Point) -> float | None:
    return reference.CALLS_PER_SECOND.get(_call(point))


def _headline(_: Run, found: Sequence[Point]) -> str:
    slow, fast = (end(found, key=lambda each: each.summary.median) for end in (min, max))
    text = f"{_call(fast)} reaches {value(fast.summary, UNIT)}"
    slower = f"{_call(slow)}, the slowest of {len(found)} calls, {value(slow.summary, UNIT)}"
    return f"{text}." if slow is fast else f"{text}; {slower}."


def _predicted(point: Point) -> tuple[float, float] | None:
    """Return the reciprocal of the cost of one call in a loop, with what decides its digits."""
    cost = Run.of(point.run.results, "syscall.cost")
    found = cost.at("time_ns", call=_call(point), style="loop") if cost else None
    if found is None or found.median <= 0:
        return None
    rate = 1e9 / found.median
    return rate, rate * (uncertainty(found) or 0.0) / found.median


def _figure(_: Run, found: Sequence[Point]) -> Figure:
    scale = shared_scale([each.summary for each in found], UNIT)
    series: dict[str, list[Summary | float | None]] = {
        "here": [each.summary for each in found],
        "original": [_cited(each) for each in found],
    }
    title = "Calls a second, here and in the original report"
    names = [_call(each) for each in found]
    return bars(title, plots.axis(scale.unit), names, series, factor=scale.factor, cited=["original"])


section = Question(
    title="How many calls fit into a second",
    experiment="syscall.throughput",
    rows=points("calls_per_s"),
    headline=_headline,
    text=("The original report counts each call as one byte moved; so does bytes_per_s here."),
    tables=(
        TableOf(
            "Calls a second",
            (
                level("call"),
                level("duration", "for"),
                count("n", lambda point: point.summary.n),
                stat("{}", lambda point: point.summary, UNIT, "median", "95 %", "std. dev."),
                stat("bytes", "bytes_per_s", "B/s", "median"),
                in_unit("original", lambda point: None if (c := _cited(point)) is None else (c, None), UNIT),
                number("here / original", lambda point: (c := _cited(point)) and point.summary.median / c),
                in_unit("1 / cost in a loop", _predicted, UNIT),
            ),
            "The last column is the reciprocal of the median of `syscall.cost`, whose read is from "
            "/dev/zero; this one is from a file in memory.",
        )
    ),
    figures=(_figure),
)

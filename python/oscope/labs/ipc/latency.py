"""How long a message takes there and back, with its tail."""

from __future__ import annotations

from collections.abc import Sequence

from oscope.labs.engine.drawing import by_level, strips
from oscope.labs.engine.question import Question, points
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import TableOf, count, number, stat, text
from oscope.model.formatting import MISSING
from oscope.model.units import format_bytes

NAMES = ("channel", "mode", "size", "placement")


def _name(point: Point) -> str:
    return point.label(name for name in NAMES if name in point.run.experiment.varied())


def _headline(_: Run, found: Sequence[Point]) -> str:
    """Name the quickest and the slowest at the smallest message."""
    least = min(each.size for each in found)
    quick, slow = (
        end((each for each in found if each.size == least), key=lambda each: each.summary.median)
        for end in (min, max)
    )
    text = f"A round trip of {format_bytes(least)} takes {quick.value} by {_name(quick)}"
    return f"{text}." if slow is quick else f"{text}; by {_name(slow)}, the slowest, {slow.value}."


section = Question(
    title="Round trips",
    experiment="ipc.latency",
    rows=points("round_trip_ns"),
    headline=_headline,
    text=(
        "The round trip holds two messages and the switches that wait for them; CPU time is both sides', "
        "so that spinning is seen."
    ),
    tables=(
        TableOf(
            "Round-trip times",
            (
                text("point", _name),
                count("n", lambda each: each.summary.n),
                stat("median", "round_trip_ns", "ns"),
                stat("p90", "p90_ns", "ns", "median"),
                stat("p99", "p99_ns", "ns", "median"),
                stat("p99.9", "p999_ns", "ns", "median"),
                stat("max", "max_ns", "ns", "median"),
                stat("CPU time", "cpu_ns", "ns", "median"),
                number("voluntary switches", "voluntary"),
            ),
            f"Medians over the repetitions, of one round trip. {MISSING}: too few for the percentile.",
        )
    ),
    figures=(
        lambda _, found: strips(
            "Round-trip time, median of each repetition", "time", found, _name, by_level(found, "channel")
        )
    ),
    factors=NAMES,
)

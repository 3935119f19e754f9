"""How often the sides are switched: per second and per MiB, and how long a thread waits once it was woken."""

from __future__ import annotations

from collections.abc import Sequence

from oscope.figures.traced import Traced
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import TableOf, levels, stat, text
from oscope.labs.engine.traced import effect_column, losses, scheduling, wakeups
from oscope.labs.engine.words import EFFECT, capital, joined, reasons
from oscope.labs.ipc.points import (
    INVOLUNTARY,
    KNOWN,
    MODE_WORDS,
    MOVED,
    RATE,
    SWITCHES,
    VOLUNTARY,
    gaps,
    over_buffers,
    place,
    plain,
    shown,
    traces,
)
from oscope.model.formatting import format_value

PER_MIB = "switches/MiB"


def _rows(run: Run) -> list[Point]:
    points = [each for each in plain(run).points(RATE) if each.of(SWITCHES) is not None]
    return sorted(points, key=lambda each: place(each.factors))


def _a_mebibyte(point: Point) -> float:
    found = point.of(SWITCHES)
    return 0.0 if found is None else found.median


def _headline(_: Run, found: Sequence[Point]) -> str:
    """Name the configuration that is switched most of all, and the one least."""
    every = [each for each in found if each.level("mode") != "1thread"] or found
    most, least = (end(every, key=_a_mebibyte) for end in (max, min))
    rates = [f"{format_value(_a_mebibyte(each), None, '')} per MiB" for each in (most, least)]
    if _a_mebibyte(most) == _a_mebibyte(least):
        mode = capital(MODE_WORDS[most.level("mode")])
        return f"{mode}, every configuration makes context switches alike: {rates[0]}."
    names = [f"{each.level('channel')} with buffers of {each.level('buffer')}" for each in (most, least)]
    return f"{names[0]} makes the most context switches, {rates[0]}; {names[1]} the fewest, {rates[1]}."


WAKEUPS: TableOf[Traced] = TableOf(
    "Scheduling, traced",
    (
        text("point", lambda each: each.name),
        *scheduling("voluntary", "involuntary", "migrations", latency="wake-up latency"),
        effect_column(lambda each: each),
    ),
    f"All traced repetitions together; percentiles are known to a power of two. {EFFECT}",
)

TABLE: TableOf[Point] = TableOf(
    "Context switches of both sides",
    (
        *levels("mode", "channel", "buffer"),
        stat("voluntary", VOLUNTARY, "switches/s", scale="voluntary"),
        stat("involuntary", INVOLUNTARY, "switches/s", scale="involuntary"),
        stat(f"both [{PER_MIB}]", SWITCHES, "", scale="both"),
    ),
    "Medians, both sides together, untraced.",
)

section = Question(
    title="Context switches",
    experiment=MOVED,
    rows=_rows,
    headline=_headline,
    text=(
        (
            "Counted by getrusage(2). A switch is voluntary where a thread waits; the wake-up latency is "
            "from being woken to running."
        ),
        lambda run, _: losses(traces(run, "switches")),
    ),
    tables=(
        lambda _, found: TABLE.of(shown(found)),
        lambda run, _: WAKEUPS.of(traces(run, "switches")),
    ),
    figures=(
        lambda run, _: over_buffers("Context switches for a MiB", plain(run), SWITCHES, PER_MIB, "1thread"),
        lambda run, _: wakeups("Wake-up latency", traces(run, "switches")),
    ),
    factors=KNOWN,
    missing=lambda run: joined(reasons(run.experiment), gaps(run, "switches")),
)

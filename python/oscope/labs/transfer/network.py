"""What a transfer gets of a line: throughput by rate, delay and loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oscope.figures import plots
from oscope.figures.tables import shared_scale
from oscope.figures.words import counted, listed
from oscope.labs.engine.contrast import compared
from oscope.labs.engine.drawing import INTERVALS, dot
from oscope.labs.engine.quantity import derived, metric
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, count, share, stat, text
from oscope.labs.engine.table import value as value_of
from oscope.labs.engine.words import bytes_text, ratio_text, value
from oscope.labs.transfer.points import RATE, TIME
from oscope.model.document import Figure
from oscope.model.formatting import format_share
from oscope.model.samples import Floats, PointSamples
from oscope.model.units import format_bytes, format_duration
from oscope.statistics import Summary

NS = 1e9


@dataclass(frozen=True)
class OnLine:
    """What was measured over one line."""

    point: PointSamples
    summary: Summary
    rounds: Summary | None
    """Round trips that the time is longer than the line needs for the bytes; None without a delay."""

    @property
    def rate(self) -> float:
        """Bytes a second that the line lets through; 0 where it is not limited."""
        return float(self.point.factors.get("rate", 0))

    @property
    def round_trip_s(self) -> float:
        """Both ways' delay."""
        return 2 * float(self.point.factors.get("delay", 0.0))

    @property
    def loss(self) -> int:
        """Packets lost of a thousand."""
        return int(self.point.factors.get("loss", 0))

    @property
    def size(self) -> int:
        """Bytes of all files sent."""
        return round(float(np.nanmedian(metric(self.point, "bytes"))))

    @property
    def content(self) -> str:
        """What was sent, in words."""
        words = {"zeros": "zeros", "random": "random bytes"}
        content = str(self.point.factors.get("content", "random"))
        return f"{bytes_text(self.size)}, {words.get(content, content)}"

    @property
    def product(self) -> float:
        """Bandwidth-delay product: the bytes under way when the line is full."""
        return self.rate * self.round_trip_s

    @property
    def bound(self) -> float:
        """Most bytes a second of a transfer that waits for one round trip; infinite where nothing limits."""
        seconds = (self.size / self.rate if self.rate else 0.0) + self.round_trip_s
        return self.size / seconds if seconds else float("inf")

    @property
    def name(self) -> str:
        """The line in words."""
        parts = [_rate_name(self.rate), f"{format_duration(self.round_trip_s / 2)} each way"]
        return ", ".join([*parts, *([f"{self.loss / 10:g} % lost"] if self.loss else [])])


def _shaped(_: Run, found: Sequence[OnLine]) -> list[str]:
    """Say what shaped the lines, as the probe noted it."""
    notes = [" ".join(each.point.notes) for each in found]
    kinds = (("netem", "(netem)"), ("a token bucket", "tbf"))
    said = [
        f"{name} at {counted(number, 'point')}"
        for name, mark in kinds
        if (number := sum(mark in note for note in notes))
    ]
    return [f"The line was shaped by {listed(said)}."] if said else []


def _rows(run: Run) -> list[OnLine]:
    found = []
    for each in run.points(RATE):
        delayed = float(each.samples.factors.get("delay", 0.0)) > 0
        rounds = derived(run.experiment, each.samples, _rounds) if delayed else None
        found.append(OnLine(each.samples, each.summary, rounds))
    return sorted(found, key=lambda each: (each.rate or float("inf"), each.round_trip_s, each.loss))


def _rounds(point: PointSamples) -> Floats:
    rate = float(point.factors.get("rate", 0))
    seconds = metric(point, TIME) / NS - (metric(point, "bytes") / rate if rate else 0.0)
    return seconds / (2 * float(point.factors["delay"]))


def _rate_name(rate: float) -> str:
    return f"{rate * 8 / 1e6:g} Mbit/s" if rate else "no limit"


def _headline(_: Run, found: Sequence[OnLine]) -> str:
    """Give what a transfer gets of the slowest line without delay and losses."""
    plain = [each for each in found if not each.round_trip_s and not each.loss] or found
    each = plain[0]
    share = f", {format_share(each.summary.median / each.rate, 0.01)} of the rate" if each.rate else ""
    return f"A transfer gets {value(each.summary, 'B/s')} of a line with {each.name}{share}."


def _lossy(run: Run, found: Sequence[OnLine]) -> list[str]:
    """Say what the highest loss does to the time, where it was measured beside none."""
    levels = sorted({each.loss for each in found})
    if len(levels) < 2 or levels[0] != 0:
        return []
    rows = compared(run.experiment, (TIME,), "loss", (0, levels[-1]))
    if not rows:
        return []
    slower = [row for row in rows if row.different == "yes" and row.ratio > 1]
    if not slower:
        return [f"A loss of {levels[-1] / 10:g} % is not found to cost time."]
    most = max(slower, key=lambda row: row.ratio)
    rate, delay = float(most.factors.get("rate", 0)), float(most.factors.get("delay", 0.0))
    return [
        (
            f"A loss of {levels[-1] / 10:g} % is found to cost time at {len(slower)} of "
            f"{counted(len(rows), 'line')}, most at {_rate_name(rate)} and {format_duration(delay)} each "
            f"way: {ratio_text(most)} times the time."
        )
    ]


TABLE: TableOf[OnLine] = TableOf(
    "Throughput over the line",
    (
        text("rate", lambda each: _rate_name(each.rate)),
        text("delay, one way", lambda each: format_duration(each.round_trip_s / 2)),
        text("lost", lambda each: f"{each.loss / 10:g} %"),
        text("sent", lambda each: each.content),
        count("n", lambda each: each.summary.n),
        stat("throughput", lambda each: each.summary, "B/s"),
        share("of the rate", lambda each: each.summary.median / each.rate if each.rate else None),
        text("bandwidth × delay", lambda each: format_bytes(round(each.product)) if each.product else None),
        share(
            "of the bound", lambda each: each.summary.median / each.bound if np.isfinite(each.bound) else None
        ),
        value_of("round trips (95 %)", lambda each: each.rounds, ""),
    ),
    "Round trips: (time - bytes / rate) / round trip, in which losses show as further ones.",
)


def _figures(_: Run, found: Sequence[OnLine]) -> list[Figure]:
    """Draw throughput over the round trip for each rate without losses, and each rate's bound."""
    plain = [each for each in found if not each.loss]
    if len({each.round_trip_s for each in plain}) < 2:
        return []
    scale = shared_scale([each.summary for each in plain], "B/s")
    lines = []
    for colour, rate in enumerate(dict.fromkeys(each.rate for each in plain)):
        here = [(each.round_trip_s * 1e3, each) for each in plain if each.rate == rate]
        measured = [(place, dot(each.name, each.summary, scale.factor)) for place, each in here]
        bounds = [
            (place, plots.Dot("bound", each.bound / scale.factor, None, np.zeros(0)))
            for place, each in here
            if np.isfinite(each.bound)
        ]
        lines.append(plots.Line(_rate_name(rate), measured, colour))
        lines += [plots.Line(f"{_rate_name(rate)}, bound", bounds, colour, "dash")] if len(bounds) > 1 else []
    axes = (plots.axis("round trip [ms]"), plots.axis(f"[{scale.unit}]", scale="log"))
    note = f"{INTERVALS} Dashed: bytes over (bytes / rate + one round trip)."
    return [plots.lines("Throughput over the line's round trip", axes, lines, note)]


section = Question(
    title="Over a line with a rate, a delay and losses",
    experiment="transfer.network",
    rows=_rows,
    headline=_headline,
    text=(
        _lossy,
        (
            "Two network namespaces joined by a veth, with netem at both ends, or a token bucket for the "
            "rate "
            "alone where the kernel has no netem. The bandwidth-delay product is what is under way when the "
            "line "
            "is full: a connection begins with ten packets and needs some round trips until as much is. The "
            "bound of a line is its bytes over the time that the rate needs for them and one round trip for "
            "the "
            "answer."
        ),
        _shaped,
    ),
    tables=(TABLE,),
    figures=(_figures,),
    timed=True,
)

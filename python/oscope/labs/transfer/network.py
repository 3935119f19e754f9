"""What a transfer gets of a line: throughput by rate, delay and loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from oscope.figures import plots
from oscope.figures.tables import shared_scale
from oscope.labs.engine.contrast import compared, row_of
from oscope.labs.engine.drawing import INTERVALS, dot
from oscope.labs.engine.quantity import derived, metric
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, count, ratio, share, stat, text
from oscope.labs.engine.table import value as value_of
from oscope.labs.engine.words import bytes_text, value
from oscope.labs.transfer.points import RATE, TIME
from oscope.model.document import Figure, Table
from oscope.model.formatting import format_share
from oscope.model.samples import Floats, PointSamples
from oscope.model.units import format_bytes, format_duration
from oscope.statistics import ComparedMetric, Summary

NS = 1e9


class OnLine(NamedTuple):
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
    def bound(self) -> float:
        """Most bytes a second of a transfer that waits for one round trip; infinite where nothing limits."""
        seconds = (self.size / self.rate if self.rate else 0.0) + self.round_trip_s
        return self.size / seconds if seconds else float("inf")

    def of_bound(self) -> float | None:
        """Return the share of the bound that is reached; None where nothing limits."""
        return self.summary.median / self.bound if np.isfinite(self.bound) else None

    def product(self) -> str | None:
        """Return the bandwidth-delay product: the bytes under way when the line is full."""
        product = self.rate * self.round_trip_s
        return format_bytes(round(product)) if product else None

    def content(self) -> str:
        """Return what was sent, in words."""
        content = str(self.point.factors.get("content", "random"))
        return f"{bytes_text(self.size)}, {'random bytes' if content == 'random' else content}"

    def name(self) -> str:
        """Return the line in words."""
        parts = [_rate_name(self.rate), f"{format_duration(self.round_trip_s / 2)} each way"]
        return ", ".join([*parts, *([f"{self.loss / 10:g} % lost"] if self.loss else [])])


def _shaped(each: OnLine) -> str | None:
    """Name what shaped the line, as the probe noted it."""
    notes = " ".join(each.point.notes)
    return "netem" if "(netem)" in notes else "token bucket" if "tbf" in notes else None


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
    return f"Over a line with {each.name()} a transfer reaches {value(each.summary, 'B/s')}{share}."


def _lossy(run: Run, found: Sequence[OnLine]) -> dict[int, ComparedMetric]:
    """Return for each line that loses the most how its time compares with that of no loss (Holm)."""
    levels = sorted({each.loss for each in found})
    if len(levels) < 2 or levels[0] != 0:
        return {}
    rows, lossy = compared(run.experiment, (TIME,), "loss", (0, levels[-1])), {}
    for each in found:
        factors = {name: level for name, level in each.point.factors.items() if name != "loss"}
        if each.loss == levels[-1] and (row := row_of(rows, TIME, **factors)) is not None:
            lossy[id(each)] = row
    return lossy


def _table(run: Run, found: Sequence[OnLine]) -> Table:
    lossy = _lossy(run, found)
    table: TableOf[OnLine] = TableOf(
        "Throughput over the line",
        (
            text("rate", lambda each: _rate_name(each.rate)),
            text("delay, one way", lambda each: format_duration(each.round_trip_s / 2)),
            text("lost", lambda each: f"{each.loss / 10:g} %"),
            text("sent", OnLine.content),
            count("n", lambda each: each.summary.n),
            stat("throughput", lambda each: each.summary, "B/s"),
            share("of the rate", lambda each: each.summary.median / each.rate if each.rate else None),
            text("bandwidth × delay", OnLine.product),
            share("of the bound", OnLine.of_bound),
            value_of("round trips (95 %)", lambda each: each.rounds, ""),
            text("shaped by", _shaped),
            *([ratio("time / without loss", lambda each: lossy.get(id(each)), "different")] if lossy else ()),
        ),
        "Round trips: (time - bytes / rate) / round trip, in which losses show as further ones. Bound: bytes "
        "over (bytes / rate + one round trip). Loss is compared paired by block (Holm).",
    )
    return table.of(found)


def _figures(_: Run, found: Sequence[OnLine]) -> list[Figure]:
    """Draw throughput over the round trip for each rate without losses, and each rate's bound."""
    plain = [each for each in found if not each.loss]
    if len({each.round_trip_s for each in plain}) < 2:
        return []
    scale = shared_scale([each.summary for each in plain], "B/s")
    lines = []
    for colour, rate in enumerate(dict.fromkeys(each.rate for each in plain)):
        here = [(each.round_trip_s * 1e3, each) for each in plain if each.rate == rate]
        measured = [(place, dot(each.name(), each.summary, scale.factor)) for place, each in here]
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
        "Two network namespaces joined by a veth. A connection begins with ten packets and needs some "
        "round trips until it fills bandwidth × delay."
    ),
    tables=_table,
    figures=_figures,
    timed=True,
)

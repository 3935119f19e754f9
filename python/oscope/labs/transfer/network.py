"""What a transfer gets of a line: throughput by rate, delay and loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from oscope.labs import engine as q
from oscope.labs.transfer.points import RATE, TIME

NS = 1e9


class OnLine(NamedTuple):
    """What was measured over one line."""

    point: q.Point

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
        return round(float(np.nanmedian(q.metric(self.point.samples, "bytes"))))

    @property
    def bound(self) -> float:
        """Most bytes a second of a transfer that waits for one round trip; infinite where nothing limits."""
        seconds = (self.size / self.rate if self.rate else 0.0) + self.round_trip_s
        return self.size / seconds if seconds else float("inf")

    @property
    def of_bound(self) -> float | None:
        """The share of the bound that is reached; None where nothing limits."""
        return self.point.summary.median / self.bound if np.isfinite(self.bound) else None

    def product(self) -> str | None:
        """Return the bandwidth-delay product: the bytes under way when the line is full."""
        product = self.rate * self.round_trip_s
        return q.format_bytes(round(product)) if product else None

    def content(self) -> str:
        """Return what was sent, in words."""
        content = str(self.point.factors.get("content", "random"))
        return f"{q.bytes_text(self.size)}, {'random bytes' if content == 'random' else content}"

    def name(self) -> str:
        """Return the line in words."""
        lost = f", {self.loss / 10:g} % lost" if self.loss else ""
        return f"{_rate_name(self.rate)}, {q.format_duration(self.round_trip_s / 2)} each way{lost}"


def _rounds(point: q.PointSamples) -> q.Floats:
    """Return by how many round trips the time is longer than the bytes need; NaN without a delay."""
    rate, delay = (float(point.factors.get(name, 0)) for name in ("rate", "delay"))
    seconds = q.metric(point, TIME) / NS - (q.metric(point, "bytes") / rate if rate else 0.0)
    return seconds / (2 * delay if delay > 0 else np.nan)


ROUNDS = q.Quantity("round trips", "", _rounds)


def _rows(run: q.Run) -> list[OnLine]:
    found = map(OnLine, run.points(RATE))
    return sorted(found, key=lambda each: (each.rate or float("inf"), each.round_trip_s, each.loss))


def _rate_name(rate: float) -> str:
    return f"{rate * 8 / 1e6:g} Mbit/s" if rate else "no limit"


def _headline(_: q.Run, found: Sequence[OnLine]) -> str:
    each = next((each for each in found if not each.round_trip_s and not each.loss), found[0])
    reached = each.point.summary.median
    share = f", {q.format_share(reached / each.rate, 0.01)} of the rate" if each.rate else ""
    return f"Over a line with {each.name()} a transfer reaches {each.point.value}{share}."


def _shaped(each: OnLine) -> str | None:
    """Name what shaped the line, as the probe noted it."""
    notes = " ".join(each.point.samples.notes)
    return "netem" if "(netem)" in notes else "token bucket" if "tbf" in notes else None


def _table(_: q.Run, found: Sequence[OnLine]) -> q.Table:
    # How the time of each line that loses the most compares with that of no loss (Holm).
    most = max(each.loss for each in found)
    timed = {each: replace(each.point, metric=TIME) for each in found if each.loss == most}
    lossy = {each: row for each, point in timed.items() if (row := q.beside(point, "loss", 0)) is not None}
    return q.TableOf[OnLine](
        "Throughput over the line",
        q.text("rate", lambda each: _rate_name(each.rate)),
        q.text("delay, one way", lambda each: q.format_duration(each.round_trip_s / 2)),
        q.text("lost", lambda each: f"{each.loss / 10:g} %"),
        q.text("sent", OnLine.content),
        q.count("n", lambda each: each.point.summary.n),
        q.stat("throughput", lambda each: each.point.summary, "B/s"),
        q.share("of the rate", lambda each: each.point.summary.median / each.rate if each.rate else None),
        q.text("bandwidth × delay", OnLine.product),
        q.share("of the bound", lambda each: each.of_bound),
        q.value("round trips (95 %)", lambda each: each.point.of(ROUNDS), ""),
        q.text("shaped by", _shaped),
        *([q.ratio("time / without loss", lossy.get, "different")] if lossy else ()),
        "Round trips: (time - bytes / rate) / round trip, in which losses show as further ones. Bound: bytes "
        "over (bytes / rate + one round trip). Loss is compared paired by block (Holm).",
    ).of(found)


def _figures(_: q.Run, found: Sequence[OnLine]) -> list[q.Figure]:
    plain = [each for each in found if not each.loss]
    if len({each.round_trip_s for each in plain}) < 2:
        return []
    scale = q.shared_scale([each.point.summary for each in plain], "B/s")
    lines = []
    for colour, (rate, own) in enumerate(q.grouped(plain, lambda each: each.rate).items()):
        here = [(each.round_trip_s * 1e3, each) for each in own]
        measured = [(place, q.dot(each.name(), each.point.summary, scale.factor)) for place, each in here]
        known = [(place, each.bound / scale.factor) for place, each in here if np.isfinite(each.bound)]
        bounds = [(place, q.plots.Dot("bound", bound)) for place, bound in known]
        lines.append(q.plots.Line(_rate_name(rate), measured, colour))
        if len(bounds) > 1:
            lines.append(q.plots.Line(f"{_rate_name(rate)}, bound", bounds, colour, "dash"))
    axes = (q.plots.axis("round trip [ms]"), q.plots.axis(f"[{scale.unit}]", scale="log"))
    note = f"{q.INTERVALS} Dashed: bytes over (bytes / rate + one round trip)."
    return [q.plots.lines("Throughput over the line's round trip", axes, lines, note)]


section = q.Question(
    title="Over a line with a rate, a delay and losses",
    experiment="transfer.network",
    rows=_rows,
    headline=_headline,
    text="Two namespaces joined by a veth; a connection needs round trips until it fills bandwidth × delay.",
    tables=_table,
    figures=_figures,
    timed=True,
)

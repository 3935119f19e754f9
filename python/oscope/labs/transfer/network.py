"""What a transfer gets of a line: throughput by rate, delay and loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, isfinite
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from oscope import questions as q
from oscope.labs.transfer.ways import RATE, TIME

NS = 1e9
BOUND = "bytes over (bytes / rate + one round trip)"


class Line(NamedTuple):
    """What the line of a point lets through."""

    point: q.Point
    rate: float
    """Bytes a second; infinite where it is not limited."""
    round_trip_s: float
    lost: int
    """Packets of a thousand."""
    sent: int
    """Bytes of all files."""

    @classmethod
    def of(cls, point: q.Point) -> Line:
        """Return the line of a point."""
        rate, delay, lost = (float(point.factors.get(name, 0)) for name in ("rate", "delay", "loss"))
        sent = round(float(np.nanmedian(q.metric(point.samples, "bytes"))))
        return cls(point, rate or inf, 2 * delay, int(lost), sent)

    @property
    def bound(self) -> float:
        """The most bytes a second with one round trip to wait for; infinite where nothing limits."""
        seconds = self.sent / self.rate + self.round_trip_s
        return self.sent / seconds if seconds else inf

    @property
    def rate_name(self) -> str:
        """The rate in words."""
        return f"{self.rate * 8 / 1e6:g} Mbit/s" if isfinite(self.rate) else "no limit"

    @property
    def name(self) -> str:
        """The line in words."""
        lost = f", {self.lost / 10:g} % lost" if self.lost else ""
        return f"{self.rate_name}, {q.format_duration(self.round_trip_s / 2)} each way{lost}"

    def content(self) -> str:
        """Return what is sent."""
        content = str(self.point.factors.get("content", "random"))
        return f"{q.bytes_text(self.sent)}, {'random bytes' if content == 'random' else content}"

    def product(self) -> str | None:
        """Return the bandwidth-delay product: the bytes under way when the line is full."""
        product = self.rate * self.round_trip_s if isfinite(self.rate) else 0
        return q.format_bytes(round(product)) if product else None

    def shaper(self) -> str | None:
        """Return what shaped the line, as the probe noted it."""
        notes = " ".join(self.point.samples.notes)
        return "netem" if "(netem)" in notes else "token bucket" if "tbf" in notes else None


def _rounds(point: q.PointSamples) -> q.Floats:
    """Return by how many round trips the time is longer than the bytes need; NaN without a delay."""
    rate, delay = (float(point.factors.get(name, 0)) for name in ("rate", "delay"))
    seconds = q.metric(point, TIME) / NS - (q.metric(point, "bytes") / rate if rate else 0.0)
    return seconds / (2 * delay if delay > 0 else np.nan)


ROUNDS = q.Quantity("round trips", "", _rounds)


def _headline(_: q.Run, found: Sequence[Line]) -> str:
    each = next((each for each in found if not each.round_trip_s and not each.lost), found[0])
    part = q.format_share(each.point.summary.median / each.rate, 0.01)
    share = f", {part} of the rate" if isfinite(each.rate) else ""
    return f"Over a line with {each.name} a transfer reaches {each.point.value}{share}."


def _table(_: q.Run, found: Sequence[Line]) -> q.Table:
    # How the time of each line that loses the most compares with that of no loss (Holm).
    most = max(each.lost for each in found)
    timed = {each: replace(each.point, metric=TIME) for each in found if each.lost == most}
    lossy = {
        each: row for each, point in timed.items() if (row := q.beside(point, "loss", 0, most)) is not None
    }
    return q.TableOf[Line](
        "Throughput over the line",
        q.text("rate", lambda each: each.rate_name),
        q.text("delay, one way", lambda each: q.format_duration(each.round_trip_s / 2)),
        q.text("lost", lambda each: f"{each.lost / 10:g} %"),
        q.text("sent", Line.content),
        q.count("n", lambda each: each.point.summary.n),
        q.stat("throughput", lambda each: each.point.summary, "B/s"),
        q.share("of the rate", lambda each: each.point.summary.median / each.rate or None),
        q.text("bandwidth × delay", Line.product),
        q.share("of the bound", lambda each: each.point.summary.median / each.bound or None),
        q.value("round trips (95 %)", lambda each: each.point.of(ROUNDS), ""),
        q.text("shaped by", Line.shaper),
        *([q.ratio("time / without loss", lossy.get, "different")] if lossy else ()),
        note="Round trips: (time - bytes / rate) / round trip, in which losses show as further ones. Bound: "
        f"{BOUND}. Loss is compared paired by block (Holm).",
    ).of(found)


def _figure(_: q.Run, found: Sequence[Line]) -> q.Figure | None:
    plain = [each for each in found if not each.lost]
    if len({each.round_trip_s for each in plain}) < 2:
        return None
    scale = q.shared_scale([each.point.summary for each in plain], "B/s")
    series = {
        (name, f"{name}, bound"): [
            (each.round_trip_s * 1e3, each.name, each.point.summary, each.bound) for each in own
        ]
        for name, own in q.grouped(plain, lambda each: each.rate_name).items()
    }
    axes = (q.plots.axis("round trip [ms]"), q.plots.axis(f"[{scale.unit}]", scale="log"))
    note, title = f"{q.INTERVALS} Dashed: {BOUND}.", "Throughput over the line's round trip"
    return q.plots.lines(title, axes, q.with_expected(series, scale.factor), note)


section = q.Question(
    title="Over a line with a rate, a delay and losses",
    experiment="transfer.network",
    rows=lambda run: sorted(map(Line.of, run.points(RATE)), key=itemgetter(1, 2, 3)),
    headline=_headline,
    text="Two namespaces joined by a veth; a connection needs round trips until it fills bandwidth × delay.",
    tables=_table,
    figures=_figure,
    timed=True,
)

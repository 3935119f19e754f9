"""What a transfer gets of a line: throughput by rate, delay and loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, isfinite

import numpy as np

from oscope import questions as q
from oscope.labs.transfer.ways import RATE, TIME

NS = 1e9
BOUND = "bytes over (bytes / rate + one round trip)"


def _rate(point: q.Point) -> float:
    """Return the bytes a second that the line lets through; infinite where it is not limited."""
    return float(point.factors.get("rate", 0)) or inf


def _round_trip_s(point: q.Point) -> float:
    return 2 * float(point.factors.get("delay", 0.0))


def _lost(point: q.Point) -> int:
    """Return how many packets of a thousand are lost."""
    return int(point.factors.get("loss", 0))


def _sent(point: q.Point) -> int:
    """Return the bytes of all files sent."""
    return round(float(np.nanmedian(q.metric(point.samples, "bytes"))))


def _bound(point: q.Point) -> float:
    """Return the most bytes a second with one round trip to wait for; infinite where nothing limits."""
    seconds = _sent(point) / _rate(point) + _round_trip_s(point)
    return _sent(point) / seconds if seconds else inf


def _rate_name(rate: float) -> str:
    return f"{rate * 8 / 1e6:g} Mbit/s" if isfinite(rate) else "no limit"


def _name(point: q.Point) -> str:
    lost = f", {_lost(point) / 10:g} % lost" if _lost(point) else ""
    return f"{_rate_name(_rate(point))}, {q.format_duration(_round_trip_s(point) / 2)} each way{lost}"


def _content(point: q.Point) -> str:
    content = str(point.factors.get("content", "random"))
    return f"{q.bytes_text(_sent(point))}, {'random bytes' if content == 'random' else content}"


def _product(point: q.Point) -> str | None:
    """Return the bandwidth-delay product: the bytes under way when the line is full."""
    product = _rate(point) * _round_trip_s(point) if isfinite(_rate(point)) else 0
    return q.format_bytes(round(product)) if product else None


def _rounds(point: q.PointSamples) -> q.Floats:
    """Return by how many round trips the time is longer than the bytes need; NaN without a delay."""
    rate, delay = (float(point.factors.get(name, 0)) for name in ("rate", "delay"))
    seconds = q.metric(point, TIME) / NS - (q.metric(point, "bytes") / rate if rate else 0.0)
    return seconds / (2 * delay if delay > 0 else np.nan)


ROUNDS = q.Quantity("round trips", "", _rounds)


def _headline(_: q.Run, found: Sequence[q.Point]) -> str:
    each = next((each for each in found if not _round_trip_s(each) and not _lost(each)), found[0])
    limited = isfinite(_rate(each))
    share = f", {q.format_share(each.summary.median / _rate(each), 0.01)} of the rate" if limited else ""
    return f"Over a line with {_name(each)} a transfer reaches {each.value}{share}."


def _shaped(point: q.Point) -> str | None:
    """Name what shaped the line, as the probe noted it."""
    notes = " ".join(point.samples.notes)
    return "netem" if "(netem)" in notes else "token bucket" if "tbf" in notes else None


def _table(_: q.Run, found: Sequence[q.Point]) -> q.Table:
    # How the time of each line that loses the most compares with that of no loss (Holm).
    most = max(map(_lost, found))
    timed = {each: replace(each, metric=TIME) for each in found if _lost(each) == most}
    lossy = {
        each: row for each, point in timed.items() if (row := q.beside(point, "loss", 0, most)) is not None
    }
    return q.TableOf[q.Point](
        "Throughput over the line",
        q.text("rate", lambda each: _rate_name(_rate(each))),
        q.text("delay, one way", lambda each: q.format_duration(_round_trip_s(each) / 2)),
        q.text("lost", lambda each: f"{_lost(each) / 10:g} %"),
        q.text("sent", _content),
        q.count("n", lambda each: each.summary.n),
        q.stat("throughput", lambda each: each.summary, "B/s"),
        q.share("of the rate", lambda each: each.summary.median / _rate(each) or None),
        q.text("bandwidth × delay", _product),
        q.share("of the bound", lambda each: each.summary.median / _bound(each) or None),
        q.value("round trips (95 %)", ROUNDS, ""),
        q.text("shaped by", _shaped),
        *([q.ratio("time / without loss", lossy.get, "different")] if lossy else ()),
        note="Round trips: (time - bytes / rate) / round trip, in which losses show as further ones. Bound: "
        f"{BOUND}. Loss is compared paired by block (Holm).",
    ).of(found)


def _figure(_: q.Run, found: Sequence[q.Point]) -> q.Figure | None:
    plain = [each for each in found if not _lost(each)]
    if len(set(map(_round_trip_s, plain))) < 2:
        return None
    scale = q.shared_scale([each.summary for each in plain], "B/s")
    series = {
        (_rate_name(rate), f"{_rate_name(rate)}, bound"): [
            (_round_trip_s(each) * 1e3, _name(each), each.summary, _bound(each)) for each in own
        ]
        for rate, own in q.grouped(plain, _rate).items()
    }
    axes = (q.plots.axis("round trip [ms]"), q.plots.axis(f"[{scale.unit}]", scale="log"))
    note, title = f"{q.INTERVALS} Dashed: {BOUND}.", "Throughput over the line's round trip"
    return q.plots.lines(title, axes, q.with_expected(series, scale.factor), note)


section = q.Question(
    title="Over a line with a rate, a delay and losses",
    experiment="transfer.network",
    rows=lambda run: sorted(
        run.points(RATE), key=lambda each: (_rate(each), _round_trip_s(each), _lost(each))
    ),
    headline=_headline,
    text="Two namespaces joined by a veth; a connection needs round trips until it fills bandwidth × delay.",
    tables=_table,
    figures=_figure,
    timed=True,
)

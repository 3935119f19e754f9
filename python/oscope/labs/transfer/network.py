"""What a transfer gets of a line: throughput by rate, delay and loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed
from oscope.figures.tables import shared_scale
from oscope.figures.words import counted, listed, median
from oscope.labs.curve import bytes_text, cells, derived, metric, ratio_text
from oscope.labs.kernel.clocked import EMULATED, emulated
from oscope.labs.transfer.points import RATE, TIME, known, levels_compared, missing
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, format_share, format_value
from oscope.model.samples import ExperimentResults, Floats, PointSamples
from oscope.model.units import format_bytes, format_duration
from oscope.statistics import Summary

TITLE = "Over a line with a rate, a delay and losses"
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


def section(results: Analysed) -> Section | None:
    """Tell what share of a line's rate a transfer gets."""
    experiment = results.get("transfer.network")
    if experiment is None:
        return None
    found = _found(results, experiment)
    if not found:
        gaps = missing(experiment)
        return Section(TITLE, "", missing=gaps) if gaps else None
    return Section(
        title=TITLE,
        answer=" ".join([*_filled(experiment, found), *_delayed(found), *_lossy(experiment)]),
        text=[
            (
                "Two network namespaces joined by a veth, with netem at both ends, or a token bucket for the "
                "rate alone where the kernel has no netem. The bandwidth-delay product is what is under way "
                "when the line is full: a connection begins with ten packets and needs some round trips "
                "until as much is. The bound of a line is its bytes over the time that the rate needs for "
                "them and one round trip for the answer."
            ),
            *_shaped(found),
            *([f"The guest was emulated: {EMULATED}."] if emulated(experiment) else []),
        ],
        tables=[_table(experiment, found)],
        figures=_figures(found),
        missing=missing(experiment),
    )


def _shaped(found: Sequence[OnLine]) -> list[str]:
    """Say what shaped the lines, as the probe noted it."""
    notes = [" ".join(each.point.notes) for each in found]
    kinds = (("netem", "(netem)"), ("a token bucket", "tbf"))
    told = [
        f"{name} at {counted(number, 'point')}"
        for name, mark in kinds
        if (number := sum(mark in note for note in notes))
    ]
    return [f"The line was shaped by {listed(told)}."] if told else []


def _found(results: Analysed, experiment: ExperimentResults) -> list[OnLine]:
    found = []
    for point in known(experiment, RATE):
        summary = results.summary(experiment, point, RATE)
        if summary is not None:
            delayed = float(point.factors.get("delay", 0.0)) > 0
            found.append(OnLine(point, summary, derived(experiment, point, _rounds) if delayed else None))
    return sorted(found, key=lambda each: (each.rate or float("inf"), each.round_trip_s, each.loss))


def _rounds(point: PointSamples) -> Floats:
    rate = float(point.factors.get("rate", 0))
    seconds = metric(point, TIME) / NS - (metric(point, "bytes") / rate if rate else 0.0)
    return seconds / (2 * float(point.factors["delay"]))


def _rate_name(rate: float) -> str:
    return f"{rate * 8 / 1e6:g} Mbit/s" if rate else "no limit"


def _filled(experiment: ExperimentResults, found: Sequence[OnLine]) -> list[str]:
    """Give the share of each rate without delay and loss."""
    unit = experiment.metrics[RATE].unit
    parts = []
    for each in found:
        if each.round_trip_s or each.loss:
            continue
        share = f", {format_share(each.summary.median / each.rate, 0.01)} of it" if each.rate else ""
        parts.append(f"{median(each.summary, unit)} with {_rate_name(each.rate)}{share}")
    return [f"Without delay and losses a transfer gets {listed(parts)}."] if parts else []


def _delayed(found: Sequence[OnLine]) -> list[str]:
    """Say how many round trips the longest delay of each rate costs."""
    parts = []
    for rate in dict.fromkeys(each.rate for each in found):
        here = [each for each in found if each.rate == rate and each.rounds is not None and not each.loss]
        if here:
            last = max(here, key=lambda each: each.round_trip_s)
            if last.rounds is not None:
                rounds = format_value(last.rounds.median, last.rounds.median / 20, "")
                parts.append(f"{rounds} at {last.name}")
    if not parts:
        return []
    return [f"A delay costs round trips beyond what the rate needs for the bytes: {listed(parts)}."]


def _lossy(experiment: ExperimentResults) -> list[str]:
    """Say what the highest loss does to the time, where it was measured beside none."""
    levels = sorted({int(point.factors.get("loss", 0)) for point in known(experiment, RATE)})
    if len(levels) < 2 or levels[0] != 0:
        return []
    rows = levels_compared(experiment, (TIME,), "loss", (0, levels[-1]))
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


def _table(experiment: ExperimentResults, found: Sequence[OnLine]) -> Table:
    scale = shared_scale([each.summary for each in found], experiment.metrics[RATE].unit)
    rows = []
    for each in found:
        rows.append(
            [
                _rate_name(each.rate),
                format_duration(each.round_trip_s / 2),
                f"{each.loss / 10:g} %",
                each.content,
                str(each.summary.n),
                *cells(each.summary, scale),
                format_share(each.summary.median / each.rate, 0.01) if each.rate else MISSING,
                format_bytes(round(each.product)) if each.product else MISSING,
                format_share(each.summary.median / each.bound, 0.01) if np.isfinite(each.bound) else MISSING,
                MISSING if each.rounds is None else median(each.rounds, ""),
            ]
        )
    columns = [
        "rate",
        "delay, one way",
        "lost",
        "sent",
        "n",
        f"throughput [{scale.unit}]",
        f"95 % [{scale.unit}]",
        "of the rate",
        "bandwidth × delay",
        "of the bound",
        "round trips (95 %)",
    ]
    note = "Round trips: (time - bytes / rate) / round trip, in which losses show as further ones."
    return Table("Throughput over the line", columns, rows, frozenset({4, 5}), note)


def _figures(found: Sequence[OnLine]) -> list[Figure]:
    """Draw throughput over the round trip for each rate without losses, and each rate's bound."""
    plain = [each for each in found if not each.loss]
    scale = shared_scale([each.summary for each in plain], "B/s") if plain else None
    if scale is None or len({each.round_trip_s for each in plain}) < 2:
        return []
    lines = []
    for colour, rate in enumerate(dict.fromkeys(each.rate for each in plain)):
        here = [each for each in plain if each.rate == rate]
        measured, bounds = [], []
        for each in here:
            ends = each.summary.ci95
            interval = ends and (ends[0] / scale.factor, ends[1] / scale.factor)
            place = each.round_trip_s * 1e3
            dot = plots.Dot(each.name, each.summary.median / scale.factor, interval, np.zeros(0))
            measured.append((place, dot))
            if np.isfinite(each.bound):
                bounds.append((place, plots.Dot("bound", each.bound / scale.factor, None, np.zeros(0))))
        name = _rate_name(rate)
        lines.append(plots.Line(name, measured, colour))
        if len(bounds) > 1:
            lines.append(plots.Line(f"{name}, bound", bounds, colour, "dash"))
    axes = (plots.axis("round trip [ms]"), plots.axis(f"[{scale.unit}]", scale="log"))
    note = "Medians with their 95 % intervals. Dashed: bytes over (bytes / rate + one round trip)."
    return [plots.lines("Throughput over the line's round trip", axes, lines, note)]

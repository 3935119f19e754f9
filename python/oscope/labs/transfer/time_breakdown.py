"""Where the time of a transfer goes: system calls, CPU time, switches and what is left, on both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed, measured
from oscope.figures.tables import shared_scale
from oscope.figures.words import counted, listed, median
from oscope.labs.curve import At, best, cells, derived, metric, narrowing, ratio_text
from oscope.labs.transfer.points import (
    CALLS,
    COPIED,
    GIBIBYTE,
    MAPPED,
    MEBIBYTE,
    against,
    at,
    known,
    missing,
    narrowed,
    sizes,
    verdict,
    way,
    ways,
)
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, format_share, format_value
from oscope.model.samples import Column, ExperimentResults, Floats, PointSamples
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric, Summary
from oscope.statistics.compare import THRESHOLD

TITLE = "Where the time goes"
CONTENT = "random"
BOTH = "cpu_s_per_gib of both sides"
COMPARED = ("cpu_s_per_gib", "receiver_cpu_s_per_gib", "calls", "receiver_calls")
OWN = ("sender", "receiver", "size", "content", "digest", "tracer")
"""Factors that the section tells apart; of any other the first level is shown."""


@dataclass(frozen=True)
class Side:
    """One end of a transfer and the metrics it has."""

    name: str
    prefix: str
    time: str

    def per_mebibyte(self, point: PointSamples, what: str) -> Floats:
        """Return events of this side for a MiB."""
        return metric(point, f"{self.prefix}{what}") / (metric(point, "bytes") / MEBIBYTE)

    def cpu(self, point: PointSamples) -> Floats:
        """Return CPU seconds for a GiB."""
        return metric(point, f"{self.prefix}cpu_s_per_gib")

    def idle(self, point: PointSamples) -> Floats:
        """Return the least share of this side's time in which none of its threads was on a CPU.

        It may be below 0 where they are at once on several.
        """
        cpu_s = self.cpu(point) * metric(point, "bytes") / GIBIBYTE
        return 1 - cpu_s / (metric(point, self.time) / 1e9)


SIDES = (Side("sender", "", COPIED.sender), Side("receiver", "receiver_", COPIED.receiver))


@dataclass(frozen=True)
class Row:
    """What one side does at one point."""

    side: Side
    point: PointSamples
    calls: Summary | None
    switches: Summary | None
    cpu: Summary | None
    idle: Summary | None

    @property
    def way(self) -> str:
        """How the file is moved."""
        return way(self.point.factors)


def section(results: Analysed) -> Section | None:
    """Tell calls, switches, CPU time and what is left of the time of both sides at the largest size."""
    experiment = results.get("transfer.large") or results.get("transfer.copy")
    if experiment is None:
        return None
    told = narrowing(experiment, OWN)
    experiment = narrowed(experiment, *OWN)
    points = _largest(experiment)
    rows = [_row(experiment, side, point) for point in points for side in SIDES]
    if not any(row.cpu for row in rows):
        gaps = missing(experiment)
        return Section(TITLE, "", missing=gaps) if gaps else None
    size = int(points[0].factors["size"])
    compared = {name: against(experiment, COMPARED, CALLS, name) for name in ways(points) if name != CALLS}
    mapped = compared.get(MAPPED, [])
    return Section(
        title=TITLE,
        answer=" ".join([_calls(rows, size), *_cpu(experiment, rows, mapped, size), *_idle(rows)]),
        text=[
            (
                "System calls are those made for the moving, counted by the engine where it makes them; CPU "
                "time and switches are each process's own (getrusage). Over loopback the receiving half of "
                "TCP is done in the sender's call, and its CPU time is charged to the sender."
            ),
            (
                "A side is on no CPU while it waits: the sender for room in the socket and for the receipt, "
                "the receiver for data, either for a CPU where there are fewer than threads. For files of 1 "
                "MiB or more a second thread computes the digest, and CPU time is that of both: 1 - CPU time "
                "/ time is the least share in which neither was on a CPU, more where both were at once. "
                "Below 0 it says nothing of waiting."
            ),
            (
                "Read and write copy each byte between kernel and user space, at both ends; mmap pays with "
                "page faults for what it saves in calls; sendfile and splice hand pages on without bringing "
                "them to user space, but the digest reads them there all the same."
            ),
            *told,
        ],
        tables=[_table(rows, size), _verdicts(compared, points, size)],
        figures=[_figure(rows, size)],
        missing=missing(experiment),
    )


def _largest(experiment: ExperimentResults) -> list[PointSamples]:
    """Return the points at the largest size with random content and the default digest."""
    points = [
        point
        for point in known(experiment, "bytes")
        if point.factors.get("content", CONTENT) == CONTENT
        and point.factors.get("digest", "blake3") == "blake3"
    ]
    most = max(sizes(points), default=0)
    return [point for point in points if point.factors.get("size") == most]


def _row(experiment: ExperimentResults, side: Side, point: PointSamples) -> Row:
    return Row(
        side,
        point,
        derived(experiment, point, lambda each: side.per_mebibyte(each, "calls")),
        derived(experiment, point, lambda each: side.per_mebibyte(each, "switches")),
        derived(experiment, point, side.cpu),
        derived(experiment, point, side.idle),
    )


def _calls(rows: Sequence[Row], size: int) -> str:
    """Give the fewest and the most calls of the sender."""
    sending = [(row.calls.median, row) for row in rows if row.side is SIDES[0] and row.calls]
    if not sending:
        return ""
    (few, least), (many, most) = (end(sending, key=lambda pair: pair[0]) for end in (min, max))
    text = f"At {format_bytes(size)} the sender makes {format_value(few, None, '')} system calls a MiB by "
    text += least.way
    return f"{text}." if least is most else f"{text} and {format_value(many, None, '')} by {most.way}."


def _cpu(
    experiment: ExperimentResults, rows: Sequence[Row], mapped: Sequence[ComparedMetric], size: int
) -> list[str]:
    """Name the way with the least CPU time of both sides, and hold mmap against read and write."""
    said = _cheapest(experiment, [row.point for row in rows if row.side is SIDES[0]], size)
    parts = []
    for side in SIDES:
        ratio = at(mapped, f"{side.prefix}cpu_s_per_gib", size=size, content=CONTENT)
        if ratio is not None:
            alike = "" if ratio.different == "yes" else " (not found different)"
            parts.append(f"{ratio_text(ratio)} times at the {side.name}{alike}")
    return [*said, f"By mmap it is, over that by read and write, {listed(parts)}."] if parts else said


def _cheapest(experiment: ExperimentResults, points: Sequence[PointSamples], size: int) -> list[str]:
    """Name the way with the least CPU time of both sides, and those that cannot be told from it."""

    def both(point: PointSamples) -> Floats:
        return np.asarray(sum(side.cpu(point) for side in SIDES), dtype=float)

    found = []
    for point in points:
        one = derived(experiment, point, both)
        if one is not None:
            found.append(At(size, replace(point, metrics={BOTH: both(point)}), one))
    if not found:
        return []
    column = Column(BOTH, "s/GiB", "CPU time of both sides", "less")
    least, alike = best(found, replace(experiment, metrics={BOTH: column}), BOTH)
    others = f" (not to be told from {listed([way(each.point.factors) for each in alike])})" if alike else ""
    return [
        (
            f"Least CPU time of both sides has {way(least.point.factors)}: {median(least.summary, 's')} a "
            f"GiB{others}."
        )
    ]


def _idle(rows: Sequence[Row]) -> list[str]:
    """Give the bounds of each side that say something, without a ranking of the ways."""
    parts = []
    for side in SIDES:
        here = [row.idle.median for row in rows if row.side is side and row.idle]
        told = sorted(share for share in here if share > 0)
        if told:
            ends = _range(*(format_share(share, 0.01) for share in (told[0], told[-1])))
            some = "" if len(told) == len(here) else f" (by {len(told)} of {counted(len(here), 'method')})"
            parts.append(f"the {side.name} {ends} of its time{some}")
    return [f"On no CPU is, at least, {listed(parts)}."] if parts else []


def _range(low: str, high: str) -> str:
    """Return `12 % to 30 %`, or one of the two where they are the same."""
    return low if low == high else f"{low} to {high}"


def _table(rows: Sequence[Row], size: int) -> Table:
    cpu = [row.cpu for row in rows if row.cpu]
    scale = shared_scale(cpu, "s")
    lines = []
    for row in rows:
        faults = faults_a_mebibyte(row.point) if row.side is SIDES[0] else float("nan")
        lines.append(
            [
                row.way,
                row.side.name,
                _plain(row.calls),
                _plain(row.switches),
                *cells(row.cpu, scale),
                MISSING if row.idle is None else format_share(row.idle.median, 0.01),
                format_value(faults, faults / 50, "") if np.isfinite(faults) else MISSING,
            ]
        )
    columns = [
        "method",
        "side",
        "calls a MiB",
        "switches a MiB",
        f"CPU time a GiB [{scale.unit}]",
        f"95 % [{scale.unit}]",
        "on no CPU, at least",
        "page faults a MiB",
    ]
    note = f"Medians at {format_bytes(size)}, random bytes. Page faults are counted of the sender alone."
    return Table("What both sides do", columns, lines, frozenset({2, 3, 4, 7}), note)


def faults_a_mebibyte(point: PointSamples) -> float:
    """Return the sender's minor faults for a MiB; NaN where they were not recorded."""
    faults = point.covariates.get("minor_faults")
    if faults is None:
        return float("nan")
    moved = metric(point, "bytes") * point.iterations / MEBIBYTE
    values = faults / moved
    kept = values[np.isfinite(values)]
    return float(np.median(kept)) if len(kept) else float("nan")


def _plain(summary: Summary | None) -> str:
    return MISSING if summary is None else format_value(summary.median, summary.median / 50, "")


def _verdicts(
    compared: Mapping[str, Sequence[ComparedMetric]], points: Sequence[PointSamples], size: int
) -> Table:
    lines = []
    for name, rows in compared.items():
        for each in COMPARED:
            row = at(rows, each, size=size, content=CONTENT)
            if row is not None:
                sides = [_point(points, way_name) for way_name in (CALLS, name)]
                lines.append([name, each, *(_constant(each, *sides) or verdict(row))])
    columns = ["method", "metric", f"over {CALLS}'s (95 %)", "different", "matters"]
    note = (
        f"At {format_bytes(size)}. Paired by block, p corrected (Holm) for all metrics and sizes of a "
        "method; counts that never change are compared as they are."
    )
    return Table("CPU time and calls against read and write", columns, lines, frozenset(), note)


def _point(points: Sequence[PointSamples], name: str) -> PointSamples:
    return next(point for point in points if way(point.factors) == name)


def _constant(name: str, base: PointSamples, other: PointSamples) -> list[str]:
    """Compare counts as they are that are the same in every repetition; empty where they are not."""
    both = [measured(point, name)[0] for point in (base, other)]
    if any(len(values) < 2 or values.min() < values.max() or not values[0] for values in both):
        return []
    ratio = float(both[1][0] / both[0][0])
    return [f"{ratio:.4g}", "no" if ratio == 1 else "yes", "yes" if abs(ratio - 1) > THRESHOLD else "no"]


def _figure(rows: Sequence[Row], size: int) -> Figure:
    names = list(dict.fromkeys(row.way for row in rows))
    series = []
    for side in SIDES:
        here = {row.way: row.cpu for row in rows if row.side is side}
        found = [here.get(name) for name in names]
        values = [None if one is None else one.median for one in found]
        series.append(plots.Bars(side.name, values, [None if one is None else one.ci95 for one in found]))
    axis = plots.axis("CPU time a GiB [s]", rangemode="tozero")
    note = f"At {format_bytes(size)}; digests included."
    return plots.bars("CPU time of both sides", axis, names, series, note)

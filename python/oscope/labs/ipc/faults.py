"""Page faults traced: which, where, of which kind, how long and when, beside touches timed untraced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed
from oscope.figures.traced import Traced, traced
from oscope.figures.words import listed, median
from oscope.labs.ipc import histograms
from oscope.labs.ipc.points import TIME
from oscope.labs.ipc.traced import effect_note, losses, untold
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, format_count, format_share, format_value
from oscope.statistics import Summary
from oscope.trace.reading import quantile

TITLE = "Page faults"
SOURCES = (("trace.fault", "time_ns"), ("ipc.trace", TIME))
"""Experiments whose faults are told, with the metric that their probe effect is of."""
AGREE = 0.25
"""A traced time within this share of the timed touch is said to agree."""
LEAST_SHARE = 0.01
"""Share of a point's faults or of their time below which a row is left out."""
MOST_LINES = 7


@dataclass(frozen=True)
class Kind:
    """One kind of `trace.fault`, timed and traced."""

    where: Traced
    row: Mapping[str, Any]
    """The faults that the touches made: the commonest row."""
    touch: Summary | None
    """Time of a touch without a tracer, in ns."""

    @property
    def mean_ns(self) -> float:
        """Time of a fault by the trace."""
        return float(self.row["time_ns"] / self.row["count"])

    @property
    def ratio(self) -> float | None:
        """Traced time of a fault over the timed touch."""
        return None if self.touch is None or self.touch.median <= 0 else self.mean_ns / self.touch.median


def section(results: Analysed) -> Section | None:
    """Answer E9."""
    present = [(name, metric) for name, metric in SOURCES if results.get(name) is not None]
    if not present:
        return None
    found: list[Traced] = []
    missing = []
    for name, metric in present:
        experiment = results.get(name)
        points = traced(experiment, metric, "faults") if experiment is not None else []
        found += [each for each in points if each.reading["faults"]]
        missing.append(untold(experiment, name, points))
    kinds = _kinds(results, found)
    told = " ".join(dict.fromkeys(filter(None, missing)))
    timed = _timed(results)
    if not found:
        if timed is None:
            return Section(TITLE, "", missing=told) if told else None
        return Section(TITLE, _touches(results), tables=[timed], missing=told)
    return Section(
        title=TITLE,
        answer=" ".join([*_commonest(found), *_agreement(kinds)]),
        text=[
            (
                "Each fault is timed from the exception's tracepoint to the end of its handling; the "
                "exception itself is outside. Its class is the address's, its kind what the kernel did. A "
                "fault of the kernel on behalf of a call that copies is told as by the kernel."
            ),
            *losses(found),
        ],
        tables=[*([_beside(kinds)] if kinds else []), _table(found)],
        figures=_figures(found),
        missing=told,
    )


def _kinds(results: Analysed, found: Iterable[Traced]) -> list[Kind]:
    experiment = results.get("trace.fault")
    if experiment is None:
        return []
    return [
        Kind(
            each,
            max(each.reading["faults"], key=lambda row: row["count"]),
            None if each.plain is None else results.summary(experiment, each.plain, "time_ns"),
        )
        for each in found
        if any(each.point is point for point in experiment.points)
    ]


def _what(row: Mapping[str, Any]) -> str:
    """Return a row of faults in words."""
    presence = "present" if row["present"] else "not present"
    return f"{row['kind']} ({row['class']}, {row['access']}, {presence}, by the {row['by']})"


def _commonest(found: Sequence[Traced]) -> list[str]:
    """Say which faults moving data makes, and how many a repetition."""
    moving = [each for each in found if "channel" in each.point.factors]
    if not moving:
        return []
    most = max(moving, key=lambda each: sum(row["count"] for row in each.reading["faults"]) / _reps(each))
    rows = most.reading["faults"]
    count = sum(row["count"] for row in rows)
    top = max(rows, key=lambda row: row["count"])
    spent = sum(row["time_ns"] for row in rows)
    return [
        (
            f"Moving data faults most at {most.name}: {format_value(count / _reps(most), None, '')} times a "
            f"repetition, {format_share(top['count'] / count)} of it {_what(top)}; handling them takes "
            f"{format_share(spent / most.reading['region_ns'])} of the time between the marks."
        )
    ]


def _reps(each: Traced) -> int:
    return int(each.reading.get("reps") or each.reading["regions"])


def _agreement(kinds: Sequence[Kind]) -> list[str]:
    """Hold the traced time of a fault against the timed touch."""
    known = [(each.ratio, each) for each in kinds if each.ratio is not None]
    if not known:
        return []
    slow, quick = (end(kinds, key=lambda each: each.mean_ns) for end in (max, min))
    told = [
        (
            f"By the trace, {quick.where.name} is the quickest fault with {_time(quick.mean_ns)} and "
            f"{slow.where.name} the slowest with {_time(slow.mean_ns)}."
        )
    ]
    within = [each for ratio, each in known if abs(ratio - 1) <= AGREE]
    low, high = (end(known, key=lambda pair: pair[0]) for end in (min, max))
    where = listed([each.where.name for each in within])
    told.append(
        f"The traced time of a fault is {low[0]:.2g} (at {low[1].where.name}) to {high[0]:.2g} (at "
        f"{high[1].where.name}) times the untraced, timed touch; they agree within "
        f"{format_share(AGREE)} at {where or 'no kind'}."
    )
    return told


def _time(nanoseconds: float) -> str:
    return format_value(nanoseconds * 1e-9, 0.01 * nanoseconds * 1e-9, "s")


def _beside(kinds: Sequence[Kind]) -> Table:
    rows = []
    for each in kinds:
        rows.append(
            [
                each.where.name,
                _what(each.row),
                format_count(each.row["count"]),
                _time(each.mean_ns),
                MISSING if each.touch is None else median(each.touch, "ns"),
                MISSING if each.ratio is None else f"{each.ratio:.2f}",
                each.where.effect_text,
            ]
        )
    columns = [
        "touched",
        "the commonest fault",
        "faults",
        "time of a fault, traced",
        "time of a touch, untraced (95 %)",
        "fault / touch",
        "probe effect (95 %)",
    ]
    note = (
        "A touch holds the exception and the return from it as well, a traced fault the tracer's own work. "
        "Where one fault maps several pages, a touch is shorter than a fault."
    )
    return Table("Faults traced, beside touches timed", columns, rows, frozenset({2}), note)


def _table(found: Sequence[Traced]) -> Table:
    rows = []
    for each in found:
        faults = each.reading["faults"]
        count, spent = (sum(row[name] for row in faults) for name in ("count", "time_ns"))
        for row in sorted(faults, key=lambda one: -one["count"]):
            if max(row["count"] / count, row["time_ns"] / max(spent, 1)) < LEAST_SHARE:
                continue
            times = row.get("times", [])
            rows.append(
                [
                    each.name,
                    row["kind"],
                    row["class"],
                    row["access"],
                    "yes" if row["present"] else "no",
                    row["by"],
                    format_count(row["count"]),
                    _time(row["time_ns"] / row["count"]) if row["count"] else MISSING,
                    histograms.bin_text(quantile(times, 0.5)),
                    histograms.bin_text(quantile(times, 0.99)),
                    each.effect_text,
                ]
            )
    columns = [
        "point",
        "kind",
        "class",
        "access",
        "present",
        "by",
        "faults",
        "mean",
        "median",
        "99th percentile",
        "probe effect (95 %)",
    ]
    note = (
        f"All traced repetitions together; what makes less than {LEAST_SHARE:.0%} of a point's faults and of "
        "their time is left out. Percentiles are known to a power of two."
    )
    return Table("Page faults by class, access and kind", columns, rows, frozenset({6}), note)


def _figures(found: Sequence[Traced]) -> list[Figure]:
    busiest = sorted(found, key=lambda each: -sum(row["count"] for row in each.reading["faults"]))[
        :MOST_LINES
    ]
    rows = {
        f"{each.name}: {top['kind']}": top["times"]
        for each in busiest
        if (top := max(each.reading["faults"], key=lambda row: row["count"])).get("times")
    }
    left = "" if len(busiest) == len(found) else f"The {MOST_LINES} points with most faults. "
    note = f"{left}{effect_note(busiest)}"
    figures = [histograms.figure("Time of a page fault", "time of a fault [ns]", rows, note)] if rows else []
    lines = [
        plots.Line(each.name, _rate(each), colour)
        for colour, each in enumerate(busiest)
        if len(each.reading.get("fault_rate", ())) > 1
    ]
    if lines:
        axes = (
            plots.axis("time since the region's begin [ms]"),
            plots.axis("faults a ms", rangemode="tozero"),
        )
        figures.append(plots.lines("Page faults over the time of a repetition", axes, lines, note))
    return figures


def _rate(each: Traced) -> list[tuple[float, plots.Dot]]:
    """Return faults a ms of one region over the time since its begin, in ms."""
    row = []
    for low, high, count in each.reading["fault_rate"]:
        width = (high + 1 - low) / 1e6
        middle = float(f"{(low + high + 1) / 2e6:.5g}")
        row.append((middle, plots.Dot("", count / width / each.reading["regions"], None, np.zeros(0))))
    return sorted(row, key=lambda pair: pair[0])


def _timed(results: Analysed) -> Table | None:
    """Return what is known of faults without a trace: the timed touches."""
    experiment = results.get("trace.fault")
    if experiment is None:
        return None
    rows = []
    for point in experiment.points:
        touch = results.summary(experiment, point, "time_ns")
        if touch is not None:
            rows.append([str(point.factors.get("kind")), format_count(touch.n), median(touch, "ns")])
    columns = ["kind", "n", "time of a touch (95 %)"]
    return Table("Touches timed", columns, rows, frozenset({1})) if rows else None


def _touches(results: Analysed) -> str:
    """Name the quickest and the slowest touch."""
    experiment = results.get("trace.fault")
    if experiment is None:
        return ""
    known = [
        (one.median, str(point.factors.get("kind")), one)
        for point in experiment.points
        if (one := results.summary(experiment, point, "time_ns")) is not None
    ]
    low, high = (end(known, key=lambda row: row[0]) for end in (min, max))
    text = f"Untraced, touching {low[1]} takes {median(low[2], 'ns')} a page"
    return f"{text}." if low is high else f"{text}, touching {high[1]} {median(high[2], 'ns')}."

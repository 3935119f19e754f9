"""Page faults traced: which, where, of which kind, how long and when, beside touches timed untraced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed
from oscope.figures.traced import Traced, traced
from oscope.labs.engine import histograms
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import TableOf, count, share, text, value
from oscope.labs.engine.traced import effect_column, effect_note, losses, missing_traces
from oscope.labs.ipc.points import TIME
from oscope.model.document import Figure, Section
from oscope.model.formatting import format_value
from oscope.statistics import Summary

TITLE = "Page faults"
SOURCES = (("trace.fault", "time_ns"), ("ipc.trace", TIME))
"""Experiments whose faults are shown, with the metric that their probe effect is of."""
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
    run = [(run, name, metric) for name, metric in SOURCES if (run := Run.of(results, name)) is not None]
    if not run:
        return None
    found: list[Traced] = []
    gaps = []
    for each, name, metric in run:
        points = traced(each.experiment, metric, "faults")
        found += [point for point in points if point.reading["faults"]]
        gaps.append(missing_traces(each.experiment, name, points))
    missing = " ".join(dict.fromkeys(filter(None, gaps)))
    timed = Run.of(results, "trace.fault")
    touches = timed.points("time_ns") if timed else []
    kinds = _kinds(results, found)
    if not found:
        if not touches:
            return Section(TITLE, "", missing=missing) if missing else None
        return Section(TITLE, _touches(touches), tables=[TOUCHES.of(touches)], missing=missing)
    return Section(
        title=TITLE,
        answer=_headline(found, kinds),
        text=[
            (
                "Each fault is timed from the exception's tracepoint to the end of its handling. One on "
                "behalf of a call that copies is by the kernel."
            ),
            *losses(found),
        ],
        tables=[
            *([KINDS.of(kinds)] if kinds else []),
            FAULTS.of((each, row) for each in found for row in _shown(each)),
        ],
        figures=_figures(found),
        missing=missing,
    )


def _headline(found: Sequence[Traced], kinds: Sequence[Kind]) -> str:
    if kinds:
        quick, slow = (end(kinds, key=lambda each: each.mean_ns) for end in (min, max))
        if quick is slow:
            return f"By the trace, a fault takes {_time(quick.mean_ns)} ({quick.where.name})."
        return (
            f"By the trace, {quick.where.name} is the quickest fault with {_time(quick.mean_ns)} and "
            f"{slow.where.name} the slowest with {_time(slow.mean_ns)}."
        )
    most = max(found, key=_a_repetition)
    number = format_value(_a_repetition(most), None, "")
    return f"Moving data faults most at {most.name}: {number} times a repetition."


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


def _a_repetition(each: Traced) -> float:
    """Return how many faults a repetition has."""
    reps = int(each.reading.get("reps") or each.reading["regions"])
    return float(sum(row["count"] for row in each.reading["faults"]) / reps)


def _time(nanoseconds: float) -> str:
    return format_value(nanoseconds * 1e-9, 0.01 * nanoseconds * 1e-9, "s")


KINDS: TableOf[Kind] = TableOf(
    "Faults traced, beside touches timed",
    (
        text("touched", lambda each: each.where.name),
        text("the commonest fault", lambda each: _what(each.row)),
        count("faults", lambda each: each.row["count"]),
        text("time of a fault, traced", lambda each: _time(each.mean_ns)),
        value("time of a touch, untraced (95 %)", lambda each: each.touch, "ns"),
        text("fault / touch", lambda each: None if each.ratio is None else f"{each.ratio:.2f}"),
        effect_column(lambda each: each.where),
    ),
    "A touch holds the exception and the return from it as well, a traced fault the tracer's own work. Where "
    "one fault maps several pages, a touch is shorter than a fault.",
)
FAULTS: TableOf[tuple[Traced, Mapping[str, Any]]] = TableOf(
    "Page faults by class, access and kind",
    (
        text("point", lambda row: row[0].name),
        text("kind", lambda row: row[1]["kind"]),
        text("class", lambda row: row[1]["class"]),
        text("access", lambda row: row[1]["access"]),
        text("present", lambda row: "yes" if row[1]["present"] else "no"),
        text("by", lambda row: row[1]["by"]),
        count("faults", lambda row: row[1]["count"]),
        text("mean", lambda row: _time(row[1]["time_ns"] / row[1]["count"]) if row[1]["count"] else None),
        *histograms.columns(lambda row: row[1].get("times", [])),
        share("of the time", lambda row: row[1]["time_ns"] / row[0].reading["region_ns"]),
        effect_column(lambda row: row[0]),
    ),
    f"All traced repetitions together; what makes less than {LEAST_SHARE:.0%} of a point's faults and of "
    "their time is left out. Percentiles are known to a power of two.",
)
TOUCHES: TableOf[Point] = TableOf(
    "Touches timed",
    (
        text("kind", lambda point: point.level("kind")),
        count("n", lambda point: point.summary.n),
        value("time of a touch (95 %)", lambda point: point.summary, "ns"),
    ),
)


def _shown(each: Traced) -> list[Mapping[str, Any]]:
    """Return the rows of a point's faults that are no trifle, the commonest first."""
    faults = sorted(each.reading["faults"], key=lambda row: -row["count"])
    number, spent = (sum(row[name] for row in faults) for name in ("count", "time_ns"))
    return [
        row for row in faults if max(row["count"] / number, row["time_ns"] / max(spent, 1)) >= LEAST_SHARE
    ]


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
    for low, high, faults in each.reading["fault_rate"]:
        width = (high + 1 - low) / 1e6
        middle = float(f"{(low + high + 1) / 2e6:.5g}")
        row.append((middle, plots.Dot("", faults / width / each.reading["regions"], None, np.zeros(0))))
    return sorted(row, key=lambda pair: pair[0])


def _touches(points: Sequence[Point]) -> str:
    """Name the quickest and the slowest touch."""
    low, high = (end(points, key=lambda each: each.summary.median) for end in (min, max))
    text = f"Untraced, touching {low.level('kind')} takes {low.value} a page"
    return f"{text}." if low is high else f"{text}, touching {high.level('kind')} {high.value}."

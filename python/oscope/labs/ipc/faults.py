"""Page faults traced: which, where, of which kind, how long and when, beside touches timed untraced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from oscope.figures import plots
from oscope.figures.traced import Traced, traced
from oscope.labs.engine import histograms
from oscope.labs.engine.question import Question, extremes
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, count, level, number, share, text, value
from oscope.labs.engine.traced import effect_column, effect_note, losses, missing_traces
from oscope.labs.engine.words import joined
from oscope.labs.ipc.points import TIME, TRACE
from oscope.model.document import Figure
from oscope.model.formatting import format_value
from oscope.statistics import Summary

TITLE = "Page faults"
TIMED = "trace.fault"
SOURCES = {TIMED: "time_ns", TRACE: TIME}
"""Experiments whose faults are shown, with the metric that their probe effect is of."""
LEAST_SHARE = 0.01
"""Share of a point's faults or of their time below which a row is left out."""
MOST_LINES = 7

Fault = Mapping[str, Any]
"""The faults of one class, access and kind at a point."""


class Kind(NamedTuple):
    """One kind of `trace.fault`: traced, and the time of a touch without a tracer, in ns."""

    where: Traced
    touch: Summary | None

    @property
    def mean_ns(self) -> float:
        """Time of the commonest fault by the trace."""
        row = _commonest(self.where)
        return float(row["time_ns"] / row["count"])

    def ratio(self) -> float | None:
        """Return the traced time of a fault over the timed touch."""
        return None if self.touch is None or self.touch.median <= 0 else self.mean_ns / self.touch.median

    def what(self) -> str:
        """Return the commonest fault in words."""
        row = _commonest(self.where)
        presence = "present" if row["present"] else "not present"
        return f"{row['kind']} ({row['class']}, {row['access']}, {presence}, by the {row['by']})"


def _traces(run: Run, name: str) -> list[Traced]:
    own = run.beside(name)
    return run.once(name, lambda: traced(own.experiment, SOURCES[name], "faults") if own else [])


def _found(run: Run) -> list[Traced]:
    return [point for name in SOURCES for point in _traces(run, name) if point.reading["faults"]]


def _missing(run: Run) -> str:
    return joined(
        *(
            missing_traces(own.experiment, name, _traces(run, name))
            for name in SOURCES
            if (own := run.beside(name))
        )
    )


def _commonest(each: Traced) -> Fault:
    found: Fault = max(each.reading["faults"], key=lambda row: row["count"])
    return found


def _a_repetition(each: Traced) -> float:
    """Return how many faults a repetition has."""
    reps = int(each.reading.get("reps") or each.reading["regions"])
    return float(sum(row["count"] for row in each.reading["faults"]) / reps)


def _kinds(run: Run) -> list[Kind]:
    own = run.beside(TIMED)
    return [
        Kind(each, own.summary(each.plain, "time_ns"))
        for each in _traces(run, TIMED)
        if own is not None and each.reading["faults"]
    ]


def _headline(run: Run, found: Sequence[Traced]) -> str:
    kinds = _kinds(run)
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


def _time(nanoseconds: float) -> str:
    return format_value(nanoseconds * 1e-9, 0.01 * nanoseconds * 1e-9, "s")


KINDS: TableOf[Kind] = TableOf(
    "Faults traced, beside touches timed",
    (
        text("touched", lambda each: each.where.name),
        text("the commonest fault", Kind.what),
        count("faults", lambda each: _commonest(each.where)["count"]),
        text("time of a fault, traced", lambda each: _time(each.mean_ns)),
        value("time of a touch, untraced (95 %)", lambda each: each.touch, "ns"),
        number("fault / touch", Kind.ratio),
        effect_column(lambda each: each.where),
    ),
    "A touch holds the exception and the return from it as well, a traced fault the tracer's own work. Where "
    "one fault maps several pages, a touch is shorter than a fault.",
)
FAULTS: TableOf[tuple[Traced, Fault]] = TableOf(
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


def _shown(each: Traced) -> list[Fault]:
    """Return the rows of a point's faults that are no trifle, the commonest first."""
    faults = sorted(each.reading["faults"], key=lambda row: -row["count"])
    number, spent = (sum(row[name] for row in faults) for name in ("count", "time_ns"))
    return [
        row for row in faults if max(row["count"] / number, row["time_ns"] / max(spent, 1)) >= LEAST_SHARE
    ]


def _figures(_: Run, found: Sequence[Traced]) -> list[Figure]:
    ordered = sorted(found, key=lambda each: -sum(row["count"] for row in each.reading["faults"]))
    busiest = ordered[:MOST_LINES]
    tops = [(each.name, _commonest(each)) for each in busiest]
    rows = {f"{name}: {top['kind']}": top["times"] for name, top in tops if top.get("times")}
    left = "" if len(busiest) == len(found) else f"The {MOST_LINES} points with most faults. "
    note = f"{left}{effect_note(busiest)}"
    lines = [
        plots.Line(each.name, _rate(each), colour)
        for colour, each in enumerate(busiest)
        if len(each.reading.get("fault_rate", ())) > 1
    ]
    axes = (plots.axis("time since the region's begin [ms]"), plots.axis("faults a ms", rangemode="tozero"))
    return [
        histograms.figure("Time of a page fault", "time of a fault [ns]", rows, note),
        plots.lines("Page faults over the time of a repetition", axes, lines, note),
    ]


def _rate(each: Traced) -> list[tuple[float, plots.Dot]]:
    """Return faults a ms of one region over the time since its begin, in ms."""
    row = []
    for low, high, faults in each.reading["fault_rate"]:
        width = (high + 1 - low) / 1e6
        middle = float(f"{(low + high + 1) / 2e6:.5g}")
        row.append((middle, plots.Dot("", faults / width / each.reading["regions"], None, np.zeros(0))))
    return sorted(row, key=lambda pair: pair[0])


TRACED = Question(
    title=TITLE,
    experiment=tuple(SOURCES),
    rows=_found,
    headline=_headline,
    text=(
        (
            "Each fault is timed from the exception's tracepoint to the end of its handling. One on "
            "behalf of a call that copies is by the kernel."
        ),
        lambda _, found: losses(found),
    ),
    tables=(
        lambda run, _: KINDS.of(_kinds(run)),
        lambda _, found: FAULTS.of((each, row) for each in found for row in _shown(each)),
    ),
    figures=_figures,
    missing=_missing,
    asked=lambda run: bool(_found(run)),
)
UNTRACED = Question(
    title=TITLE,
    experiment=tuple(SOURCES),
    rows=lambda run: own.points("time_ns") if (own := run.beside(TIMED)) else [],
    headline=extremes(
        lambda low: f"Untraced, touching {low.level('kind')} takes {low.value} a page",
        lambda high: f", touching {high.level('kind')} {high.value}",
    ),
    tables=TableOf(
        "Touches timed",
        (
            level("kind"),
            count("n", lambda point: point.summary.n),
            value("time of a touch (95 %)", "time_ns", "ns"),
        ),
    ),
    missing=_missing,
    asked=lambda run: not _found(run),
)
sections = (TRACED, UNTRACED)

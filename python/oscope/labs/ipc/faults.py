"""Page faults traced: which, where, of which kind, how long and when, beside touches timed untraced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oscope import questions as q
from oscope.figures.traced import traced
from oscope.labs.ipc.moved import TIME, TRACE

TIMED = "trace.fault"
SOURCES = {TIMED: "time_ns", TRACE: TIME}
"""Experiments whose faults are shown, with the metric that their probe effect is of."""
LEAST_SHARE = 0.01
"""Share of a point's faults or of their time below which a row is left out."""
MOST_LINES = 7

Fault = Mapping[str, Any]
"""The faults of one class, access and kind at a point."""


Touched = tuple[q.Traced, q.Summary | None]
"""A kind of `trace.fault`, traced, and the time of a touch without a tracer, in ns."""


def _what(row: Fault) -> str:
    """Return a fault in words."""
    presence = "present" if row["present"] else "not present"
    return f"{row['kind']} ({row['class']}, {row['access']}, {presence}, by the {row['by']})"


def _mean_ns(each: q.Traced) -> float:
    """Return the time of the commonest fault by the trace."""
    row = _commonest(each)
    return float(row["time_ns"] / row["count"])


def _traces(run: q.Run, name: str) -> list[q.Traced]:
    own = run.beside(name)
    return run.once(name, lambda: traced(own.experiment, SOURCES[name], "faults") if own else [])


def _found(run: q.Run) -> list[q.Traced]:
    return [point for name in SOURCES for point in _traces(run, name) if point.reading["faults"]]


def _missing(run: q.Run) -> str:
    runs = {own.experiment.experiment: own for own in run.all(*SOURCES)}
    return q.joined(*(q.missing_traces(runs[name].experiment, name, _traces(run, name)) for name in runs))


def _commonest(each: q.Traced) -> Fault:
    found: Fault = max(each.reading["faults"], key=lambda row: row["count"])
    return found


def _a_repetition(each: q.Traced) -> float:
    reps = int(each.reading.get("reps") or each.reading["regions"])
    return float(sum(row["count"] for row in each.reading["faults"]) / reps)


def _headline(run: q.Run, found: Sequence[q.Traced]) -> str:
    if kinds := [each for each in found if each in _traces(run, TIMED)]:
        quick, slow = (end(kinds, key=_mean_ns) for end in (min, max))
        least, most = (q.nanoseconds(_mean_ns(each)) for each in (quick, slow))
        more = f", {slow.name} the slowest with {most}" if len(kinds) > 1 else ""
        return f"By the trace, {quick.name} is the quickest fault with {least}{more}."
    busiest = max(found, key=_a_repetition)
    number = q.format_value(_a_repetition(busiest), None, "")
    return f"Moving data faults most at {busiest.name}: {number} times a repetition."


KINDS: q.TableOf[Touched] = q.TableOf(
    "Faults traced, beside touches timed",
    q.text("touched", lambda row: row[0].name),
    q.text("the commonest fault", lambda row: _what(_commonest(row[0]))),
    q.count("faults", lambda row: _commonest(row[0])["count"]),
    q.text("time of a fault, traced", lambda row: q.nanoseconds(_mean_ns(row[0]))),
    q.value("time of a touch, untraced (95 %)", lambda row: row[1], "ns"),
    q.number("fault / touch", lambda row: q.over(_mean_ns(row[0]), row[1])),
    q.effect_column(lambda row: row[0]),
    note="A touch holds the exception and the return from it as well, a traced fault the tracer's own work. "
    "Where one fault maps several pages, a touch is shorter than a fault.",
)


def _kinds(run: q.Run, found: Sequence[q.Traced]) -> q.Table | None:
    own = run.beside(TIMED)
    kinds = (each for each in found if each in _traces(run, TIMED))
    return KINDS.of((each, own.summary(each.plain, "time_ns")) for each in kinds) if own else None


FAULTS: q.TableOf[tuple[q.Traced, Fault]] = q.TableOf(
    "Page faults by class, access and kind",
    q.text("point", lambda row: row[0].name),
    q.text("kind", lambda row: row[1]["kind"]),
    q.text("class", lambda row: row[1]["class"]),
    q.text("access", lambda row: row[1]["access"]),
    q.text("present", lambda row: "yes" if row[1]["present"] else "no"),
    q.text("by", lambda row: row[1]["by"]),
    q.count("faults", lambda row: row[1]["count"]),
    q.written("mean", lambda row: q.over(row[1]["time_ns"], row[1]["count"]), q.nanoseconds),
    *q.histograms.columns(lambda row: row[1].get("times", [])),
    q.share("of the time", lambda row: q.over(row[1]["time_ns"], row[0].time_ns)),
    q.effect_column(lambda row: row[0]),
    note=f"All traced repetitions together; what makes less than {LEAST_SHARE:.0%} of a point's faults and "
    "of their time is left out. Percentiles are known to a power of two.",
)


def _shown(each: q.Traced) -> list[Fault]:
    """Return the rows of a point's faults that are no trifle, the commonest first."""
    faults = sorted(each.reading["faults"], key=lambda row: -row["count"])
    number, spent = (sum(row[name] for row in faults) for name in ("count", "time_ns"))
    shares = ((row, max(row["count"] / number, row["time_ns"] / max(spent, 1))) for row in faults)
    return [row for row, share in shares if share >= LEAST_SHARE]


def _figures(_: q.Run, found: Sequence[q.Traced]) -> list[q.Figure]:
    ordered = sorted(found, key=lambda each: -sum(row["count"] for row in each.reading["faults"]))
    busiest = ordered[:MOST_LINES]
    tops = [(each.name, _commonest(each)) for each in busiest]
    rows = {f"{name}: {top['kind']}": top["times"] for name, top in tops if top.get("times")}
    left = "" if len(busiest) == len(found) else f"The {MOST_LINES} points with most faults. "
    note = f"{left}{q.effect_note(busiest)}"
    lines = [
        q.plots.Line(each.name, _rate(each), colour)
        for colour, each in enumerate(busiest)
        if len(each.reading.get("fault_rate", ())) > 1
    ]
    time = q.plots.axis("time since the region's begin [ms]")
    axes = (time, q.plots.axis("faults a ms", rangemode="tozero"))
    return [
        q.histograms.figure("Time of a page fault", "time of a fault [ns]", rows, note),
        q.plots.lines("Page faults over the time of a repetition", axes, lines, note),
    ]


def _rate(each: q.Traced) -> list[tuple[float, q.plots.Dot]]:
    """Return faults a ms of one region over the time since its begin, in ms."""
    row = []
    for low, high, faults in each.reading["fault_rate"]:
        width = (high + 1 - low) / 1e6
        middle = float(f"{(low + high + 1) / 2e6:.5g}")
        row.append((middle, q.plots.Dot("", faults / width / each.reading["regions"])))
    return sorted(row, key=lambda pair: pair[0])


TRACED = q.Question(
    title="Page faults",
    experiment=tuple(SOURCES),
    rows=_found,
    headline=_headline,
    text=(
        "Timed from the exception's tracepoint to the end; a fault for a call that copies is by the kernel.",
        lambda _, found: q.losses(found),
    ),
    tables=(
        _kinds,
        lambda _, found: FAULTS.of((each, row) for each in found for row in _shown(each)),
    ),
    figures=_figures,
    missing=_missing,
)
sections = q.or_else(
    TRACED,
    rows=lambda run: own.points("time_ns") if (own := run.beside(TIMED)) else [],
    headline=q.extremes(
        lambda low: f"Untraced, touching {low.level('kind')} takes {low.value} a page",
        lambda high: f", touching {high.level('kind')} {high.value}",
    ),
    tables=q.TableOf[q.Point](
        "Touches timed",
        q.level("kind"),
        q.count("n", lambda point: point.summary.n),
        q.value("time of a touch (95 %)", "time_ns", "ns"),
    ),
)

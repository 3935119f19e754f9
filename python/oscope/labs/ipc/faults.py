"""Page faults traced: which, where, of which kind, how long and when, beside touches timed untraced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from oscope import questions as q
from oscope.figures.traced import traced
from oscope.labs.ipc.moved import TIME, TRACE

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

    where: q.Traced
    touch: q.Summary | None

    @property
    def mean_ns(self) -> float:
        """Time of the commonest fault by the trace."""
        row = _commonest(self.where)
        return float(row["time_ns"] / row["count"])

    def what(self) -> str:
        """Return the commonest fault in words."""
        row = _commonest(self.where)
        presence = "present" if row["present"] else "not present"
        return f"{row['kind']} ({row['class']}, {row['access']}, {presence}, by the {row['by']})"


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


def _kinds(run: q.Run) -> list[Kind]:
    own = run.beside(TIMED)
    return [
        Kind(each, own.summary(each.plain, "time_ns"))
        for each in _traces(run, TIMED)
        if own is not None and each.reading["faults"]
    ]


def _headline(run: q.Run, found: Sequence[q.Traced]) -> str:
    if kinds := _kinds(run):
        quick, slow = (end(kinds, key=lambda each: each.mean_ns) for end in (min, max))
        least, most = (q.nanoseconds(each.mean_ns) for each in (quick, slow))
        more = f", {slow.where.name} the slowest with {most}" if len(kinds) > 1 else ""
        return f"By the trace, {quick.where.name} is the quickest fault with {least}{more}."
    busiest = max(found, key=_a_repetition)
    number = q.format_value(_a_repetition(busiest), None, "")
    return f"Moving data faults most at {busiest.name}: {number} times a repetition."


KINDS: q.TableOf[Kind] = q.TableOf(
    "Faults traced, beside touches timed",
    q.text("touched", lambda each: each.where.name),
    q.text("the commonest fault", Kind.what),
    q.count("faults", lambda each: _commonest(each.where)["count"]),
    q.text("time of a fault, traced", lambda each: q.nanoseconds(each.mean_ns)),
    q.value("time of a touch, untraced (95 %)", lambda each: each.touch, "ns"),
    q.number("fault / touch", lambda each: q.over(each.mean_ns, each.touch)),
    q.effect_column(lambda each: each.where),
    note="A touch holds the exception and the return from it as well, a traced fault the tracer's own work. "
    "Where one fault maps several pages, a touch is shorter than a fault.",
)
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
    title=TITLE,
    experiment=tuple(SOURCES),
    rows=_found,
    headline=_headline,
    text=(
        "Timed from the exception's tracepoint to the end; a fault for a call that copies is by the kernel.",
        lambda _, found: q.losses(found),
    ),
    tables=(
        lambda run, _: KINDS.of(_kinds(run)),
        lambda _, found: FAULTS.of((each, row) for each in found for row in _shown(each)),
    ),
    figures=_figures,
    missing=_missing,
    asked=lambda run: bool(_found(run)),
)
UNTRACED = q.Question(
    title=TITLE,
    experiment=tuple(SOURCES),
    rows=lambda run: own.points("time_ns") if (own := run.beside(TIMED)) else [],
    headline=q.extremes(
        lambda low: f"Untraced, touching {low.level('kind')} takes {low.value} a page",
        lambda high: f", touching {high.level('kind')} {high.value}",
    ),
    tables=q.TableOf(
        "Touches timed",
        q.level("kind"),
        q.count("n", lambda point: point.summary.n),
        q.value("time of a touch (95 %)", "time_ns", "ns"),
    ),
    missing=_missing,
    asked=lambda run: not _found(run),
)
sections = (TRACED, UNTRACED)

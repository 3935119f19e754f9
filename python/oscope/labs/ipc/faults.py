"""Page faults traced: which, where, of which kind, how long and when, beside touches timed untraced."""

from __future__ import annotations

from collections.abc import Sequence

from oscope import questions as q
from oscope.figures.traced import traced
from oscope.labs.ipc.throughput import TIME, TRACE
from oscope.questions.traced_faults import FAULTS, Fault, commonest, fault_count, fault_figures, fault_rows

TIMED = "trace.fault"
SOURCES = {TIMED: "time_ns", TRACE: TIME}
"""Experiments whose faults are shown, with the metric that their probe effect is of."""

Touched = tuple[q.Traced, q.Summary | None]
"""A kind of `trace.fault`, traced, and the time of a touch without a tracer, in ns."""


def _what(row: Fault) -> str:
    """Return a fault in words."""
    presence = "present" if row["present"] else "not present"
    return f"{row['kind']} ({row['class']}, {row['access']}, {presence}, by the {row['by']})"


def _mean_ns(each: q.Traced) -> float:
    """Return the time of the commonest fault by the trace."""
    row = commonest(each)
    return float(row["time_ns"] / row["count"])


def _traces(run: q.Run, name: str) -> list[q.Traced]:
    own = run.beside(name)
    return run.once(name, lambda: traced(own.experiment, SOURCES[name], "faults") if own else [])


def _found(run: q.Run, *names: str) -> list[q.Traced]:
    return [point for name in names for point in _traces(run, name) if point.reading["faults"]]


def _missing(run: q.Run) -> str:
    runs = {own.experiment.experiment: own for own in run.all(*SOURCES)}
    return q.joined(*(q.missing_traces(runs[name].experiment, name, _traces(run, name)) for name in runs))


def _a_repetition(each: q.Traced) -> float:
    reps = int(each.reading.get("reps") or each.reading["regions"])
    return (fault_count(each) or 0) / reps


def _headline(run: q.Run, found: Sequence[q.Traced]) -> str:
    if kinds := _found(run, TIMED):
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
    q.text("the commonest fault", lambda row: _what(commonest(row[0]))),
    q.count("faults", lambda row: commonest(row[0])["count"]),
    q.text("time of a fault, traced", lambda row: q.nanoseconds(_mean_ns(row[0]))),
    q.value("time of a touch, untraced (95 %)", lambda row: row[1], "ns"),
    q.number("fault / touch", lambda row: q.over(_mean_ns(row[0]), row[1])),
    q.effect_column(lambda row: row[0]),
    note="A touch holds the exception and the return from it as well, a traced fault the tracer's own work. "
    "Where one fault maps several pages, a touch is shorter than a fault.",
)


def _kinds(run: q.Run, _: Sequence[q.Traced]) -> q.Table | None:
    own = run.beside(TIMED)
    return (
        KINDS.of((each, own.summary(each.plain, "time_ns")) for each in _found(run, TIMED)) if own else None
    )


TRACED = q.Question(
    title="Page faults",
    experiment=tuple(SOURCES),
    rows=lambda run: _found(run, *SOURCES),
    headline=_headline,
    text=(
        "Timed from the exception's tracepoint to the end; a fault for a call that copies is by the kernel.",
        lambda _, found: q.losses(found),
    ),
    tables=(
        _kinds,
        lambda _, found: FAULTS.of((each, row) for each in found for row in fault_rows(each)),
    ),
    figures=lambda _, found: fault_figures(found),
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

"""Traced system calls: which, how long they take, and how much of the time of both sides is in them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from oscope import questions as q
from oscope.labs.ipc import throughput as ipc
from oscope.questions.traced_calls import Call, call_times, calls_of
from oscope.trace.reading import time_in_calls_ns

LEAST_SHARE = 0.001
"""Share of a point's calls or of its time in calls below which a call has no row."""


def _calls(point: q.Traced) -> list[Call]:
    """Return the calls that are no trifle, the most frequent first, with their share of the time in calls."""
    found = calls_of(point, time_in_calls_ns(point.reading))
    total = sum(call.data["count"] for call in found) or 1
    kept = (each for each in found if max(each.data["count"] / total, each.share or 0.0) >= LEAST_SHARE)
    return sorted(kept, key=lambda each: -each.data["count"])


def _most(_: q.Run, found: Sequence[Call]) -> str:
    share, alike = q.greatest(found, lambda each: each.share)
    names = q.first_named([f"`{each.name}` at {each.where.name}" for each in alike or found[:1]])
    if not alike:
        return f"{names}."
    first = alike[0]
    if len(alike) == 1:
        return f"`{first.name}` takes {share} of the time in calls at {first.where.name}."
    return f"{names} each take {share} of the time in calls."


def _shares_figure(_: q.Run, found: Sequence[Call]) -> q.Figure:
    rows = ((each.name, each.where.name, each.share or None) for each in found)
    axis = q.plots.axis("share of the time in calls [%]", range=[0, 101])
    note = f"Waiting within a call is in it. {q.effect_note(each.where for each in found)}"
    return q.plots.stacked(q.bars("Time in calls, by call", axis, rows, note, 0.01))


CALLS = q.Question(
    title="Which calls, and how long they take",
    experiment=ipc.TRACE,
    rows=lambda run: [each for point in ipc.traces(run, "calls") for each in _calls(point)],
    headline=_most,
    text=(
        "From entry to return, by the kernel's tracepoints: waiting and the tracer's own time are in it.",
        lambda run, _: q.losses(ipc.traces(run, "calls")),
    ),
    tables=q.TableOf(
        "System calls",
        q.text("point", lambda call: call.where.name),
        q.text("call", lambda call: call.name),
        q.count("calls", lambda call: call.data["count"]),
        q.written(
            "a repetition",
            lambda call: q.over(call.data["count"], call.where.reading.get("reps")),
            lambda calls: q.format_value(calls, calls / 20, ""),
            numeric=True,
        ),
        q.share("of the time in calls", lambda call: call.share),
        q.written("mean", lambda call: q.over(call.data.get("time_ns"), call.data["count"]), q.nanoseconds),
        *q.histograms.columns(lambda call: call.data.get("times")),
        q.text("errors", lambda call: q.errors_text(call.data["errors"])),
        q.effect_column(lambda call: call.where),
        note=f"All traced repetitions together; percentiles are known to a power of two. {q.EFFECT}",
    ),
    figures=(_shares_figure, lambda _, found: call_times(found, "channel")),
    missing=lambda run: ipc.gaps(run, "calls"),
)

# ---- the share of the time that is in calls

ON_CPU = q.Quantity("on a CPU", "", lambda point: q.metric(point, "cpu_s") / ipc.time_of_all(point))
IN_KERNEL = q.Quantity(
    "in the kernel", "", lambda point: ipc.both_sides(point, "system_s") / ipc.time_of_all(point)
)
"""Its part in the kernel; no value where the kernel does not separate it from user time."""


ON, IN = "on a CPU", "in the kernel"


class Share(NamedTuple):
    """Shares of the time of all sides: in calls by the trace, waiting included; the others untraced."""

    name: str
    traced: q.Traced | None
    inside: float | None
    on_cpu: q.Summary | None
    system: q.Summary | None


def inside(point: q.Traced) -> float | None:
    """Return the share of the time of all sides that is spent in system calls; None where it is not known."""
    return q.over(time_in_calls_ns(point.reading), point.time_ns)


def _shares(run: q.Run) -> list[Share]:
    """Return the traced points; where there are none, what is known of those untraced."""
    trace, own = run.beside(ipc.TRACE), ipc.plain(run)
    found = [
        Share(each.name, each, part, trace.summary(each.plain, ON_CPU), trace.summary(each.plain, IN_KERNEL))
        for each in ipc.traces(run, "calls")
        if trace is not None and (part := inside(each)) is not None
    ]
    names = [name for name in ipc.NAMES if name in own.experiment.varied()]
    known = [(each, on_cpu) for each in own.experiment.points if (on_cpu := own.summary(each, ON_CPU))]
    return found or [
        Share(q.label(own.experiment, each.factors, names), None, None, on_cpu, own.summary(each, IN_KERNEL))
        for each, on_cpu in known
    ]


def _busy(each: Share) -> tuple[float, str] | None:
    """Return the least share that calls cannot be busy for longer than, and what it is a share of."""
    known = [(one.median, name) for one, name in ((each.on_cpu, ON), (each.system, IN)) if one is not None]
    return min(known, key=itemgetter(0), default=None)


def _waiting(_: q.Run, found: Sequence[Share]) -> str:
    both = ((each.inside, _busy(each), each) for each in found)
    known = [
        (inside, *least, each) for inside, least, each in both if inside is not None and least is not None
    ]
    if not known:
        shares = [(each.inside or (each.on_cpu.median if each.on_cpu else 0.0), each) for each in found]
        share, most = max(shares, key=itemgetter(0))
        what = "in system calls" if most.inside is not None else "on a CPU"
        return f"The largest share of the time {what} is that of {most.name}: {q.format_share(share)}."
    within, busy, where, most = max(known, key=lambda row: row[0] - row[1])
    if within <= busy:
        # Time on a CPU is also that outside calls: less in calls than on a CPU does not exclude waiting.
        kernel = all(each.system is not None for *_, each in known)
        rest = f"{IN}: no waiting was found" if kernel else ON
        return f"Nowhere is more time spent in calls than {rest}."
    return (
        f"Calls wait the most at {most.name}: {q.format_share(within)} of the time passes in calls, but only "
        f"{q.format_share(busy)} {where}."
    )


def _figure(_: q.Run, found: Sequence[Share]) -> q.Figure:
    rows: list[tuple[str, str, q.Summary | float | None]] = [
        *(("in system calls, traced", each.name, each.inside) for each in found),
        *(("on a CPU, untraced", each.name, each.on_cpu) for each in found),
    ]
    points = [each.traced for each in found if each.traced is not None]
    note = q.effect_note(points) if points else "Without a tracer."
    axis = q.plots.axis("share of the time of all sides [%]", rangemode="tozero")
    return q.bars("Time in system calls", axis, rows, note, 0.01)


INSIDE = q.Question(
    title="Time in system calls",
    experiment=ipc.MOVED,
    rows=_shares,
    headline=_waiting,
    text=(
        "A call that waits is in the call all the while; CPU time, untraced, holds no waiting.",
        lambda run, _: q.losses(ipc.traces(run, "calls")),
    ),
    tables=q.TableOf(
        "Shares of the time",
        q.text("point", lambda each: each.name),
        q.share("in system calls, traced", lambda each: each.inside),
        q.text("on a CPU, untraced (95 %)", lambda each: q.share_text(each.on_cpu)),
        q.text("in the kernel, untraced (95 %)", lambda each: q.share_text(each.system)),
        q.effect_column(lambda each: each.traced),
        note=f"Shares of the time of all sides. {q.EFFECT}",
    ),
    figures=_figure,
    missing=lambda run: ipc.gaps(run, "calls"),
)

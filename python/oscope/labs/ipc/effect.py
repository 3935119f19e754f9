"""The probe effect: how much slower work is under each tracer, and which findings would have changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite, nan

import numpy as np

from oscope import questions as q
from oscope.labs.ipc import CHANNELS, TRACERS
from oscope.labs.ipc.throughput import RATE, TIME
from oscope.questions.changed_findings import changed_findings
from oscope.questions.probe_effect import Slowdown, counted_calls, slowdowns
from oscope.trace.factor import UNTRACED

COST, MOVING = "trace.cost", "trace.effect"
TIMES = {COST: ("time_ns", 1.0), MOVING: (TIME, 1e9)}
"""What is timed in each experiment, and one of its unit in ns."""
WORK = {COST: "one getppid", MOVING: "moving data"}


Finding = tuple[str, str, str]
"""A finding that a tracer changes: the tracer, what is so untraced, and what it says."""


def _seconds(added: float) -> str | None:
    return q.format_value(added, None, "s") if isfinite(added) else None


def tracers(run: q.Run) -> list[str]:
    """Return the tracers of an experiment but for none, in the order of the lab."""
    return [name for name in run.levels("tracer", TRACERS) if name != UNTRACED]


def _calls(each: Slowdown) -> tuple[float | None, str]:
    """Return how many calls are in what a metric times, and what counted them."""
    if "call" in each.plain.factors:
        return 1.0, "one call is timed"
    if counted := counted_calls(each.experiment, each.plain):
        return counted[0], f"counted by {counted[1]}"
    calls = q.metric(each.plain, "writes") + q.metric(each.plain, "reads")
    kept = calls[np.isfinite(calls)]
    return (float(np.median(kept)), "writes and reads") if len(kept) else (None, "")


def _added_ns(each: Slowdown) -> str | None:
    """Return what is added to a call in ns, with its interval, if it has one."""
    calls = _calls(each)[0]
    if each.added is None or not calls:
        return None
    one = TIMES[each.experiment.experiment][1] / calls
    low, high = each.added.ci95 or (nan, nan)
    added = each.added.median * one
    return q.bounded_text(added, low * one, high * one) if isfinite(low) else f"{added:.3g}"


# ---- findings that change


def _changes(run: q.Run) -> list[Finding]:
    own = run.beside(MOVING)
    if own is None:
        return []
    found: list[Finding] = []
    for tracer in tracers(own):
        plain, traced = own.only(tracer=UNTRACED), own.only(tracer=tracer)
        if any(len(q.measured(each, RATE)[0]) for each in traced.experiment.points):
            changed = changed_findings(plain, traced, RATE, "channel", CHANNELS)
            found += [(tracer, *each) for each in changed or [("nothing changes", q.MISSING)]]
    return found


CHANGES: q.TableOf[Finding] = q.TableOf(
    "Findings that change under a tracer",
    *q.items("tracer", "untraced", "under the tracer"),
    note="What the tracer's own times would have said (paired by block, p corrected by Holm).",
)


def _figures(_: q.Run, found: Sequence[Slowdown]) -> Iterator[q.Figure]:
    titles = {COST: "Time of a null system call", MOVING: "Time of moving data"}
    for name, own in q.grouped(found, lambda each: each.experiment.experiment).items():
        rows = [(each.name or "getppid", each.tracer, each.row) for each in own]
        yield q.dots(f"{titles[name]}, traced over untraced", "time traced / untraced", rows, note=q.RATIOS)


section = q.Question(
    title="The probe effect",
    experiment=(MOVING, COST),
    rows=lambda run: [
        each
        for name, (metric, _) in TIMES.items()
        if (own := run.beside(name)) is not None
        for each in slowdowns(own, metric, tracers(own))
    ],
    headline=q.extremes(
        lambda most: f"{most.tracer} makes {WORK[most.experiment.experiment]} {q.times(most.row)} as long",
        lambda least: f", {least.tracer} {q.times(least.row)}",
        by=lambda each: -each.row.ratio,
        of=lambda found: [each for each in found if each.experiment is found[0].experiment],
    ),
    text=(
        "`bpf-count` counts calls, `bpf-histogram` times them in the kernel, `bpf-full` sends an event a "
        "call; `perf-trace` and `strace` print each, `strace-count` sums."
    ),
    tables=(
        q.TableOf(
            "Slow-down by tracer",
            q.text("tracer", lambda each: each.tracer),
            q.text("point", lambda each: each.name or "getppid"),
            q.ratio("slow-down", lambda each: each.row, "different"),
            q.text("added to a call [ns] (95 %)", _added_ns),
            q.written("added to a second", lambda each: each.row.ratio - 1, _seconds),
            q.count("calls", lambda each: _calls(each)[0]),
            q.text("calls by", lambda each: _calls(each)[1] or None),
            note="Slow-down: time traced over untraced, paired by block, p corrected (Holm) for all of an "
            "experiment. Added: their difference over the calls.",
        ),
        lambda run, _: CHANGES.of(_changes(run)),
    ),
    figures=_figures,
)

"""The probe effect: how much slower work is under each tracer, and which findings would have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isfinite, nan

import numpy as np

from oscope.figures.analysed import Analysed, label, measured, paired_difference
from oscope.figures.traced import probe_effect
from oscope.labs.engine.curves import best, curve, size_of
from oscope.labs.engine.drawing import dots
from oscope.labs.engine.quantity import metric
from oscope.labs.engine.run import Run, only
from oscope.labs.engine.table import TableOf, count, ratio, text
from oscope.labs.engine.words import reasons, times
from oscope.labs.ipc import CHANNELS, TRACERS
from oscope.labs.ipc.points import RATE, TIME, channels
from oscope.model.document import Figure, Section, Table
from oscope.model.factors import Level
from oscope.model.formatting import MISSING, bounded_text, format_value
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric, Summary
from oscope.statistics.effect import LEVEL
from oscope.statistics.multiplicity import holm
from oscope.trace.factor import UNTRACED
from oscope.trace.reading import merge

TITLE = "The probe effect"


@dataclass(frozen=True)
class Slowdown:
    """One point under one tracer."""

    tracer: str
    name: str
    row: ComparedMetric
    """Time traced over untraced."""
    added: Summary | None
    """Time traced less untraced, in the metric's unit, one difference a block."""
    unit_ns: float
    """One of that unit, in ns."""
    calls: float | None
    """System calls in what was timed."""
    counted: str
    """Where `calls` is from."""

    @property
    def per_call(self) -> tuple[float, float, float] | None:
        """Added time of a call in ns, with its interval; NaN bounds where there is none."""
        if self.added is None or not self.calls:
            return None
        low, high = self.added.ci95 or (nan, nan)
        one = self.unit_ns / self.calls
        return self.added.median * one, low * one, high * one

    @property
    def point(self) -> str:
        """What was traced."""
        return self.name or "getppid"

    @property
    def added_ns(self) -> str | None:
        """What is added to a call in ns, with its interval, if it has one."""
        added = self.per_call
        if added is None:
            return None
        return bounded_text(*added) if isfinite(added[1]) else f"{added[0]:.3g}"

    @property
    def added_to_second(self) -> str | None:
        """What is added to a second of work."""
        return format_value(self.row.ratio - 1, None, "s") if isfinite(self.row.ratio) else None


@dataclass(frozen=True)
class Finding:
    """A finding that a tracer changes."""

    untraced: str
    traced: str


def section(results: Analysed) -> Section | None:
    """Answer E10."""
    moved, cost = Run.of(results, "trace.effect"), Run.of(results, "trace.cost")
    if moved is None and cost is None:
        return None
    single = _slowdowns(cost.experiment, "time_ns", 1.0) if cost else []
    moving = _slowdowns(moved.experiment, TIME, 1e9) if moved else []
    missing = " ".join(dict.fromkeys(filter(None, (reasons(one.experiment) for one in (moved, cost) if one))))
    if not single and not moving:
        return Section(TITLE, "", missing=missing) if missing else None
    changes = _changes(moved) if moved else {}
    return Section(
        title=TITLE,
        answer=_headline(single, moving),
        text=[
            (
                "`bpf-count` counts calls, `bpf-histogram` times them in the kernel, `bpf-full` sends an "
                "event a call; `perf-trace` and `strace` print each, `strace-count` sums; strace stops the "
                "process twice a call."
            ),
        ],
        tables=[TABLE.of((*single, *moving)), *([_changes_table(changes)] if changes else [])],
        figures=_figures(single, moving),
        missing=missing,
    )


def _headline(single: Sequence[Slowdown], moving: Sequence[Slowdown]) -> str:
    """Name the tracers that add least and most."""
    what = "one getppid" if single else "moving data"
    least, most = (end(single or moving, key=lambda each: each.row.ratio) for end in (min, max))
    text = f"{most.tracer} makes {what} {times(most.row)} as long"
    return f"{text}." if most is least else f"{text}, {least.tracer} {times(least.row)}."


def tracers(experiment: ExperimentResults) -> list[str]:
    """Return the tracers of an experiment but for none, in the order of the lab."""
    found = dict.fromkeys(str(point.factors.get("tracer", UNTRACED)) for point in experiment.points)
    order = {name: index for index, name in enumerate(TRACERS)}
    return sorted((name for name in found if name != UNTRACED), key=lambda name: order.get(name, len(order)))


def _slowdowns(experiment: ExperimentResults, name: str, unit_ns: float) -> list[Slowdown]:
    others = [each for each in experiment.varied() if each != "tracer"]
    found = []
    for tracer in tracers(experiment):
        for point in only(experiment, tracer=tracer).points:
            plain = experiment.point(**{**point.factors, "tracer": UNTRACED})
            row = probe_effect(experiment, plain, point, name)
            if plain is None or row is None:
                continue
            calls, counted = _calls(experiment, plain)
            where = label(experiment, point.factors, others)
            added = paired_difference(experiment, plain, point, name)
            found.append(Slowdown(tracer, where, row, added, unit_ns, calls, counted))
    return found


def _calls(experiment: ExperimentResults, plain: PointSamples) -> tuple[float | None, str]:
    """Return how many calls are in what a metric times: one by `syscall.cost`, else as counted."""
    if "call" in plain.factors:
        return 1.0, "one call is timed"
    for point in experiment.points:
        same = {**point.factors, "tracer": UNTRACED} == {**plain.factors, "tracer": UNTRACED}
        # A tracer of the whole process counts more than the transfer's calls.
        readings = [each for each in point.traces if "calls" in each and "scope" not in each]
        if same and readings:
            whole = merge(readings)
            count = sum(call["count"] for call in whole["calls"].values())
            return count / whole["reps"], f"counted by {whole['tracer']}"
    calls = metric(plain, "writes") + metric(plain, "reads")
    kept = calls[np.isfinite(calls)]
    return (float(np.median(kept)), "writes and reads") if len(kept) else (None, "")


# ---- findings that change


def _changes(run: Run) -> dict[str, list[Finding]]:
    """Return for each tracer the findings that it changes."""
    plain = only(run.experiment, tracer=UNTRACED)
    found = {}
    for tracer in tracers(run.experiment):
        traced = only(run.experiment, tracer=tracer)
        if not any(len(measured(point, RATE)[0]) for point in traced.points):
            continue
        found[tracer] = [
            *_orders(plain, traced),
            *(
                text
                for channel in channels(run)
                if (text := _best_size(run.results, (plain, traced), channel)) is not None
            ),
        ]
    return found


def _orders(plain: ExperimentResults, traced: ExperimentResults) -> list[Finding]:
    """Return the pairs of channels whose order the tracer changes."""
    before, after = _pairs(plain), _pairs(traced)
    changed = [(key, was, after[key]) for key, was in before.items() if after.get(key, was) != was]
    # An order that is reversed comes before one that is only no longer found.
    changed.sort(key=lambda one: one[1] * one[2])
    return [
        Finding(f"by {format_bytes(size)}, {_order(a, b, was)}", _order(a, b, now))
        for (a, b, size), was, now in changed
    ]


def _pairs(experiment: ExperimentResults) -> dict[tuple[str, str, int], int]:
    """Return for each two channels and buffer size which is faster: 1 the first, -1 the second, 0 neither."""
    keys, rows = [], []
    sizes = {size for point in experiment.points if (size := size_of(point)) is not None}
    names = {str(point.factors["channel"]) for point in experiment.points}
    for size in sorted(sizes):
        for a, b in combinations(sorted(names, key=CHANNELS.index), 2):
            first, second = (experiment.point(channel=one, buffer=size) for one in (a, b))
            if first is None or second is None:
                continue
            row = probe_effect(experiment, first, second, RATE)
            if row is not None:
                keys.append((a, b, size))
                rows.append(row)
    if not rows:
        return {}
    apart = holm(np.array([row.p for row in rows])) < LEVEL
    return {
        key: (0 if not different else -1 if row.ratio > 1 else 1)
        for key, row, different in zip(keys, rows, apart, strict=True)
    }


def _order(a: str, b: str, which: int) -> str:
    if not which:
        return f"{a} and {b} cannot be distinguished"
    return f"{a} is faster than {b}" if which > 0 else f"{b} is faster than {a}"


def _best_size(
    results: Analysed, sides: tuple[ExperimentResults, ExperimentResults], channel: str
) -> Finding | None:
    """Return what the tracer says of a channel's best buffer size, if it is not what is so untraced."""
    where: Mapping[str, Level] = {"channel": channel}
    plain, traced = (curve(results, one, RATE, **where) for one in sides)
    if len(plain) < 2 or len(traced) < 2:
        return None
    was, _ = best(plain, sides[0], RATE)
    now, alike = best(traced, sides[1], RATE)
    if was.size in {now.size, *(each.size for each in alike)}:
        return None
    return Finding(f"the best buffer of {channel} is {was.name}", f"it is {now.name}")


# ---- tables and figures


TABLE: TableOf[Slowdown] = TableOf(
    "Slow-down by tracer",
    (
        text("tracer", lambda each: each.tracer),
        text("point", lambda each: each.point),
        ratio("slow-down", lambda each: each.row, "different"),
        text("added to a call [ns] (95 %)", lambda each: each.added_ns),
        text("added to a second", lambda each: each.added_to_second),
        count("calls", lambda each: each.calls),
        text("calls by", lambda each: each.counted or None),
    ),
    "Slow-down: time traced over untraced, paired by block. Added to a call: the difference of the times "
    "over the calls within.",
)


def _changes_table(changes: Mapping[str, Sequence[Finding]]) -> Table:
    rows = [
        [tracer, each.untraced, each.traced]
        for tracer, found in changes.items()
        for each in found or [Finding("nothing changes", MISSING)]
    ]
    note = "What the tracer's own times would have said (paired by block, p corrected by Holm)."
    columns = ["tracer", "untraced", "under the tracer"]
    return Table("Findings that change under a tracer", columns, rows, frozenset(), note)


def _figures(single: Sequence[Slowdown], moving: Sequence[Slowdown]) -> list[Figure]:
    titles = {
        "Time of a null system call, traced over untraced": single,
        "Time of moving data, traced over untraced": moving,
    }
    note = "Ratios with their 95 % intervals; 1 is no slow-down."
    return [
        dots(title, "time traced / untraced", [(e.point, e.tracer, e.row) for e in found], note=note)
        for title, found in titles.items()
        if any(isfinite(each.row.ratio) for each in found)
    ]

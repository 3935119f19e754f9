"""How much of the time goes into system calls, by traces, beside the CPU time, untraced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oscope.figures import plots
from oscope.figures.analysed import label
from oscope.figures.traced import Traced
from oscope.labs.engine.drawing import bars
from oscope.labs.engine.quantity import Quantity, metric
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, share, text
from oscope.labs.engine.traced import effect_column, effect_note, losses
from oscope.labs.engine.words import EFFECT, share_text
from oscope.labs.ipc.points import MOVED, NAMES, TIME, TRACE, both_sides, gaps, plain, sides, traces
from oscope.model.document import Figure
from oscope.model.formatting import format_share
from oscope.statistics import Summary
from oscope.trace.reading import time_in_calls_ns

ON_CPU = Quantity("on a CPU", "", lambda point: metric(point, "cpu_s") / (metric(point, TIME) * sides(point)))
"""CPU time over the time of all sides."""
IN_KERNEL = Quantity(
    "in the kernel", "", lambda point: both_sides(point, "system_s") / (metric(point, TIME) * sides(point))
)
"""Its part in the kernel; no value where the kernel does not separate it from user time."""


@dataclass(frozen=True)
class Share:
    """A point's share of time in system calls."""

    name: str
    traced: Traced | None
    inside: float | None
    """Of the time of all sides, by the trace; waiting within calls included."""
    on_cpu: Summary | None
    """Of the same, untraced, as is what follows."""
    system: Summary | None

    @property
    def most(self) -> float:
        """The share in calls, else that on a CPU."""
        return self.inside or (self.on_cpu.median if self.on_cpu else 0.0)


def inside(point: Traced) -> float | None:
    """Return the share of the time of all sides that is spent in system calls; None where it is not known.

    `region_ns` sums the processes that marked their regions; threads of one process share its marks.
    """
    time = time_in_calls_ns(point.reading)
    regions, reps = point.reading.get("regions"), point.reading.get("reps")
    if time is None or not regions or not reps or not point.reading.get("region_ns"):
        return None
    marked = regions / reps
    return float(time / (point.reading["region_ns"] * sides(point.point) / marked))


def _shares(run: Run) -> list[Share]:
    """Return the traced points; where there are none, what is known of those untraced."""
    trace = run.beside(TRACE)
    found = [
        Share(
            point.name,
            point,
            part,
            *(trace.summary(point.plain, each) if point.plain else None for each in (ON_CPU, IN_KERNEL)),
        )
        for point in traces(run, "calls")
        if trace is not None and (part := inside(point)) is not None
    ]
    if found:
        return found
    own = plain(run)
    names = [name for name in NAMES if name in own.experiment.varied()]
    return [
        Share(label(own.experiment, point.factors, names), None, None, on_cpu, own.summary(point, IN_KERNEL))
        for point in own.experiment.points
        if (on_cpu := own.summary(point, ON_CPU)) is not None
    ]


def _headline(_: Run, found: Sequence[Share]) -> str:
    """Say where the most of the time in calls is waiting."""
    known = [
        (each.inside, each.on_cpu.median, each.name)
        for each in found
        if each.inside is not None and each.on_cpu is not None
    ]
    if not known:
        most = max(found, key=lambda each: each.most)
        what = "in system calls" if most.inside is not None else "on a CPU"
        return f"{most.name} spends most of its time {what}: {format_share(most.most)}."
    within, on_cpu, name = max(known, key=lambda row: row[0] - row[1])
    if within <= on_cpu:
        return "Nowhere is more time spent in calls than on a CPU: they do not wait."
    return (
        f"Calls wait the most at {name}: {format_share(within)} of the time passes in calls, but only "
        f"{format_share(on_cpu)} on a CPU."
    )


def _figure(_: Run, found: Sequence[Share]) -> Figure:
    series: dict[str, list[Summary | float | None]] = {
        "in system calls, traced": [each.inside for each in found],
        "on a CPU, untraced": [each.on_cpu for each in found],
    }
    points = [each.traced for each in found if each.traced is not None]
    note = effect_note(points) if points else "Without a tracer."
    axis = plots.axis("share of the time of all sides [%]", rangemode="tozero")
    return bars("Time in system calls", axis, [each.name for each in found], series, note, 0.01)


section = Question(
    title="Time in system calls",
    experiment=MOVED,
    rows=_shares,
    headline=_headline,
    text=(
        (
            "A call that waits for the other side is in the call all the while; CPU time, untraced, holds no "
            "waiting, and most kernels sample the kernel's part of it at ticks only."
        ),
        lambda run, _: losses(traces(run, "calls")),
    ),
    tables=(
        TableOf(
            "Shares of the time",
            (
                text("point", lambda each: each.name),
                share("in system calls, traced", lambda each: each.inside),
                text("on a CPU, untraced (95 %)", lambda each: share_text(each.on_cpu)),
                text("in the kernel, untraced (95 %)", lambda each: share_text(each.system)),
                effect_column(lambda each: each.traced),
            ),
            f"Shares of the time of all sides. {EFFECT}",
        )
    ),
    figures=(_figure),
    missing=lambda run: gaps(run, "calls"),
)

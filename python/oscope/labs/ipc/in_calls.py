"""How much of the time goes into system calls, by traces, beside the CPU time, untraced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oscope.figures import plots
from oscope.figures.analysed import Analysed, label
from oscope.figures.traced import Traced, traced
from oscope.labs.engine.drawing import bars
from oscope.labs.engine.quantity import derived, metric
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, share, text
from oscope.labs.engine.traced import effect_column, effect_note, losses, missing_traces
from oscope.labs.engine.words import EFFECT, share_text
from oscope.labs.ipc.points import TIME, both_sides, plain, sides
from oscope.model.document import Figure, Section
from oscope.model.formatting import format_share
from oscope.model.samples import ExperimentResults, Floats, PointSamples
from oscope.statistics import Summary
from oscope.trace.reading import time_in_calls_ns

TITLE = "Time in system calls"


@dataclass(frozen=True)
class Share:
    """A point's share of time in system calls."""

    name: str
    channel: str
    traced: Traced | None
    inside: float | None
    """Of the time of all sides, by the trace; waiting within calls included."""
    on_cpu: Summary | None
    """CPU time over the time of all sides, untraced."""
    system: Summary | None
    """CPU time in the kernel likewise; None where the kernel does not separate it from user time."""


def section(results: Analysed) -> Section | None:
    """Answer E5."""
    trace, moved = Run.of(results, "ipc.trace"), Run.of(results, "ipc.throughput", "ipc.trace")
    points = traced(trace.experiment, TIME, "calls") if trace else []
    shares = (_share(trace.experiment, each) for each in points) if trace else ()
    found = [each for each in shares if each.inside is not None]
    if not found:
        if moved is None:
            return None
        found = _untraced(plain(moved).experiment)
    missing = missing_traces(trace.experiment if trace else None, "ipc.trace", points)
    if not found:
        return Section(TITLE, "", missing=missing) if missing else None
    return Section(
        title=TITLE,
        answer=_headline(found),
        text=[
            (
                "A call that waits for the other side is in the call all the while; CPU time, untraced, "
                "holds no waiting, and most kernels sample the kernel's part of it at ticks only."
            ),
            *losses(points),
        ],
        tables=[TABLE.of(found)],
        figures=[_figure(found)],
        missing=missing,
    )


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


def _share(experiment: ExperimentResults, point: Traced) -> Share:
    plain_point = point.plain or point.point
    return Share(
        point.name,
        str(point.point.factors.get("channel")),
        point,
        inside(point),
        derived(experiment, plain_point, _on_cpu) if point.plain is not None else None,
        derived(experiment, plain_point, _system) if point.plain is not None else None,
    )


def _system(point: PointSamples) -> Floats:
    return both_sides(point, "system_s") / (metric(point, TIME) * sides(point))


def _on_cpu(point: PointSamples) -> Floats:
    return metric(point, "cpu_s") / (metric(point, TIME) * sides(point))


def _untraced(experiment: ExperimentResults) -> list[Share]:
    names = [name for name in ("channel", "mode", "buffer") if name in experiment.varied()]
    found = []
    for point in experiment.points:
        on_cpu = derived(experiment, point, _on_cpu)
        if on_cpu is not None:
            name = label(experiment, point.factors, names)
            system = derived(experiment, point, _system)
            found.append(Share(name, str(point.factors.get("channel")), None, None, on_cpu, system))
    return found


def _value(each: Share) -> float | None:
    return each.inside if each.inside is not None else (each.on_cpu.median if each.on_cpu else None)


def _headline(found: Sequence[Share]) -> str:
    """Say where the most of the time in calls is waiting."""
    known = [
        (each.inside, each.on_cpu.median, each.name)
        for each in found
        if each.inside is not None and each.on_cpu is not None
    ]
    if not known:
        most = max(found, key=lambda each: _value(each) or 0.0)
        what = "in system calls" if most.inside is not None else "on a CPU"
        return f"{most.name} spends most of its time {what}: {format_share(_value(most))}."
    within, on_cpu, name = max(known, key=lambda row: row[0] - row[1])
    if within <= on_cpu:
        return "Nowhere is more time spent in calls than on a CPU: they do not wait."
    return (
        f"Waiting in calls is most at {name}: {format_share(within)} of the time in calls, "
        f"{format_share(on_cpu)} on a CPU."
    )


TABLE: TableOf[Share] = TableOf(
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


def _figure(found: Sequence[Share]) -> Figure:
    series: dict[str, list[Summary | float | None]] = {
        "in system calls, traced": [each.inside for each in found],
        "on a CPU, untraced": [each.on_cpu for each in found],
    }
    traces = [each.traced for each in found if each.traced is not None]
    note = effect_note(traces) if traces else "Without a tracer."
    axis = plots.axis("share of the time of all sides [%]", rangemode="tozero")
    drawn = {name: row for name, row in series.items() if any(each is not None for each in row)}
    return bars("Time in system calls", axis, [each.name for each in found], drawn, note, 0.01)

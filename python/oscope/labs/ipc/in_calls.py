"""How much of the time goes into system calls, by traces, beside the CPU time, untraced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed, label
from oscope.figures.traced import Traced, traced
from oscope.figures.words import listed
from oscope.labs.curve import derived, metric
from oscope.labs.ipc.points import TIME, both_sides, plain, sides
from oscope.labs.ipc.traced import effect_note, losses, untold
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, format_share
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
    """CPU time in the kernel likewise; None where the kernel cannot tell it from user time."""


def section(results: Analysed) -> Section | None:
    """Answer E5."""
    experiment = results.get("ipc.trace")
    points = traced(experiment, TIME, "calls") if experiment is not None else []
    found = [_share(experiment, each) for each in points] if experiment is not None else []
    found = [each for each in found if each.inside is not None]
    if not found:
        counted = results.get("ipc.throughput") or experiment
        if counted is None:
            return None
        found = _untraced(plain(counted))
    missing = untold(experiment, "ipc.trace", points)
    if not found:
        return Section(TITLE, "", missing=missing) if missing else None
    return Section(
        title=TITLE,
        answer=" ".join(_answer(found)),
        text=[
            (
                "Share of the time of all threads that move data, between the region's marks. A call that "
                "waits for the other side is in the call all the while; the CPU time, which is counted "
                "untraced, holds no waiting. How much of it is spent in the kernel, most kernels sample at "
                "ticks only: transfers of a few ms do not tell."
            ),
            *losses(points),
        ],
        tables=[_table(found)],
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


def _answer(found: Sequence[Share]) -> list[str]:
    """Give each channel's span of shares."""
    told = []
    for channel in dict.fromkeys(each.channel for each in found):
        here = [each for each in found if each.channel == channel]
        known = [(value, each) for each in here if (value := _value(each)) is not None]
        low, high = (end(known, key=lambda pair: pair[0]) for end in (min, max))
        span = f"{format_share(low[0])} (at {low[1].name})"
        if high is not low:
            span += f" to {format_share(high[0])} (at {high[1].name})"
        told.append(f"{channel} {span}")
    what = "in system calls, waiting included" if found[0].inside is not None else "on a CPU"
    return [f"Of the time of those who move the data, there goes {what}: {listed(told)}.", *_waiting(found)]


def _value(each: Share) -> float | None:
    return each.inside if each.inside is not None else (each.on_cpu.median if each.on_cpu else None)


def _waiting(found: Sequence[Share]) -> list[str]:
    """Say where the most of the time in calls is waiting."""
    known = [
        (each.inside, each.on_cpu.median, each.name)
        for each in found
        if each.inside is not None and each.on_cpu is not None
    ]
    if not known:
        return []
    within, on_cpu, name = max(known, key=lambda row: row[0] - row[1])
    if within <= on_cpu:
        return ["Nowhere is more time spent in calls than on a CPU: they do not wait."]
    return [
        (
            f"Waiting in calls is most at {name}: {format_share(within)} of the time in calls, "
            f"{format_share(on_cpu)} on a CPU."
        )
    ]


def _percent(summary: Summary | None) -> str:
    if summary is None:
        return MISSING
    if summary.ci95 is None:
        return format_share(summary.median, 0.01)
    half = max((summary.ci95[1] - summary.ci95[0]) / 2, 0.002)
    low, high = (format_share(end, half) for end in summary.ci95)
    return f"{format_share(summary.median, half)} ({low.removesuffix(' %')} to {high})"


def _table(found: Sequence[Share]) -> Table:
    rows = [
        [
            each.name,
            MISSING if each.inside is None else format_share(each.inside, 0.01),
            _percent(each.on_cpu),
            _percent(each.system),
            MISSING if each.traced is None else each.traced.effect_text,
        ]
        for each in found
    ]
    columns = [
        "point",
        "in system calls, traced",
        "on a CPU, untraced (95 %)",
        "in the kernel, untraced (95 %)",
        "probe effect (95 %)",
    ]
    note = "Shares of the time of all sides. Probe effect: time traced over untraced, paired by block."
    return Table("Shares of the time", columns, rows, frozenset(), note)


def _figure(found: Sequence[Share]) -> Figure:
    names = [each.name for each in found]
    series = []
    if any(each.inside is not None for each in found):
        values = [None if each.inside is None else 100 * each.inside for each in found]
        series.append(plots.Bars("in system calls, traced", values))
    medians = [None if each.on_cpu is None else 100 * each.on_cpu.median for each in found]
    intervals = [
        None
        if each.on_cpu is None or each.on_cpu.ci95 is None
        else (100 * each.on_cpu.ci95[0], 100 * each.on_cpu.ci95[1])
        for each in found
    ]
    if any(np.isfinite(value) for value in medians if value is not None):
        series.append(plots.Bars("on a CPU, untraced", medians, intervals))
    traces = [each.traced for each in found if each.traced is not None]
    note = effect_note(traces) if traces else "Without a tracer."
    axis = plots.axis("share of the time of all sides [%]", rangemode="tozero")
    return plots.bars("Time in system calls", axis, names, series, note)

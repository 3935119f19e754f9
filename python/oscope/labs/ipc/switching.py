"""How often the sides are switched: per second and per MiB, and how long a thread waits once it was woken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oscope.figures.analysed import Analysed
from oscope.figures.tables import shared_scale
from oscope.figures.traced import Traced, traced
from oscope.labs.curve import At, cells, derived, metric, narrowing, over_sizes, sizes_of, unmeasured
from oscope.labs.ipc import histograms
from oscope.labs.ipc.histograms import bin_text
from oscope.labs.ipc.points import (
    BUFFER,
    KNOWN,
    MODE_WORDS,
    RATE,
    TIME,
    both_sides,
    curves,
    modes,
    plain,
    shown_sizes,
    switches_per_mebibyte,
)
from oscope.labs.ipc.traced import effect_note, losses, untold
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import format_count, format_value
from oscope.model.samples import ExperimentResults, Floats, PointSamples
from oscope.statistics import Summary
from oscope.trace.reading import quantile

TITLE = "Context switches"
PER_S, PER_MIB = "switches/s", "switches/MiB"


@dataclass(frozen=True)
class Switching:
    """How often one point is switched."""

    mode: str
    channel: str
    at: At
    voluntary: Summary
    """A second."""
    involuntary: Summary
    """A second."""
    per_mebibyte: Summary


def section(results: Analysed) -> Section | None:
    """Answer E6."""
    whole = results.get("ipc.throughput")
    trace = results.get("ipc.trace")
    points = traced(trace, TIME, "switches") if trace is not None else []
    source = whole or trace
    if source is None:
        return None
    experiment = plain(source)
    found = [
        each
        for mode in modes(experiment)
        for channel, row in curves(results, experiment, RATE, mode=mode).items()
        if (each := [one for at in row if (one := _switching(experiment, mode, channel, at))])
    ]
    missing = " ".join(dict.fromkeys(filter(None, [unmeasured(source), untold(trace, "ipc.trace", points)])))
    if not found:
        return Section(TITLE, "", missing=missing) if missing else None
    return Section(
        title=TITLE,
        answer=" ".join([*_answer(found), *_wakeups(points)]),
        text=[
            (
                "Counted by getrusage(2) for each side. A switch is voluntary where a thread waits, and "
                "involuntary where the scheduler takes the CPU from it. The wake-up latency is from being "
                "woken to running, by the scheduler's tracepoints."
            ),
            *narrowing(experiment, KNOWN),
            *losses(points),
        ],
        tables=[_table(found), *([_wakeup_table(points)] if points else [])],
        figures=[*_figures(found), *([_wakeup_figure(points)] if points else [])],
        missing=missing,
    )


def _switching(experiment: ExperimentResults, mode: str, channel: str, at: At) -> Switching | None:
    found = [
        derived(experiment, at.point, value) for value in (_voluntary, _involuntary, switches_per_mebibyte)
    ]
    if found[0] is None or found[1] is None or found[2] is None:
        return None
    return Switching(mode, channel, at, found[0], found[1], found[2])


def _voluntary(point: PointSamples) -> Floats:
    return both_sides(point, "voluntary") / metric(point, TIME)


def _involuntary(point: PointSamples) -> Floats:
    return both_sides(point, "involuntary") / metric(point, TIME)


def _answer(found: Sequence[Sequence[Switching]]) -> list[str]:
    """Name the configurations that are switched most and least, in each mode."""
    told = []
    every = [each for row in found for each in row]
    for mode in dict.fromkeys(each.mode for each in every):
        here = [each for each in every if each.mode == mode]
        most, least = (end(here, key=lambda each: each.per_mebibyte.median) for end in (max, min))
        name = f"{MODE_WORDS[mode][0].upper()}{MODE_WORDS[mode][1:]}"
        if most.per_mebibyte.median == least.per_mebibyte.median:
            told.append(f"{name}, every configuration is switched {_rate(most)}.")
        else:
            told.append(
                f"{name}, {most.channel} by {most.at.name} is switched most, {_rate(most)}, and "
                f"{least.channel} by {least.at.name} least, {_rate(least)}."
            )
    return told


def _rate(each: Switching) -> str:
    return f"{format_value(each.per_mebibyte.median, None, '')} times a MiB"


def _wakeups(points: Sequence[Traced]) -> list[str]:
    """Give the slowest and the quickest wake-ups."""
    known = []
    for each in points:
        middle = quantile(each.reading["switches"]["wakeup_ns"], 0.5)
        if middle is not None:
            known.append((middle, each))
    if not known:
        return []
    (low, first), (high, last) = (end(known, key=lambda pair: pair[0][0]) for end in (min, max))
    if low == high:
        return [f"The median wake-up latency lies in the range {bin_text(low)} at every traced point."]
    return [
        (
            f"The median wake-up latency, traced, is least at {first.name}, where it lies in the range "
            f"{bin_text(low)}, and greatest at {last.name}, in the range {bin_text(high)}."
        )
    ]


def _table(found: Sequence[Sequence[Switching]]) -> Table:
    rows_shown = [
        each for row in found for each in row if each.at in shown_sizes([other.at for other in row])
    ]
    scales = [
        shared_scale([getattr(each, name) for each in rows_shown], unit)
        for name, unit in (("voluntary", PER_S), ("involuntary", PER_S), ("per_mebibyte", ""))
    ]
    rows = [
        [
            each.mode,
            each.channel,
            each.at.name,
            *cells(each.voluntary, scales[0]),
            *cells(each.involuntary, scales[1]),
            *cells(each.per_mebibyte, scales[2]),
        ]
        for each in rows_shown
    ]
    columns = [
        "mode",
        "channel",
        "buffer",
        f"voluntary [{scales[0].unit}]",
        f"95 % [{scales[0].unit}]",
        f"involuntary [{scales[1].unit}]",
        f"95 % [{scales[1].unit}]",
        f"both [{PER_MIB}]",
        f"95 % [{PER_MIB}]",
    ]
    note = "Medians, both sides together, untraced."
    return Table("Context switches of both sides", columns, rows, frozenset(range(3, 9)), note)


def _figures(found: Sequence[Sequence[Switching]]) -> list[Figure]:
    """Draw switches per MiB over the buffer size, a figure a mode; none where nothing is ever switched."""
    figures = []
    for mode in dict.fromkeys(row[0].mode for row in found):
        lines: Mapping[str, list[At]] = {
            row[0].channel: [At(each.at.size, each.at.point, each.per_mebibyte) for each in row]
            for row in found
            if row[0].mode == mode
        }
        if mode == "1thread" or len(sizes_of(lines)) < 2:
            continue
        title = f"Context switches for a MiB, {MODE_WORDS[mode]}"
        figures.append(over_sizes(title, lines, PER_MIB, name=BUFFER))
    return figures


def _wakeup_table(points: Sequence[Traced]) -> Table:
    rows = []
    for each in points:
        switches = each.reading["switches"]
        rows.append(
            [
                each.name,
                *(
                    format_count(switches[name])
                    for name in ("voluntary", "involuntary", "migrations", "wakeups")
                ),
                *(bin_text(quantile(switches["wakeup_ns"], share)) for share in (0.5, 0.99)),
                each.effect_text,
            ]
        )
    columns = [
        "point",
        "voluntary",
        "involuntary",
        "migrations",
        "wake-ups",
        "wake-up latency, median",
        "99th percentile",
        "probe effect (95 %)",
    ]
    note = (
        "All traced repetitions together; percentiles are known to a power of two. Probe effect: time traced "
        "over untraced, paired by block."
    )
    return Table("Scheduling, traced", columns, rows, frozenset(range(1, 5)), note)


def _wakeup_figure(points: Sequence[Traced]) -> Figure:
    rows = {each.name: each.reading["switches"]["wakeup_ns"] for each in points}
    shown = [each for each in points if each.reading["switches"]["wakeups"]]
    note = effect_note(shown)
    kept = {name: row for name, row in rows.items() if sum(count for *_, count in row)}
    return histograms.figure("Wake-up latency", "from woken to running [ns]", kept, note)

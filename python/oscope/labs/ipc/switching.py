"""How often the sides are switched: per second and per MiB, and how long a thread waits once it was woken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oscope.figures.analysed import Analysed
from oscope.figures.traced import Traced, traced
from oscope.labs.engine import histograms
from oscope.labs.engine.curves import At, several
from oscope.labs.engine.quantity import derived, metric
from oscope.labs.engine.run import Run, narrowing
from oscope.labs.engine.table import TableOf, count, stat, text
from oscope.labs.engine.traced import effect_column, effect_note, losses, missing_traces
from oscope.labs.engine.words import EFFECT, capital, reasons
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
from oscope.model.document import Figure, Section
from oscope.model.formatting import format_value
from oscope.model.samples import Floats, PointSamples
from oscope.statistics import Summary

TITLE = "Context switches"
PER_MIB = "switches/MiB"


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


TABLE: TableOf[Switching] = TableOf(
    "Context switches of both sides",
    (
        text("mode", lambda row: row.mode),
        text("channel", lambda row: row.channel),
        text("buffer", lambda row: row.at.name),
        stat("voluntary", lambda row: row.voluntary, "switches/s", scale="voluntary"),
        stat("involuntary", lambda row: row.involuntary, "switches/s", scale="involuntary"),
        stat(f"both [{PER_MIB}]", lambda row: row.per_mebibyte, "", scale="both"),
    ),
    "Medians, both sides together, untraced.",
)
WAKEUPS: TableOf[Traced] = TableOf(
    "Scheduling, traced",
    (
        text("point", lambda each: each.name),
        count("voluntary", lambda each: each.reading["switches"]["voluntary"]),
        count("involuntary", lambda each: each.reading["switches"]["involuntary"]),
        count("migrations", lambda each: each.reading["switches"]["migrations"]),
        count("wake-ups", lambda each: each.reading["switches"]["wakeups"]),
        *histograms.columns(lambda each: each.reading["switches"]["wakeup_ns"], "wake-up latency, median"),
        effect_column(lambda each: each),
    ),
    f"All traced repetitions together; percentiles are known to a power of two. {EFFECT}",
)


def section(results: Analysed) -> Section | None:
    """Answer E6."""
    trace, source = Run.of(results, "ipc.trace"), Run.of(results, "ipc.throughput", "ipc.trace")
    points = traced(trace.experiment, TIME, "switches") if trace else []
    if source is None:
        return None
    own = plain(source)
    found = [
        each
        for mode in modes(own)
        for channel, row in curves(own, RATE, mode=mode).items()
        if (each := [one for at in row if (one := _switching(own, mode, channel, at))])
    ]
    gaps = [
        reasons(source.experiment),
        missing_traces(trace.experiment if trace else None, "ipc.trace", points),
    ]
    missing = " ".join(dict.fromkeys(filter(None, gaps)))
    if not found:
        return Section(TITLE, "", missing=missing) if missing else None
    shown = [each for row in found for each in row if each.at in shown_sizes([other.at for other in row])]
    return Section(
        title=TITLE,
        answer=_headline(found),
        text=[
            (
                "Counted by getrusage(2). A switch is voluntary where a thread waits; the wake-up latency is "
                "from being woken to running."
            ),
            *narrowing(own.experiment, KNOWN),
            *losses(points),
        ],
        tables=[TABLE.of(shown), *([WAKEUPS.of(points)] if points else [])],
        figures=[*_figures(found), *([_wakeup_figure(points)] if points else [])],
        missing=missing,
    )


def _switching(own: Run, mode: str, channel: str, at: At) -> Switching | None:
    def per_second(kind: str) -> Summary | None:
        def of(point: PointSamples) -> Floats:
            return both_sides(point, kind) / metric(point, TIME)

        return derived(own.experiment, at.point, of)

    voluntary, involuntary = per_second("voluntary"), per_second("involuntary")
    per_mebibyte = derived(own.experiment, at.point, switches_per_mebibyte)
    if voluntary is None or involuntary is None or per_mebibyte is None:
        return None
    return Switching(mode, channel, at, voluntary, involuntary, per_mebibyte)


def _headline(found: Sequence[Sequence[Switching]]) -> str:
    """Name the configuration that is switched most of all, and the one least."""
    every = [each for row in found for each in row if each.mode != "1thread"] or [*found[0]]
    most, least = (end(every, key=lambda each: each.per_mebibyte.median) for end in (max, min))
    text = f"{most.channel} by {most.at.name} is switched most, {_rate(most)}"
    if most.per_mebibyte.median == least.per_mebibyte.median:
        return f"{capital(MODE_WORDS[most.mode])}, every configuration is switched {_rate(most)}."
    return f"{text}; {least.channel} by {least.at.name} least, {_rate(least)}."


def _rate(each: Switching) -> str:
    return f"{format_value(each.per_mebibyte.median, None, '')} times a MiB"


def _figures(found: Sequence[Sequence[Switching]]) -> list[Figure]:
    """Draw switches per MiB over the buffer size, a figure a mode; none where nothing is ever switched."""
    figures = []
    for mode in dict.fromkeys(row[0].mode for row in found if row[0].mode != "1thread"):
        lines = {
            row[0].channel: [At(each.at.size, each.at.point, each.per_mebibyte) for each in row]
            for row in found
            if row[0].mode == mode
        }
        figures += several(f"Context switches for a MiB, {MODE_WORDS[mode]}", lines, PER_MIB, BUFFER)
    return figures


def _wakeup_figure(points: Sequence[Traced]) -> Figure:
    rows = {each.name: each.reading["switches"]["wakeup_ns"] for each in points}
    note = effect_note([each for each in points if each.reading["switches"]["wakeups"]])
    kept = {name: row for name, row in rows.items() if sum(each for *_, each in row)}
    return histograms.figure("Wake-up latency", "from woken to running [ns]", kept, note)

"""The first screen: the latency ladder, throughputs, what is notable, and how far to trust it.

Everything here is text and places in per cent; the page's template draws it with HTML alone, so that it is
there before any script runs, and on paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from oscope.figures.answer_text import emulation
from oscope.figures.ladder import BYTES_PER_S, Ladder, Rung, ladder
from oscope.figures.notable import Notable, notable
from oscope.model.formatting import Scale, format_count
from oscope.model.samples import Results
from oscope.planning import interference
from oscope.report.machine import Badge, badge, date, machine_line
from oscope.report.other_machines import Machine, machines

FEWEST_RUNGS = 3
"""With fewer figures there is no ladder to draw."""
LABEL_ROOMS = (110, 250)
"""Widths of the axis in pixels from which on its labels have room: of a telephone, and of a desk."""
_PER_CHARACTER = 6.5
_BETWEEN_LABELS = 8.0
"""Pixels."""
_PREFIXES = ("n", "µ", "m", "")
"""Of seconds, by thousands."""

Link = Callable[[str, str], str]
"""Returns the identifier of the place that answers: of an experiment, and of the section if one is named."""


@dataclass(frozen=True)
class Mark:
    """A figure of another machine on a row."""

    left: float
    machine: int
    """Index of the machine in the legend."""
    text: str


@dataclass(frozen=True)
class Row:
    """A figure with its interval. Places are per cent of the axis."""

    key: str
    name: str
    value: str
    interval: str
    left: float
    low: float
    high: float
    target: str
    facts: Sequence[tuple[str, str]]
    marks: Sequence[Mark] = ()


@dataclass(frozen=True)
class Tick:
    """A decade of the axis, with the widths at which it has its label."""

    left: float
    text: str
    rooms: Sequence[int]
    """Those of `LABEL_ROOMS` at which the labels do not overlap."""


@dataclass(frozen=True)
class Chart:
    """Rows over one logarithmic axis."""

    title: str
    ticks: Sequence[Tick]
    rows: Sequence[Row]


@dataclass(frozen=True)
class Bar:
    """A side of a finding: `width` is per cent of the longer one."""

    name: str
    width: float
    text: str


@dataclass(frozen=True)
class Finding:
    """A sentence with its small figure."""

    sentence: str
    target: str
    bars: Sequence[Bar]


@dataclass(frozen=True)
class FirstScreen:
    """What a person sees first."""

    machine: str
    date: str
    badge: Badge | None
    charts: Sequence[Chart]
    elsewhere: Sequence[Machine]
    """The machines of the grey marks that are there, in the order of `Mark.machine`."""
    findings: Sequence[Finding]
    emulation: str | None
    """That the times are those of an emulated guest."""
    interference: str | None
    """Why the figures are less sure than those of an idle machine."""


def first_screen(results: Results, link: Link, beside: Iterable[Results] = ()) -> FirstScreen:
    """Return the first screen of `results`; `beside` are results of other machines that the user named."""
    first = results.parts[0] if results.parts else None
    found = ladder(results)
    several = len(found.latencies) + len(found.throughputs) >= FEWEST_RUNGS
    line = machine_line(first.environment) if first else ""
    others = machines(found, line, beside) if several else []
    charts = list(_charts(found, others, link)) if several else []
    marked = {mark.machine for chart in charts for row in chart.rows for mark in row.marks}
    return FirstScreen(
        machine=line,
        date=date(first.started) if first else "",
        badge=badge(results),
        charts=charts,
        elsewhere=[each for index, each in enumerate(others) if index in marked],
        findings=[_finding(each, link) for each in notable(results)],
        emulation=emulation(results.experiments),
        interference=interference.warning(results.experiments),
    )


def _charts(found: Ladder, others: Sequence[Machine], link: Link) -> Iterator[Chart]:
    for title, rungs, step, tick in (
        ("Latency", found.latencies, 1.0, _duration_tick),
        ("Throughput", found.throughputs, BYTES_PER_S["MiB/s"], _rate_tick),
    ):
        if not rungs:
            continue
        place, ticks = _axis(rungs, others, step, tick)
        shown = [index for index, other in enumerate(others) if any(r.key in other.figures for r in rungs)]
        yield Chart(title, ticks, [_row(rung, others, shown, place, link) for rung in rungs])


def _axis(
    rungs: Sequence[Rung], others: Sequence[Machine], step: float, tick: Callable[[int], str]
) -> tuple[Callable[[float], float], list[Tick]]:
    """Return what turns a value in base units into a place in per cent, and the ticks: decades of `step`."""
    values = [end * rung.base_factor for rung in rungs for end in (rung.median, *(rung.ci95 or ()))]
    keys = {rung.key for rung in rungs}
    values += [known.value for other in others for key, known in other.figures.items() if key in keys]
    logs = [math.log10(value) for value in values if value > 0]
    low, high = min(logs), max(logs)
    margin = max(0.03 * (high - low), 0.05)
    low, high = low - margin, high + margin

    def place(value: float) -> float:
        share = (math.log10(value) - low) / (high - low) if value > 0 else 0.0
        return round(100 * min(max(share, 0.0), 1.0), 2)

    offset = math.log10(step)
    decades = range(math.ceil(low - offset), math.floor(high - offset) + 1)
    labels = {decade: (place(step * 10.0**decade), tick(decade)) for decade in decades}
    kept = {room: _labelled(labels, room) for room in LABEL_ROOMS}
    return place, [
        Tick(*label, [room for room in LABEL_ROOMS if decade in kept[room]])
        for decade, label in labels.items()
    ]


def _labelled(labels: Mapping[int, tuple[float, str]], room: int) -> list[int]:
    """Return the decades whose labels fit on an axis of `room` pixels: all, or those of a step."""
    for step in (1, 2, *range(3, len(labels), 3)):
        kept = [decade for decade in labels if decade % step == 0] or [*labels][:1]
        shown = [
            (left * room / 100, _PER_CHARACTER * len(text) / 2)
            for left, text in (labels[decade] for decade in kept)
        ]
        if all(b - a >= half + other + _BETWEEN_LABELS for (a, half), (b, other) in pairwise(shown)):
            return kept
    return [*labels][:1]


def _duration_tick(decade: int) -> str:
    """Return `10 ns` for -8."""
    index = min((decade + 9) // 3, len(_PREFIXES) - 1)
    return f"{10 ** (decade + 9 - 3 * index)} {_PREFIXES[index]}s" if index >= 0 else f"1e{decade} s"


def _rate_tick(decade: int) -> str:
    """Return `1000 MiB/s` for 3."""
    return f"{Scale('', 1.0, max(-decade, 0)).text(10.0**decade)} MiB/s"


def _row(
    rung: Rung, others: Sequence[Machine], shown: Sequence[int], place: Callable[[float], float], link: Link
) -> Row:
    scale, summary = rung.scale, rung.summary
    low, high = rung.ci95 or (rung.median, rung.median)
    marks = [
        Mark(place(known.value), order, f"{known.text} on {others[index].name}")
        for order, index in enumerate(shown)
        if (known := others[index].figures.get(rung.key)) is not None
    ]
    facts = [
        ("median", scale.with_unit(rung.median)),
        ("95 % confidence interval", f"{rung.interval} {scale.unit}" if rung.ci95 else rung.interval),
        ("samples", f"{format_count(summary.n)}, effective sample size {format_count(summary.ess)}"),
        ("measured by", f"{rung.experiment}, {rung.detail}"),
        *(("elsewhere", mark.text) for mark in marks),
    ]
    return Row(
        key=rung.key,
        name=rung.name,
        value=scale.with_unit(rung.median),
        interval=rung.interval,
        left=place(rung.median * rung.base_factor),
        low=place(low * rung.base_factor),
        high=place(high * rung.base_factor),
        target=link(rung.experiment, ""),
        facts=facts,
        marks=marks,
    )


def _finding(found: Notable, link: Link) -> Finding:
    longest = max(value.median for value in found.values)
    bars = []
    for value in found.values:
        spread = None if value.ci95 is None else (value.ci95[1] - value.ci95[0]) / 2
        text = Scale.of(value.median, spread, found.unit).with_unit(value.median)
        bars.append(Bar(value.name, round(100 * value.median / longest, 1), text))
    return Finding(found.sentence, link(found.experiment, found.section), bars)

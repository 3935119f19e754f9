"""How the configurations perform: throughput over the buffer size by mode and channel, and CPU time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oscope.figures.analysed import Analysed
from oscope.figures.tables import row_scale, shared_scale
from oscope.figures.words import listed, median
from oscope.labs.curve import At, best, cells, derived, narrowing, over_sizes, sizes_of, unmeasured
from oscope.labs.ipc.points import (
    BUFFER,
    KNOWN,
    MODE_WORDS,
    RATE,
    RATE_UNIT,
    cpu_per_mebibyte,
    cpus_busy,
    curves,
    modes,
    plain,
)
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, bounded_text
from oscope.model.samples import ExperimentResults
from oscope.model.units import format_bytes
from oscope.statistics import Summary, compare_points

REFERENCE = ("2proc", "pipe", 128 << 10)
"""What other channels between processes are held against: the document's default."""


@dataclass(frozen=True)
class Best:
    """The fastest buffer size of a channel in a mode."""

    mode: str
    channel: str
    at: At
    alike: Sequence[At]
    cpu: Summary | None
    """CPU time of both sides for a MiB, in s."""
    busy: Summary | None
    """CPU time over elapsed time."""


def section(results: Analysed) -> Section | None:
    """Answer E2."""
    whole = results.get("ipc.throughput")
    if whole is None:
        return None
    title = "How the configurations perform"
    experiment, missing = plain(whole), unmeasured(whole)
    by_mode = {mode: curves(results, experiment, RATE, mode=mode) for mode in modes(experiment)}
    by_mode = {mode: found for mode, found in by_mode.items() if found}
    if not by_mode:
        return Section(title, "", missing=missing) if missing else None
    found = [
        _best(experiment, mode, channel, row)
        for mode, rows in by_mode.items()
        for channel, row in rows.items()
    ]
    return Section(
        title=title,
        answer=" ".join([*_answer(found), *_against_reference(experiment, found), *_cpu(found)]),
        text=[
            (
                "Throughput is what arrives at the receiver and is checked there, over the elapsed time. CPU "
                "time is that of both sides: a channel that waits by spinning is not cheaper for being fast."
            ),
            *narrowing(experiment, KNOWN),
        ],
        tables=[_table(found)],
        figures=[_figure(mode, rows) for mode, rows in by_mode.items() if len(sizes_of(rows)) > 1],
        missing=missing,
    )


def _best(experiment: ExperimentResults, mode: str, channel: str, found: Sequence[At]) -> Best:
    first, alike = best(found, experiment, RATE)
    cpu, busy = (derived(experiment, first.point, value) for value in (cpu_per_mebibyte, cpus_busy))
    return Best(mode, channel, first, alike, cpu, busy)


def _answer(found: Sequence[Best]) -> list[str]:
    """Name the fastest and the slowest channel of each mode, each at its best buffer size."""
    told = []
    for mode in dict.fromkeys(each.mode for each in found):
        here = sorted((each for each in found if each.mode == mode), key=lambda each: -each.at.summary.median)
        text = f"{MODE_WORDS[mode]}, {_fastest(here[0])}"
        if len(here) > 1:
            text += f", and {here[-1].channel} at its best reaches {median(here[-1].at.summary, RATE_UNIT)}"
        told.append(f"{text[0].upper()}{text[1:]}.")
    return told


def _fastest(each: Best) -> str:
    return f"{each.channel} is the fastest: {median(each.at.summary, RATE_UNIT)} by buffers of {each.at.name}"


def _against_reference(experiment: ExperimentResults, found: Sequence[Best]) -> list[str]:
    """Hold the fastest between processes against the document's default."""
    mode, channel, size = REFERENCE
    here = [each for each in found if each.mode == mode]
    base = experiment.point(mode=mode, channel=channel, buffer=size)
    if not here or base is None or RATE not in base.metrics or not len(base):
        return []
    first = max(here, key=lambda each: each.at.summary.median)
    if first.at.point is base:
        return [f"No channel between processes beats the {channel} by buffers of {format_bytes(size)}."]
    row = compare_points(base, first.at.point, experiment.metrics[RATE], same_run=True)
    times = bounded_text(row.ratio, *row.ci95)
    apart = "" if row.different == "yes" else ", which cannot be told from it"
    return [
        (
            f"{first.channel} is {times} times as fast as a {channel} by {format_bytes(size)} between "
            f"processes{apart}."
        )
    ]


def _cpu(found: Sequence[Best]) -> list[str]:
    """Say what the fastest channel takes of the CPU beside the one that takes least, between processes."""
    here = [each for each in found if each.mode == "2proc" and each.cpu is not None] or [
        each for each in found if each.cpu is not None
    ]
    if len(here) < 2:
        return []
    fastest = max(here, key=lambda each: each.at.summary.median)
    least = min(here, key=lambda each: each.cpu.median if each.cpu else 0.0)
    told = _cpu_text(fastest)
    if least is fastest:
        return [f"{fastest.channel} also takes the least CPU time, {told}."]
    return [f"{fastest.channel} takes {told}; the least CPU time takes {least.channel}, {_cpu_text(least)}."]


def _cpu_text(each: Best) -> str:
    text = MISSING if each.cpu is None else f"{median(each.cpu, 's')} a MiB"
    return text if each.busy is None else f"{text} ({each.busy.median:.2f} CPUs busy)"


def _table(found: Sequence[Best]) -> Table:
    scale = shared_scale([each.at.summary for each in found], RATE_UNIT)
    cpu_scale = shared_scale([each.cpu for each in found if each.cpu is not None], "s")
    rows = []
    for each in found:
        rows.append(
            [
                each.mode,
                each.channel,
                each.at.name,
                str(each.at.summary.n),
                *cells(each.at.summary, scale),
                listed([other.name for other in each.alike]) or "none",
                MISSING if each.cpu is None else row_scale(cpu_scale, each.cpu).text(each.cpu.median),
                MISSING if each.busy is None else f"{each.busy.median:.2f}",
            ]
        )
    columns = [
        "mode",
        "channel",
        "best buffer",
        "n",
        f"throughput [{scale.unit}]",
        f"95 % [{scale.unit}]",
        "cannot be told from it",
        f"CPU time of a MiB [{cpu_scale.unit}]",
        "CPUs busy",
    ]
    note = "Medians. Sizes that cannot be told from the best: paired by block, p corrected by Holm."
    return Table(
        "The best buffer size of each configuration", columns, rows, frozenset({3, 4, 5, 7, 8}), note
    )


def _figure(mode: str, found: Mapping[str, Sequence[At]]) -> Figure:
    title = f"Throughput over the buffer size, {MODE_WORDS[mode]}"
    return over_sizes(title, found, RATE_UNIT, name=BUFFER)

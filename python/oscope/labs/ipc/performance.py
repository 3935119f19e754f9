"""How the configurations perform: throughput over the buffer size by mode and channel, and CPU time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oscope.figures.words import listed, median
from oscope.labs.engine.curves import At, best, several
from oscope.labs.engine.quantity import derived
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, count, stat, text
from oscope.labs.engine.words import ratio_text, value
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
from oscope.model.document import Figure
from oscope.model.units import format_bytes
from oscope.statistics import Summary, compare_points

REFERENCE = ("2proc", "pipe", 128 << 10)
"""What other channels between processes are compared with: the original report's default."""


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

    @property
    def speed(self) -> float:
        """Its throughput."""
        return self.at.summary.median


def _rows(run: Run) -> list[Best]:
    own = plain(run)
    rows = []
    for mode in modes(own):
        for channel, found in curves(own, RATE, mode=mode).items():
            first, alike = best(found, own.experiment, RATE)
            cpu, busy = (derived(own.experiment, first.point, each) for each in (cpu_per_mebibyte, cpus_busy))
            rows.append(Best(mode, channel, first, alike, cpu, busy))
    return rows


def _between(found: Sequence[Best]) -> list[Best]:
    """Return what was measured between processes, else everything; the fastest first."""
    chosen = [each for each in found if each.mode == REFERENCE[0]] or found
    return sorted(chosen, key=lambda each: -each.speed)


def _headline(_: Run, found: Sequence[Best]) -> str:
    fast, slow = _between(found)[0], _between(found)[-1]
    text = (
        f"{fast.channel} is the fastest channel {MODE_WORDS[fast.mode]}: {value(fast.at.summary, RATE_UNIT)}"
    )
    slowest = f"{slow.channel}, the slowest, reaches {value(slow.at.summary, RATE_UNIT)}"
    return f"{text}." if slow is fast else f"{text}; {slowest}."


def _over_reference(run: Run, found: Sequence[Best]) -> list[str]:
    """Compare the fastest between processes with the original report's default."""
    mode, channel, size = REFERENCE
    own = plain(run).experiment
    here = [each for each in found if each.mode == mode]
    base = own.point(mode=mode, channel=channel, buffer=size)
    if not here or base is None or RATE not in base.metrics or not len(base):
        return []
    first = max(here, key=lambda each: each.speed)
    if first.at.point is base:
        return [f"No channel between processes beats the {channel} by buffers of {format_bytes(size)}."]
    row = compare_points(base, first.at.point, own.metrics[RATE], same_run=True)
    apart = "" if row.different == "yes" else ", which cannot be distinguished from it"
    return [
        (
            f"{first.channel} is {ratio_text(row)} times as fast as a {channel} by {format_bytes(size)} "
            "between "
            f"processes{apart}."
        )
    ]


def _cpu(_: Run, found: Sequence[Best]) -> list[str]:
    """Compare the CPU time of the fastest channel with the least."""
    here = [each for each in _between(found) if each.cpu is not None]
    if len(here) < 2:
        return []
    fastest, least = here[0], min(here, key=lambda each: each.cpu.median if each.cpu else 0.0)
    if least is fastest:
        return [f"{fastest.channel} also takes the least CPU time, {_cpu_text(fastest)}."]
    text = f"{fastest.channel} takes {_cpu_text(fastest)}"
    return [f"{text}; {least.channel} the least CPU time, {_cpu_text(least)}."]


def _cpu_text(each: Best) -> str:
    busy = "" if each.busy is None else f" ({each.busy.median:.2f} CPUs busy)"
    return f"{median(each.cpu, 's')} a MiB{busy}" if each.cpu else ""


def _figures(run: Run, _: Sequence[Best]) -> list[Figure]:
    own = plain(run)
    return [
        figure
        for mode in modes(own)
        for figure in several(
            f"Throughput over the buffer size, {MODE_WORDS[mode]}",
            curves(own, RATE, mode=mode),
            RATE_UNIT,
            BUFFER,
        )
    ]


section = Question(
    title="How the configurations perform",
    experiment="ipc.throughput",
    rows=_rows,
    headline=_headline,
    text=(
        _over_reference,
        _cpu,
        (
            "Throughput is what arrives at the receiver and is checked there, over the elapsed time. CPU "
            "time is "
            "that of both sides: a channel that waits by spinning is not cheaper for being fast."
        ),
    ),
    tables=(
        TableOf(
            "The best buffer size of each configuration",
            (
                text("mode", lambda row: row.mode),
                text("channel", lambda row: row.channel),
                text("best buffer", lambda row: row.at.name),
                count("n", lambda row: row.at.summary.n),
                stat("throughput", lambda row: row.at.summary, RATE_UNIT),
                text("not distinguished", lambda row: listed([each.name for each in row.alike]) or "none"),
                stat("CPU time of a MiB", lambda row: row.cpu, "s", "median"),
                text(
                    "CPUs busy",
                    lambda row: None if row.busy is None else f"{row.busy.median:.2f}",
                    numeric=True,
                ),
            ),
            "Medians. Sizes not distinguished from the best: paired by block, p corrected by Holm.",
        ),
    ),
    figures=(_figures,),
    factors=KNOWN,
)

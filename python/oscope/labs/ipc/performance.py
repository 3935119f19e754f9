"""How the configurations perform: throughput over the buffer size by mode and channel, and CPU time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oscope.figures.words import listed
from oscope.labs.engine.curves import At, best, several
from oscope.labs.engine.quantity import derived
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, count, ratio, stat, text
from oscope.labs.engine.words import value
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
from oscope.model.factors import Level
from oscope.statistics import ComparedMetric, Summary, compare_points

REFERENCE: Mapping[str, Level] = {"mode": "2proc", "channel": "pipe", "buffer": 128 << 10}
"""What the others are compared with: the original report's default."""


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
    over: ComparedMetric | None
    """Throughput over that of the original report's default."""

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
            rows.append(Best(mode, channel, first, alike, cpu, busy, _over_reference(own, first)))
    return rows


def _between(found: Sequence[Best]) -> list[Best]:
    """Return what was measured between processes, else in the last mode that was; the fastest first."""
    mode = "2proc" if any(each.mode == "2proc" for each in found) else found[-1].mode
    return sorted((each for each in found if each.mode == mode), key=lambda each: -each.speed)


def _headline(_: Run, found: Sequence[Best]) -> str:
    fast, slow = _between(found)[0], _between(found)[-1]
    text = (
        f"{fast.channel} is the fastest channel {MODE_WORDS[fast.mode]}: {value(fast.at.summary, RATE_UNIT)}"
    )
    slowest = f"{slow.channel}, the slowest, reaches {value(slow.at.summary, RATE_UNIT)}"
    return f"{text}." if slow is fast else f"{text}; {slowest}."


def _over_reference(own: Run, first: At) -> ComparedMetric | None:
    """Compare with the original report's default."""
    base = own.experiment.point(**REFERENCE)
    if base is None or base is first.point or RATE not in base.metrics or not len(base):
        return None
    return compare_points(base, first.point, own.experiment.metrics[RATE], same_run=True)


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
        "Throughput is what arrives at the receiver and is checked there; CPU time is that of both sides.",
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
                ratio("over a 2proc pipe by 128 KiB", lambda row: row.over, "different"),
            ),
            "Medians. Sizes not distinguished from the best: paired by block, p corrected by Holm.",
        ),
    ),
    figures=(_figures,),
    factors=KNOWN,
)

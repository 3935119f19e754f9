"""How the configurations perform: throughput over the buffer size by mode and channel, and CPU time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oscope.figures.words import listed
from oscope.labs.engine.curves import At, best
from oscope.labs.engine.quantity import Quantity
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, count, number, ratio, stat, text
from oscope.labs.engine.words import value
from oscope.labs.ipc.points import (
    BUSY,
    CPU,
    KNOWN,
    MODE_WORDS,
    RATE,
    RATE_UNIT,
    curves,
    modes,
    over_buffers,
    plain,
)
from oscope.model.factors import Level
from oscope.statistics import ComparedMetric, Summary, compare_points

REFERENCE: Mapping[str, Level] = {"mode": "2proc", "channel": "pipe", "buffer": 128 << 10}
"""What the others are compared with: the original report's default."""


@dataclass(frozen=True)
class Best:
    """The fastest buffer size of a channel in a mode."""

    run: Run
    mode: str
    channel: str
    at: At
    alike: Sequence[At]

    def of(self, asked: Quantity) -> Summary | None:
        """Return another quantity at that size."""
        return self.run.summary(self.at.point, asked)

    @property
    def over(self) -> ComparedMetric | None:
        """Throughput over that of the original report's default."""
        experiment = self.run.experiment
        base = experiment.point(**REFERENCE)
        if base is None or base is self.at.point or RATE not in base.metrics or not len(base):
            return None
        return compare_points(base, self.at.point, experiment.metrics[RATE], same_run=True)


def _rows(run: Run) -> list[Best]:
    own = plain(run)
    return [
        Best(own, mode, channel, *best(found, own.experiment, RATE))
        for mode in modes(own)
        for channel, found in curves(own, RATE, mode=mode).items()
    ]


def _headline(_: Run, found: Sequence[Best]) -> str:
    """Name the fastest and the slowest between processes, else in the last mode that was measured."""
    mode = "2proc" if any(each.mode == "2proc" for each in found) else found[-1].mode
    fast, slow = (
        end((each for each in found if each.mode == mode), key=lambda each: each.at.summary.median)
        for end in (max, min)
    )
    if slow is fast:
        rate = value(fast.at.summary, RATE_UNIT)
        return f"{fast.channel} reaches {rate} {MODE_WORDS[mode]}, with buffers of {fast.at.name}."
    text = f"{fast.channel} is the fastest channel {MODE_WORDS[mode]}: {value(fast.at.summary, RATE_UNIT)}"
    slowest = f"{slow.channel}, the slowest, reaches {value(slow.at.summary, RATE_UNIT)}"
    return f"{text}; {slowest}."


section = Question(
    title="How the configurations perform",
    experiment="ipc.throughput",
    rows=_rows,
    headline=_headline,
    text=("Throughput is what arrives at the receiver and is checked there; CPU time is that of both sides."),
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
                stat("CPU time of a MiB", CPU, "s", "median"),
                number("CPUs busy", BUSY),
                ratio("over a 2proc pipe by 128 KiB", lambda row: row.over, "different"),
            ),
            "Medians. Sizes not distinguished from the best: paired by block, p corrected by Holm.",
        )
    ),
    figures=(lambda run, _: over_buffers("Throughput over the buffer size", plain(run), RATE, RATE_UNIT)),
    factors=KNOWN,
)

"""What the start of a program or of a shell adds to the times of a bench, in words.

It was measured before the runs of each block, perhaps under another load, and of another program (`true`).
So it is called a part of the times only where its interval lies below all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from oscope.figures.analysed import measured
from oscope.figures.answer_text import listed
from oscope.model.formatting import format_value
from oscope.model.samples import Floats, PointSamples

NEAR_START = 1.1
"""A command that takes less than so many times the start of a trivial program does little but start."""
LOW, HIGH = 2.5, 97.5
"""Percentiles of a start over the blocks: its interval. There are too few blocks for one of its median."""


class Row(Protocol):
    """A command that was measured."""

    @property
    def name(self) -> str:
        """It with its parameters."""

    @property
    def point(self) -> PointSamples:
        """Its samples."""


@dataclass(frozen=True)
class Start:
    """The time from the start to the end of what does nothing."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, points: Sequence[PointSamples], metric: str) -> Start | None:
        """Return it from the samples of `points`; None where it was not measured."""
        values = np.concatenate([np.zeros(0), *(measured(point, metric)[0] for point in points)])
        if not len(values):
            return None
        median, low, high = (float(each) for each in np.percentile(values, (50, LOW, HIGH)))
        return cls(median, low, high)


def start_notes(rows: Sequence[Row], *, alone: bool) -> list[str]:
    """Return what is to be known of the start of the commands `rows`; `alone`: the bench has one command."""
    points = [row.point for row in rows]
    # Commands may share a name: `sleep {t}` with t=1 and `sleep 1`.
    times = [(row.name, float(np.median(found))) for row in rows if len(found := _times(row))]
    shell = Start.of(points, "shell_ns")
    if shell is not None:
        text = f"the shell's own start takes {about_ns(shell.median)}: net_ns is without it, time_ns with it"
        return [text, *_only_starts(times, shell)]
    start = Start.of(points, "start_ns")
    if start is None or not times:
        return []
    # `show` has it for each command.
    whence = "measured in this run" if alone else "the median beside all commands"
    text = f"start overhead: a program that does nothing (true) takes {about_ns(start.median)}, {whence}"
    longer = list(dict.fromkeys(name for name, time_ns in times if time_ns < start.low))
    if longer:
        them = "them" if len(longer) > 1 else "it"
        return [f"{text}; {listed(longer)} took less: what the start of {them} takes is not known"]
    within = "; it is part of each time above" if start.high < min(time_ns for _, time_ns in times) else ""
    return [f"{text}{within}", *_only_starts(times, start)]


def about_ns(value_ns: float) -> str:
    """Write a time with two or three digits."""
    return format_value(value_ns, 0.05 * value_ns, "ns")


def _times(row: Row) -> Floats:
    return measured(row.point, "time_ns")[0]


def _only_starts(times: Sequence[tuple[str, float]], start: Start) -> list[str]:
    """Name the commands that do little but start, each name once."""
    return [
        f"{name} takes hardly longer than such a start: its own work does not show; "
        "have it do more, or repeat it within one command"
        for name in dict.fromkeys(name for name, time_ns in times if time_ns < NEAR_START * start.median)
    ]

"""What could make the original's times fall in groups 900 ms apart: how both ends meet, and small writes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median as middle

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import paired_difference
from oscope.figures.words import excludes_zero
from oscope.labs.engine.drawing import dot, strips
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import TableOf, count, text
from oscope.labs.engine.table import value as value_of
from oscope.labs.engine.words import value
from oscope.labs.transfer import RETRY_S, reference
from oscope.labs.transfer.large import CITED, Cited
from oscope.labs.transfer.points import RECEIVER_TIME, TIME
from oscope.model.document import Figure
from oscope.model.formatting import format_value
from oscope.model.samples import PointSamples
from oscope.model.units import format_duration
from oscope.statistics import Summary

WAIT = "wait_ns"
NS = 1e9
RETRY, RECEIVER_RETRY = "retry", "receiver-retry"
LATE = {RETRY: "receiver", RECEIVER_RETRY: "sender"}
"""Who comes late, by which the other is refused and tries again."""
AGAIN = {RETRY: "sender", RECEIVER_RETRY: "receiver"}
"""Who is refused and sleeps."""
FORMULA = {RETRY: "the retry interval less the lateness", RECEIVER_RETRY: "the retry interval"}
WRITES = {"small": ", small writes", "nodelay": ", small writes without Nagle's algorithm"}


@dataclass(frozen=True)
class Met:
    """One point: how both ends met, and what of its time was waiting for it."""

    point: PointSamples
    time: Summary
    """The receiver's, from its own coming on: where it tries again, from its first try."""
    sender: Summary | None
    wait: Summary | None
    """The sender's, until the connection stood."""
    step: Summary | None
    """The receiver's time beyond that where both are ready, a difference a block: where one side is late, and
    of small writes beyond those without Nagle's algorithm."""
    measured: Point

    @property
    def meeting(self) -> str:
        """How both ends meet."""
        return str(self.point.factors.get("meeting", "ready"))

    @property
    def retried(self) -> bool:
        """Whether one side came late and the other tried again."""
        return self.meeting in LATE

    @property
    def late_s(self) -> float:
        """How late it came."""
        return float(self.point.factors.get("late", 0.0)) if self.retried else 0.0

    @property
    def writes(self) -> str:
        """In which pieces the files were written."""
        return str(self.point.factors.get("writes", "whole"))

    @property
    def expected_ns(self) -> int:
        """What the receiver waits if whoever is refused sleeps a whole interval each time.

        Its clock runs from its own coming: where it is the late one, `late_s` after the first sleep began.
        """
        slept = math.ceil(self.late_s / RETRY_S) * RETRY_S
        return round((slept - (self.late_s if self.meeting == RETRY else 0.0)) * NS)

    @property
    def stepped(self) -> bool:
        """Whether the receiver was found to take longer."""
        return self.step is not None and excludes_zero(self.step) and self.step.median > 0

    @property
    def name(self) -> str:
        """The point in words."""
        if self.retried:
            late, again = LATE[self.meeting], AGAIN[self.meeting]
            return f"{late} {format_duration(self.late_s)} late, the {again} tries again"
        return f"both ready{WRITES.get(self.writes, '')}"


def _met(run: Run) -> list[Met]:
    points = run.points(RECEIVER_TIME)
    plain = next((each.samples for each in points if _plainly_ready(each.samples)), None)
    nodelay = next((each.samples for each in points if each.samples.factors.get("writes") == "nodelay"), None)
    found = []
    for each in points:
        factors = each.samples.factors
        late, small = factors.get("meeting") in LATE, factors.get("writes") == "small"
        base = plain if late else nodelay if small else None
        step = None if base is None else paired_difference(run.experiment, base, each.samples, RECEIVER_TIME)
        found.append(Met(each.samples, each.summary, each.of(TIME), each.of(WAIT), step, each))
    return sorted(found, key=lambda each: (each.retried, each.meeting, each.late_s))


def _plainly_ready(point: PointSamples) -> bool:
    return point.factors.get("meeting") == "ready" and point.factors.get("writes", "whole") == "whole"


def _headline(_: Run, found: Sequence[Met]) -> str:
    """Give the greatest step of a side that tries again, and the time without."""
    ready = next((each for each in found if _plainly_ready(each.point)), None)
    without = "" if ready is None else f"; where both are ready it takes {value(ready.time, 'ns')}"
    steps_found = [(each.step.median, each) for each in found if each.retried and each.step and each.stepped]
    if not steps_found:
        tried = any(each.retried for each in found)
        return f"No step is found{' where one side is late' if tried else ''}{without}."
    most = max(steps_found, key=lambda pair: pair[0])[1]
    late = f"the {LATE[most.meeting]} is {format_duration(most.late_s)} late and the {AGAIN[most.meeting]}"
    step = "" if most.step is None else value(most.step, "ns")
    return f"Where {late} tries again, the receiver takes longer by {step}{without}."


def _a_file(each: Met) -> str | None:
    """Return the step of small writes for each file."""
    if each.retried or each.step is None:
        return None
    more = each.step.median / int(each.point.factors.get("files", 1))
    return format_value(more, more / 20, "ns")


TABLE: TableOf[Met] = TableOf(
    "Times by how both ends meet",
    (
        text("how both ends meet", lambda each: each.name),
        count("n", lambda each: each.time.n),
        value_of("receiver's time (95 %)", lambda each: each.time, "ns"),
        value_of("sender's time (95 %)", lambda each: each.sender, "ns"),
        value_of("sender, until they met", lambda each: each.wait, "ns"),
        value_of("receiver's step (95 %)", lambda each: each.step, "ns"),
        text("step a file", _a_file),
        text(
            "step expected", lambda each: format_value(each.expected_ns, None, "ns") if each.retried else None
        ),
    ),
    "The receiver's clock runs from its own coming, or its first try. Medians with their 95 % intervals; a "
    "step is the difference, a block each, from both ready, or of small writes from those without Nagle's "
    f"algorithm. Expected: the retry interval of {RETRY_S:g} s, less the lateness of a late receiver.",
)


def _step_figure(_: Run, found: Sequence[Met]) -> list[Figure]:
    """Draw the receiver's step over the lateness of whoever is late, where several were measured."""
    lines = []
    for colour, meeting in enumerate(LATE):
        measured, expected = [], []
        for each in found:
            if each.step is None or each.meeting != meeting:
                continue
            measured.append((each.late_s, dot("step", each.step, NS)))
            expected.append((each.late_s, plots.Dot("expected", each.expected_ns / NS, None, np.zeros(0))))
        if len(measured) > 1:
            lines.append(plots.Line(f"the {AGAIN[meeting]} tries again", measured, colour))
            lines.append(plots.Line(FORMULA[meeting].removeprefix("the "), expected, colour, "dash"))
    if not lines:
        return []
    axes = (plots.axis("late by [s]"), plots.axis("step [s]", rangemode="tozero"))
    note = "Medians with their 95 % intervals. Dashed: what sleeps of a whole interval make expect."
    return [plots.lines("The receiver's step over the lateness", axes, lines, note)]


def _strips(_: Run, found: Sequence[Met]) -> list[Figure]:
    names = {id(each.measured): each for each in found}
    return [
        strips(
            "Time of the receiver",
            "time",
            [each.measured for each in found],
            lambda point: names[id(point)].name,
            lambda point: int(names[id(point)].retried),
            "Faint: single executions. Diamond: median with its 95 % interval.",
        )
    ]


def steps(side: reference.Inputs) -> list[float]:
    """Return the distances in ms between neighbouring groups of the original's times, by their medians."""
    found = []
    for values in side.values():
        middles = [middle(part) for part in reference.groups(values)]
        found += [high - low for low, high in pairwise(middles)]
    return found


ORIGINAL: TableOf[Cited] = TableOf(
    "The steps in the original report's times",
    (
        text("side", lambda row: row[0]),
        text("method", lambda row: row[1]),
        text("content", lambda row: row[2]),
        text("groups: median [ms] (n)", lambda row: reference.groups_text(row[3])),
        text(
            "steps [ms]", lambda row: ", ".join(f"{step:.1f}" for step in steps({("", ""): row[3]})) or None
        ),
    ),
    f"A group ends where the next value is more than {reference.GAP_MS:g} ms away. Steps of several seconds "
    "are of two executions that waited for a hand and that the report leaves out. Its receiver connects, so "
    f"that it can be refused. {reference.WHERE}",
)


def _original_figure(*_: object) -> list[Figure]:
    dots = [
        plots.Dot(f"{method}, {content}", middle(values), None, np.array(values), colour)
        for (method, content), values in reference.RECEIVER.items()
        for colour in [list(reference.METHODS).index(method)]
    ]
    note = "Faint: single executions, cited. Diamond: their median, which may lie between two groups."
    return [plots.strips("Time of the original report's receiver", "time [ms]", dots, note)]


section = Question(
    title="The original report’s jumps of 900 ms",
    experiment="transfer.meeting",
    rows=_met,
    headline=_headline,
    text=(
        (
            "Who is refused sleeps and tries again: a receiver waits whole intervals from its first try, a "
            "sender makes a late receiver wait for the rest of one."
        ),
        (
            "The original's distance is the same by both methods, as a wait makes it. Which mechanism it was "
            "cannot be decided from the report, which shows neither its programs' sleeps nor where their "
            "clocks begin."
        ),
        (
            "Nagle's algorithm with delayed acknowledgements, up to 40 ms, is the other candidate: its step "
            "grows with the number of files."
        ),
    ),
    tables=(TABLE, lambda *_: [ORIGINAL.of(CITED)]),
    figures=(_step_figure, _strips, _original_figure),
    timed=True,
)

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
from oscope.figures.words import counted, excludes_zero, listed, median
from oscope.labs.engine.contrast import compared
from oscope.labs.engine.drawing import dot, strips
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import TableOf, count, text
from oscope.labs.engine.table import value as value_of
from oscope.labs.engine.words import judged, ratio_text, value
from oscope.labs.transfer import CONTENTS, RETRY_S, reference
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
    """The receiver's time beyond that where both are ready, a difference a block. Of points at which one side
    is late."""
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
    ready = next((each.samples for each in points if _plainly_ready(each.samples)), None)
    found = []
    for each in points:
        late = each.samples.factors.get("meeting") in LATE and ready is not None
        step = (
            paired_difference(run.experiment, ready, each.samples, RECEIVER_TIME) if late and ready else None
        )
        found.append(Met(each.samples, each.summary, each.of(TIME), each.of(WAIT), step, each))
    return sorted(found, key=lambda each: (each.retried, each.meeting, each.late_s))


def _plainly_ready(point: PointSamples) -> bool:
    return point.factors.get("meeting") == "ready" and point.factors.get("writes", "whole") == "whole"


def _headline(run: Run, found: Sequence[Met]) -> str:
    """Give the greatest step of a side that tries again, and the time without."""
    steps_found = [each for each in found if each.stepped and each.step is not None]
    ready = next((each for each in found if _plainly_ready(each.point)), None)
    if not steps_found:
        gone = _gone(run, found)
        return gone[0] if gone else "No step is found."
    most = max(steps_found, key=lambda each: each.step.median if each.step else 0.0)
    late = f"the {LATE[most.meeting]} is {format_duration(most.late_s)} late"
    late += f" and the {AGAIN[most.meeting]} tries again"
    step = "" if most.step is None else value(most.step, "ns")
    text = f"Where {late}, the receiver takes longer by {step}"
    return (
        f"{text}." if ready is None else f"{text}; where both are ready it takes {value(ready.time, 'ns')}."
    )


def _step(_: Run, found: Sequence[Met]) -> list[str]:
    """Give the receiver's step by each mechanism and lateness, with what is expected, and the original's."""
    said = [_by(meeting, late) for meeting in LATE if (late := [e for e in found if _late(e, meeting)])]
    apart = steps(reference.RECEIVER)
    theirs = "In the original report, whose receiver is the one that connects, it is "
    return [*said, f"{theirs}{min(apart):.0f} to {max(apart):.0f} ms."] if said else []


def _late(each: Met, meeting: str) -> bool:
    return each.meeting == meeting and each.step is not None


def _by(meeting: str, late: Sequence[Met]) -> str:
    where = f"the {LATE[meeting]} is late and the {AGAIN[meeting]} tries again"
    there = [each for each in late if each.stepped]
    if not there:
        return f"No step is found where {where}."
    parts = [
        f"{median(each.step, 'ns')} where it is {format_duration(each.late_s)} late"
        for each in there
        if each.step
    ]
    without = [format_duration(each.late_s) for each in late if not each.stepped]
    none = f" None is found where it is {listed(without)} late." if without else ""
    apart = max(abs(each.step.median - each.expected_ns) for each in late if each.step)
    return (
        f"Where {where} after {RETRY_S:g} s, the receiver takes longer by {listed(parts)}.{none} From "
        f"{FORMULA[meeting]} that is {format_value(apart, apart / 5, 'ns')} away at most."
    )


def _gone(run: Run, found: Sequence[Met]) -> list[str]:
    """Say what is left of the wait where both ends meet by themselves, with the verdicts."""
    ready = next((each for each in found if _plainly_ready(each.point)), None)
    if ready is None:
        return []
    waited = "" if ready.wait is None else f", and the sender {median(ready.wait, 'ns')} until they met"
    text = f"Where both meet by themselves the receiver takes {median(ready.time, 'ns')}{waited}"
    parts = []
    for meeting in LATE:
        rows = compared(run.experiment, (RECEIVER_TIME,), "meeting", ("ready", meeting))
        for row in rows[:1]:
            gone = "is gone" if row.different == "yes" and row.ratio > 1 else "is not decided"
            who = f"the step of a {AGAIN[meeting]} that tries again"
            parts.append(f"{who} {gone} (with it, {ratio_text(row)} times as long)")
    return [f"{text}: {listed(parts)}." if parts else f"{text}."]


def _small(run: Run, found: Sequence[Met]) -> list[str]:
    """Give what Nagle's algorithm and delayed acknowledgements make of small writes, whole and a file."""
    by_writes = {each.writes: each for each in found if not each.retried}
    without, small = by_writes.get("nodelay"), by_writes.get("small")
    if without is None or small is None:
        return []
    rows = compared(run.experiment, (RECEIVER_TIME,), "writes", ("nodelay", "small"))
    more = paired_difference(run.experiment, without.point, small.point, RECEIVER_TIME)
    if not rows or more is None:
        return []
    if rows[0].different != "yes":
        return [f"With Nagle's algorithm small writes take {judged(rows[0], 'the time without')}."]
    files = int(small.point.factors.get("files", 1))
    return [
        (
            f"Nagle's algorithm adds {median(more, 'ns')} to small writes of {counted(files, 'file')}, "
            f"{format_value(more.median / files, more.median / files / 20, 'ns')} a file."
        )
    ]


TABLE: TableOf[Met] = TableOf(
    "Times by how both ends meet",
    (
        text("how both ends meet", lambda each: each.name),
        count("n", lambda each: each.time.n),
        value_of("receiver's time (95 %)", lambda each: each.time, "ns"),
        value_of("sender's time (95 %)", lambda each: each.sender, "ns"),
        value_of("sender, until they met", lambda each: each.wait, "ns"),
        value_of("receiver's step (95 %)", lambda each: each.step, "ns"),
        text(
            "step expected", lambda each: format_value(each.expected_ns, None, "ns") if each.retried else None
        ),
    ),
    "The receiver's clock runs from its own coming, or its first try. Expected: the retry interval, less the "
    "lateness where the receiver is the late one. Medians with their 95 % intervals; the step is the "
    "difference "
    "from both ready, a block each.",
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


def _original(*_: object) -> list[str]:
    """Say what the original report's own times say of its step, and what they leave open."""
    apart = steps(reference.RECEIVER)
    # An execution that waited for a hand is a group of its own, further away.
    sender = [step for step in steps(reference.SENDER) if step < 2 * max(apart)]
    parts = {key: reference.groups(values) for key, values in reference.RECEIVER.items()}
    alone = [" with ".join(key) for key, groups in parts.items() if len(groups) == 1]
    late = [groups[-1] for groups in parts.values()]
    width, count = max(max(each) - min(each) for each in late), sum(map(len, late))
    fast = {method: middle(parts[method, CONTENTS[0]][0]) for method in reference.METHODS}
    return [
        (
            f"The original report's receiver has times in two groups, {min(apart):.0f} to {max(apart):.0f} "
            "ms "
            "apart, in "
            f"{len(parts) - len(alone)} of {len(parts)} series; {listed(alone)} has the late group alone. "
            "The "
            f"distance is the same by both methods, though the early groups are near {fast['fcntl']:.0f} ms "
            "by "
            f"fcntl and {fast['mmap']:.0f} ms by mmap: so it would be with a wait, and not with work. Its "
            "sender "
            f"has steps of {min(sender):.0f} to {max(sender):.0f} ms. Its receiver (slave) is given an "
            "address "
            "and connects, and its sender (master) listens, so that of the two it is the receiver that can "
            "be "
            "refused. But whether its programs sleep and try again, for how long, and where their clocks "
            "begin, "
            f"it does not show. With an interval of {RETRY_S:g} s either mechanism leaves some 100 ms to "
            "account for, by a lateness or a clock that begins later, and open why they would be the same "
            "each "
            f"time: the {count} late executions lie within {width:.0f} ms of one another in each series. "
            "Which "
            "mechanism it was, if it was one of these, cannot be decided from the report."
        )
    ]


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
    "at the "
    "sender are of the two executions that the original report leaves out, since they waited for a hand. "
    f"{reference.WHERE}",
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
        _step,
        _gone,
        _small,
        (
            f"Who connects and is refused, since the other does not listen yet, sleeps {RETRY_S:g} s and "
            "tries "
            "again. Where that is the receiver, whose clock runs from its first try, it takes longer by "
            "whole "
            "retry intervals, however late the sender is within one; a clock that begins later gains less "
            "by as "
            "much. Where it is the sender, as in oscope's own transfer, a receiver that comes meanwhile "
            "waits "
            "for the rest of that sleep: the retry interval less its lateness. Who is there in time waits "
            "for "
            "nothing."
        ),
        _original,
        (
            "Small writes are the other candidate: with Nagle's algorithm on, a second small write waits "
            "until "
            "the first is acknowledged, and the receiver delays its acknowledgement by up to 40 ms. It is "
            "compared with the same exchange without Nagle's algorithm. Such a step comes with each file and "
            "grows with their number."
        ),
    ),
    tables=(TABLE, lambda *_: [ORIGINAL.of(CITED)]),
    figures=(_step_figure, _strips, _original_figure),
    timed=True,
)

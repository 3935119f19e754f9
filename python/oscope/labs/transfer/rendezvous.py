"""What could make the original's times fall in groups 900 ms apart: how both ends meet, and small writes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median as middle
from typing import NamedTuple

import numpy as np

from oscope import questions as q
from oscope.labs.transfer import RETRY_S
from oscope.labs.transfer.large import CITED, CITED_COLUMNS, Cited
from oscope.labs.transfer.ways import RECEIVER_TIME, TIME
from oscope.originals import transfer as reference

NS = 1e9
RETRY, RECEIVER_RETRY = "retry", "receiver-retry"
LATE = {RETRY: "receiver", RECEIVER_RETRY: "sender"}
"""Who comes late, by which the other is refused and tries again."""
AGAIN = {RETRY: "sender", RECEIVER_RETRY: "receiver"}
"""Who is refused and sleeps."""
FORMULA = {RETRY: "retry interval less the lateness", RECEIVER_RETRY: "retry interval"}
WRITES = {"small": ", small writes", "nodelay": ", small writes without Nagle's algorithm"}


class Met(NamedTuple):
    """One point: how both ends met, and what of its time was waiting for it.

    The receiver's time is from its own coming on: where it tries again, from its first try.
    """

    point: q.Point
    step: q.Summary | None
    """The receiver's time beyond that where both are ready, a difference a block: where one side is late, and
    of small writes beyond those without Nagle's algorithm."""

    @property
    def mode(self) -> str:
        """How both ends meet; of `LATE`, where one side came late and the other tried again."""
        return str(self.point.factors.get("meeting", "ready"))

    @property
    def late_s(self) -> float:
        """How late it came."""
        return float(self.point.factors.get("late", 0.0)) if self.mode in LATE else 0.0

    @property
    def expected_ns(self) -> int:
        """What the receiver waits if whoever is refused sleeps a whole interval each time.

        Its clock runs from its own coming: where it is the late one, `late_s` after the first sleep began.
        """
        slept = math.ceil(self.late_s / RETRY_S) * RETRY_S
        return round((slept - (self.late_s if self.mode == RETRY else 0.0)) * NS)

    def name(self) -> str:
        """Return the point in words."""
        if self.mode in LATE:
            late, again = LATE[self.mode], AGAIN[self.mode]
            return f"{late} {q.format_duration(self.late_s)} late, the {again} tries again"
        return f"both ready{WRITES.get(str(self.point.factors.get('writes', 'whole')), '')}"

    def a_file(self) -> float | None:
        """Return the step of small writes for each file, in ns."""
        if self.mode in LATE or self.step is None:
            return None
        return self.step.median / int(self.point.factors.get("files", 1))


def _met(run: q.Run) -> list[Met]:
    points, found = run.points(RECEIVER_TIME), []
    plain = next((each.samples for each in points if _plainly_ready(each)), None)
    nodelay = next((each.samples for each in points if each.factors.get("writes") == "nodelay"), None)
    for each in points:
        late, small = each.factors.get("meeting") in LATE, each.factors.get("writes") == "small"
        base = plain if late else nodelay if small else None
        step = q.paired_difference(run.experiment, base, each.samples, RECEIVER_TIME) if base else None
        found.append(Met(each, step))
    return sorted(found, key=lambda each: (each.mode in LATE, each.mode, each.late_s))


def _plainly_ready(point: q.Point) -> bool:
    return point.factors.get("meeting") == "ready" and point.factors.get("writes", "whole") == "whole"


def _headline(_: q.Run, found: Sequence[Met]) -> str:
    ready = next((each.point for each in found if _plainly_ready(each.point)), None)
    without = "" if ready is None else f"; where both are ready it takes {ready.value}"
    tried = [each for each in found if each.mode in LATE]
    steps_found = [(one.median, each, one) for each in tried if (one := each.step) and q.excludes_zero(one)]
    if not any(median > 0 for median, *_ in steps_found):
        return f"No step is found{' where one side is late' if tried else ''}{without}."
    most, step = max(steps_found, key=lambda row: row[0])[1:]
    late = f"the {LATE[most.mode]} is {q.format_duration(most.late_s)} late and the {AGAIN[most.mode]}"
    return f"Where {late} tries again, the receiver takes longer by {q.bracketed(step, 'ns')}{without}."


TABLE: q.TableOf[Met] = q.TableOf(
    "Times by how both ends meet",
    q.text("how both ends meet", Met.name),
    q.count("n", lambda each: each.point.summary.n),
    q.value("receiver's time (95 %)", lambda each: each.point.summary, "ns"),
    q.value("sender's time (95 %)", lambda each: each.point.of(TIME), "ns"),
    q.value("sender, until they met", lambda each: each.point.of("wait_ns"), "ns"),
    q.value("receiver's step (95 %)", lambda each: each.step, "ns"),
    q.written("step a file", Met.a_file, lambda more: q.format_value(more, more / 20, "ns")),
    q.written(
        "step expected",
        lambda each: each.expected_ns if each.mode in LATE else None,
        lambda found: q.format_value(found, None, "ns"),
    ),
    note="The receiver's clock runs from its own coming, or its first try. Medians with their 95 % "
    "intervals; a step is the difference, a block each, from both ready, or of small writes from those "
    f"without Nagle's algorithm. Expected: the retry interval of {RETRY_S:g} s, less the lateness of a late "
    "receiver.",
)


def _step_figure(_: q.Run, found: Sequence[Met]) -> q.Figure:
    series = {
        (f"the {AGAIN[mode]} tries again", FORMULA[mode]): [
            (each.late_s, "step", each.step, float(each.expected_ns))
            for each in found
            if each.step is not None and each.mode == mode
        ]
        for mode in LATE
    }
    axes = (q.plots.axis("late by [s]"), q.plots.axis("step [s]", rangemode="tozero"))
    note = "Medians with their 95 % intervals. Dashed: what sleeps of a whole interval make expect."
    lines = q.with_expected({names: row for names, row in series.items() if len(row) > 1}, NS)
    return q.plots.lines("The receiver's step over the lateness", axes, lines, note)


def _strips(_: q.Run, found: Sequence[Met]) -> q.Figure:
    note = "Faint: single executions. Diamond: median with its 95 % interval."
    rows = ((each.name(), each.point) for each in found)
    return q.strips(
        "Time of the receiver", "time", rows, lambda p: int(p.factors.get("meeting") in LATE), note
    )


def steps(side: reference.Inputs) -> list[float]:
    """Return the distances in ms between neighbouring groups of the original's times, by their medians."""
    middles = ([middle(part) for part in reference.groups(values)] for values in side.values())
    return [high - low for each in middles for low, high in pairwise(each)]


ORIGINAL: q.TableOf[Cited] = q.TableOf(
    "The steps in the original report's times",
    *CITED_COLUMNS,
    q.text("groups: median [ms] (n)", lambda row: reference.groups_text(row[3])),
    q.text("steps [ms]", lambda row: ", ".join(f"{n:.1f}" for n in steps({("", ""): row[3]})) or None),
    note=f"A group ends where the next value is more than {reference.GAP_MS:g} ms away. Steps of several "
    "seconds are of two executions that waited for a hand and that the report leaves out. Its receiver "
    f"connects, so that it can be refused. {reference.WHERE}",
)


def _original_figure(*_: object) -> q.Figure:
    dots = [
        q.plots.Dot(f"{method}, {content}", middle(values), None, np.array(values), colour)
        for (method, content), values in reference.RECEIVER.items()
        for colour in [list(reference.METHODS).index(method)]
    ]
    note = "Faint: single executions, cited. Diamond: their median, which may lie between two groups."
    return q.plots.strips("Time of the original report's receiver", "time [ms]", dots, note)


section = q.Question(
    title="The original report’s jumps of 900 ms",
    experiment="transfer.meeting",
    rows=_met,
    headline=_headline,
    text=(
        "Who is refused sleeps: a receiver whole intervals; for a sender a late receiver waits the rest.",
        (
            "The original's distance is the same by both methods, as a wait makes it. Which mechanism it was "
            "cannot be decided from the report: it shows neither sleeps nor where its clocks begin."
        ),
        "Nagle's algorithm with delayed acknowledgements (up to 40 ms) makes a step for each file.",
    ),
    tables=(TABLE, lambda *_: [ORIGINAL.of(CITED)]),
    figures=(_step_figure, _strips, _original_figure),
    timed=True,
)

"""What entering the kernel costs: a call that does not exist, beside getppid and sched_yield."""

from __future__ import annotations

from oscope.labs.engine.contrast import beside
from oscope.labs.engine.drawing import strips
from oscope.labs.engine.question import Question, points
from oscope.labs.engine.table import TableOf, ratio, stat, text

section = Question(
    title="Entering the kernel",
    experiment="syscall.entry",
    rows=points("time_ns"),
    headline="{least.name} costs {least.value}; {most.name}, the most expensive of {count}, {most.value}.",
    text=(
        "No kernel has call 1023: its cost is that of entering and leaving. Call 24 (x86-64) is sched_yield."
    ),
    tables=(
        TableOf(
            "Cost of a call beside getppid",
            (
                text("call", lambda point: point.name),
                stat("{}", lambda point: point.summary, "ns", "n", "median", "95 %"),
                ratio(
                    "call / getppid", lambda point: beside(point, "call", "getppid"), "different", "matters"
                ),
            ),
            "Medians; each ratio is paired by block.",
        )
    ),
    figures=(lambda _, found: strips("Time of one call", "time", found, lambda point: point.name)),
)

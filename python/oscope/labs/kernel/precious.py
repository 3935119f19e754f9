"""What the new call costs, with and without printing, beside the original report's figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from oscope.figures.words import iteration, listed
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import Column, TableOf, text
from oscope.labs.engine.words import bounded_share, ratio_text
from oscope.labs.kernel import CALLS, clocked
from oscope.labs.kernel.clocked import Side
from oscope.labs.syscalls import reference
from oscope.model.document import Figure, Table
from oscope.model.formatting import format_value
from oscope.statistics import ComparedMetric, compare_within

SILENT, LOGGED = CALLS[:2]
BARE = "getppid"
FINEST = 0.001
"""Share to which the digits of a share go, however narrow its interval."""
EXPERIMENTS = (
    ("kernel.precious", "time_ns"),
    ("kernel.precious-wall", "time_ns"),
    ("kernel.precious-wall", "cycles"),
)
WHAT = (
    f"{SILENT} is a call that returns 0; as {LOGGED} it writes a line to the kernel's log, as the original "
    "report's does. A sample is {each}. The log is full after some 4000 lines: repetitions before cost less."
)


def _known(run: Run) -> list[Side]:
    """Return the sides with a point: a guest under the instructions clock, for one, has no cycles."""
    found = clocked.sides(run, *EXPERIMENTS)
    return [side for side in found if any(side.point(call=call) for call in CALLS)]


def _what(_: Run, known: Sequence[Side]) -> str:
    points = [point for side in known for call in CALLS if (point := side.point(call=call)) is not None]
    return WHAT.format(each=listed(list(dict.fromkeys(map(iteration, points)))).removesuffix(" each"))


def printed(side: Side, a: str = SILENT, b: str = LOGGED) -> ComparedMetric | None:
    """Return how the call `b` compares with `a`, paired by boot; None where either has no value."""
    if side.point(call=a) is None or side.point(call=b) is None:
        return None
    metrics = {side.metric: side.experiment.metrics[side.metric]}
    points = tuple(point for point in side.experiment.points if point.factors.get("call") in (a, b))
    narrow = replace(side.experiment, metrics=metrics, points=points)
    return compare_within(narrow, "call", a, b).rows[0]


def _headline(_: Run, known: Sequence[Side]) -> str:
    side = known[0]
    silent, logged = (side.summary(call=call) for call in (SILENT, LOGGED))
    if silent is None or logged is None or printed(side) is None:
        alone, name = (logged, LOGGED) if silent is None else (silent, SILENT)
        return "" if alone is None else f"{name} takes {side.value(alone)}; its other form was not measured."
    return (
        f"The call takes {side.value(silent)} in silence and {side.value(logged)} with its line in the log."
    )


def _original(_: Run, known: Sequence[Side]) -> str | None:
    """Say what the ratio makes of the original report's figure; only of a ratio that is one."""
    theirs = reference.MY_PRECIOUS
    for side in known:
        row = printed(side)
        if row is None or row.different != "yes" or row.ratio <= 1:
            continue
        low, high = (theirs.median / end for end in reversed(row.ci95))
        rest = format_value(theirs.median / row.ratio, (high - low) / 2, "cycles")
        return (
            f"If printing has the share in the original report's call that it has here, {rest} of its "
            f"{theirs.median:.2f} cycles (median) are the call alone."
        )
    return None


def _over_silent(side: Side) -> list[Column[str]]:
    """Return the columns of how each call compares with the silent one, and the printing's share of it."""
    unit = "instructions" if side.unit == "instructions" else "time"

    def compared(read: Callable[[ComparedMetric], str | None]) -> Callable[[str], str | None]:
        def cell(call: str) -> str | None:
            row = None if call == SILENT else printed(side, SILENT, call)
            return None if row is None else read(row)

        return cell

    def share(call: str) -> str | None:
        """Return the share that printing has of the call that prints, 1 - 1 / ratio, with its interval."""
        row = printed(side) if call == LOGGED else None
        if row is None or row.different != "yes" or not (row.ratio > 1 and min(row.ci95) > 0):
            return None
        low, high = (1 - 1 / end for end in row.ci95)
        return bounded_share(1 - 1 / row.ratio, low, high, FINEST)

    ratio = compared(ratio_text)
    return [
        text(f"{unit} / {SILENT}'s (95 %)", lambda call: "1" if call == SILENT else ratio(call)),
        text("different", compared(lambda row: row.different)),
        text(f"printing's share of the {unit} (95 %)", share),
    ]


def _table(_: Run, known: Sequence[Side]) -> Table:
    table: TableOf[str] = TableOf(
        "The new call beside others",
        (
            text("call", lambda call: call),
            *clocked.columns(known, lambda call: {"call": call}),
            *(column for side in known if side.metric != "cycles" for column in _over_silent(side)),
        ),
        "Medians of one call; intervals over the boots. Ratios are paired by boot.",
    )
    return table.of(CALLS)


def _figures(_: Run, known: Sequence[Side]) -> list[Figure]:
    return [
        clocked.drawn(f"{side.what} of a call", [(call, side, side.point(call=call)) for call in CALLS])
        for side in known
        if side.metric != "cycles"
    ]


section = Question(
    title="A new system call, and what its printing costs",
    experiment=("kernel.precious", "kernel.precious-wall"),
    rows=_known,
    headline=_headline,
    text=(_what, _original, lambda _, known: clocked.conditions(side.experiment for side in known)),
    tables=_table,
    figures=_figures,
    missing=lambda run: clocked.missing(run, "kernel.precious", "kernel.precious-wall"),
)

"""What the new call costs, with and without printing, beside the original report's figure."""

from __future__ import annotations

from dataclasses import replace

from oscope.figures.analysed import Analysed
from oscope.figures.words import iteration, listed
from oscope.labs.engine.words import bounded_share, ratio_text
from oscope.labs.kernel import CALLS, clocked
from oscope.labs.kernel.clocked import Side
from oscope.labs.syscalls import reference
from oscope.model.document import Figure, Section, Table
from oscope.model.factors import Level
from oscope.model.formatting import MISSING, format_value
from oscope.statistics import ComparedMetric, compare_within

TITLE = "A new system call, and what its printing costs"
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


def section(results: Analysed) -> Section | None:
    """Answer B1: what the call costs, and how much of it is the printing."""
    found = clocked.sides(results, *EXPERIMENTS)
    if not found:
        return None
    # A guest under the instructions clock has no cycles; one point of a side may still be missing.
    known = [side for side in found if any(side.point(call=call) for call in CALLS)]
    missing = clocked.missing(found[:2])
    if not known:
        return Section(TITLE, "", missing=missing) if missing else None
    return Section(
        title=TITLE,
        answer=_headline(results, known[0]),
        text=[
            _what(known),
            *_original(known),
            *clocked.conditions(known),
        ],
        tables=[_table(results, known)],
        figures=[each for side in known if side.metric != "cycles" for each in _figure(results, side)],
        missing=missing,
    )


def _what(known: list[Side]) -> str:
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


def _headline(results: Analysed, side: Side) -> str:
    silent, logged = (side.summary(results, call=call) for call in (SILENT, LOGGED))
    if silent is None or logged is None or printed(side) is None:
        alone, name = (logged, LOGGED) if silent is None else (silent, SILENT)
        return "" if alone is None else f"{name} takes {side.value(alone)}; its other form was not measured."
    return (
        f"The call takes {side.value(silent)} in silence and {side.value(logged)} with its line in the log."
    )


def _share(row: ComparedMetric) -> str:
    """Return the share that printing has of the call that prints, 1 - 1 / ratio, with its interval."""
    if not (row.ratio > 1 and min(row.ci95) > 0):
        return MISSING
    low, high = (1 - 1 / end for end in row.ci95)
    return bounded_share(1 - 1 / row.ratio, low, high, FINEST)


def _original(known: list[Side]) -> list[str]:
    """Say what the ratio makes of the original report's figure; only of a ratio that is one."""
    theirs = reference.MY_PRECIOUS
    for side in known:
        row = printed(side)
        if row is None or row.different != "yes" or row.ratio <= 1:
            continue
        low, high = (theirs.median / end for end in reversed(row.ci95))
        rest = format_value(theirs.median / row.ratio, (high - low) / 2, "cycles")
        return [
            (
                f"If printing has the share in the original report's call that it has here, {rest} of its "
                f"{theirs.median:.2f} cycles (median) are the call alone."
            )
        ]
    return []


def _points() -> list[dict[str, Level]]:
    return [{"call": call} for call in CALLS]


def _table(results: Analysed, known: list[Side]) -> Table:
    clocks = [side for side in known if side.metric != "cycles"]
    lines, heads = (
        [[call, *row] for call, row in zip(CALLS, clocked.columns(results, known, _points()), strict=True)],
        [],
    )
    for side in clocks:
        unit = "instructions" if side.unit == "instructions" else "time"
        heads += [f"{unit} / {SILENT}'s (95 %)", "different", f"printing's share of the {unit} (95 %)"]
        for line, call in zip(lines, CALLS, strict=True):
            row = None if call == SILENT else printed(side, SILENT, call)
            share = _share(row) if row is not None and call == LOGGED and row.different == "yes" else MISSING
            line += ["1", MISSING, MISSING] if call == SILENT else [ratio_text(row), _different(row), share]
    columns = ["call", *clocked.headings(results, known, _points()), *heads]
    numeric = frozenset(range(1, len(columns) - len(heads)))
    note = "Medians of one call; intervals over the boots. Ratios are paired by boot."
    return Table("The new call beside others", columns, lines, numeric, note)


def _different(row: ComparedMetric | None) -> str:
    return MISSING if row is None else row.different


def _figure(results: Analysed, side: Side) -> list[Figure]:
    points = [(call, point) for call in CALLS if (point := side.point(call=call)) is not None]
    return [side.drawn(results, f"{side.what} of a call", points)]

"""What the new call costs, with and without printing, beside the original report's figure."""

from __future__ import annotations

from dataclasses import replace

from oscope.figures.analysed import Analysed
from oscope.figures.words import iteration, listed
from oscope.labs.engine.words import bounded_share, not_different, ratio_text
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
    f"{SILENT} is a call that returns 0. With kernel.my_precious_log = 0 it does nothing else; as {LOGGED} "
    "(= 2) it writes a line to the kernel's log each time, as the original report's does. Both are the same "
    "call of "
    "the same kernel, by one setting; a sample is {each}. The console shows none of the lines; the log is "
    "full after some 4000, and from then on each line also makes room for itself: the repetitions before "
    "cost less."
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
            *(text for side in known if side.metric != "cycles" for text in _details(side)),
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


def _details(side: Side) -> list[str]:
    """Say what share the printing is, and how the silent call compares with getppid."""
    row = printed(side)
    if row is None:
        return []
    kind = "instructions" if side.unit == "instructions" else "time"
    said = f"By {kind}, the call with its line in the log takes {ratio_text(row)} times"
    if row.different != "yes":
        return [f"{said}, {not_different(row)}."]
    bare = printed(side, BARE, SILENT)
    beside = "" if bare is None else f" Against {BARE} the silent call is {ratio_text(bare)} times."
    return [f"{said}, so that the printing is {_share(row)} of it.{beside}"]


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
        rest = theirs.median / row.ratio
        bounds = [theirs.median / end for end in reversed(row.ci95)]
        word = "instructions" if side.unit == "instructions" else "time"
        return [
            (
                f"The original report measured {theirs.mean:.2f} cycles (median {theirs.median:.2f}, "
                "standard "
                f"deviation {theirs.deviation:.2f}) for its call, which prints, once each, on another "
                "machine and kernel, and gives them as the cost of a system call. If the printing had the "
                f"share there that it has of our {word}, the call alone would have taken "
                f"{format_value(rest, (bounds[1] - bounds[0]) / 2, 'cycles')}: its figure is mostly that of "
                "printing."
            )
        ]
    return []


def _points() -> list[dict[str, Level]]:
    return [{"call": call} for call in CALLS]


def _table(results: Analysed, known: list[Side]) -> Table:
    rows = clocked.columns(results, known, _points())
    ratios = ["", *(ratio_text(printed(known[0], SILENT, call)) for call in CALLS[1:])]
    lines = [[call, *row, ratio or "1"] for call, row, ratio in zip(CALLS, rows, ratios, strict=True)]
    unit = "instructions" if known[0].unit == "instructions" else "time"
    columns = ["call", *clocked.headings(results, known, _points()), f"{unit} / {SILENT}'s (95 %)"]
    note = (
        "Medians of one call; intervals over the boots. The ratio is paired by boot and of the first clock."
    )
    return Table("The new call beside others", columns, lines, frozenset(range(1, len(columns) - 1)), note)


def _figure(results: Analysed, side: Side) -> list[Figure]:
    points = [(call, point) for call in CALLS if (point := side.point(call=call)) is not None]
    return [side.drawn(results, f"{side.what} of a call", points)]

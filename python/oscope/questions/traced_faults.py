"""What sections show of traced page faults: which, where, of which kind, how long and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oscope.figures import plots
from oscope.figures.traced import Traced
from oscope.model.document import Figure
from oscope.questions import histograms
from oscope.questions.section_text import nanoseconds, over
from oscope.questions.table import TableOf, count, share, text, written
from oscope.questions.traced import effect_column, effect_note

LEAST_SHARE = 0.01
"""Share of a point's faults or of their time below which a row is left out."""
MOST_LINES = 7
"""Lines a figure can show apart."""

Fault = Mapping[str, Any]
"""The faults of one class, access and kind at a point."""


def fault_count(each: Traced) -> int | None:
    """Return how many faults there were; None where they were not traced."""
    faults = each.reading.get("faults")
    return None if faults is None else sum(row["count"] for row in faults)


def commonest(each: Traced) -> Fault:
    """Return the faults of the class, access and kind of which there are most."""
    found: Fault = max(each.reading["faults"], key=lambda row: row["count"])
    return found


FAULTS: TableOf[tuple[Traced, Fault]] = TableOf(
    "Page faults by class, access and kind",
    text("point", lambda row: row[0].name),
    text("kind", lambda row: row[1]["kind"]),
    text("class", lambda row: row[1]["class"]),
    text("access", lambda row: row[1]["access"]),
    text("present", lambda row: "yes" if row[1]["present"] else "no"),
    text("by", lambda row: row[1]["by"]),
    count("faults", lambda row: row[1]["count"]),
    written("mean", lambda row: over(row[1]["time_ns"], row[1]["count"]), nanoseconds),
    *histograms.columns(lambda row: row[1].get("times", [])),
    share("of the time", lambda row: over(row[1]["time_ns"], row[0].time_ns)),
    effect_column(lambda row: row[0]),
    note=f"All traced repetitions together; what makes less than {LEAST_SHARE:.0%} of a point's faults and "
    "of their time is left out. Percentiles are known to a power of two.",
)


def fault_rows(each: Traced) -> list[Fault]:
    """Return the rows of a point's faults that are no trifle, the commonest first."""
    faults = sorted(each.reading["faults"], key=lambda row: -row["count"])
    number, spent = (sum(row[name] for row in faults) for name in ("count", "time_ns"))
    shares = ((row, max(row["count"] / number, row["time_ns"] / max(spent, 1))) for row in faults)
    return [row for row, share in shares if share >= LEAST_SHARE]


def fault_figures(found: Sequence[Traced]) -> list[Figure]:
    """Draw how long faults take, and how many there are over the time of a repetition."""
    ordered = sorted(found, key=lambda each: -sum(row["count"] for row in each.reading["faults"]))
    busiest = ordered[:MOST_LINES]
    tops = [(each.name, commonest(each)) for each in busiest]
    rows = {f"{name}: {top['kind']}": top["times"] for name, top in tops if top.get("times")}
    left = "" if len(busiest) == len(found) else f"The {MOST_LINES} points with most faults. "
    note = f"{left}{effect_note(busiest)}"
    lines = [
        plots.Line(each.name, _rate(each), colour)
        for colour, each in enumerate(busiest)
        if len(each.reading.get("fault_rate", ())) > 1
    ]
    time = plots.axis("time since the region's begin [ms]")
    axes = (time, plots.axis("faults a ms", rangemode="tozero"))
    return [
        histograms.figure("Time of a page fault", "time of a fault [ns]", rows, note),
        plots.lines("Page faults over the time of a repetition", axes, lines, note),
    ]


def _rate(each: Traced) -> list[tuple[float, plots.Dot]]:
    """Return faults a ms of one region over the time since its begin, in ms."""
    row = []
    for low, high, faults in each.reading["fault_rate"]:
        width = (high + 1 - low) / 1e6
        middle = float(f"{(low + high + 1) / 2e6:.5g}")
        row.append((middle, plots.Dot("", faults / width / each.reading["regions"])))
    return sorted(row, key=lambda pair: pair[0])

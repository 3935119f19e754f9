"""A comparison on a terminal: a table of answers, the differences in words, the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from rich.console import Console
from rich.table import Table
from rich.text import Text

from oscope.figures.analysed import label, levels
from oscope.model import formatting
from oscope.model.clocks import counted
from oscope.model.samples import ExperimentResults
from oscope.model.units import format_share
from oscope.report.terminal import aligned, grid, print_prose, table_width
from oscope.statistics import ComparedMetric, Comparison
from oscope.statistics.wording import tail_sentence

LARGEST_RATIO = 100
"""Beyond it the figure of a ratio says no more than that the samples do not allow one."""


def print_comparison(experiment: ExperimentResults, comparison: Comparison, out: Console) -> None:
    """Print a row for each metric and point, then the differences in words, the verdict, and caveats.

    Of the slow tail there is a line for each quantile that differs, and nothing where none does.
    """
    title = f": B ({comparison.label_b}) against A ({comparison.label_a})"
    out.print(Text.assemble((experiment.experiment, "bold"), title))
    rows = comparison.rows
    varied = _varied(rows)
    out.print(comparison_table(experiment, rows, out.width))
    for row in rows:
        # The other metrics of a point mostly say the same; the table has them.
        if row.different == "yes" and row.metric == experiment.headline:
            print_prose(f"{label(experiment, row.factors, varied) or row.metric}: {row.sentence}", out)
    for tail in comparison.tails:
        if tail.different:
            where = label(experiment, tail.factors, varied) or tail.metric
            print_prose(f"slow tail of {where}: {tail_sentence(tail)}", out)
    print_prose(verdict(comparison), out, style="bold")
    for caveat in comparison.caveats:
        print_prose(f"note: {caveat}", out)
    out.print()


def _varied(rows: Sequence[ComparedMetric]) -> list[str]:
    return [name for name in rows[0].factors if len({row.factors.get(name) for row in rows}) > 1]


def comparison_table(experiment: ExperimentResults, rows: Sequence[ComparedMetric], width: int) -> Table:
    """Return the table of a comparison: always the answers, and the figures behind them that fit."""
    columns = [[name, *(levels(experiment, row.factors)[name] for row in rows)] for name in _varied(rows)]
    columns.append(["metric", *(row.metric for row in rows)])
    columns += _medians(rows)
    columns.append(aligned(["B/A", *map(_marked_ratio, rows)]))
    columns.append(["different", *(row.different for row in rows)])
    columns.append(["matters", *(row.matters for row in rows)])
    change = aligned(["difference", *map(_difference, rows)])
    interval = ["95 % interval", *(" to ".join(_ratio(row, side) for side in row.ci95) for row in rows)]
    detectable = aligned(["detectable", *(_detectable(row.detectable) for row in rows)])
    exact = any(counted(row.unit) for row in rows)
    # Of a count of instructions the difference itself is what is looked for.
    order = (change, interval, detectable) if exact else (interval, detectable, change)
    for further in order:
        if table_width([*columns, further]) <= width:
            columns.append(further)
    return grid(columns)


def _marked_ratio(row: ComparedMetric) -> str:
    """Return B over A, with a mark where it is not that of the medians beside it: a note says why."""
    return f"{_ratio(row, row.ratio)}{' *' if row.at_one_speed else ''}"


def verdict(comparison: Comparison) -> str:
    """Tell in one sentence what all rows together say."""
    rows = comparison.rows
    alike = [row for row in rows if row.different != "yes"]
    threshold = format_share(comparison.threshold)
    told = []
    if alike:
        sizes = [row.detectable for row in alike if isfinite(row.detectable)]
        span = " to ".join(dict.fromkeys(map(_detectable, (min(sizes), max(sizes))))) if sizes else ""
        told.append(
            f"no difference found in {len(alike)} of {len(rows)}"
            + (f" (one of {span} would have been)" if span else "")
        )
    if len(alike) < len(rows):
        matter = sum(row.matters == "yes" for row in rows)
        told.append(f"{len(rows) - len(alike)} of {len(rows)} differ, {matter} by more than {threshold}")
    unsure = sum(row.matters == "cannot tell" for row in rows)
    if unsure:
        told.append(f"whether a difference exceeds {threshold} cannot be told for {unsure}")
    return "; ".join(told)


def _medians(rows: Sequence[ComparedMetric]) -> list[list[str]]:
    """Return the columns of both sides' medians and of their unit, which stands once where both have it."""
    sides = [[_median(row, value) for value in (row.median_a, row.median_b)] for row in rows]
    units = []
    for row, pair in zip(rows, sides, strict=True):
        numbers, names = zip(*(text.rpartition(" ")[::2] for text in pair), strict=True)
        shared = names[0] if names[0] == names[1] and all(numbers) else ""
        # What counts the metric's own name needs no unit.
        units.append("" if shared == row.metric else shared)
        if shared:
            pair[:] = numbers
    a, b = ([pair[side] for pair in sides] for side in (0, 1))
    return [aligned(["A", *a]), aligned(["B", *b]), ["unit", *units]]


def _median(row: ComparedMetric, value: float) -> str:
    """Write the median of a side with the digits that the interval of the ratio allows."""
    half = abs(row.median_a) * (row.ci95[1] - row.ci95[0]) / 2
    return formatting.format_value(value, half if isfinite(half) else None, row.unit)


def _ratio(row: ComparedMetric, ratio: float) -> str:
    """Write a ratio with the digits that its interval allows."""
    if ratio > LARGEST_RATIO:
        return f">{LARGEST_RATIO}"
    return formatting.format_value(ratio, min(row.ci95[1] - row.ci95[0], 1.0) / 2, "")


def _difference(row: ComparedMetric) -> str:
    """Write B less A in the metric's unit, with the digits that its interval allows."""
    half = abs(row.median_a) * (row.ci95[1] - row.ci95[0]) / 2
    text = formatting.format_value(row.difference, half if isfinite(half) else None, row.unit)
    if row.unit == row.metric:
        text = text.partition(" ")[0]
    return f"+{text}" if row.difference > 0 and any(digit in text for digit in "123456789") else text


def _detectable(share: float) -> str:
    return f">{LARGEST_RATIO * 100} %" if share > LARGEST_RATIO else formatting.format_share(share)

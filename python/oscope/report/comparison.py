"""A comparison as a table of answers, the differences in words, the verdict; and on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite

from rich.console import Console
from rich.text import Text

from oscope.figures.analysed import label, levels, plain_levels
from oscope.model import formatting
from oscope.model.clocks import counted
from oscope.model.document import Table
from oscope.model.factors import Level
from oscope.model.samples import ExperimentResults
from oscope.programs.findings import SUBJECTS
from oscope.report.comparison_verdict import detectable_text, verdict
from oscope.report.terminal import aligned, print_columns, print_prose, table_room, table_width, without
from oscope.statistics import ComparedMetric, Comparison
from oscope.statistics.compared import FINEST_RATIO, LARGEST_RATIO
from oscope.statistics.comparison_text import tail_sentence
from oscope.statistics.effect import LEVEL
from oscope.statistics.interval import Interval
from oscope.statistics.multiplicity import one_of_each_quantity, quantity
from oscope.statistics.quantiles import TailDifference
from oscope.statistics.summary import summarise_point

Known = tuple[Interval | None, Interval | None]
"""The 95 % intervals of both medians of a row, where they are known."""
KnownIntervals = Callable[[ComparedMetric], Known]
"""Gives the 95 % intervals of both medians of a row, where they are known."""
NOT_OF_MEDIANS = (
    "B/A is estimated from the blocks, each of them a process; it can differ from the ratio of the two "
    "medians beside it, which are of all samples"
)
MARK = "†"
"""Beside a B/A that is not the ratio of the two medians; `*` marks what is at one speed of the core."""
_MOST_QUOTED = 5
"""Ratios of medians that the explanation of the mark gives one by one."""
ABOUT_AS_LARGE = 10
"""Up to this ratio both medians of a row have equal digits after the point."""


def print_comparison(
    experiment: ExperimentResults,
    comparison: Comparison,
    out: Console,
    sides: KnownIntervals | None = None,
    noted: set[str] | None = None,
) -> None:
    """Print the verdict and the differences in words, then a row for each quantity and point, and caveats.

    Of the slow tail there is a line for each quantile that differs, and nothing where none does. What is in
    `noted` was printed with another experiment and is left out; what is printed is added.
    """
    comparison, others = each_quantity_once(experiment, comparison)
    title = f": B ({comparison.label_b}) against A ({comparison.label_a})"
    out.print(Text.assemble((experiment.experiment, "bold"), title))
    if same := common_levels(experiment, comparison):
        print_prose(same, out, style="dim")
    print_prose(verdict(comparison, experiment), out, style="bold")
    for text in differences(experiment, comparison, sides):
        print_prose(text, out)
    out.print()
    columns, alike, hidden = _fitting(experiment, comparison.rows, sides, table_room(out))
    print_columns(columns, out, names=len(_varied(comparison.rows)))
    if alike:
        print_prose(f"in every row: {', '.join(alike)}", out)
    if hidden:
        print_prose(without(hidden), out, style="dim")
    noted = set() if noted is None else noted
    texts = [*remarks(comparison), *(f"note: {text}" for text in (*comparison.caveats, *others))]
    for text in texts:
        if text not in noted:
            print_prose(text, out)
    noted.update(texts)
    out.print()


def differences(
    experiment: ExperimentResults, comparison: Comparison, sides: KnownIntervals | None = None
) -> Iterator[str]:
    """Yield a sentence for each point whose headline differs, and for each quantile of the slow tail."""
    rows = comparison.rows
    varied = _varied(rows)
    for row, pair in zip(rows, _known(rows, sides), strict=True):
        # The other metrics of a point mostly say the same; the table has them.
        if row.different == "yes" and row.metric == experiment.headline:
            yield f"{_named(experiment, row, varied)}: {_change(row, pair)}: {row.sentence}"
    for tail in comparison.tails:
        if tail.different:
            yield f"slow tail of {_named(experiment, tail, varied)}: {tail_sentence(tail)}"


def _named(experiment: ExperimentResults, of: ComparedMetric | TailDifference, varied: Sequence[str]) -> str:
    """Name a metric at a point."""
    return " · ".join(filter(None, (label(experiment, of.factors, varied), of.metric)))


def _change(row: ComparedMetric, pair: Known) -> str:
    """Return both medians, `2.71 → 1.50 ms`, and their ratio where the sentence that follows has another."""
    text = f"{_median(row, 0, pair)} → {_median(row, 1, pair)} {_scale(row).unit}".rstrip()
    if not row.is_unlike_medians:
        return text
    return f"{text} (medians of all samples, {_ratio(row, row.ratio_of_medians)} times A's); block by block"


def each_quantity_once(
    experiment: ExperimentResults, comparison: Comparison, elsewhere: str = "with --format csv"
) -> tuple[Comparison, tuple[str, ...]]:
    """Return the rows without those that repeat another one in another unit, and a note that names these.

    `elsewhere` says how to see them.
    """
    metrics = list(dict.fromkeys(row.metric for row in comparison.rows))
    shown = one_of_each_quantity(metrics, experiment.headline)
    left_out = [name for name in metrics if name not in shown.values()]
    if not left_out:
        return comparison, ()
    points = {_point(row) for row in comparison.rows if row.metric not in left_out}
    rows = tuple(row for row in comparison.rows if row.metric not in left_out or _point(row) not in points)
    instead = ", ".join(f"{name} as {shown[quantity(name)]}" for name in left_out)
    return replace(comparison, rows=rows), (f"in other units, {elsewhere}: {instead}",)


def _point(row: ComparedMetric) -> tuple[object, ...]:
    """Return the point and the quantity that a row is about."""
    return quantity(row.metric), *sorted(row.factors.items())


def common_levels(experiment: ExperimentResults, comparison: Comparison) -> str:
    """Return what all rows have in common, `command=prog, …`: no column has it."""
    rows = comparison.rows
    varied = _varied(rows) if rows else []
    written = levels(experiment, rows[0].factors) if rows else {}
    return ", ".join(f"{name}={text}" for name, text in written.items() if name not in varied)


def _varied(rows: Sequence[ComparedMetric]) -> list[str]:
    return [name for name in rows[0].factors if len({row.factors.get(name) for row in rows}) > 1]


def _with_columns(rows: Sequence[ComparedMetric], *, plain: bool) -> list[str]:
    """Return the factors that have a column: those that vary, and for a program what a bench measures."""
    varied = _varied(rows)
    return [name for name in rows[0].factors if name in varied or (plain and name in SUBJECTS)]


def comparison_table(
    experiment: ExperimentResults,
    comparison: Comparison,
    sides: KnownIntervals | None = None,
    *,
    each_unit: bool = False,
) -> Table:
    """Return the comparison as a table: for a document, or with `each_unit` of a quantity for a program."""
    # The verdict counts quantities, whatever the units are that they are written in.
    once, others = each_quantity_once(experiment, comparison)
    comparison = comparison if each_unit else once
    columns, further = _columns(experiment, comparison.rows, sides, plain=each_unit)
    texts = [[cell.strip() for cell in column] for column in (*columns, *further)]
    named = len(_with_columns(comparison.rows, plain=each_unit)) + 1
    words = ("unit", "different", "matters")
    notes = [verdict(once, experiment), *_caveats_without_marks(comparison)]
    if not each_unit:
        notes = [*remarks(comparison), verdict(once, experiment), *comparison.caveats, *others]
    return Table(
        f"{experiment.experiment}: B ({comparison.label_b}) against A ({comparison.label_a})",
        [heading for heading, *_ in texts],
        [list(row) for row in zip(*(cells for _, *cells in texts), strict=True)],
        frozenset(i for i, (heading, *_) in enumerate(texts) if i >= named and heading not in words),
        note="\n".join(notes),
        plain=plain_levels(experiment, [row.factors for row in comparison.rows], _varied(comparison.rows)),
    )


def _fitting(
    experiment: ExperimentResults, rows: Sequence[ComparedMetric], sides: KnownIntervals | None, room: int
) -> tuple[list[list[str]], list[str], list[str]]:
    """Return the columns that fit: always the answers, then the figures behind them.

    Where the answers do not fit, a metric or an answer that all rows share is no column but a text, and then
    `matters` is left out. Last come the headings of what has no room.
    """
    columns, further = _columns(experiment, rows, sides, plain=False)
    alike, hidden = [], []
    for column in list(columns):
        heading, *cells = column
        shared = heading in ("metric", "different", "matters") and len(cells) > len(set(cells)) == 1
        if shared and table_width(columns) > room:
            columns.remove(column)
            alike.append(f"{heading} {cells[0]}")
    # The sentence above the table counts what matters.
    if table_width(columns) > room and columns[-1][0] == "matters":
        hidden.append(columns.pop()[0])
    for column in further:
        if not alike and not hidden and table_width([*columns, column]) <= room:
            columns.append(column)
        else:
            hidden.append(column[0])
    return columns, alike, hidden


def _columns(
    experiment: ExperimentResults,
    rows: Sequence[ComparedMetric],
    sides: KnownIntervals | None,
    *,
    plain: bool,
) -> tuple[list[list[str]], list[list[str]]]:
    """Return the columns that are always there, and those that need room, the most needed first.

    `plain`: each figure is a number alone, a difference in the row's unit and the mde as a share. Otherwise
    a B/A that is not the ratio of the two medians has the mark that `remarks` explains.
    """
    columns = [
        [name, *(levels(experiment, row.factors)[name] for row in rows)]
        for name in _with_columns(rows, plain=plain)
    ]
    columns.append(["metric", *(row.metric for row in rows)])
    # Of a count of instructions the difference itself is what is looked for.
    exact, known = _is_exact(rows), _known(rows, sides)
    columns += _medians(rows, known, plain=plain)
    columns.append(aligned(["B/A", *(_marked_ratio(row, plain=plain) for row in rows)]))
    columns.append(["different", *(row.different for row in rows)])
    columns.append(["matters", *(row.matters for row in rows)])
    change = aligned(["difference", *(_difference(row, plain=plain) for row in rows)])
    interval = ["95 % interval", *(_ratio_interval(row, plain=plain) for row in rows)]
    detectable = aligned(["mde", *(_detectable(row, plain=plain) for row in rows)])
    if exact:
        return columns, [change, interval, detectable]
    medians = [
        [f"95 % interval of {name}", *(_side(row, side, pair) for row, pair in zip(rows, known, strict=True))]
        for side, name in enumerate("AB")
        if sides is not None
    ]
    return columns, [interval, *medians, detectable, change]


def intervals(
    a: ExperimentResults,
    b: ExperimentResults,
    comparison: Comparison,
    by: tuple[str, Level, Level] | None = None,
) -> KnownIntervals:
    """Return what gives the 95 % intervals of both medians of a row; `by` is a factor and its two levels."""

    def of(results: ExperimentResults, row: ComparedMetric, level: Mapping[str, Level]) -> Interval | None:
        point = results.point(**row.factors, **level)
        return None if point is None else summarise_point(results, point, row.metric).ci95

    levels = ({}, {}) if by is None else ({by[0]: by[1]}, {by[0]: by[2]})
    found = {
        id(row): (of(a, row, levels[0]), of(b, row, levels[1]))
        for row in comparison.rows
        if row.metric in a.metrics and row.metric in b.metrics
    }
    return lambda row: found.get(id(row), (None, None))


def _is_exact(rows: Sequence[ComparedMetric]) -> bool:
    return any(counted(row.unit) for row in rows)


def _known(rows: Sequence[ComparedMetric], sides: KnownIntervals | None) -> list[Known]:
    """Return the intervals of each row's medians; none where instructions are counted."""
    return [(None, None) if sides is None or _is_exact(rows) else sides(row) for row in rows]


def _side(row: ComparedMetric, side: int, intervals: Known) -> str:
    """Write the interval of a side's median in the unit and with the digits of the median beside it."""
    return _digits(row, side, intervals).span(intervals[side])


def _marked_ratio(row: ComparedMetric, *, plain: bool) -> str:
    """Return B over A, with a mark where it is not that of the medians beside it."""
    mark = " *" if row.at_one_speed else f" {MARK}" if row.is_unlike_medians else ""
    return f"{_ratio(row, row.ratio, plain=plain)}{'' if plain else mark}"


def remarks(comparison: Comparison) -> tuple[str, ...]:
    """Return the lines directly below a table, for what looks as if it contradicted itself."""
    found = (_explained_mark(comparison.rows), _explained_correction(comparison.rows))
    return tuple(filter(None, found))


def _explained_mark(rows: Sequence[ComparedMetric]) -> str:
    """Say what the mark means, and which ratios the two medians have; empty where no row has it."""
    ratios = [_ratio(row, row.ratio_of_medians) for row in rows if row.is_unlike_medians]
    if not ratios:
        return ""
    text = f"{MARK} B/A is estimated block by block; the two medians are of all samples: "
    if len(ratios) == 1:
        return f"{text}their ratio is {ratios[0]}"
    more = ", …" if len(ratios) > _MOST_QUOTED else ""
    return f"{text}their ratios, from top to bottom, are {', '.join(ratios[:_MOST_QUOTED])}{more}"


def _explained_correction(rows: Sequence[ComparedMetric]) -> str:
    """Say why an answer is "cannot tell" beside an interval that excludes 1; empty where none is."""
    families = dict.fromkeys((row.tests, row.correction) for row in rows if _is_undone_by_correction(row))
    if not families:
        return ""
    which = " or ".join(f"{tests} rows ({correction})" for tests, correction in families)
    return (
        "cannot tell though the 95 % interval excludes 1: "
        f"the row alone would differ, but not after the correction for {which}"
    )


def _is_undone_by_correction(row: ComparedMetric) -> bool:
    """Whether the row alone would differ, by its interval and its p, but not among the others."""
    low, high = row.ci95
    excluded = low > 1 or high < 1
    return row.different == "cannot tell" and excluded and row.p < LEVEL <= row.p_holm


def _caveats_without_marks(comparison: Comparison) -> tuple[str, ...]:
    """Return the caveats for a table without marks, with one where B/A and the medians seem to contradict."""
    if not any(row.is_unlike_medians for row in comparison.rows):
        return comparison.caveats
    return (*comparison.caveats, NOT_OF_MEDIANS)


def _medians(rows: Sequence[ComparedMetric], known: Sequence[Known], *, plain: bool) -> list[list[str]]:
    """Return the columns of both sides' medians and of the unit of each row."""
    names = [(row.metric, _scale(row).unit) for row in rows]
    # To a person what counts the metric's own name needs no unit.
    units = ["" if unit == metric and not plain else unit for metric, unit in names]
    pairs = list(zip(rows, known, strict=True))
    return [
        aligned(["A", *(_median(row, 0, pair) for row, pair in pairs)]),
        aligned(["B", *(_median(row, 1, pair) for row, pair in pairs)]),
        ["unit", *units],
    ]


def _scale(row: ComparedMetric) -> formatting.Scale:
    """Return the unit that a row's medians and their intervals share: that of the larger one."""
    return formatting.Scale.choose([row.median_a, row.median_b], [None], row.unit)


def _median(row: ComparedMetric, side: int, intervals: Known = (None, None)) -> str:
    """Write the median of a side, 0 or 1, in the row's unit, with the digits that `_digits` gives it."""
    return _digits(row, side, intervals).text((row.median_a, row.median_b)[side])


def _digits(row: ComparedMetric, side: int, intervals: Known) -> formatting.Scale:
    """Return the digits of a side's median: the most of those by the ratio's interval and the medians' own.

    Its interval is written with them as well, so that what is rounded is never beyond what it lies between;
    and so is the other side where it is about as large, so that what is equal reads so.
    """
    values, scale = (row.median_a, row.median_b), _scale(row)
    found = [scale.row(values[side], _half(row))]
    small, large = sorted(map(abs, values))
    for place, interval in enumerate(intervals):
        if interval is not None and (place == side or large < ABOUT_AS_LARGE * small):
            low, high = interval
            found.append(scale.row((low + high) / 2, (high - low) / 2 or None))
    return max(found, key=lambda each: each.decimals)


def _half(row: ComparedMetric) -> float | None:
    """Return half the interval of the difference, in the metric's unit; None where nothing limits it.

    Of single readings nothing is known but themselves, and they keep their digits.
    """
    half = abs(row.median_a) * (row.ci95[1] - row.ci95[0]) / 2
    return half if isfinite(half) and not row.is_of_single_blocks else None


def _ratio(row: ComparedMetric, ratio: float, *, plain: bool = False) -> str:
    """Write a ratio with the digits that its interval allows, at most four after the point."""
    if ratio > LARGEST_RATIO and not plain:
        return f">{LARGEST_RATIO}"
    half = min(row.ci95[1] - row.ci95[0], 1.0) / 2
    return formatting.format_value(ratio, max(half, FINEST_RATIO) if half else None, "")


def _ratio_interval(row: ComparedMetric, *, plain: bool) -> str:
    if not isfinite(row.ratio) or row.is_of_single_blocks:
        return formatting.MISSING
    return " to ".join(_ratio(row, side, plain=plain) for side in row.ci95)


def _difference(row: ComparedMetric, *, plain: bool) -> str:
    """Write B less A in the row's unit, with the digits that its interval allows."""
    half = _half(row)
    if half and not plain and not counted(row.unit):
        half = max(half, FINEST_RATIO * abs(row.median_a))
    text = _scale(row).row(row.difference, half).text(row.difference)
    is_more = not plain and row.difference > 0 and any(digit in text for digit in "123456789")
    return f"+{text}" if is_more else text


def _detectable(row: ComparedMetric, *, plain: bool) -> str:
    return formatting.MISSING if row.is_of_single_blocks else detectable_text(row.detectable, plain=plain)

"""What a comparison shows: digits, units, and that no figure contradicts the one beside it."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
from rich.console import Console

import synthetic
from oscope.report.comparison import (
    MARK,
    comparison_table,
    differences,
    intervals,
    print_comparison,
    remarks,
)
from oscope.report.comparison_verdict import verdict
from oscope.statistics import ComparedMetric, compare_results
from test_statistics_compare import constant, sides


def test_ratios_and_shares_have_no_more_digits_than_are_of_use() -> None:
    a, b = sides()
    found = compare_results(a, b)
    first = found.rows[0]
    alike = replace(
        first, different="no", ratio=1.0, ci95=(0.999_999_999, 1.000_000_001), detectable=1e-8, unit=""
    )
    narrow = replace(alike, ratio=1.012_345_678, ci95=(1.012_345_6, 1.012_345_7), detectable=0.62)
    both = replace(found, rows=(alike, narrow))
    assert "(a difference of less than 0.01 % to 62 % would have been found)" in verdict(both)
    table = comparison_table(a, both)
    shown = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["95 % interval"] for row in shown] == ["1.0000 to 1.0000", "1.0123 to 1.0123"]
    assert [row["B/A"].split()[0] for row in shown] == ["1.0000", "1.0123"]


def test_a_figure_in_several_units_is_one_row_on_the_screen_and_each_unit_for_programs() -> None:
    a, b = (replace(synthetic.cost(seed=seed), run_id=f"run{seed}") for seed in (1, 2))
    both = compare_results(a, b)
    assert {row.metric for row in both.rows} == {"time_ns", "cycles"}
    out = Console(record=True, width=200)
    print_comparison(a, both, out)
    screen = out.export_text()
    assert f"of {len(both.rows) // 2}" in screen
    assert "in other units, with --format csv: cycles as time_ns" in screen
    assert len(comparison_table(a, both).rows) == len(both.rows) // 2
    each_unit = comparison_table(a, both, each_unit=True)
    assert len(each_unit.rows) == len(both.rows)
    assert each_unit.note.startswith(comparison_table(a, both).note.partition("\n")[0])
    # Where one unit alone was compared at a point, its row stays.
    first = next(row for row in both.rows if row.metric == "time_ns")
    fewer = replace(both, rows=tuple(row for row in both.rows if row is not first))
    assert len(comparison_table(a, fewer).rows) == len(both.rows) // 2


def test_a_median_lies_within_its_interval_as_both_are_written() -> None:
    """Of one process a side the ratio is known less well than each median."""
    a, b = (
        replace(side, points=(side.points[0].only(side.points[0].block == 0),))
        for side in (constant(each, 878.8011757954416) for each in sides())
    )
    comparison = compare_results(a, b)
    table = comparison_table(a, comparison, intervals(a, b, comparison))
    assert len(table.rows) == len(comparison.rows)
    for cells in table.rows:
        row = dict(zip(table.columns, cells, strict=True))
        for side in "AB":
            low, _, high = row[f"95 % interval of {side}"].partition(" to ")
            assert float(low) <= float(row[side]) <= float(high)
            assert len(row[side].partition(".")[2]) == len(low.partition(".")[2])


def test_equal_medians_are_written_alike_however_wide_their_intervals_are() -> None:
    a, b = (constant(side, 170.5) for side in sides())
    values = b.points[0].metrics["time_ns"]
    # Half of the samples lie above, half below: the median is the same, and not known as well.
    values[1::2], values[0::2] = 200.0, 141.0
    comparison = compare_results(a, b)
    table = comparison_table(a, comparison, intervals(a, b, comparison))
    [row] = (dict(zip(table.columns, cells, strict=True)) for cells in table.rows)
    assert row["A"] == row["B"] == "170.5"


def test_a_claim_beside_medians_that_change_by_another_share_is_marked() -> None:
    a, b = sides()
    found = compare_results(a, b)
    row = replace(found.rows[0], ratio=1.2, ci95=(1.1, 1.3), median_a=100.0, median_b=126.0, different="yes")
    [text] = remarks(replace(found, rows=(row,)))
    assert text.startswith(MARK)
    assert "their ratio is 1.26" in text
    [text] = remarks(
        replace(found, rows=(replace(row, different="cannot tell", ratio=0.95, ci95=(0.5, 2.0)),))
    )
    assert "their ratio is 1.26" in text
    for alike in (replace(row, median_b=121.0), replace(row, different="cannot tell")):
        assert remarks(replace(found, rows=(alike,))) == ()


def test_a_ratio_that_is_not_known_has_one_dash_for_its_interval() -> None:
    a, b = sides()
    found = compare_results(a, b)
    row = replace(found.rows[0], ratio=np.nan, ci95=(np.nan, np.nan))
    table = comparison_table(a, replace(found, rows=(row,)))
    [cells] = (dict(zip(table.columns, cells, strict=True)) for cells in table.rows)
    assert (cells["B/A"], cells["95 % interval"]) == ("–", "–")


def test_the_verdict_counts_what_is_undecided() -> None:
    a, b = sides()
    found = compare_results(a, b)
    row = replace(found.rows[0], different="cannot tell", matters="cannot tell", detectable=0.35)

    def of(*rows: ComparedMetric) -> str:
        return verdict(replace(found, rows=rows))

    assert of(row) == "undecided in 1 of 1 (a difference of 35 % would have been found)"
    few = of(row, replace(row, detectable=7.5))
    assert few.startswith("undecided in 2 of 2 (too few samples to see one below a factor of 1.4 to 8.5;")
    assert "take more: --reps, or a longer --budget" in few
    assert "a factor of more than 100;" in of(replace(row, detectable=1e300))
    one = {"clusters_a": 1, "clusters_b": 1}
    assert "one reading a side shows none" in of(replace(row, detectable=1e300, **one, n_a=1, n_b=1))
    assert of(replace(row, **one)).startswith(
        "undecided in 1 of 1 (one process a side shows none; take more: --reps"
    )
    differs = replace(row, different="yes")
    assert (
        of(differs) == "1 of 1 differ, 0 by more than 1 %; cannot tell of 1 of them whether by more than 1 %"
    )
    both = of(replace(row, different="no"), row)
    assert both.startswith("no difference found in 1 of 2 (")
    assert "; undecided in 1 of 2 (" in both
    assert both.count("no difference found") == 1


def test_the_screen_names_what_all_rows_have_in_common() -> None:
    a, b = sides()
    only = [replace(side, points=(replace(side.points[0], factors={"command": "prog"}),)) for side in (a, b)]
    found = compare_results(*only)
    out = Console(record=True, width=100, file=io.StringIO())
    print_comparison(only[0], found, out)
    assert out.export_text().splitlines()[1] == "command=prog"
    table = comparison_table(only[0], found, each_unit=True)
    assert [dict(zip(table.columns, row, strict=True))["command"] for row in table.rows] == ["prog"] * len(
        found.rows
    )
    assert "command" not in comparison_table(only[0], found).columns


def test_a_count_of_its_own_name_has_its_unit_for_programs() -> None:
    a, b = (replace(synthetic.cost(seed=seed), run_id=f"run{seed}") for seed in (1, 2))
    table = comparison_table(a, compare_results(a, b), each_unit=True)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert {row["unit"] for row in rows if row["metric"] == "cycles"} == {"cycles"}


def test_a_ratio_opposite_to_that_of_the_medians_is_marked_where_the_digits_show_it() -> None:
    a, b = sides()
    found = compare_results(a, b)
    row = replace(
        found.rows[0], different="no", ratio=0.998, ci95=(0.993, 1.003), median_a=175.9, median_b=176.3
    )
    shown = replace(found, rows=(row,))
    assert remarks(shown) == (
        f"{MARK} B/A is estimated block by block; the two medians are of all samples: their ratio is 1.0023",
    )
    hidden = replace(row, ci95=(0.5, 1.5), ratio=0.998)
    assert remarks(replace(found, rows=(hidden,))) == ()


def test_single_readings_keep_their_digits_and_have_no_interval() -> None:
    a, b = (
        replace(side, points=(side.points[0].only(np.arange(len(side.points[0])) == 0),))
        for side in (constant(each, value) for each, value in zip(sides(), (12_812.0, 13_104.0), strict=True))
    )
    comparison = compare_results(a, b)
    for each_unit in (False, True):
        table = comparison_table(a, comparison, intervals(a, b, comparison), each_unit=each_unit)
        [row] = (dict(zip(table.columns, cells, strict=True)) for cells in table.rows)
        assert (row["A"], row["B"], row["unit"]) == ("12.81", "13.10", "µs")
        assert (row["95 % interval"], row["mde"]) == ("–", "–")


def test_a_difference_is_in_the_unit_of_its_row() -> None:
    a, b = sides()
    found = compare_results(a, b)
    row = replace(found.rows[0], median_a=54_000.0, median_b=54_015.0, difference=15.0, ci95=(1.0002, 1.0004))
    table = comparison_table(a, replace(found, rows=(row, replace(row, median_a=540.0, median_b=555.0))))
    shown = [dict(zip(table.columns, cells, strict=True)) for cells in table.rows]
    assert [(each["unit"], each["difference"]) for each in shown] == [("µs", "+0.015"), ("ns", "+15.00")]


def test_a_sentence_gives_the_ratio_of_medians_that_have_another_one() -> None:
    a, b = sides()
    found = compare_results(a, b)
    row = replace(found.rows[0], ratio=1.2, ci95=(1.1, 1.3), median_a=100.0, median_b=126.0, different="yes")
    [text] = differences(a, replace(found, rows=(row,)))
    assert "100 → 126 ns (medians of all samples, 1.26 times A's); block by block: " in text
    [text] = differences(a, replace(found, rows=(replace(row, median_b=120.0),)))
    assert "medians of all samples" not in text


def test_a_narrow_terminal_names_the_columns_that_it_leaves_out() -> None:
    a, b = sides()
    found = compare_results(a, b)
    narrow, wide = (Console(record=True, width=width, file=io.StringIO()) for width in (80, 200))
    noted: set[str] = set()
    for out in (narrow, wide):
        print_comparison(a, found, out, intervals(a, b, found), noted)
    text = " ".join(narrow.export_text().split())
    assert "wider terminals also show: " in text
    assert "difference" in text.partition("wider terminals also show: ")[2]
    again = wide.export_text()
    assert "wider terminals" not in again
    # Each note is printed once.
    assert found.caveats
    assert "note: " in text
    assert "note: " not in again


def test_the_verdict_counts_what_would_not_have_been_found() -> None:
    a, b = sides()
    found = compare_results(a, b)
    row = replace(found.rows[0], different="cannot tell", matters="cannot tell", detectable=0.02)

    def of(*rows: ComparedMetric) -> str:
        return verdict(replace(found, rows=rows))

    unknown = replace(row, detectable=float("nan"))
    assert "(a difference of 2.0 % would have been found in 1 of them)" in of(row, unknown, unknown)
    few = replace(row, detectable=2.0)
    assert "(a difference of 2.0 % to a factor of 3.0 would have been" in of(row, few)

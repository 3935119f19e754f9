"""Figures as text: rounded, sharing unit and decimals, never saying more than the uncertainty allows."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oscope.model import formatting
from oscope.model.formatting import Scale, format_interval
from oscope.statistics.summary import summarise

FINITE = st.floats(min_value=-1e9, max_value=1e9, allow_nan=False)
SPREAD = st.floats(min_value=1e-6, max_value=1e6)
UNITS = st.sampled_from(["ns", "s", "B", "B/s", "calls/s", "cycles", ""])


def read(text: str) -> float:
    return float(text.replace(formatting.GROUP, ""))


@given(FINITE, SPREAD, UNITS)
def test_text_reads_back_within_half_of_its_last_digit(value: float, spread: float, unit: str) -> None:
    scale = Scale.choose([value], [spread], unit)
    error = abs(read(scale.text(value)) - value / scale.factor)
    assert error <= 0.5 * 10.0**-scale.decimals + 1e-9 * abs(value / scale.factor)


@given(st.lists(FINITE, min_size=2, max_size=8), SPREAD, UNITS)
def test_a_group_is_monotone_and_shares_its_decimals(values: list[float], spread: float, unit: str) -> None:
    _, texts = formatting.column(sorted(values), [spread] * len(values), unit)
    figures = [read(text) for text in texts]
    assert figures == sorted(figures)
    assert len({len(text.partition(".")[2]) for text in texts}) == 1


@given(FINITE, st.floats(min_value=1e-3, max_value=1e3))
def test_digits_end_at_the_second_of_the_spread(value: float, spread: float) -> None:
    scale = Scale.choose([value], [spread], "cycles")
    rounded = float(f"{spread:.1e}")
    last = 10.0**-scale.decimals
    assert last <= rounded / 10 * (1 + 1e-9)
    # A spread beyond the value leaves it two digits.
    assert rounded < 100 * last * (1 + 1e-9) or abs(value) < 100 * last * (1 + 1e-9)


@pytest.mark.parametrize(
    ("value", "low", "high", "unit", "text"),
    [
        (98.123, 97.8, 98.4, "ns", "98.12 ns"),
        (98.16, 96.1, 100.2, "ns", "98.2 ns"),
        (1234.4, 1224.5, 1244.5, "ns", "1.234 µs"),
        (2_500_000.0, 2_400_000.0, 2_600_000.0, "ns", "2.50 ms"),
        (0.00025, 0.00024, 0.00026, "s", "250 µs"),
        (-0.04, -0.5, 0.42, "ns", "-0.04 ns"),
        (0.505, -29.0, 31.0, "calls/s", "0.51 calls/s"),
        (4.4, -16.0, 24.0, "calls/s", "4.4 calls/s"),
        (3 * 1024.0**2, 2.9 * 1024.0**2, 3.1 * 1024.0**2, "B", "3.00 MiB"),
        (5e9, 4.9e9, 5.1e9, "B/s", "4.657 GiB/s"),
        (1.03e6, 1.02e6, 1.04e6, "calls/s", f"1{formatting.GROUP}030{formatting.GROUP}000 calls/s"),
        (9637.0, 9000.0, 10000.0, "cycles", "9640 cycles"),
        (123456.0, 123000.0, 124000.0, "cycles", f"123{formatting.GROUP}460 cycles"),
        (528762.0, -9.3e6, 16.3e6, "cycles", f"530{formatting.GROUP}000 cycles"),
        (42.0, None, None, "", "42"),
        (None, None, None, "ns", formatting.MISSING),
        (8374.0, 8270.0, 8447.0, "MiB/s", "8374 MiB/s"),
        (math.nan, 1.0, 2.0, "ns", formatting.MISSING),
    ],
)
def test_digits_follow_the_interval(
    value: float | None, low: float | None, high: float | None, unit: str, text: str
) -> None:
    assert formatting.format_interval(value, low, high, unit).partition(" (")[0] == text


def test_interval_shares_unit_and_decimals_with_its_value() -> None:
    assert formatting.format_interval(1500.0, 1450.0, 1549.6, "ns") == "1.500 µs (1.450 to 1.550)"
    assert formatting.format_interval(1500.0, None, None, "ns") == "1.500 µs"


def test_negative_zero_is_zero() -> None:
    assert formatting.format_value(-0.0004, 0.1, "ns") == "0.00 ns"


def test_counts_and_shares() -> None:
    assert formatting.format_count(1_000_000) == f"1{formatting.GROUP}000{formatting.GROUP}000"
    assert formatting.format_count(9999) == "9999"
    assert formatting.format_share(0.0342) == "3.4 %"
    assert formatting.format_share(0.25) == "25 %"
    assert formatting.format_share(0.42, 9.0) == "42 %"
    assert formatting.format_share(float("nan")) == formatting.MISSING


def test_column_keeps_missing_values_apart() -> None:
    assert formatting.column([98.1, None, 410.0], [0.5, None, 2.0], "ns") == (
        "ns",
        ["98.10", formatting.MISSING, "410.00"],
    )


def test_a_ratio_without_an_upper_bound_is_short() -> None:
    assert formatting.bounded_text(5.2, 0.001, 1e304) == "5.2 (0.001 or more)"


def test_an_end_that_is_far_and_vague_is_a_power_of_ten() -> None:
    column = Scale.choose([100.0, 110.0, 25_000.0], [2.0, 2.0, 2e9], "ns")
    assert column.row(25_000.0, 2e9).span((0.0, 4_045_788_123.0)) == "0 to 4.0e9"
    assert column.row(100.0, 2.0).span((98.0, 102.0)) == "98.0 to 102.0"


def test_an_interval_of_two_blocks_that_differ_widely_has_no_upper_bound() -> None:
    for first, second in ((1e-4, 1e-3), (3e-6, 1e-3), (30.0, 250.0)):
        found = summarise([first, first, second, second], [0, 0, 1, 1])
        assert found.ci95 is not None
        assert format_interval(found.median, *found.ci95, "s").endswith(" (0 or more)")


def test_a_low_end_above_0_is_not_0() -> None:
    scale = Scale.of(120.0, 8000.0, "MiB/s")
    assert scale.span((3.87, 16_300.0)) == "4 to 16\u202f300"
    assert scale.span((0.0, 16_300.0)) == "0 to 16\u202f300"
    # What a division rounds away is no low end.
    assert Scale.of(2.0, 1.0, "ns").span((1e-9, 3.0)) == "0.0 to 3.0"

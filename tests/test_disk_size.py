"""The search for a size, against readings whose speed is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oscope.cli.disk_size import parse_between
from oscope.model.errors import OscopeError, UsageError
from oscope.tools.disk.size import FIRST, MOST_REFINEMENTS, Range, find_size

TIB = 2**40
USUAL = Range(5.0, 15.0)


class Reader:
    """Takes `fixed_s` and so many seconds a byte, and remembers the sizes it read."""

    def __init__(self, seconds: Callable[[int], float]) -> None:
        self.sizes: list[int] = []
        self._seconds = seconds

    def __call__(self, size: int) -> float:
        self.sizes.append(size)
        return self._seconds(size)


def steady(speed: float, fixed_s: float = 0.0) -> Reader:
    return Reader(lambda size: fixed_s + size / speed)


def test_the_size_is_doubled_until_it_takes_long_enough() -> None:
    reader = steady(2**30)
    found = find_size(reader, USUAL, block_size=2**17, largest=TIB)
    assert found.size == 8 * 2**30
    assert reader.sizes == [FIRST << step for step in range(len(reader.sizes))]


def test_a_doubling_that_is_too_much_is_refined_by_the_speed() -> None:
    reader = steady(2**30)
    found = find_size(reader, Range(5.0, 6.0), block_size=4096, largest=TIB)
    assert found.seconds == pytest.approx(5.5)
    assert reader.sizes[-2:] == [8 * 2**30, found.size]


def test_a_first_size_that_is_too_much_is_refined_as_well() -> None:
    reader = steady(2**20)
    found = find_size(reader, Range(1.0, 2.0), block_size=1, largest=TIB)
    assert reader.sizes == [FIRST, found.size]
    assert found.seconds in Range(1.0, 2.0)


@given(
    speed=st.floats(1e5, 1e11),
    fixed_s=st.floats(0.0, 4.0),
    low=st.floats(5.0, 100.0),
    ratio=st.floats(1.1, 10.0),
    block_size=st.sampled_from([1, 128, 1000, 4096, 2**17, 2**22, 2**25]),
)
def test_a_steady_disk_always_has_a_size(
    speed: float, fixed_s: float, low: float, ratio: float, block_size: int
) -> None:
    expected = Range(low, low * ratio)
    reader = steady(speed, fixed_s)
    # With blocks that take longer than the range is wide there may be none in it.
    if block_size / speed > (expected.high - expected.low) / 4:
        return
    found = find_size(reader, expected, block_size=block_size, largest=2**60)
    assert found.seconds in expected
    assert found.size == reader.sizes[-1]
    assert all(size % block_size == 0 and size > 0 for size in reader.sizes)
    assert len(set(reader.sizes)) == len(reader.sizes)


@given(
    times=st.lists(st.floats(0.0, 100.0), min_size=1, max_size=100),
    block_size=st.integers(1, 2**25),
    largest=st.integers(0, 2**40),
)
def test_whatever_is_measured_the_search_ends_and_finds_nothing_wrong(
    times: list[float], block_size: int, largest: int
) -> None:
    left = iter(times)
    reader = Reader(lambda _: next(left, math.inf))
    try:
        found = find_size(reader, USUAL, block_size=block_size, largest=largest)
    except OscopeError:
        assert reader.sizes or largest < block_size
    else:
        assert found.seconds in USUAL
        assert found.size == reader.sizes[-1]
    doublings = math.log2(max(largest, 1) / FIRST) if largest > FIRST else 0
    assert len(reader.sizes) <= doublings + 2 + MOST_REFINEMENTS
    assert all(size % block_size == 0 and 0 < size <= largest for size in reader.sizes)


@given(edge=st.integers(FIRST + 1, 2**36))
def test_a_cache_below_that_answers_up_to_a_size_is_told(edge: int) -> None:
    # What fits is read at once, anything larger takes minutes: no size lies between.
    reader = Reader(lambda size: 0.1 if size <= edge else 300.0)
    with pytest.raises(
        OscopeError, match=r"no size between .* (took 5 s to 15 s in 8 attempts|is left to try)"
    ) as error:
        find_size(reader, USUAL, block_size=4096, largest=TIB)
    assert "--between" in str(error.value)


def test_the_largest_file_that_fits_is_tried_and_told() -> None:
    reader = steady(2**30)
    with pytest.raises(
        OscopeError, match=r"room for, 3 GiB \(3 s\), is read in less than 5 s: free some space"
    ):
        find_size(reader, USUAL, block_size=4096, largest=3 * 2**30 + 5)
    assert reader.sizes[-1] == 3 * 2**30


def test_no_room_for_a_block_is_told() -> None:
    with pytest.raises(OscopeError, match="no room for a block of 4 KiB"):
        find_size(steady(1.0), USUAL, block_size=4096, largest=4095)


def test_blocks_too_large_for_the_time_are_told() -> None:
    with pytest.raises(OscopeError, match=r"no size between 0 B \(0 s\) and 32 MiB \(32 s\) is left to try"):
        find_size(steady(2**20), USUAL, block_size=2**25, largest=TIB)


@pytest.mark.parametrize(
    ("text", "low", "high"), [("5s,15s", 5.0, 15.0), ("500ms, 2s", 0.5, 2.0), ("1,2m", 1.0, 120.0)]
)
def test_a_range_of_times(text: str, low: float, high: float) -> None:
    assert parse_between(text) == Range(low, high)


@pytest.mark.parametrize(
    "text", ["", "5s", "5s,", "15s,5s", "5s,5s", "0,5s", "5s,15s,20s", "-1s,5s", "1us,2us", "1s,13h"]
)
def test_what_is_no_range_of_times_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="--between"):
        parse_between(text)

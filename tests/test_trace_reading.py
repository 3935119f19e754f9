"""Readings of a tracer: merging sums what is there, and makes up nothing."""

from __future__ import annotations

from typing import Any

import pytest

from oscope.trace.reading import merge, quantile, return_values, time_in_calls_ns, upper_bound


def reading(**changes: Any) -> dict[str, Any]:
    """Return a reading with two calls, as the contract has it."""
    return {
        "tracer": "syscalls+sched",
        "regions": 2,
        "region_ns": 1000,
        "reps": 2,
        "losses": {"ring": 1, "map_full": {"calls": 2}, "recursion": 0},
        "calls": {
            "read": {
                "count": 3,
                "errors": {"EAGAIN": 1},
                "time_ns": 300,
                "times": [[64, 127, 2], [128, 255, 1]],
                "asked": 30,
                "returned": 20,
                "short": 1,
                "sizes": [[5, 1], [10, 1]],
            },
            "futex": {"count": 1, "errors": {}, "time_ns": 50, "times": [[32, 63, 1]]},
        },
        **changes,
    }


def test_everything_is_summed() -> None:
    other = reading(calls={"read": {**reading()["calls"]["read"], "sizes": [[10, 4]]}})
    whole = merge([reading(), other])
    assert (whole["regions"], whole["region_ns"], whole["reps"]) == (4, 2000, 4)
    assert whole["losses"] == {"ring": 2, "map_full": {"calls": 4}, "recursion": 0}
    read = whole["calls"]["read"]
    assert (read["count"], read["asked"], read["returned"], read["short"]) == (6, 60, 40, 2)
    assert read["errors"] == {"EAGAIN": 2}
    assert read["times"] == [[64, 127, 4], [128, 255, 2]]
    assert read["sizes"] == [[5, 1], [10, 5]]
    assert whole["calls"]["futex"]["count"] == 1
    assert time_in_calls_ns(whole) == 650


def test_a_merged_reading_of_one_is_that_one() -> None:
    assert merge([reading()]) == reading()


def test_what_was_not_traced_is_absent_and_not_zero() -> None:
    counted = reading(tracer="counts", calls={"read": {"count": 5, "errors": {}}})
    whole = merge([counted, counted])
    assert whole["calls"] == {"read": {"count": 10, "errors": {}}}
    assert time_in_calls_ns(whole) is None
    assert not {"switches", "faults", "fault_rate"} & whole.keys()


def test_faults_are_merged_by_what_they_are() -> None:
    row = {"class": "heap", "access": "write", "present": False, "by": "user", "kind": "zero-fill"}
    one = reading(
        faults=[{**row, "count": 2, "time_ns": 20, "times": [[8, 15, 2]]}],
        fault_rate=[[0, 99, 2]],
        switches={"voluntary": 1, "involuntary": 2, "migrations": 0, "wakeups": 1, "wakeup_ns": [[4, 7, 1]]},
    )
    two = reading(
        faults=[
            {**row, "count": 1, "time_ns": 9, "times": [[8, 15, 1]]},
            {**row, "by": "kernel", "count": 7, "time_ns": 70, "times": [[8, 15, 7]]},
        ],
        fault_rate=[[100, 199, 8], [0, 99, 1]],
    )
    whole = merge([one, two])
    assert [(each["by"], each["count"], each["time_ns"]) for each in whole["faults"]] == [
        ("kernel", 7, 70),
        ("user", 3, 29),
    ]
    assert whole["fault_rate"] == [[0, 99, 3], [100, 199, 8]]
    assert whole["switches"]["wakeup_ns"] == [[4, 7, 1]]


def test_readings_of_several_tracers_are_refused() -> None:
    with pytest.raises(ValueError, match="2 tracers"):
        merge([reading(), reading(tracer="counts")])
    with pytest.raises(ValueError, match="0 tracers"):
        merge([])


@pytest.mark.parametrize(("share", "expected"), [(0.5, (64, 127)), (0.67, (128, 255)), (1.0, (128, 255))])
def test_a_quantile_is_known_to_its_bin(share: float, expected: tuple[int, int]) -> None:
    assert quantile([[128, 255, 1], [64, 127, 2], [32, 63, 0]], share) == expected
    assert quantile([], share) is None


@pytest.mark.parametrize(
    ("times", "share", "total", "expected"),
    [
        # One call took what all took together.
        ([[1024, 2047, 1]], 0.5, 1597, 1597),
        ([[1024, 2047, 1]], 0.99, 1597, 1597),
        # The median of two is half the sum at most, and the larger one less than the sum.
        ([[1024, 2047, 2]], 0.5, 2100, 1050),
        ([[1024, 2047, 2]], 0.99, 2100, 2047),
        ([[0, 1, 1], [1024, 2047, 1]], 0.99, 1400, 1400),
        ([[64, 127, 99], [128, 255, 1]], 0.5, 7000, 127),
        # A sum that lost events never falsifies the bin; without a sum the bin is all that is known.
        ([[1024, 2047, 1]], 0.5, 10, 1024),
        ([[1024, 2047, 1]], 0.5, None, 2047),
        ([], 0.5, 10, None),
    ],
)
def test_a_bound_never_exceeds_what_the_sum_allows(
    times: list[list[int]], share: float, total: float | None, expected: float | None
) -> None:
    assert upper_bound(times, share, total) == expected


def test_return_values_are_summed_value_by_value() -> None:
    futex = {"count": 3, "errors": {"EAGAIN": 1}, "results": [[0, 0, 1], [4096, 8191, 1]]}
    more = {"count": 2, "errors": {}, "results": [[0, 0, 1], [1, 1, 1]]}
    whole = merge([reading(calls={"futex": futex}), reading(calls={"futex": more})])["calls"]["futex"]
    assert whole["results"] == [[0, 0, 2], [1, 1, 1], [4096, 8191, 1]]
    assert return_values(whole) == [("EAGAIN", 1), ((0, 0), 2), ((1, 1), 1), ((4096, 8191), 1)]


def test_where_values_were_not_looked_at_errors_are_not_taken_for_all_there_was() -> None:
    assert return_values({"count": 5, "errors": {"EAGAIN": 1}}) == []
    assert return_values({"count": 1, "errors": {"EAGAIN": 1}}) == [("EAGAIN", 1)]

"""Verdicts follow neither the unit of a metric nor ties, and count how runs differ also for one block."""

from __future__ import annotations

import numpy as np
import pytest

from invented_runs import results
from oscope.analysis.gate import judge
from oscope.model.samples import Column, ExperimentResults, Floats, Results
from oscope.statistics import compare_points, compare_results, effect, fleet
from oscope.statistics.compared import ComparedMetric
from oscope.statistics.summary import summarise

PAIRS = 60
"""Of unchanged runs: of these, 3 are called different at a rate of 5 %, and more than 9 in one of 1,000."""
MOST = 9


def unchanged(number: int, unit: float, metric: Column, blocks: int = 10) -> ExperimentResults:
    """Return a run of a machine whose runs differ by 1.7 %, and the blocks of each by 0.15 %."""
    random = np.random.default_rng(number)
    run, block = random.normal(0, 0.017), random.normal(0, 0.0015, (blocks, 1))
    return results(
        number, unit * np.exp(run + block + random.normal(0, 0.001, (blocks, 5))), metric, together=False
    )


def compared(a: Floats, b: Floats, metric: Column) -> ComparedMetric:
    runs = (results(number, values, metric, together=False) for number, values in enumerate((a, b)))
    (row,) = compare_results(*runs).rows
    return row


@pytest.mark.parametrize(
    ("unit", "metric"),
    [
        (10.0, Column("time_s", "s", "", "less")),
        (1e10, Column("time_ns", "ns", "", "less")),
        (2e10, Column("bytes_per_s", "B/s", "", "more")),
    ],
)
def test_how_runs_differ_counts_in_every_unit(unit: float, metric: Column) -> None:
    rows = [
        compare_results(unchanged(2 * pair, unit, metric), unchanged(2 * pair + 1, unit, metric)).rows[0]
        for pair in range(PAIRS)
    ]
    assert sum(row.different == "yes" for row in rows) <= MOST
    assert {"unpaired over processes"} == {row.method for row in rows}


def test_how_runs_differ_counts_where_a_side_has_one_block() -> None:
    metric = Column("time_ns", "ns", "", "less")
    earlier = [unchanged(number, 100.0, metric) for number in range(1000, 1012)]
    rows = [
        compare_results(
            unchanged(2 * pair, 100.0, metric, 1), unchanged(2 * pair + 1, 100.0, metric), earlier=earlier
        ).rows[0]
        for pair in range(PAIRS)
    ]
    assert {"one value on a side"} == {row.method for row in rows}
    assert sum(row.different == "yes" for row in rows) <= MOST
    # One block shows no smaller difference than ten do.
    ten = compare_results(unchanged(0, 100.0, metric), unchanged(1, 100.0, metric), earlier=earlier).rows[0]
    assert min(row.detectable for row in rows) > 0.9 * ten.detectable


@pytest.mark.parametrize("unit", [1.0, 1e3, 1e9])
def test_a_median_of_zero_has_the_same_verdict_in_every_unit(unit: float) -> None:
    random = np.random.default_rng(5)
    a, b = np.zeros((10, 1)), 0.015 + random.normal(0, 0.002, (10, 1))
    a[:3] = 0.002
    metric = Column("wait", "s", "", "less")
    there, back = (compared(unit * one, unit * other, metric) for one, other in ((a, b), (b, a)))
    assert there.different == back.different == "yes"
    assert there.p == pytest.approx(back.p)
    assert there.p == pytest.approx(compared(a, b, metric).p)


def test_ties_with_a_median_difference_of_zero_are_no_improvement() -> None:
    """Of a hundred pairs 45 are worse and none is better: the typical pair is equal."""
    metric = Column("steps", "instructions", "", "less")
    more = np.zeros((100, 1))
    more[np.random.default_rng(4).permutation(100)[:45]] = 70
    runs = (results(number, values, metric) for number, values in enumerate((more * 0 + 1000, more + 1000)))
    a, b = (Results((run,)) for run in runs)
    (row,) = judge(a, b, 0.03).rows
    assert row.row.p < effect.LEVEL
    assert row.row.difference == 0
    assert (row.verdict, row.row.different) == ("not proven", "cannot tell")
    assert row.row.sentence.endswith("is equal, though more pairs differ in one direction than in the other")


def test_a_baseline_near_zero_regresses_only_where_the_whole_interval_is_beyond_the_limit() -> None:
    random = np.random.default_rng(0)
    metric = Column("wait", "s", "", "less")
    verdicts = []
    for _ in range(100):
        a, b = 10 + random.normal(0, 10, (12, 1)), 25 + random.normal(0, 10, (12, 1))
        a, b = (results(number, values, metric, together=False) for number, values in enumerate((a, b)))
        (row,) = judge(Results((a,)), Results((b,)), 0.5).rows
        if row.row.different == "yes" and not np.isfinite(row.row.ratio):
            low, _ = row.row.difference_ci95
            verdicts.append((row.verdict, low > 0.5 * row.row.median_a))
    assert {"regressed", "not proven"} == {verdict for verdict, _ in verdicts}
    assert all((verdict == "regressed") == beyond for verdict, beyond in verdicts)


def test_two_pairs_that_happen_to_agree_leave_what_the_resolution_leaves() -> None:
    found = effect.estimate(1.0, 1e-9, 1)
    assert effect.with_extra_error(found, 0.4).p == pytest.approx(effect.estimate(1.0, 0.4, 1).p)


def test_an_interval_of_samples_on_both_sides_of_zero_holds_zero_as_often_as_it_says() -> None:
    random = np.random.default_rng(2)
    block = np.repeat(np.arange(3), 5)
    held = 0
    for _ in range(300):
        values = (random.normal(0, 1, (3, 1)) + random.normal(0, 1, (3, 5))).ravel()
        low, high = summarise(values, block).ci95 or (np.nan, np.nan)
        held += low <= 0 <= high
    # Of 300 at 95 %, fewer than 273 in one of 1,000.
    assert held >= 273


@pytest.mark.parametrize("hosts", [3, 5, 20])
def test_hosts_whose_blocks_repeat_exactly_have_the_deviation_of_their_values(hosts: int) -> None:
    values = 4096.0 * (900 + np.arange(hosts) % 3)
    spread, (low, high) = fleet._spread(values, np.zeros(hosts))
    assert spread == pytest.approx(np.std(values, ddof=1), rel=1e-6)
    assert low < spread < high
    assert fleet._spread(np.full(hosts, 4096.0), np.zeros(hosts))[0] == 0


def test_points_of_one_run_do_not_count_how_runs_differ() -> None:
    metric = Column("time_ns", "ns", "", "less")
    a, b = unchanged(7, 100.0, metric, 1), unchanged(7, 103.0, metric)
    row = compare_points(a.points[0], b.points[0], metric, same_run=True)
    assert row.method == "one value on a side"
    assert row.different == "yes"

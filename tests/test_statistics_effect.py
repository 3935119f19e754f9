"""The size of a difference: of pairs, of separate runs, and how several tests are corrected."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from oscope.model.samples import Floats
from oscope.statistics import between_runs, effect
from oscope.statistics.between_runs import Spread
from oscope.statistics.effect import Estimate, Median
from oscope.statistics.multiplicity import bonferroni, correct, false_discoveries, holm, quantity

TRIALS = 600


def holds(found: Estimate, truth: float) -> bool:
    return found.low <= truth <= found.high


def test_pairs_are_told_by_their_median() -> None:
    difference = np.random.default_rng(1).standard_t(2, 101) + 0.3
    found = effect.paired(difference)
    assert found.effect == np.median(difference)
    assert found.low in difference
    assert found.high in difference


@pytest.mark.parametrize("count", [20, 41, 300])
def test_the_interval_of_many_pairs_is_that_of_the_sign_test(count: int) -> None:
    difference = np.random.default_rng(count).normal(0.2, 1, count)
    found = effect.paired(difference)
    exact = stats.quantile_test(difference, q=0, p=0.5)
    assert found.p == pytest.approx(exact.pvalue, rel=0.25, abs=1e-6)
    low, high = exact.confidence_interval(0.95)
    ordered = np.sort(difference)
    for end, other in ((found.low, low), (found.high, high)):
        assert abs(np.searchsorted(ordered, end) - np.searchsorted(ordered, other)) <= 1


@pytest.mark.parametrize("count", [2, 3, 5, 12, 19, 20, 40, 200])
@pytest.mark.parametrize(
    "draw",
    [
        lambda random, count: random.normal(0, 1, count),
        lambda random, count: random.standard_t(2, count),
        lambda random, count: np.where(random.random(count) < 0.1, 30, 1) * random.normal(0, 1, count),
    ],
    ids=["normal", "t2", "contaminated"],
)
def test_equal_pairs_are_told_to_differ_as_rarely_as_is_said(
    count: int, draw: Callable[[np.random.Generator, int], Floats]
) -> None:
    random = np.random.default_rng(count)
    found = [effect.paired(draw(random, count)) for _ in range(TRIALS)]
    limit = stats.binom.isf(0.001, TRIALS, 0.05)
    assert sum(each.p < 0.05 for each in found) <= limit
    assert sum(not holds(each, 0.0) for each in found) <= limit


def test_pairs_that_wander_together_are_worth_fewer() -> None:
    random = np.random.default_rng(5)
    white = random.normal(0, 1, 300)
    wandering = np.convolve(white, np.ones(8), "valid")
    assert effect.paired(wandering).dof < 0.5 * len(wandering)
    assert effect.paired(white).dof == len(white) - 1


def test_equal_pairs_have_no_difference() -> None:
    found = effect.paired(np.zeros(40))
    assert (found.effect, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_separate_sides_have_the_error_of_both() -> None:
    a, b = Median(1.0, 0.8, 1.1, 9), Median(2.0, 1.9, 2.4, 9)
    found = effect.separate(a, b, between_runs.NONE)
    assert found.effect == 1.0
    limit = stats.t.isf(0.025, [9, 16.7])
    # What makes the difference small is the upper end of A's and the lower end of B's.
    below, above = np.hypot(0.1, 0.1) / limit[0], np.hypot(0.4, 0.2) / limit[0]
    assert found.effect - found.low == pytest.approx(below * stats.t.isf(0.025, 18))
    dof = above**4 / ((0.4 / limit[0]) ** 4 + (0.2 / limit[0]) ** 4) * 9
    assert found.high - found.effect == pytest.approx(above * stats.t.isf(0.025, dof))
    assert found.p == pytest.approx(2 * stats.t.sf(1 / below, 18))


def test_separate_sides_differ_by_what_runs_differ() -> None:
    side = Median(0.0, -0.001, 0.001, 39)
    found = effect.separate(side, side, Spread(0.01, 12, 10))
    assert found.high == pytest.approx(stats.t.isf(0.025, 12) * 0.01 * np.sqrt(2))
    assert found.dof == 12


def test_coverage_where_runs_differ_by_more_than_their_intervals_say() -> None:
    random = np.random.default_rng(7)
    held = 0
    for _ in range(TRIALS):
        runs = random.normal(0, 0.015, 14)
        known = between_runs.spread(np.exp(runs[:12]))
        a, b = (Median(x, x - 0.002, x + 0.002, 39) for x in runs[12:])
        held += holds(effect.separate(a, b, known), 0.0)
    low, high = stats.binom.interval(0.999, TRIALS, 0.95)
    assert low <= held <= high


def test_the_spread_between_runs_goes_from_what_is_assumed_to_what_is_seen() -> None:
    none = between_runs.spread(np.array([1.0]), 0.003, 0.004)
    assert (none.deviation, none.runs) == (pytest.approx(0.005), 0)
    medians = np.exp(np.random.default_rng(3).normal(0, 0.001, 30))
    few, many = (between_runs.spread(medians[:count], 0.003, 0.004) for count in (4, 30))
    assert none.deviation > few.deviation > 0.002
    assert many.deviation == pytest.approx(np.log(medians).std(ddof=1))
    assert (few.runs, many.runs) == (4, 30)
    assert (none.dof, few.dof, many.dof) == (8, 8, 29)


def test_runs_that_wander_are_assumed_to_differ_by_as_much() -> None:
    random = np.random.default_rng(8)
    steady, steps = random.normal(0, 0.02, 40), np.repeat([0, 0.1, 0, 0.1, 0.2], 8)
    assert between_runs.part_deviation(steady) == between_runs.ASSUMED
    assert between_runs.part_deviation(steady + steps) == pytest.approx(steps[::8].std(ddof=1), rel=0.2)
    assert between_runs.part_deviation(np.zeros(40)) == between_runs.ASSUMED
    assert between_runs.part_deviation((steady + steps)[:9]) == between_runs.ASSUMED


def test_the_interval_at_another_confidence() -> None:
    found = effect.estimate(1.0, 0.5, 7)
    assert found.interval(0.95) == pytest.approx((found.low, found.high))
    assert found.interval(0.9)[1] == pytest.approx(1 + 0.5 * stats.t.isf(0.05, 7))


def test_welch() -> None:
    random = np.random.default_rng(4)
    a, b = random.normal(0, 1, 9), random.normal(0, 3, 7)
    found, other = effect.welch(a, b), stats.ttest_ind(b, a, equal_var=False)
    assert found.error == pytest.approx(np.hypot(stats.sem(a), stats.sem(b)))
    assert (found.p, found.dof) == (pytest.approx(other.pvalue), pytest.approx(other.df))


def test_holm_by_hand() -> None:
    assert holm(np.array([0.04, 0.01, 0.03])) == pytest.approx([0.06, 0.03, 0.06])


def test_false_discoveries_and_bonferroni_by_hand() -> None:
    assert false_discoveries([0.04, 0.01, 0.03]) == pytest.approx([0.04, 0.03, 0.04])
    assert len(false_discoveries([])) == 0
    assert bonferroni(0.02, 3) == pytest.approx(0.06)
    assert bonferroni(0.5, 3) == 1


def test_headlines_are_corrected_by_holm_and_others_by_benjamini_and_hochberg() -> None:
    p = [0.01, 0.04, 0.01, 0.02, 0.03]
    tests = ["a", "b", "c", "d", "e"]
    found = correct(p, tests, [True, True, False, False, False], 0)
    assert found == pytest.approx([0.02, 0.04, 0.03, 0.03, 0.03])
    assert correct(p, tests, [True, True, False, False, False], 2)[0] == pytest.approx(0.04)


def test_one_quantity_is_corrected_for_once() -> None:
    assert quantity("cycles") == quantity("time_ns") == quantity("throughput")
    assert quantity("child_ns") == quantity("child_cycles") != quantity("parent_ns")
    found = correct([0.02, 0.021, 0.9], ["one", "one", "other"], [True, True, True], 0)
    assert found == pytest.approx([0.04, 0.04, 0.9])


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("count", [20, 30, 60])
def test_interval_and_test_of_pairs_agree_however_they_depend_on_each_other(
    count: int, correlation: float
) -> None:
    """Of few independent pairs an interval by ranks would be their whole range, whatever p is."""
    rng = np.random.default_rng(1)
    for shift in (0.0, 2.0, 3.0):
        for _ in range(20):
            steps = rng.standard_normal(count)
            walk = np.empty(count)
            walk[0] = steps[0]
            for at in range(1, count):
                walk[at] = correlation * walk[at - 1] + np.sqrt(1 - correlation**2) * steps[at]
            found = effect.paired(walk + shift)
            assert (found.p < 0.05) == (found.low > 0 or found.high < 0)

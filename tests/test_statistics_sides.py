"""What stands for the differences of pairs: their 20 % trimmed mean, with its own error."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from oscope.statistics.replication import MOST_CLUSTERS
from oscope.statistics.sides import FEWEST_TO_TRIM, TRIMMED, steady, typical


@pytest.mark.parametrize("count", [FEWEST_TO_TRIM, 101, MOST_CLUSTERS])
def test_the_mean_is_the_trimmed_mean_and_its_error_that_of_tukey_and_mclaughlin(count: int) -> None:
    difference = np.random.default_rng(count).standard_t(2, count)
    found = typical(difference)
    assert len(found) == count
    assert found.mean() == pytest.approx(stats.trim_mean(difference, TRIMMED))
    winsorised = np.asarray(stats.mstats.winsorize(difference, (TRIMMED, TRIMMED)))
    kept = 1 - 2 * int(TRIMMED * count) / count
    error = winsorised.std(ddof=1) / (kept * np.sqrt(count))
    assert stats.sem(found) == pytest.approx(error)


def test_many_are_joined_with_their_neighbours_in_time() -> None:
    difference = np.random.default_rng(1).normal(0, 1, 1000) + np.linspace(0, 3, 1000)
    found = typical(difference)
    assert len(found) == MOST_CLUSTERS
    assert found.mean() == pytest.approx(stats.trim_mean(difference, TRIMMED))
    assert stats.spearmanr(found, np.arange(len(found))).statistic > 0.8


@pytest.mark.parametrize("count", [FEWEST_TO_TRIM - 1, 400])
def test_few_pairs_and_counts_that_hardly_vary_are_taken_as_they_are(count: int) -> None:
    random = np.random.default_rng(2)
    difference = random.normal(0, 1, count) if count < FEWEST_TO_TRIM else (random.random(count) < 0.1) * 1.0
    np.testing.assert_array_equal(typical(difference), steady(difference))


def test_a_few_pairs_far_off_cost_little() -> None:
    difference = np.random.default_rng(3).normal(0, 1, 300)
    clean = stats.sem(typical(difference))
    difference[::12] += np.random.default_rng(4).choice([-50, 50], 25)
    assert stats.sem(typical(difference)) < 1.3 * clean

"""Probabilistic bisection: the posterior over commits, what is read next, whether its probabilities hold."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from oscope.statistics.bisection import (
    ENOUGH,
    FLOOR,
    MOST_ROUNDS,
    Reading,
    best_group,
    choose,
    posterior,
    probability_after,
    probability_of_change,
)

CHANGE = 0.1


def reading(position: int, centre: float, error: float = 0.001, change: float = CHANGE) -> Reading:
    return Reading(position, centre, error, change)


@pytest.mark.parametrize("change", [CHANGE, -CHANGE])
def test_a_position_at_an_end_belongs_to_it_whichever_way_the_metric_went(change: float) -> None:
    assert probability_after([reading(3, change / 2, change=change)]) == 1 - FLOOR
    assert probability_after([reading(3, -change / 2, change=change)]) == FLOOR


def test_a_position_in_the_middle_or_without_readings_tells_nothing() -> None:
    assert probability_after([]) == 0.5
    assert probability_after([reading(3, 0.0, error=1e-9)]) == 0.5
    assert probability_after([Reading(3, 0.0, 0.0, 0.0)]) == 0.5


def test_more_readings_make_it_surer_but_commits_that_scatter_keep_some_doubt() -> None:
    centre = CHANGE / 10
    alone = probability_after([reading(3, centre, error=0.05)])
    assert 0.5 < alone < probability_after([reading(3, centre, error=0.05)] * 4)
    assert probability_after([reading(3, centre, error=1e-6)] * 100) < ENOUGH


def test_the_posterior_is_uniform_first_and_then_on_one_side() -> None:
    assert posterior(4, []) == pytest.approx([0.25] * 4)
    after = posterior(4, [reading(2, CHANGE / 2)])
    assert after.sum() == pytest.approx(1)
    assert after[:2].sum() == pytest.approx(1 - FLOOR)
    both = posterior(4, [reading(2, CHANGE / 2), reading(1, -CHANGE / 2)])
    assert both[1] == both.max()
    assert both[1] > ENOUGH


def test_commits_that_cannot_be_read_stay_together() -> None:
    shares = posterior(6, [reading(2, -CHANGE / 2), reading(5, CHANGE / 2)])
    group = best_group(shares, {3, 4})
    assert (group.before, group.after) == (2, 5)
    assert group.probability == pytest.approx(shares[2:5].sum())
    assert best_group(shares, set()).after - best_group(shares, set()).before == 1
    whole = best_group(posterior(3, []), {1, 2})
    assert (whole.before, whole.after) == (0, 3)
    assert whole.probability == pytest.approx(1)


def test_the_median_is_read_next_then_away_from_what_cannot_be_read() -> None:
    shares = posterior(16, [])
    assert choose(shares, set(), {}) == 8
    assert choose(shares, {8}, {}, misses=0) in (7, 9)
    assert choose(shares, {8}, {}, misses=1) in (6, 10)
    assert choose(shares, {8, 6}, {}, misses=2) not in range(3, 12)
    assert choose(shares, set(range(1, 16)), {}) is None
    assert choose(posterior(2, []), set(), {1: MOST_ROUNDS}) is None
    assert choose(posterior(1, []), set(), {}) is None


def test_the_ends_differ_the_surer_the_clearer_they_do() -> None:
    assert probability_of_change([0.0], [0.01]) == 0.5
    # p = 0.05: the bound of the Bayes factor is 0.407 (Sellke, Bayarri and Berger, table 1).
    assert probability_of_change([1.959964], [1.0]) == pytest.approx(1 / 1.407, abs=1e-3)
    assert probability_of_change([0.1], [0.0]) == 1
    assert probability_of_change([0.0], [0.0]) == 0.5
    assert probability_of_change([0.02] * 9, [0.01] * 9) > probability_of_change([0.02], [0.01])


def search(rng: np.random.Generator, commits: int, error: float, scatter: float) -> tuple[bool, float]:
    """Bisect a line drawn by `rng`; return whether the commit was found, and the probability stated."""
    change = CHANGE * rng.choice([-1, 1])
    made = int(rng.integers(1, commits + 1))
    offsets = rng.normal(0, scatter * CHANGE, commits + 1)
    readings: list[Reading] = []
    while True:
        shares = posterior(commits, readings)
        group = best_group(shares, ())
        at = choose(shares, (), Counter(each.position for each in readings))
        if group.probability >= ENOUGH or at is None:
            return group.after == made, group.probability
        centre = change * (0.5 if at >= made else -0.5) + offsets[at] + rng.normal(0, error)
        readings.append(Reading(at, centre, error, change))


@pytest.mark.parametrize(
    ("error", "scatter"), [(0.01, 0.0), (0.03, 0.0), (0.05, 0.0), (0.02, 0.2), (0.04, 0.2)]
)
def test_the_commit_is_found_about_as_often_as_is_stated(error: float, scatter: float) -> None:
    rng = np.random.default_rng(27)
    found = [search(rng, 20, error, scatter) for _ in range(300)]
    right, stated = (float(np.mean([each[at] for each in found])) for at in (0, 1))
    # Three standard errors of the share that was right.
    assert right >= stated - 3 * np.sqrt(stated * (1 - stated) / len(found))
    assert stated > 0.6

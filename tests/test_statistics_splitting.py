"""Shares corrected for selection: a weak cause's is not too large on average, a strong one's stays."""

from __future__ import annotations

import numpy as np
import pytest

from oscope.model.samples import Floats
from oscope.statistics import attribute, splitting
from oscope.statistics.decomposition import products
from oscope.statistics.stepwise_selection import Step, cluster_t, enter

COUNT = 200
BLOCK = np.arange(COUNT) // 10


def named_shares(share: float, tries: int) -> Floats:
    """Shares of a cause of a true `share` among 10 candidates, wherever it is named."""
    found = []
    for seed in range(tries):
        random = np.random.default_rng(seed)
        columns = random.normal(size=(COUNT, 10))
        values = np.sqrt(share) * columns[:, 0] + np.sqrt(1 - share) * random.normal(size=COUNT)
        given = {f"c{i}": columns[:, i] for i in range(10)}
        found += [cause.share for cause in attribute(values, given, BLOCK).causes if cause.name == "c0"]
    return np.array(found)


def test_a_weak_cause_is_not_given_too_much_where_it_is_named() -> None:
    found = named_shares(0.05, 150)
    # Named in about a third of the tries. By the samples that select it, its share is 0.028 too large.
    assert len(found) >= 35
    assert found.mean() - 0.05 == pytest.approx(0.0, abs=0.018)


def test_a_strong_cause_keeps_its_share() -> None:
    found = named_shares(0.5, 40)
    assert len(found) == 40
    assert found.mean() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("blocks", [4, 7, 20, 50])
def test_blocks_stay_whole(blocks: int) -> None:
    block = np.arange(1000) * blocks // 1000
    stretches = -(-20 // blocks) if blocks < 20 else 1
    cluster = np.arange(1000) * blocks * stretches // 1000
    half = splitting.halves(cluster, block, np.random.default_rng(0))
    assert half.shape == (splitting.SPLITS, cluster.max() + 1)
    for each in half[:, cluster]:
        assert all(len(set(each[block == i])) == 1 for i in range(blocks))
        assert 0 < len(set(block[each])) <= blocks // 2 + 1
    assert (half[: splitting.SPLITS // 2] != half[splitting.SPLITS // 2 :]).all()


def test_few_blocks_are_split_within() -> None:
    block = np.arange(1000) // 500
    half = splitting.halves(np.arange(1000) // 50, block, np.random.default_rng(0))
    assert (half.sum(axis=1) == 10).all()
    assert any(0 < each[:10].sum() < 10 for each in half)


def test_only_halves_that_select_count() -> None:
    held = np.arange(10.0)
    margin = np.where(np.arange(10) >= 4, 1.0, -1.0)
    assert splitting.held_out(held, margin) == pytest.approx(np.mean(held[4:]))
    assert splitting.stability(margin) == pytest.approx(0.6)
    # Where too few select, those with the strongest evidence count.
    assert splitting.held_out(held, np.linspace(-2, -1, 10)) == pytest.approx(np.mean(held[5:]))


def test_a_step_is_tested_against_what_entered_before_it() -> None:
    random = np.random.default_rng(1)
    columns = random.normal(size=(2000, 3))
    response = columns @ [2.0, -1.0, 0.0] + random.normal(size=2000)
    response = (response - response.mean()) / response.std()
    sums = products(response, columns, np.arange(2000) // 50)
    first, second = enter(sums, [set(), set(), set()], np.random.default_rng(2))
    assert (first.column, first.given, first.sign) == (0, (), 1.0)
    assert (second.column, second.given, second.sign) == (1, (0,), -1.0)
    for step in (first, second):
        assert cluster_t(sums, step) > step.critical > 2
    nothing = Step(2, 1.0, (0, 1), 1.0, first.critical)
    assert abs(cluster_t(sums, nothing)) < 3


def test_stability_is_how_many_halves_select() -> None:
    random = np.random.default_rng(3)
    strong, weak = random.normal(size=(2, COUNT))
    values = 2 * strong + 0.55 * weak + random.normal(size=COUNT)
    found = {each.name: each for each in attribute(values, {"strong": strong, "weak": weak}, BLOCK).causes}
    assert found["strong"].stability == 1.0
    assert 0 < found["weak"].stability <= 1.0


def test_a_few_processes_keep_the_share_of_all_samples() -> None:
    random = np.random.default_rng(4)
    few = np.arange(500) // 100
    found = attribute(random.normal(0, 1, 500) + 2.0 * few, {}, few)
    (cause,) = found.causes
    assert cause.name == "process"
    assert np.isnan(cause.stability)
    many = np.arange(600) // 20
    found = attribute(random.normal(0, 1, 600) + random.normal(0, 1, 30)[many], {}, many)
    (cause,) = found.causes
    assert cause.stability > 0.5

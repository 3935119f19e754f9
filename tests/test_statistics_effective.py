"""How many independent samples the samples are worth: simulated where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from oscope.model.samples import Floats
from oscope.statistics import summarise
from oscope.statistics.replication import clusters, effective_size


def median_ess(draw: object, blocks: int, reps: int, boots: int = 1) -> float:
    """Return the median, over 200 simulations, of what `reps` samples of each block are worth."""
    random = np.random.default_rng(7)
    block = np.repeat(np.arange(blocks), reps)
    found = []
    for _ in range(200):
        values = draw(random).ravel()  # type: ignore[operator]
        found.append(effective_size(values, clusters(values, block, block * boots // blocks)))
    return float(np.median(found))


def correlated(random: np.random.Generator, shape: tuple[int, int], r: float) -> Floats:
    """Draw rows of AR(1) noise, of standard deviation 1."""
    noise = random.normal(0, 1, shape)
    for i in range(1, shape[1]):
        noise[:, i] = r * noise[:, i - 1] + np.sqrt(1 - r * r) * noise[:, i]
    return noise


@pytest.mark.parametrize(("blocks", "reps"), [(1, 400), (10, 10), (40, 20), (300, 4)])
def test_independent_samples_are_worth_their_number(blocks: int, reps: int) -> None:
    ess = median_ess(lambda random: random.normal(100, 1, (blocks, reps)), blocks, reps)
    assert 0.9 * blocks * reps <= ess <= blocks * reps


@pytest.mark.parametrize("blocks", [8, 40, 150])
def test_samples_that_are_alike_within_a_process_are_worth_the_number_of_processes(blocks: int) -> None:
    ess = median_ess(lambda random: np.tile(random.normal(100, 1, (blocks, 1)), 10), blocks, 10)
    assert ess == pytest.approx(blocks, rel=1e-6)


def test_more_processes_than_are_resampled_all_count() -> None:
    """Beyond 200, neighbours are joined for the interval, which makes none of them worth less."""
    ess = median_ess(lambda random: np.tile(random.normal(100, 1, (600, 1)), 5), 600, 5)
    assert ess == pytest.approx(600, rel=0.15)


def test_boots_are_the_unit_where_they_vary() -> None:
    boot = 8
    ess = median_ess(
        lambda random: np.repeat(random.normal(100, 1, (boot, 1)), 5, axis=0) + np.zeros((1, 10)),
        5 * boot,
        10,
        boot,
    )
    assert ess == pytest.approx(boot, rel=1e-6)


@pytest.mark.parametrize(("blocks", "reps"), [(1, 2000), (60, 100)])
def test_correlated_repetitions_are_worth_less(blocks: int, reps: int) -> None:
    r = 0.7
    ess = median_ess(lambda random: 100 + correlated(random, (blocks, reps), r), blocks, reps)
    # Of a short process the first and last samples have neighbours on one side only.
    assert ess == pytest.approx(blocks * reps * (1 - r) / (1 + r), rel=0.12)


def test_half_of_the_variance_between_processes() -> None:
    """With m samples a process, n samples are worth n / (1 + (m - 1) / 2)."""
    ess = median_ess(lambda random: random.normal(100, 1, (60, 1)) + random.normal(0, 1, (60, 10)), 60, 10)
    assert ess == pytest.approx(600 / (1 + 9 / 2), rel=0.1)


def test_it_is_the_variance_over_the_squared_error_that_the_processes_show() -> None:
    """Checked against the definition itself: the error of many means of runs, not that of one run."""
    random = np.random.default_rng(3)
    runs = random.normal(0, 0.5, (4000, 20, 1)) + correlated(random, (80_000, 10), 0.5).reshape(4000, 20, 10)
    truly = runs.var() / runs.mean(axis=(1, 2)).var()
    block = np.repeat(np.arange(20), 10)
    each = [effective_size(run.ravel(), clusters(run.ravel(), block)) for run in runs[:300]]
    assert float(np.median(each)) == pytest.approx(truly, rel=0.12)


def test_it_is_shown_to_two_digits_and_never_above_the_number() -> None:
    random = np.random.default_rng(1)
    alone = summarise(random.normal(100, 1, 197), np.arange(197))
    assert (alone.n, alone.ess) == (197, 197)
    values = random.normal(100, 1, (137, 1)) + 1e-6 * random.normal(0, 1, (137, 10))
    assert summarise(values.ravel(), np.repeat(np.arange(137), 10)).ess == 140
    few = random.normal(100, 1, (6, 1)) + 1e-6 * random.normal(0, 1, (6, 10))
    assert summarise(few.ravel(), np.repeat(np.arange(6), 10)).ess == 6
    assert summarise([np.nan], [0]).ess == 0

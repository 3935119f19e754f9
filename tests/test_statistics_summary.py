"""Summaries: coverage of the interval on simulated data, and shapes put in on purpose that must be seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

import synthetic
from oscope.model.samples import ExperimentResults, Floats
from oscope.statistics import compare_results, interval, replication, shape, summarise, summarise_point
from oscope.statistics.replication import Clusters


def clustered(random: np.random.Generator, clusters: int, spreads: tuple[float, float], noise: str) -> Floats:
    """Draw 20 samples a process, of true median 100, with relative spreads between and within processes."""
    between, within = spreads
    drawn = random.normal(0, 1, (clusters, 20))
    if noise == "lognormal":
        drawn = (np.exp(drawn) - 1) / 2
    return np.asarray(100 * (1 + random.normal(0, between, (clusters, 1)) + within * drawn), dtype=float)


def covered(values: Floats, truth: float = 100.0) -> bool:
    data = values.ravel()
    found = replication.clusters(data, np.repeat(np.arange(len(values)), values.shape[1]))
    limits = interval.median_interval(interval.binned(data, found), 0)
    return limits is not None and limits[0] <= truth <= limits[1]


LONG = [(3, 600), (7, 600), (10, 600), (20, 200)]


@pytest.mark.parametrize("noise", ["normal", "lognormal"])
@pytest.mark.parametrize(
    ("clusters", "simulations"),
    [(5, 600), (19, 600), *(pytest.param(*each, marks=pytest.mark.full) for each in LONG)],
)
def test_interval_covers_the_median(clusters: int, simulations: int, noise: str) -> None:
    random = np.random.default_rng(clusters)
    hits = sum(covered(clustered(random, clusters, (0.02, 0.005), noise)) for _ in range(simulations))
    # Three standard errors below 94 %: what a correct method fails once in a thousand.
    assert hits / simulations >= 0.94 - 3 * np.sqrt(0.06 / simulations)


def test_pooling_would_not_cover() -> None:
    """The check above can fail: repetitions taken as independent miss the median far too often."""
    random = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        data = clustered(random, 10, (0.02, 0.005), "normal").ravel()
        pooled = replication.Clusters(np.arange(len(data)), len(data), "repetition", len(data))
        limits = interval.quantile_interval(interval.binned(data, pooled), 0.5)
        hits += limits is not None and limits[0] <= 100 <= limits[1]
    assert hits / 200 < 0.7


@pytest.mark.parametrize("clusters", [20, 41, 200])
def test_the_interval_of_many_clusters_is_that_of_scipys_bootstrap(clusters: int) -> None:
    """`scipy.stats.bootstrap` resamples by the same numbers: the limits agree without a margin for chance."""
    data = clustered(np.random.default_rng(clusters), clusters, (0.05, 0.02), "lognormal")
    bins = interval.binned(data.ravel(), replication.clusters(data.ravel(), np.repeat(range(clusters), 20)))
    factor = scipy.stats.t.ppf(0.975, clusters - 1) * np.sqrt(clusters / (clusters - 1))
    expected = scipy.stats.bootstrap(
        (np.arange(clusters),),
        lambda chosen, axis=-1: np.median(data[np.moveaxis(chosen, axis, -1)], axis=(-2, -1)),
        n_resamples=interval.RESAMPLES,
        batch=interval.RESAMPLE_BATCH,
        confidence_level=float(2 * scipy.stats.norm.cdf(factor) - 1),
        rng=np.random.default_rng(7),
    ).confidence_interval
    found = interval.median_interval(bins, 7)
    assert found == pytest.approx(
        (expected.low, expected.high), rel=1e-3 if data.size > interval.MOST_BINS else 1e-9
    )


def test_a_median_that_does_not_vary_is_its_own_interval() -> None:
    """BCa is not defined there: the share of samples below the median is asked instead."""
    values = np.tile([3.0, 4.0, 4.0, 4.0, 5.0], 30)
    found = summarise(values, np.repeat(np.arange(30), 5))
    assert found.ci95 == (4.0, 4.0)


def test_autocorrelation_widens_the_interval_of_one_process() -> None:
    random = np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        noise = random.normal(0, 1, 700)
        for i in range(1, len(noise)):
            noise[i] = 0.8 * noise[i - 1] + 0.6 * noise[i]
        hits += covered(100 + noise[None, 200:])
    assert hits / 200 >= 0.88
    summary = summarise(100 + noise[200:], np.zeros(500, dtype=int))
    assert summary.autocorrelation == pytest.approx(0.8, abs=0.1)
    assert summary.effective_n < 150
    assert any("autocorrelated" in note for note in summary.notes)


def test_one_sample_has_no_spread() -> None:
    summary = summarise([98.0], [0])
    assert (summary.n, summary.median, summary.std, summary.ci95) == (1, 98.0, None, None)


def test_nothing_measured() -> None:
    summary = summarise([np.nan, np.nan], [0, 1])
    assert summary.n == 0
    assert summary.ci95 is None
    assert "2 failed" in summary.notes[0]


def test_failed_samples_are_left_out_and_told() -> None:
    summary = summarise([1.0, np.nan, 3.0, 2.0], [0, 0, 1, 1])
    assert (summary.n, summary.blocks, summary.median) == (3, 2, 2.0)
    assert summary.notes[0].startswith("1 failed")


def test_constant_values() -> None:
    summary = summarise(np.full(600, 255.0), np.repeat(np.arange(6), 100))
    assert summary.ci95 == (255.0, 255.0)
    assert summary.std == 0
    assert summary.skewness == 0
    assert not summary.drift.found


@pytest.mark.parametrize(("boots", "level"), [(None, "process"), (np.repeat([0, 1, 2], 40), "boot")])
def test_highest_level_that_varied(boots: np.ndarray | None, level: str) -> None:
    values = np.random.default_rng(0).normal(100, 1, 120)
    assert summarise(values, np.repeat(np.arange(12), 10), boot=boots).level == level
    assert summarise(values, np.zeros(120)).level == "repetition"


def test_two_modes_are_told_and_one_is_not_split() -> None:
    random = np.random.default_rng(5)
    block = np.arange(700) % 10
    both = random.permuted(np.concatenate([random.normal(100, 1, 500), random.normal(110, 1, 200)]))
    found = summarise(both, block)
    assert [round(mode.location, -1) for mode in found.modes] == [100, 110]
    assert found.modes[1].share == pytest.approx(2 / 7, abs=0.01)
    assert found.representative == "modes"
    single = [summarise(random.lognormal(0, 0.3, 700), block) for _ in range(50)]
    assert sum(len(summary.modes) > 1 for summary in single) <= 1


@pytest.mark.parametrize("n", [50, 99, 150])
def test_equal_samples_beside_a_single_other_have_one_mode(n: int) -> None:
    # Whose deviation without the other is a rounding error or 0, as the value has it.
    for value in np.random.default_rng(1).lognormal(5, 2, 50):
        values = np.full(n, value)
        values[3] *= 1.5
        (mode,) = summarise(values, np.arange(n) % 10).modes
        assert (mode.location, mode.share) == (value, 1.0)


def test_processes_that_differ_are_not_modes() -> None:
    random = np.random.default_rng(6)
    values = random.normal(100, 3, (8, 1)) + random.normal(0, 0.3, (8, 50))
    assert len(summarise(values.ravel(), np.repeat(np.arange(8), 50)).modes) == 1


def test_drift_and_warmup_are_found_and_not_invented() -> None:
    random = np.random.default_rng(7)
    block = np.repeat(np.arange(20), 30)
    quiet = [summarise(random.lognormal(0, 0.1, 600), block) for _ in range(50)]
    assert sum(summary.drift.found for summary in quiet) <= 3
    assert sum(summary.warmup > 0 for summary in quiet) <= 3
    rising = summarise(random.normal(100, 1, 600) * np.linspace(1, 1.05, 600), block)
    assert rising.drift.found
    assert rising.drift.relative == pytest.approx(0.05, abs=0.01)
    cold = random.normal(100, 1, (20, 30))
    cold[:, :3] += 5
    assert summarise(cold.ravel(), block).warmup == 3


def test_percentiles_only_where_there_are_samples_enough() -> None:
    random = np.random.default_rng(8)
    few = summarise(random.normal(0, 1, 499), np.arange(499) % 10)
    enough = summarise(random.normal(0, 1, 500), np.arange(500) % 10)
    assert 99.0 not in few.percentiles
    value, low, high = enough.percentiles[99.0]
    assert low <= value <= high


def test_representative_follows_the_shape() -> None:
    random = np.random.default_rng(9)
    block = np.arange(1000) % 10
    assert summarise(random.uniform(95, 105, 1000), block).representative == "mean"
    assert summarise(100 + random.exponential(5, 1000), block).representative == "median"


@settings(max_examples=60)
@given(
    st.lists(st.floats(min_value=-1e6, max_value=1e6), min_size=1, max_size=60),
    st.integers(min_value=1, max_value=30),
)
def test_summary_is_ordered_and_repeatable(values: list[float], blocks: int) -> None:
    block = np.arange(len(values)) * blocks // len(values)
    summary = summarise(values, block)
    assert summary.minimum <= summary.median <= summary.maximum
    assert repr(summary) == repr(summarise(values, block))
    if summary.ci95 is not None:
        slack = 1e-9 * max(1.0, abs(summary.median))
        assert summary.ci95[0] - slack <= summary.ci95[1]


def test_few_processes_of_something_positive_give_an_interval_above_zero() -> None:
    values = np.array([100.0, 900.0, 2000.0, 150.0, 400.0])
    found = summarise(values, block=np.arange(5))
    assert found.ci95 is not None
    low, high = found.ci95
    assert 0 < low < found.median < high
    mixed = summarise(values - 300, block=np.arange(5))
    assert mixed.ci95 is not None
    assert mixed.ci95[0] < 0


@pytest.mark.parametrize("counts", [[0, 0, 1, 3, 0], [0, 2], [0, 41, 3, 0], [0.0, 0.004, 0.0]])
def test_the_interval_of_an_amount_does_not_go_below_zero(counts: list[float]) -> None:
    found = summarise(counts, range(len(counts)))
    assert found.ci95 is not None
    assert 0 <= found.ci95[0] <= found.median <= found.ci95[1]
    larger = summarise([1000 * each for each in counts], range(len(counts))).ci95
    assert larger == pytest.approx([1000 * end for end in found.ci95]), "the unit makes no difference"


def test_one_sample_has_no_interval_that_rests_on_anything() -> None:
    assert summarise([1.0], [0]).notes == ("One sample: it has no interval.",)
    assert summarise([1.0, 2.0, 3.0], [0, 0, 0]).notes[0].startswith("One process: the interval rests on")


def test_the_interval_of_a_difference_may_hold_zero() -> None:
    found = summarise([1.0, 9.0, 2.0], range(3), kind="difference")
    assert found.ci95 is not None
    assert found.ci95[0] < 0 < found.ci95[1]


def test_the_interval_of_counts_that_are_zero_at_times_covers_their_median() -> None:
    generator = np.random.default_rng(7)
    held = 0
    for _ in range(400):
        ends = summarise(generator.poisson(2, 5), range(5)).ci95
        held += ends is not None and ends[0] <= 2 <= ends[1]
    assert held / 400 >= 0.92


def test_resampled_medians_are_those_of_the_samples_themselves() -> None:
    """Each cluster as often as its weight says, against `np.median` of samples repeated that often."""
    random = np.random.default_rng(5)
    for values in (random.normal(size=60), random.integers(0, 4, 60).astype(float)):
        code = random.permutation(np.repeat(np.arange(6), 10))
        bins = interval.binned(values, Clusters(code, 6, "process", 6))
        weights = random.multinomial(6, np.full(6, 1 / 6), size=200)
        found = interval._weighted_medians(bins, weights.astype(float))
        expected = [np.median(np.repeat(values, row[code])) for row in weights]
        assert np.array_equal(found, expected)


def test_values_a_step_beside_the_median_are_no_outliers() -> None:
    # Three of four values on one step of the clock, as a short call has them.
    values = np.array([20.0] * 10 + [30.0] * 75 + [40.0] * 14 + [300.0])
    assert shape.outlier_share(values, step=10.0) == pytest.approx(0.01)
    assert shape.outlier_share(values) == pytest.approx(0.25)


def with_user_time(experiment: ExperimentResults, runs: int | None) -> ExperimentResults:
    """Return the experiment with CPU times, of which only the first runs (None: all) have their user time."""
    times = [point.metrics["time_ns"] for point in experiment.points]
    parts = [np.where(np.arange(len(time)) < (runs or len(time)), time / 2, np.nan) for time in times]
    points = tuple(
        replace(point, metrics={"time_ns": time, "cpu_ns": time, "user_ns": part})
        for point, time, part in zip(experiment.points, times, parts, strict=True)
    )
    metrics = {name: replace(experiment.metrics["time_ns"], name=name) for name in points[0].metrics}
    return replace(experiment, points=points, metrics=metrics)


def test_a_part_of_the_cpu_time_that_some_runs_lack_is_not_measured() -> None:
    """Only long runs have it, so that its median would be that of the longest ones."""
    whole, partly = (with_user_time(synthetic.cost(), runs) for runs in (None, 100))
    for experiment, runs in ((whole, 119), (partly, 0)):
        point = experiment.points[0]
        assert len(point.failed) == 1
        assert summarise_point(experiment, point, "user_ns").n == runs
        assert summarise_point(experiment, point, "cpu_ns").n == 119
    found = compare_results(whole, replace(partly, run_id="another"))
    assert {row.metric for row in found.rows} == {"time_ns", "cpu_ns"}
    assert "user_ns: not compared, B has no value" in found.caveats

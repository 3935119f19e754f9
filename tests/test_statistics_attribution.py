"""Attribution: causes put in on purpose are named with about their share; without one, none is named."""

from __future__ import annotations

import numpy as np
import pytest

from oscope.model.samples import Floats
from oscope.statistics import attribute
from oscope.statistics.candidates import MEASURED_TIME


def covariates(random: np.random.Generator, count: int) -> dict[str, Floats]:
    return {
        "run_delay_ns": random.exponential(8, count) * (random.random(count) < 0.1),
        "interrupts": random.poisson(0.3, count).astype(float),
        "migrations": (random.random(count) < 0.05).astype(float),
        "temperature": random.normal(50, 1, count),
        "steal_ticks": np.zeros(count),
        "user_us": random.normal(50, 1, count),
        "cycles": np.full(count, np.nan),
    }


def test_injected_causes_are_named_with_their_share() -> None:
    random = np.random.default_rng(0)
    count, blocks = 4000, 40
    given = covariates(random, count)
    values = 100 + random.normal(0, 1, count) + given["run_delay_ns"] + 1.5 * given["interrupts"]
    truth = {
        "run_delay_ns": np.var(given["run_delay_ns"]) / np.var(values),
        "interrupts": np.var(1.5 * given["interrupts"]) / np.var(values),
    }
    found = attribute(values, given, np.repeat(np.arange(blocks), count // blocks))
    assert [cause.name for cause in found.causes] == ["run_delay_ns", "interrupts"]
    for cause in found.causes:
        assert cause.share == pytest.approx(truth[cause.name], abs=0.1)
        assert cause.low <= cause.share <= cause.high
        assert cause.direction == "more"
    assert found.unexplained == pytest.approx(1 - sum(truth.values()), abs=0.15)
    assert all(sample.value > 100 for sample in found.slow)
    assert found.slow[0].causes[0] == "run_delay_ns"


def test_of_a_rate_the_reciprocal_is_explained_and_the_lowest_are_slow() -> None:
    random = np.random.default_rng(5)
    count = 2000
    given = {"run_delay_ns": random.exponential(100, count) * (random.random(count) < 0.2)}
    times = 100 + random.normal(0, 1, count) + given["run_delay_ns"]
    block = np.repeat(np.arange(40), count // 40)
    time, rate = attribute(times, given, block), attribute(1e9 / times, given, block, is_rate=True)
    (cause,) = rate.causes
    assert cause.name == "run_delay_ns"
    assert cause.share == pytest.approx(time.causes[0].share, abs=1e-6)
    assert (time.causes[0].direction, cause.direction) == ("more", "less")
    assert cause.sentence.startswith("More run_delay_ns goes with less")
    assert [sample.index for sample in rate.slow] == [sample.index for sample in time.slow]
    assert all(sample.excess < 0 for sample in rate.slow)
    assert rate.slow[0].value == pytest.approx(1e9 / times.max())


def test_processes_and_drift_are_causes() -> None:
    random = np.random.default_rng(1)
    values = random.normal(0, 1, (40, 50)) + random.normal(0, 1, (40, 1))
    block = np.repeat(np.arange(40), 50)
    processes = attribute(values.ravel(), {}, block, started_ns=np.arange(2000))
    assert [cause.name for cause in processes.causes] == ["process"]
    assert processes.causes[0].share == pytest.approx(0.5, abs=0.15)
    rising = random.normal(0, 1, 2000) + np.linspace(0, 5, 2000)
    drifting = attribute(rising, {}, block, started_ns=np.arange(2000) * 1_000_000)
    assert drifting.causes[0].name == "drift"
    assert drifting.causes[0].share == pytest.approx(25 / 12 / (1 + 25 / 12), abs=0.1)


@pytest.mark.parametrize(("blocks", "noise"), [(20, "normal"), (10, "lognormal"), (1, "normal")])
def test_none_injected_none_claimed(blocks: int, noise: str) -> None:
    random = np.random.default_rng(blocks)
    claimed = 0
    for _ in range(150):
        drawn = random.normal(0, 1, 400)
        values = np.exp(drawn) if noise == "lognormal" else drawn
        block = np.repeat(np.arange(blocks), 400 // blocks)
        found = attribute(values, covariates(random, 400), block, started_ns=np.arange(400))
        claimed += bool(found.causes)
    # 6 % allowed; 15 of 150 is beyond the binomial bound of a true 5 % (p = 0.01).
    assert claimed <= 15


def preempted(random: np.random.Generator, count: int) -> dict[str, Floats]:
    """Five ways in which being taken off the CPU shows, and one that is another matter."""
    switches = (random.random(count) < 0.2).astype(float)
    return {
        "switches": switches,
        "run_delay_ns": switches * random.uniform(3, 5, count),
        "interrupts": switches + (random.random(count) < 0.02),
        "timer_interrupts": switches + (random.random(count) < 0.01),
        "system_us": switches * random.uniform(3, 5, count),
        "faults": random.poisson(2, count).astype(float),
    }


def test_collinear_covariates_are_one_cause_with_the_whole_share() -> None:
    random = np.random.default_rng(2)
    given = preempted(random, 2000)
    values = 2 * given["run_delay_ns"] + random.normal(0, 1, 2000)
    found = attribute(values, given, np.arange(2000) // 100)
    (cause,) = found.causes
    assert cause.name == "run_delay_ns"
    assert sorted(cause.along) == ["interrupts", "switches", "timer_interrupts"]
    plain = np.corrcoef(given["run_delay_ns"], values)[0, 1] ** 2
    assert cause.share == pytest.approx(plain, abs=0.02)
    assert found.unexplained == pytest.approx(1 - plain, abs=0.02)
    assert f"More {cause.label} goes with more" in cause.sentence
    assert "cannot be told apart" in cause.sentence


def test_equal_covariates_do_not_mask_each_other() -> None:
    random = np.random.default_rng(2)
    delay = random.exponential(1, 2000)
    found = attribute(delay + random.normal(0, 1, 2000), {"a": delay, "b": -delay}, np.arange(2000) // 100)
    (cause,) = found.causes
    assert cause.names == ("a", "b")
    assert cause.share == pytest.approx(0.5, abs=0.1)


def test_covariates_that_go_together_loosely_do_not_mask_each_other() -> None:
    random = np.random.default_rng(5)
    common = random.normal(0, 1, 400)
    given = {name: common + random.normal(0, 1, 400) for name in ("a", "b", "c", "d")}
    values = sum(given.values()) + random.normal(0, 4, 400)
    found = attribute(values, given, np.arange(400) // 20)
    design = np.column_stack([np.ones(400), *(given[cause.name] for cause in found.causes)])
    remainder = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
    assert len(found.causes) >= 2
    assert found.unexplained == pytest.approx(np.var(remainder) / np.var(values), abs=0.05)


def test_what_only_goes_with_the_cause_is_not_claimed() -> None:
    random = np.random.default_rng(6)
    claimed = 0
    for _ in range(100):
        given = covariates(random, 400)
        given["shadow"] = given["run_delay_ns"] / 8 + random.normal(0, 0.5, 400)
        values = given["run_delay_ns"] + random.normal(0, 1, 400)
        found = attribute(values, given, np.arange(400) // 20)
        assert found.causes[0].name == "run_delay_ns"
        claimed += len(found.causes) > 1
    # 11 of 100 is beyond the binomial bound of a true 5 % (p = 0.01).
    assert claimed <= 10


def test_the_measured_time_by_another_clock_is_no_cause() -> None:
    random = np.random.default_rng(8)
    values = random.lognormal(0, 1, 1000)
    given: dict[str, Floats] = dict.fromkeys(MEASURED_TIME, values * 1e-3)
    found = attribute(values, given, np.arange(1000) // 50)
    assert {"user_us", "system_us"} <= MEASURED_TIME
    assert found.causes == ()
    assert found.unexplained == 1
    assert all(slow.causes == () for slow in found.slow)


def test_one_extreme_sample_does_not_decide() -> None:
    random = np.random.default_rng(9)
    given = {"delay": random.exponential(1, 1000), "interrupts": random.poisson(0.5, 1000).astype(float)}
    values = given["interrupts"] + random.normal(0, 1, 1000)
    given["delay"][500], values[500] = 1e6, 1e6
    found = attribute(values, given, np.arange(1000) // 50)
    assert np.corrcoef(given["delay"], values)[0, 1] ** 2 > 0.99
    assert [cause.name for cause in found.causes] == ["interrupts"]
    assert found.extreme > 0.99
    assert "the few most extreme samples make" in found.sentence
    assert found.slow[0].index == 500
    assert found.slow[0].causes == ("delay",)


def test_too_few_samples_claim_nothing() -> None:
    found = attribute(np.arange(49.0), {"cause": np.arange(49.0)}, np.zeros(49))
    assert not found.enough
    assert found.causes == ()
    assert np.isnan(found.unexplained)
    assert "49 samples are not enough" in found.sentence
    one = attribute(np.arange(1.0), {"cause": np.arange(1.0)}, np.zeros(1))
    assert "1 sample is not enough" in one.sentence


def test_constant_values_have_no_cause() -> None:
    found = attribute(np.ones(100), {"cause": np.arange(100.0)}, np.zeros(100))
    assert found.enough
    assert found.causes == ()


def test_equal_input_gives_equal_output() -> None:
    random = np.random.default_rng(3)
    given = covariates(random, 500)
    values = random.normal(0, 1, 500) + given["run_delay_ns"]
    block = np.arange(500) // 50
    assert repr(attribute(values, given, block)) == repr(attribute(values, given, block))


def test_what_only_the_own_cpu_time_goes_with_is_told_apart() -> None:
    random = np.random.default_rng(5)
    count = 2000
    delayed = 20 * (random.random(count) < 0.3)
    given = covariates(random, count)
    block = np.repeat(np.arange(20), count // 20)
    computed = given | {"user_us": 100 + delayed + random.normal(0, 1, count), "system_us": np.zeros(count)}
    values = 100 + delayed + random.normal(0, 3, count)
    found = attribute(values, computed, block)
    assert found.causes == ()
    truth = np.var(delayed) / np.var(values)
    assert found.own == pytest.approx(truth, abs=0.05)
    waited = attribute(values, computed | {"user_us": random.normal(100, 1, count)}, block)
    assert waited.own < 0.02
    assert np.isnan(attribute(values, {"interrupts": given["interrupts"]}, block).own)


def test_own_cpu_time_that_a_cause_explains_is_that_causes() -> None:
    random = np.random.default_rng(6)
    count = 2000
    given = covariates(random, count)
    faults = random.poisson(2, count).astype(float)
    time = 100 + 5 * faults + random.normal(0, 1, count)
    more = {"minor_faults": faults, "user_us": np.full(count, 50.0), "system_us": 5 * faults}
    found = attribute(time, given | more, np.repeat(np.arange(20), count // 20))
    assert [cause.name for cause in found.causes] == ["minor_faults"]
    assert found.own < 0.02


@pytest.mark.parametrize("name", ["timer_interrupts", "reschedule_interrupts"])
def test_a_count_that_hardly_varies_is_no_cause_by_the_time_that_it_is_divided_by(name: str) -> None:
    """Processes differ; a few samples have a tick, and nearly all exactly one wake-up of the other CPU."""
    random = np.random.default_rng(3)
    blocks, each = 20, 30
    block = np.repeat(np.arange(blocks), each)
    times = 100 + random.normal(0, 5, blocks)[block] + random.normal(0, 2, len(block))
    counts = {
        "timer_interrupts": (random.random(len(block)) < 0.015).astype(float),
        "reschedule_interrupts": 1.0 + (random.random(len(block)) < 0.01),
    }
    found = attribute(times, {name: counts[name]}, block, duration_ns=times)
    assert [cause.name for cause in found.causes] == ["process"]

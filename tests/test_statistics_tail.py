"""The upper tail: a cause of a few slow samples is named there, and without one, none is."""

from __future__ import annotations

import numpy as np
import pytest

from oscope.model.samples import Floats
from oscope.statistics import Attribution, attribute

COUNT = 2000
BLOCK = np.arange(COUNT) // 100


def interrupted(seed: int) -> tuple[Floats, dict[str, Floats], Floats]:
    """18 samples in 2000 are slow, most of them after an interrupt, which 3 % of the others have too."""
    random = np.random.default_rng(seed)
    slow = np.zeros(COUNT, dtype=bool)
    slow[random.permutation(COUNT)[:18]] = True
    given = {f"noise {i}": random.normal(0, 1, COUNT) for i in range(10)}
    given["device_interrupts"] = (random.random(COUNT) < np.where(slow, 0.9, 0.03)).astype(float)
    given["run_delay_ns"] = 100 + random.exponential(10, COUNT) + 500 * slow
    values = 1000 + random.normal(0, 5, COUNT) + slow * random.uniform(200, 600, COUNT)
    return values, given, slow


def test_a_rare_cause_is_named_in_the_tail() -> None:
    values, given, slow = interrupted(0)
    found = attribute(values, given, BLOCK)
    tail = found.tail
    assert tail is not None
    assert tail.of == COUNT
    # Five values and 1 % of all are at the limit or beyond it.
    assert tail.n == len(tail.samples) == 24
    assert set(np.flatnonzero(slow)) <= set(tail.samples)
    assert all(values[i] > tail.limit for i in tail.samples)
    assert tail.share > 0.9
    causes = {cause.name: cause for cause in tail.causes}
    assert set(causes) == {"device_interrupts", "run_delay_ns"}
    has = given["device_interrupts"] > 0
    inside = np.isin(np.arange(COUNT), tail.samples)
    rare = causes["device_interrupts"]
    assert (rare.measure, rare.direction) == ("share", "more")
    assert (rare.having, rare.known) == (has[inside].sum(), 24)
    assert rare.in_tail == pytest.approx(has[inside].mean())
    assert rare.in_rest == pytest.approx(has[~inside].mean())
    assert rare.odds_ratio > 20
    assert rare.p < 0.05
    delay = causes["run_delay_ns"]
    assert delay.measure == "median"
    assert delay.in_tail == pytest.approx(np.median(given["run_delay_ns"][inside]))
    assert tail.sentence.startswith("24 of 2,000 samples are more than ")
    assert "% above the median; they hold 9" in tail.sentence
    assert f"{rare.having} of 24 had device_interrupts, " in tail.sentence
    # The shares leave the tail out.
    assert found.causes == ()


def test_of_a_rate_the_lowest_are_the_tail() -> None:
    values, given, _ = interrupted(1)
    values[7] = np.nan
    time, rate = attribute(values, given, BLOCK), attribute(1e9 / values, given, BLOCK, is_rate=True)
    assert time.tail is not None
    assert rate.tail is not None
    assert rate.tail.samples == time.tail.samples
    assert rate.tail.causes == time.tail.causes
    assert rate.tail.limit == pytest.approx(1e9 / time.tail.limit)
    assert "below the median" in rate.tail.sentence


# 15 of 150 is beyond the binomial bound of a true 5 % (p = 0.01), and 7 of 50.
@pytest.mark.parametrize(("tries", "most"), [(50, 6), pytest.param(150, 14, marks=pytest.mark.full)])
@pytest.mark.parametrize("kind", ["one process", "many processes", "bursts"])
def test_without_a_cause_none_is_named(kind: str, tries: int, most: int) -> None:
    named = 0
    for seed in range(tries):
        random = np.random.default_rng(seed)
        values = random.lognormal(0, 0.5, 400)
        given = {f"c{i}": random.normal(0, 1, 400) for i in range(5)}
        given |= {f"rare {i}": random.poisson(0.1, 400).astype(float) for i in range(5)}
        if kind == "bursts":
            # Slow samples come in bursts, and covariates wander: they meet by chance.
            given |= {f"c{i}": np.cumsum(random.normal(0, 1, 400)) for i in range(5)}
            for first in random.integers(0, 390, 3):
                values[first : first + 6] += 10
        block = np.arange(400) // {"one process": 400, "many processes": 10, "bursts": 40}[kind]
        tail = attribute(values, given, block, seed=seed).tail
        assert tail is not None
        named += bool(tail.causes)
    assert named <= most


def ticks(seed: int) -> Attribution:
    """Attribute times of which a few are ten times as long, and count ten times as much, for no cause."""
    random = np.random.default_rng(seed)
    time = 1e6 * np.exp(random.normal(0, 0.1, 400))
    time[random.permutation(400)[:8]] *= 10
    given = {
        "timer_interrupts": random.poisson(time / 4e6).astype(float),
        "device_interrupts": random.poisson(time / 1e7).astype(float),
        "steal_ticks": random.poisson(time / 1e8).astype(float),
    }
    return attribute(time, given, np.arange(400) // 40, duration_ns=time, seed=seed)


def test_counts_of_repetitions_that_last_longer_are_no_cause() -> None:
    named = sum(bool(tail.causes) for seed in range(100) if (tail := ticks(seed).tail) is not None)
    # 11 of 100 is beyond the binomial bound of a true 5 % (p = 0.01).
    assert named <= 10


def test_a_cause_in_each_process_is_found_though_processes_differ() -> None:
    random = np.random.default_rng(5)
    level = random.normal(0, 3, 20)[BLOCK]
    values = 100 + level + random.normal(0, 1, COUNT)
    late = np.arange(COUNT) % 100 == 50
    values[late] += 30
    found = attribute(values, {"migrations": late.astype(float)}, BLOCK)
    assert found.tail is not None
    (cause,) = found.tail.causes
    assert (cause.name, cause.having) == ("migrations", 20)


def test_without_a_tail_there_is_nothing_to_explain() -> None:
    random = np.random.default_rng(6)
    two_values = (random.random(400) < 0.5).astype(float)
    assert attribute(two_values, {"c": random.normal(0, 1, 400)}, np.arange(400) // 40).tail is None
    assert attribute(np.arange(49.0), {"c": np.arange(49.0)}, np.zeros(49)).tail is None


def test_gaps_in_a_covariate_are_left_out() -> None:
    values, given, _ = interrupted(2)
    column = given["device_interrupts"]
    column[::5] = np.nan
    found = attribute(values, {"device_interrupts": column, "unknown": np.full(COUNT, np.nan)}, BLOCK)
    assert found.tail is not None
    (cause,) = found.tail.causes
    assert cause.known == np.isfinite(column[list(found.tail.samples)]).sum() < found.tail.n


def test_the_limit_is_given_by_the_median() -> None:
    values, given, _ = interrupted(3)
    far = attribute(np.where(values > 1100, 10 * values, values), given, BLOCK).tail
    assert far is not None
    assert "% above the median" in far.sentence
    order = np.argsort(values)
    values[order[-60:]] += 1e5
    far, rate = (
        attribute(v, given, BLOCK, is_rate=r).tail for v, r in ((values, False), (1e9 / values, True))
    )
    assert far is not None
    assert rate is not None
    assert "are more than 101 times the median" in far.sentence
    assert "are below 0.99 % of the median" in rate.sentence

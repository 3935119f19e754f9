"""What may be a cause: counts that only lasted longer are none, and origins come before their traces."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from oscope.model.samples import Floats
from oscope.statistics import attribute, decomposition
from oscope.statistics.candidates import TRACES, candidates, follows, origins_first, own_time_ns

COUNT = 2000
BLOCK = np.arange(COUNT) // 100
STARTED_NS = np.arange(COUNT) * 2e6


def test_ticks_of_repetitions_that_last_longer_are_no_cause() -> None:
    random = np.random.default_rng(0)
    time = 1e6 * (1 + (random.random(COUNT) < 0.3)) + random.normal(0, 1e4, COUNT)
    ticks = random.poisson(time / 4e5).astype(float)
    assert np.corrcoef(ticks, time)[0, 1] > 0.5
    plain = attribute(time, {"timer_interrupts": ticks}, BLOCK)
    assert [cause.name for cause in plain.causes] == ["timer_interrupts"]
    assert attribute(time, {"timer_interrupts": ticks}, BLOCK, duration_ns=time).causes == ()


def test_a_storm_of_interrupts_is_a_cause_still() -> None:
    random = np.random.default_rng(1)
    storm = random.random(COUNT) < 0.4
    ticks = random.poisson(np.where(storm, 25, 0.25)).astype(float)
    time = 1e6 + 1e4 * ticks + random.normal(0, 3e4, COUNT)
    found = attribute(time, {"timer_interrupts": ticks}, BLOCK, duration_ns=time)
    assert found.causes[0].name == "timer_interrupts"
    assert found.causes[0].share > 0.7


def test_a_noisy_sounding_of_a_load_that_lasts_is_averaged() -> None:
    random = np.random.default_rng(2)
    load = (np.arange(COUNT) // 125) % 2
    canary = 3000 + 300 * load + random.normal(0, 1000, COUNT)
    time = 1e6 + 1e5 * load + random.normal(0, 3e4, COUNT)
    given = {"memory_wait_ns": canary}
    single = attribute(time, given, BLOCK)
    averaged = attribute(time, given, BLOCK, started_ns=STARTED_NS)
    assert all(cause.share < 0.1 for cause in single.causes if cause.name == "memory_wait_ns")
    assert averaged.causes[0].name == "memory_wait_ns"
    assert averaged.causes[0].share > 0.25


def test_what_a_move_brings_about_is_the_moves() -> None:
    random = np.random.default_rng(3)
    moves = (random.random(COUNT) < 0.2) * 1.0
    waited = moves * random.exponential(2e4, COUNT) + (random.random(COUNT) < 0.02) * 1e4
    time = 1e6 + waited + 5e3 * moves + random.normal(0, 3e3, COUNT)
    found = attribute(time, {"migrations": moves, "run_delay_ns": waited}, BLOCK)
    assert found.causes[0].name == "migrations"
    assert found.causes[0].share > 0.8


def test_waits_that_only_coincide_with_moves_are_not_theirs() -> None:
    random = np.random.default_rng(4)
    moves = (random.random(COUNT) < 0.1) * 1.0
    waited = (random.random(COUNT) < 0.1) * random.exponential(2e4, COUNT)
    time = 1e6 + waited + random.normal(0, 3e3, COUNT)
    found = attribute(time, {"migrations": moves, "run_delay_ns": waited}, BLOCK)
    assert [cause.name for cause in found.causes] == ["run_delay_ns"]


def test_an_origin_hides_its_trace_and_not_the_other_way_round() -> None:
    random = np.random.default_rng(5)
    read = random.poisson(0.3, COUNT).astype(float)
    slept = read + random.normal(0, 0.7, COUNT)
    time = 10 * slept + random.normal(0, 3, COUNT)
    found = attribute(time, {"block_inputs": read, "voluntary_switches": slept}, BLOCK)
    shares = {cause.name: cause.share for cause in found.causes}
    alone = np.corrcoef(read, time)[0, 1] ** 2
    assert shares["block_inputs"] == pytest.approx(alone, abs=0.05)


def test_no_covariate_is_the_trace_of_its_own_trace() -> None:
    for origin, traces in TRACES.items():
        reached, front = set(traces), set(traces)
        while front := {further for name in front for further in TRACES.get(name, ())} - reached:
            reached |= front
        assert origin not in reached


def test_a_group_is_named_after_its_origin() -> None:
    assert origins_first(("run_delay_ns", "migrations")) == ("migrations", "run_delay_ns")
    assert origins_first(("b", "a")) == ("b", "a")
    assert follows("run_delay_ns", "migrations")
    assert not follows("migrations", "run_delay_ns")


def test_the_truth_of_an_injection_is_no_candidate() -> None:
    given: dict[str, Floats] = {"injected_ns": np.arange(100.0), "user_us": np.arange(100.0)}
    assert candidates(given, None, None) == {}


def test_a_thread_that_did_not_sleep_ran_while_it_did_not_wait() -> None:
    given = {
        "user_us": np.array([0.0, 8.0, 0.0]),
        "system_us": np.zeros(3),
        "run_delay_ns": np.array([0.0, 500.0, 0.0]),
        "voluntary_switches": np.array([0.0, 0.0, 2.0]),
    }
    ran = own_time_ns(given, np.array([3000.0, 3500.0, 9000.0]))
    assert ran is not None
    assert list(ran) == [3000.0, 3000.0, 0.0]
    counted = own_time_ns(given, None)
    assert counted is not None
    assert list(counted) == [0.0, 8000.0, 0.0]


@pytest.mark.parametrize("later", [(), [{1}, (), (), ()], [{1}, {3}, (), ()], [(), (), (), {0, 2}]])
def test_shares_are_the_mean_gains_over_the_orders_that_may_be(later: list[set[int]]) -> None:
    random = np.random.default_rng(6)
    columns = random.normal(size=(400, 4))
    columns[:, 1] += columns[:, 0]
    columns[:, 3] -= columns[:, 1]
    response = columns @ [1.0, 2.0, 0.0, 0.5] + random.normal(size=400)
    everything = np.column_stack([columns, response])

    def explained(entered: tuple[int, ...]) -> float:
        full = np.column_stack([np.ones(400), columns[:, entered]])
        rest = response - full @ np.linalg.lstsq(full, response, rcond=None)[0]
        return 1 - float(np.var(rest) / np.var(response))

    gains: list[list[float]] = []
    for order in permutations(range(4)):
        if all(order.index(i) < order.index(j) for i, after in enumerate(later) for j in after):
            steps = [explained(order[: k + 1]) - explained(order[:k]) for k in range(4)]
            gains.append([steps[order.index(j)] for j in range(4)])
    standard = (everything - everything.mean(axis=0)) / everything.std(axis=0)
    cluster = np.arange(400) // 20
    found = decomposition.moments(standard[:, -1], standard[:, :-1], cluster, cluster)
    shares = decomposition.shapley(found, np.ones((1, 20)), later)[0]
    assert shares[:-1] == pytest.approx(np.mean(gains, axis=0), abs=1e-6)


def _ticked(random: np.random.Generator) -> tuple[Floats, dict[str, Floats], Floats]:
    """Durations, how often a clock of 1 ms ticks while each is counted, and when they began; in ns."""
    duration = 2.4e6 * np.exp(random.normal(0, 0.1, 1500))
    counted = duration + 0.55e6
    began = np.cumsum(np.concatenate([[0.0], (counted + 0.3e6)[:-1]]))
    ticks = np.floor((began + counted) / 1e6) - np.floor(began / 1e6)
    return duration, {"timer_interrupts": ticks, "counted_ns": counted}, began


def test_a_clock_that_ticks_evenly_is_no_cause() -> None:
    duration, given, began = _ticked(np.random.default_rng(3))
    block = np.arange(1500) // 150
    found = attribute(duration, given, block, started_ns=began, duration_ns=duration)
    assert found.causes == ()
    # By the measured time alone, which is shorter than what is counted, long repetitions have a lower rate,
    # but no fewer ticks.
    del given["counted_ns"]
    found = attribute(duration, given, block, started_ns=began, duration_ns=duration)
    assert found.causes == ()


def test_a_storm_of_ticks_is_told_though_it_lengthens_what_it_is_counted_in() -> None:
    random = np.random.default_rng(4)
    stormy = (np.arange(1500) // 100) % 2 == 1
    more = random.poisson(40, 1500) * stormy
    duration = 1e6 * np.exp(random.normal(0, 0.1, 1500)) + 2e4 * more
    counted = duration + 0.5e6
    ticks = random.poisson(counted / 1e6) + more
    given = {"timer_interrupts": ticks.astype(float), "counted_ns": counted}
    found = attribute(duration, given, np.arange(1500) // 150, duration_ns=duration)
    (cause,) = found.causes
    assert (cause.name, cause.direction) == ("timer_interrupts", "more")
    assert cause.share == pytest.approx(np.var(2e4 * more) / np.var(duration), abs=0.1)

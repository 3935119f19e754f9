"""Warm-up: starts put in on purpose are found with their length and size, and none is invented."""

from __future__ import annotations

import numpy as np
import pytest

from oscope.model.samples import Floats
from oscope.statistics import summarise
from oscope.statistics.warmup import Warmup, find_warmup


def drawn(random: np.random.Generator, processes: int, repetitions: int, noise: str = "normal") -> Floats:
    """Draw a row a process: of median 100, processes differing by 2 %, repetitions by 1 %."""
    within = random.normal(0, 1, (processes, repetitions))
    if noise == "lognormal":
        within = np.exp(within) - 1
    if noise == "AR(1) 0.7":
        for i in range(1, repetitions):
            within[:, i] = 0.7 * within[:, i - 1] + np.sqrt(0.51) * within[:, i]
    return np.asarray(100 * (1 + random.normal(0, 0.02, (processes, 1)) + 0.01 * within), dtype=float)


def found(table: Floats) -> Warmup | None:
    return find_warmup(table.ravel(), np.repeat(np.arange(len(table)), table.shape[1]))


@pytest.mark.parametrize("noise", ["normal", "lognormal", "AR(1) 0.7"])
@pytest.mark.parametrize(("processes", "repetitions"), [(3, 10), (5, 4), (10, 5), (10, 20), (30, 10)])
def test_none_is_invented(processes: int, repetitions: int, noise: str) -> None:
    random = np.random.default_rng(processes)
    alarms = sum(found(drawn(random, processes, repetitions, noise)) is not None for _ in range(500))
    # Of a rate of 1 %, more than this would come about once in ten thousand times; of 3 %, in 30.
    limit = 15 if noise != "AR(1) 0.7" else 25
    assert alarms <= limit


@pytest.mark.parametrize(
    ("processes", "repetitions", "length"), [(5, 4, 1), (5, 4, 2), (10, 5, 2), (10, 20, 1), (30, 40, 7)]
)
def test_a_start_is_found_with_its_length_and_its_size(processes: int, repetitions: int, length: int) -> None:
    random = np.random.default_rng(1)
    lengths, held = [], []
    for _ in range(200):
        table = drawn(random, processes, repetitions)
        table[:, :length] *= 1.1
        warmup = found(table)
        if warmup is not None:
            lengths.append(warmup.repetitions)
            assert warmup.low is not None
            assert warmup.high is not None
            if warmup.repetitions == length:
                held.append(warmup.low <= 0.1 <= warmup.high)
    assert len(lengths) >= 180
    assert len(held) >= 0.95 * len(lengths)
    assert sum(held) >= 0.9 * len(held)


def test_a_start_below_the_others_is_told_as_such() -> None:
    table = drawn(np.random.default_rng(2), 10, 10)
    table[:, 0] *= 0.8
    warmup = found(table)
    assert warmup is not None
    assert warmup.change == pytest.approx(-0.2, abs=0.01)
    assert warmup.note.startswith(f"The first repetition of a process lies {-100 * warmup.change:.0f} % [")
    assert warmup.note.endswith("] below the others; it is not left out.")


def test_what_is_in_one_process_only_is_no_warm_up() -> None:
    table = drawn(np.random.default_rng(3), 12, 10)
    table[4, :2] *= 3
    assert found(table) is None


def test_too_small_a_start_is_not_told() -> None:
    table = np.tile(100 + 1e-6 * np.arange(10.0)[::-1], (12, 1))
    assert found(table) is None


def test_values_around_zero_have_a_start_too() -> None:
    random = np.random.default_rng(4)
    table = random.normal(1, 1, (20, 10))
    table[:, :2] += 5
    warmup = found(table)
    assert warmup is not None
    assert warmup.repetitions == 2
    assert found(random.normal(0, 1, (20, 10)) * 0) is None


def test_a_process_that_ended_early_hides_nothing() -> None:
    table = drawn(np.random.default_rng(5), 10, 12)
    table[:, :2] *= 1.2
    values = table.ravel()[:-11]
    block = np.repeat(np.arange(10), 12)[:-11]
    warmup = find_warmup(values, block)
    assert warmup is not None
    assert warmup.repetitions == 2


def test_of_one_process_the_start_is_told_without_an_interval() -> None:
    values = drawn(np.random.default_rng(6), 1, 400).ravel()
    values[:5] *= 1.5
    warmup = find_warmup(values, np.zeros(400, dtype=np.int64))
    assert warmup is not None
    assert (warmup.repetitions, warmup.low) == (5, None)
    assert warmup.note.startswith("The first 5 repetitions of a process lie ")


def test_a_summary_tells_it_and_leaves_nothing_out() -> None:
    table = drawn(np.random.default_rng(7), 10, 10)
    table[:, :2] *= 1.2
    summary = summarise(table.ravel(), np.repeat(np.arange(10), 10))
    assert (summary.n, summary.warmup) == (100, 2)
    assert summary.maximum == table.max()
    assert any(note.startswith("The first 2 repetitions of a process lie ") for note in summary.notes)

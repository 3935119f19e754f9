"""The trials of a slow tail: what is written comes back, and a tail of known size is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tail_trials
from cli_driver import ROOT
from oscope.model.samples import Floats

BLOCKS = 800
PER_BLOCK = 5


def samples(random: np.random.Generator) -> Floats:
    """Return times of which 1 % are 20 % longer: a tail that p99 falls into."""
    values = random.normal(156.0, 1.0, BLOCKS * PER_BLOCK)
    return values * np.where(random.random(len(values)) < 0.02, 1.2, 1.0)


def side(trial: str, values: Floats, delay_ns: float = 0.0) -> tail_trials.Side:
    blocks = np.repeat(np.arange(BLOCKS), PER_BLOCK).astype(np.int32)
    return tail_trials.side_of(trial, delay_ns, values, blocks)


def trial(seed: int) -> list[tail_trials.Side]:
    """Return the three sides of a trial, the last one delayed as the trials' rule says."""
    random = np.random.default_rng(seed)
    delay_ns = tail_trials.delay_of(samples(random), random)
    slow = samples(random)
    slow += delay_ns * (random.random(len(slow)) < tail_trials.DELAYED)
    equal = [side(f"run{seed}", samples(random)) for _ in range(2)]
    return [*equal, side(f"run{seed}", slow, delay_ns)]


def test_the_delay_raises_p99_by_what_is_asked() -> None:
    random = np.random.default_rng(1)
    values = samples(random)
    delay_ns = tail_trials.delay_of(values, random)
    assert tail_trials.growth_of(values, delay_ns, random) == pytest.approx(tail_trials.SLOWER, abs=0.01)
    slow = tail_trials.delayed_copy(side("run1", values), random)
    raised = np.quantile(slow.samples, 0.99) / np.quantile(values, 0.99)
    assert raised == pytest.approx(1 + tail_trials.SLOWER, abs=0.03)


def test_a_slower_tail_is_found_and_equal_ones_are_not() -> None:
    first, second, slow = trial(2)
    assert tail_trials.judged(first, slow)[0.99].different
    assert not any(tail.different for tail in tail_trials.judged(first, second).values())


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    sides = [*trial(3), *trial(4)]
    tail_trials.write(tmp_path / "tails.npz", sides)
    again = tail_trials.read(tmp_path / "tails.npz")
    assert list(tail_trials.lines(again)) == list(tail_trials.lines(sides))
    for mine, theirs in zip(again, sides, strict=True):
        assert (mine.trial, mine.delay_ns) == (theirs.trial, theirs.delay_ns)
        assert mine.median_ns == theirs.median_ns
        assert np.array_equal(mine.values, theirs.values)
        assert np.array_equal(mine.blocks, theirs.blocks)


@pytest.mark.usefixtures("probe")
def test_trials_are_measured_and_added_to_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, place = tmp_path / "trials.db", tmp_path / "tails.npz"
    for rounds in (1, 2):
        assert tail_trials.main(["measure", str(store), str(place), "--rounds", "1", "--seconds", "6"]) == 0
        sides = tail_trials.read(place)
        assert len(sides) == tail_trials.SIDES * rounds
    assert [side.delay_ns > 0 for side in sides] == 2 * [False, False, True]
    assert len({side.trial for side in sides}) == 2
    assert "p99 raised by 10% of stored samples: found in" in capsys.readouterr().out
    assert tail_trials.main(["judge", str(place)]) == 0


def test_the_stored_trials_are_as_documented() -> None:
    sides = tail_trials.read(ROOT / "benchmarks" / "trials" / "tails.npz")
    assert not len(sides) % tail_trials.SIDES
    found = next(tail_trials.lines(sides))
    assert found.startswith("p99 raised by 10% of stored samples: found in 100.0 %")

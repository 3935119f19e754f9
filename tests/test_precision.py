"""The rule by which a precision ends a measurement, and what it leaves of the interval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import null_compare as null
import null_precision
from oscope.planning.precision import IN_A_ROW, MINIMUM_BLOCKS, Look, look, reached
from oscope.statistics import summarise_point


def looks(*widths: float | None, first: int = 20) -> list[Look]:
    return [Look(block, width) for block, width in enumerate(widths, first)]


def test_some_looks_in_a_row_must_be_precise_enough() -> None:
    fine = [0.02] * IN_A_ROW
    assert reached(looks(*fine), 0.02)
    assert reached(looks(None, 0.05, *fine), 0.02)
    assert not reached(looks(*fine[1:]), 0.02)
    assert not reached(looks(*fine, 0.021), 0.02)
    assert not reached(looks(*fine, None), 0.02)
    assert not reached(looks(0.021, *fine[1:]), 0.02)


def test_few_blocks_are_never_enough() -> None:
    fine = [0.001] * (IN_A_ROW + 1)
    first = MINIMUM_BLOCKS - len(fine)
    assert not reached(looks(*fine, first=first), 0.02)
    assert reached(looks(*fine, first=first + 1), 0.02)


def test_a_look_sees_what_the_summary_of_those_blocks_tells() -> None:
    results = null.simulate(null_precision.NORMAL, np.random.default_rng(1))[0]
    point = results.points[0]
    for blocks in (1, 4, 12, 25):
        part = point.only(point.block < blocks)
        expected = summarise_point(results, part, results.headline).relative_half_width
        assert look(results, 0, blocks - 1) == Look(blocks, expected)


def test_a_block_without_values_does_not_count() -> None:
    results = null.simulate(null_precision.NORMAL, np.random.default_rng(1))[0]
    point = results.points[0]
    values = np.where(point.block == 3, np.nan, point.metrics["time_ns"])
    lost = replace(results, points=(replace(point, metrics={"time_ns": values}),))
    assert look(lost, 0, 11).blocks == 11


@pytest.mark.parametrize("expected", [0.023, 0.018])
def test_runs_that_end_by_it_cover_the_truth(expected: float) -> None:
    """The whole table is `benchmarks/null_precision.py`; more blocks take the bootstrap, which takes time."""
    scenario = null_precision.Scenario(null_precision.NORMAL, expected)
    ends = list(null_precision.ended(scenario, 150, 5))
    covered = sum(end.covers for end in ends) / len(ends)
    assert covered >= 0.94 - 3 * np.sqrt(0.06 / len(ends))
    assert all(end.reached for end in ends)
    # It is the rule that ends them, not the most blocks that there are.
    assert max(end.blocks for end in ends) < null_precision.MOST_BLOCKS


def test_a_run_that_cannot_be_precise_enough_is_told_as_not_so() -> None:
    scenario = null_precision.Scenario(null_precision.NORMAL, 0.0001)
    ends = list(null_precision.ended(scenario, 2, 1))
    assert [(end.blocks, end.reached) for end in ends] == [(null_precision.MOST_BLOCKS, False)] * 2


def test_a_truth_is_known_where_noise_is_skewed() -> None:
    """By numerical integration, beside the median of a million samples that the benchmark draws."""
    from scipy import integrate, optimize, stats

    run = null.Scenario("", process_spread=0.02, spread=0.05, noise="lognormal")

    def below(log: float) -> float:
        def within(white: float) -> float:
            own = np.log1p(max(0.05 * (np.exp(white) - np.exp(0.5)) / 2.16, -0.5))
            return float(stats.norm.cdf((log - own) / 0.02) * stats.norm.pdf(white))

        return float(integrate.quad(within, -8, 8, limit=200)[0])

    exact = 100 * np.exp(optimize.brentq(lambda log: below(log) - 0.5, -0.2, 0.2))
    assert null_precision.truth(replace(run, reps=(5, 1))) == pytest.approx(exact, rel=3e-4)

"""Whether criterion's rule needs its 100 000 resamples, or gives the same verdicts with as few as taken here.

    python benchmarks/criterion_resamples.py [--pairs 8000] [--seed 1]

Simulated pairs of sides with skewed samples and runs that differ, without a difference and with the effects
of a calibration, are judged by `oscope.analysis.calibration.peers.criterion` and by intervals of 100 000
resamples.
Prints both shares of differences reported; 1 if they differ by more than 0.1 % of the pairs.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import scipy

from oscope.analysis.calibration.peers import LEVEL, NOISE, RESAMPLES, criterion
from oscope.model.samples import Floats

SAMPLES = 100
MANY = 100_000
EFFECTS = (0.0, 0.01, 0.02, 0.05)
RUNS = (0.003, 0.01)
"""Relative standard deviations between runs."""
MOST = 0.001


def side(random: np.random.Generator, mean: float, between: float) -> Floats:
    """Return the times of a run: normal, a twentieth of them longer by an exponential 2 %."""
    level = mean * (1 + between * random.normal())
    slow = (random.random(SAMPLES) < 0.05) * random.exponential(0.02, SAMPLES)
    return level * (1 + random.normal(0, 0.01, SAMPLES) + slow)


class Reference:
    """criterion's rule with all its resamples, which are drawn once and serve all pairs."""

    def __init__(self, random: np.random.Generator) -> None:
        even = np.full(SAMPLES, 1 / SAMPLES)
        self._weights = [random.multinomial(SAMPLES, even, MANY) / SAMPLES for _ in "ab"]

    def differs(self, a: Floats, b: Floats) -> bool:
        """Say whether it reports that B improved or regressed."""
        means = [weights @ values for weights, values in zip(self._weights, (a, b), strict=True)]
        low, high = np.quantile(means[1] / means[0], (0.025, 0.975)) - 1
        # Where the interval is beyond 1 % the test's p-value is far below its level, bootstrapped or not.
        p = scipy.stats.ttest_ind(a, b, equal_var=False).pvalue
        return bool((low > NOISE or high < -NOISE) and p < LEVEL)


def main() -> int:
    """Print the table; 1 if verdicts depend on the number of resamples."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--pairs", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random = np.random.default_rng(options.seed)
    reference = Reference(random)
    print(f"{'effect':>6} {'pairs':>6} {f'with {RESAMPLES:,}':>12} {f'with {MANY:,}':>13} {'not alike':>9}")
    few = np.zeros(options.pairs, bool)
    many = np.zeros(options.pairs, bool)
    effects = np.array([EFFECTS[number % len(EFFECTS)] for number in range(options.pairs)])
    for number, effect in enumerate(effects):
        between = RUNS[number // len(EFFECTS) % len(RUNS)]
        a, b = side(random, 100, between), side(random, 100 * (1 + effect), between)
        few[number], many[number] = criterion(a, b).different, reference.differs(a, b)
    for label, own in [*((f"{e:.0%}", effects == e) for e in EFFECTS), ("all", effects >= 0)]:
        unlike = int((few[own] != many[own]).sum())
        print(f"{label:>6} {own.sum():>6} {few[own].mean():>12.2%} {many[own].mean():>13.2%} {unlike:>9}")
    return int(abs(few.mean() - many.mean()) > MOST)


if __name__ == "__main__":
    sys.exit(main())

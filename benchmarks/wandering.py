"""How long blocks of programs are to be on a machine whose load wanders, by simulation.

    python benchmarks/wandering.py [--simulations 200] [--seed 1]

The level of a program's time follows an Ornstein-Uhlenbeck process; each block has a deviation of its own,
and each run one with heavy tails (Student's t with 3 degrees of freedom). The same seconds are measured in
few long blocks or in many short ones, of which each costs some milliseconds. Prints how often the interval of
one program holds its median, and how often a difference between two is found where there is none, and one of
0.3 %.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from oscope.model.samples import Floats, Ints
from oscope.statistics.summary import summarise
from program_trials import OSCOPE, Side, Trial, finds

RUN_DEVIATION, BLOCK_DEVIATION = 0.01, 0.003
"""Relative to the time of a run."""
EFFECT = 0.003
LOADS = ((1.0, 0.0), (0.02, 0.02), (0.1, 0.02), (0.5, 0.02), (2.0, 0.02))
"""Correlation time in seconds and relative deviation of the level."""
ONE = ((5.0, 0.001, 28, 0.018), (5.0, 0.001, 93, 0.015))
TWO = ((10.0, 0.005, 37, 0.045), (10.0, 0.005, 100, 0.028))
"""Budget in seconds, time of a run, blocks, and seconds that each costs beside its runs: before, and now."""


@dataclass(frozen=True)
class Machine:
    """What wanders."""

    random: np.random.Generator
    correlation_s: float
    deviation: float

    def times(self, at_s: Floats, run_s: float, part: Ints) -> Floats:
        """Return the seconds of runs that begin then; `part` numbers what has a deviation of its own."""
        kept = np.exp(-np.diff(at_s, prepend=-np.inf) / self.correlation_s)
        news = self.random.normal(size=len(at_s)) * np.sqrt(1 - kept**2)
        level = np.zeros(len(at_s))
        for number in range(len(at_s)):
            level[number] = kept[number] * level[number - 1] + news[number]
        own = BLOCK_DEVIATION * self.random.normal(size=part.max() + 1)[part]
        noise = RUN_DEVIATION * self.random.standard_t(3, size=len(at_s))
        return np.asarray(run_s * np.exp(self.deviation * level + own + noise))


def one(machine: Machine, seconds: float, run_s: float, blocks: int, cost_s: float) -> tuple[bool, float]:
    """Return whether the interval of a program holds the median, and half of it as a share."""
    reps = int((seconds / blocks - cost_s) / run_s)
    begin = np.arange(blocks) * seconds / blocks + cost_s
    at_s = (begin[:, None] + run_s * np.arange(reps)).ravel()
    block = np.repeat(np.arange(blocks), reps)
    found = summarise(machine.times(at_s, run_s, block), block)
    if found.ci95 is None:
        raise RuntimeError("there is no interval")
    low, high = found.ci95
    return low <= run_s <= high, (high - low) / 2 / run_s


def two(machine: Machine, effect: float, seconds: float, run_s: float, blocks: int, cost_s: float) -> bool:
    """Return whether a difference is found between programs, of which the second takes longer by `effect`."""
    reps = int((seconds / blocks - cost_s) / run_s / 2)
    begin = np.arange(blocks) * seconds / blocks + cost_s
    at_s = (begin[:, None] + run_s * np.arange(2 * reps)).ravel()
    first = machine.random.integers(0, 2, blocks)
    side = ((np.arange(2) + first[:, None]) % 2).repeat(reps, axis=1).ravel()
    block = np.repeat(np.arange(blocks), 2 * reps)
    times = machine.times(at_s, run_s, 2 * block + side) * (1 + effect * side)
    counts = np.round(1e6 * times).astype(np.uint32)
    sides = [
        Side(counts[side == number], counts[side == number], block[side == number].astype(np.uint32))
        for number in range(2)
    ]
    return finds(Trial(OSCOPE, effect, 0.0, seconds, (sides[0], sides[1])), OSCOPE)


def main() -> None:
    """Print a row for each load and number of blocks."""
    parser = argparse.ArgumentParser(description="Simulate programs on a machine whose load wanders.")
    parser.add_argument("--simulations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random, count = np.random.default_rng(given.seed), given.simulations
    for correlation_s, deviation in LOADS:
        machine = Machine(random, correlation_s, deviation)
        print(f"level: deviation {deviation:.0%}, correlation time {correlation_s:g} s")
        for design in ONE:
            held, halves = zip(*(one(machine, *design) for _ in range(count)), strict=True)
            print(f"  one program, {design[2]} blocks: holds {np.mean(held):.0%}, ±{np.median(halves):.2%}")
        for design in TWO:
            false, right = (np.mean([two(machine, e, *design) for _ in range(count)]) for e in (0, EFFECT))
            print(
                f"  two, {design[2]} blocks: false positives {false:.1%}, {EFFECT:.1%} found in {right:.0%}"
            )


if __name__ == "__main__":
    main()

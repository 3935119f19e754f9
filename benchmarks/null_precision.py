"""What stopping at a precision leaves of the 95 % interval, on simulated runs.

    python benchmarks/null_precision.py [--simulations 1000] [--seed 1]

A run is measured block by block and ends by the rule of `--precision` itself (`oscope.planning.precision`),
or after `MOST_BLOCKS`. Prints one row a scenario: the share of runs whose final interval holds the truth, the
same for runs of a fixed number of blocks (the median at which those ended), both with 95 % binomial intervals
(Wilson), the blocks, and the share that reached the precision. It is an exit failure if stopping covers less
than 93 % by the upper end of its interval where a fixed number covers 93 % by the lower end of its own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

import null_compare as null
from bars import Bar, Bench, Figure, Part
from oscope.model.samples import ExperimentResults
from oscope.planning.precision import IN_A_ROW, MINIMUM_BLOCKS, Look, look, reached
from oscope.statistics.rate import Rate
from oscope.statistics.summary import summarise_point

MOST_BLOCKS = 60
"""As a budget would end a run."""
FLOOR = 0.93
METRIC = "time_ns"
TRUTH_BLOCKS = 200_000

Share = tuple[float, float, float]


@dataclass(frozen=True)
class Scenario:
    """A point of a run, and the precision asked of it."""

    run: null.Scenario
    precision: float

    @property
    def name(self) -> str:
        """Its name in tables."""
        return f"{self.run.name}, to {self.precision:.2%}"

    @property
    def dependent(self) -> bool:
        """Whether its blocks depend on each other."""
        return bool(self.run.block_correlation)


def _run(name: str, **of: object) -> null.Scenario:
    # The other side is not used.
    plain = null.Scenario(name, blocks=(MOST_BLOCKS, 1), reps=(5, 1), process_spread=0.02)
    return replace(plain, **of)  # type: ignore[arg-type]


NORMAL = _run("normal")
SCENARIOS = (
    *(Scenario(NORMAL, half_width) for half_width in (0.05, 0.023, 0.018, 0.014, 0.0115, 0.009)),
    Scenario(_run("normal, all spread within processes", process_spread=0.0, spread=0.03), 0.008),
    *(
        Scenario(_run("lognormal", spread=0.05, noise="lognormal"), half_width)
        for half_width in (0.03, 0.018, 0.0125)
    ),
    *(Scenario(_run("interrupts", noise="interrupts"), half_width) for half_width in (0.018, 0.0125)),
    Scenario(_run("5 % of blocks contended", contended=0.05), 0.015),
    Scenario(_run("repetitions AR(1) 0.7", process_spread=0.01, spread=0.02, correlation=0.7), 0.014),
    *(
        Scenario(_run("blocks AR(1) 0.5", block_correlation=0.5), half_width)
        for half_width in (0.018, 0.0125)
    ),
    # Of the 61 slots, so that it rises by 2 % over 20 blocks.
    *(Scenario(_run("drift 0.1 % a block", drift=0.061), half_width) for half_width in (0.018, 0.0125)),
)


@dataclass(frozen=True)
class End:
    """Where a simulated run ended."""

    blocks: int
    reached: bool
    covers: bool


@dataclass(frozen=True)
class Judged:
    """What came of the runs of a scenario. Shares have their 95 % intervals."""

    scenario: Scenario
    stopped: Share
    fixed: Share
    """Of runs of `blocks`, whatever their interval."""
    blocks: int
    """Median at which the runs ended."""
    reached: float

    @property
    def met(self) -> bool:
        """Whether stopping covers what it should, or a fixed number of blocks does not either."""
        return self.stopped[2] >= FLOOR or self.fixed[1] < FLOOR


def truth(scenario: null.Scenario) -> float:
    """Return the median of all runs that could be, without their drift: of a million samples drawn."""
    return _centre(
        replace(
            scenario,
            name="",
            blocks=(TRUTH_BLOCKS, 1),
            drift=0.0,
            correlation=0.0,
            block_correlation=0.0,
        )
    )


@cache
def _centre(many: null.Scenario) -> float:
    side = null.simulate(many, np.random.default_rng(0))[0]
    return float(np.median(side.points[0].metrics[METRIC]))


def covers(results: ExperimentResults, blocks: int, scenario: null.Scenario, centre: float) -> bool:
    """Say whether the interval of the first `blocks` holds the truth of the time that they took."""
    whole = results.points[0]
    ci95 = summarise_point(results, whole.only(whole.block < blocks), METRIC).ci95
    # Samples that lie as often above the drift's middle as below it.
    middle = centre * np.exp(scenario.drift * (blocks - 1) / 2 / sum(scenario.blocks))
    return ci95 is not None and bool(ci95[0] <= middle <= ci95[1])


def ended(scenario: Scenario, simulations: int, seed: int) -> Iterator[End]:
    """Measure runs until the rule ends them."""
    random, centre = np.random.default_rng(seed), truth(scenario.run)
    for _ in range(simulations):
        results = null.simulate(scenario.run, random)[0]
        looks: list[Look] = []
        # Looks before decide nothing.
        blocks = MINIMUM_BLOCKS - IN_A_ROW
        while blocks < MOST_BLOCKS and not reached(looks, scenario.precision):
            looks.append(look(results, 0, blocks))
            blocks += 1
        yield End(blocks, reached(looks, scenario.precision), covers(results, blocks, scenario.run, centre))


def fixed(scenario: null.Scenario, blocks: int, simulations: int, seed: int) -> Iterator[bool]:
    """Measure runs of so many blocks; say of each whether it covers the truth."""
    random, centre = np.random.default_rng(seed), truth(scenario)
    for _ in range(simulations):
        yield covers(null.simulate(scenario, random)[0], blocks, scenario, centre)


def share(found: Sequence[bool]) -> Share:
    """Return the share that is true, with its 95 % binomial interval (Wilson)."""
    rate = Rate(sum(found), len(found))
    return rate.share, *rate.interval


def judged(simulations: int, seed: int, scenarios: Sequence[Scenario] = SCENARIOS) -> Iterator[Judged]:
    """Simulate every scenario."""
    for scenario in scenarios:
        ends = list(ended(scenario, simulations, seed))
        blocks = round(float(np.median([end.blocks for end in ends])))
        yield Judged(
            scenario,
            stopped=share([end.covers for end in ends]),
            fixed=share(list(fixed(scenario.run, blocks, simulations, seed + 1))),
            blocks=blocks,
            reached=sum(end.reached for end in ends) / len(ends),
        )


def simulated(bench: Bench) -> Iterator[Figure]:
    """Give the coverage of runs that end by the rule, beside those of a fixed number of blocks."""
    count = bench.pick(1, 20, 1000)
    for found in judged(count, 1):
        value, low, high = (100 * each for each in found.stopped)
        text = f"of {count}; {share_text(found.fixed)} of runs of {found.blocks} blocks"
        yield Figure(BARS[found.scenario.name], value, (low, high), text)


BARS = {
    scenario.name: Bar(
        f"coverage: {scenario.name}", "%", least=None if scenario.dependent else 100 * FLOOR, by_interval=True
    )
    for scenario in SCENARIOS
}
PARTS = (
    Part(
        "Share of simulated runs, ended by the rule of --precision, whose 95 % interval holds the truth. "
        "Nothing is wanted where blocks depend on each other: a fixed number of them covers "
        "too little as well.",
        tuple(BARS.values()),
        simulated,
        short_s=40,
        full_s=2400,
    ),
)


def share_text(found: Share) -> str:
    """Return a share with its interval."""
    return f"{found[0]:.1%} ({found[1]:.1%} to {found[2]:.1%})"


def main() -> int:
    """Print the table; 1 if a scenario is covered too seldom for being stopped."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--simulations", type=int, default=1000, metavar="N", help="runs a scenario (default 1000)"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = False
    print(f"{'scenario':<48} {'stopped':>24} {'fixed':>24} {'blocks':>6} {'reached':>8}")
    for found in judged(options.simulations, options.seed):
        failed |= not found.met
        print(
            f"{found.scenario.name:<48} {share_text(found.stopped):>24} {share_text(found.fixed):>24}"
            f" {found.blocks:>6} {found.reached:>8.1%}",
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""False positives, coverage and power of comparisons of simulated runs.

    python benchmarks/null_compare.py [--simulations 2000] [--seed 1]

Prints one row a scenario: the rate of false positives at a nominal 5 % and the coverage of the 95 % interval
of the ratio, each with its 95 % binomial interval; then the power at a true difference as large as the median
`detectable` of the null runs (80 % if `detectable` is right). The exit code is 1 if the lower end of an
interval of false positives is above 6 %.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bars import Bar, Bench, Figure, Part
from oscope.model.samples import Column, ExperimentResults, PointSamples
from oscope.statistics import ComparedMetric, compare_points
from oscope.statistics.rate import Rate

Floats = npt.NDArray[np.float64]
METRIC = {"time_ns": Column("time_ns", "ns", "time", "less")}
ENVIRONMENT = {"machine": "0", "clock": {"kind": "tsc"}}
SECOND = 1_000_000_000
MOST = 6.0
"""Per cent of false positives that a scenario may have, at a nominal 5 %."""


@dataclass(frozen=True)
class Scenario:
    """How two sides of equal cost are measured. Spreads and drift are relative."""

    name: str
    blocks: tuple[int, int] = (10, 10)
    reps: tuple[int, int] = (20, 20)
    boots: int = 1
    boot_spread: float = 0.0
    process_spread: float = 0.02
    spread: float = 0.005
    drift: float = 0.0
    """Rise from the first to the last moment of both runs."""
    restart: bool = False
    """Each run drifts afresh from its start, instead of one drift going through both."""
    interleaved: bool = False
    pause: int = 0
    """Blocks' time between two runs."""
    correlation: float = 0.0
    """Lag-1 correlation of the repetitions of a process (AR(1))."""
    block_correlation: float = 0.0
    """Lag-1 correlation, from block to block, of slow noise of the machine: half of the variance between
    blocks."""
    contended: float = 0.0
    """Share of the blocks that another program makes take twice as long."""
    noise: str = "normal"
    """normal, lognormal (sigma 1, shifted) or interrupts (2 % of samples take twice as long)."""


SCENARIOS = (
    Scenario("two runs, level variances"),
    Scenario("two runs, drift 2 % through both", drift=0.02),
    Scenario("two runs, drift 2 %, little noise", drift=0.02, process_spread=0.002),
    Scenario("two runs, each drifting 2 % afresh", drift=0.02, restart=True),
    Scenario("as before, little noise", drift=0.02, restart=True, process_spread=0.002),
    Scenario("two runs, drift 2 %, pause of half a run", drift=0.02, pause=5),
    Scenario("two runs, 8 and 14 blocks, 3 and 20 reps", blocks=(8, 14), reps=(3, 20)),
    Scenario("as before, drift 2 %, noisier where fewer", (8, 14), (3, 20), spread=0.05, drift=0.02),
    Scenario("two runs, repetitions AR(1) 0.7", process_spread=0.0, spread=0.02, correlation=0.7),
    Scenario("two runs, blocks AR(1) 0.5", block_correlation=0.5),
    Scenario("two runs, lognormal, unequal counts", (8, 14), (3, 20), spread=0.05, noise="lognormal"),
    Scenario("two runs, interrupts, unequal counts", (8, 14), (3, 20), noise="interrupts"),
    Scenario("two runs, 40 blocks", blocks=(40, 40)),
    Scenario(
        "as before, drift 2 %, pause, little noise", (40, 40), process_spread=0.002, drift=0.02, pause=20
    ),
    Scenario("two runs, 40 blocks, 5 % contended", blocks=(40, 40), contended=0.05),
    Scenario("two runs, 12 blocks, 10 % contended", blocks=(12, 12), contended=0.1),
    Scenario("two runs, 5 boots a side", boots=5, boot_spread=0.02),
    Scenario("two runs, 5 boots a side, drift 2 %", boots=5, boot_spread=0.01, drift=0.02),
    Scenario("interleaved, drift 2 %", drift=0.02, interleaved=True),
    Scenario(
        "interleaved, lognormal, 3 and 20 reps",
        (8, 8),
        (3, 20),
        spread=0.05,
        noise="lognormal",
        interleaved=True,
    ),
    Scenario(
        "interleaved, interrupts, 5 blocks, 3 reps", (5, 5), (3, 3), noise="interrupts", interleaved=True
    ),
    Scenario("interleaved, 12 blocks", blocks=(12, 12), interleaved=True),
    Scenario("interleaved, 40 blocks, 5 % contended", blocks=(40, 40), contended=0.05, interleaved=True),
    Scenario("interleaved, blocks AR(1) 0.5", blocks=(14, 14), block_correlation=0.5, interleaved=True),
    Scenario("interleaved, 40 blocks", blocks=(40, 40), interleaved=True),
    Scenario("interleaved, 300 blocks, 5 % contended", (300, 300), (3, 3), contended=0.05, interleaved=True),
    Scenario(
        "interleaved, 300 blocks AR(1) 0.5", (300, 300), (3, 3), block_correlation=0.5, interleaved=True
    ),
)


def simulate(
    scenario: Scenario, random: np.random.Generator, ratio: float = 1.0
) -> tuple[ExperimentResults, ...]:
    """Draw both sides; side B truly costs `ratio` times side A."""
    sides = []
    total = sum(scenario.blocks) * scenario.boots + scenario.pause
    begun = 0
    weather = (
        _ar1(random.normal(0, 1, (1, total)), scenario.block_correlation)[0]
        * scenario.process_spread
        / np.sqrt(2)
    )
    for side in (0, 1):
        count = scenario.blocks[side] * scenario.boots
        if scenario.interleaved:
            slots = 2.0 * np.arange(count) + random.permuted(np.tile([0, 1], (count, 1)), axis=1)[:, side]
        else:
            slots = begun + np.arange(count, dtype=float)
            begun += count + scenario.pause
        if scenario.restart:
            rise = scenario.drift * np.arange(count) / count
        else:
            rise = scenario.drift * slots / total
        slow = weather[slots.astype(int)] if scenario.block_correlation else np.zeros(count)
        log = _noise(scenario, side, random) + (rise + slow)[:, None] + (np.log(ratio) if side else 0.0)
        sides.append(_results(scenario, side, log, slots))
    return tuple(sides)


def _noise(scenario: Scenario, side: int, random: np.random.Generator) -> Floats:
    blocks, reps = scenario.blocks[side], scenario.reps[side]
    count = blocks * scenario.boots
    boot = np.repeat(random.normal(0, scenario.boot_spread, scenario.boots), blocks)
    own = scenario.process_spread / (np.sqrt(2) if scenario.block_correlation else 1.0)
    process = random.normal(0, own, count)
    within = _ar1(random.normal(0, 1, (count, reps)), scenario.correlation)
    if scenario.noise == "lognormal":
        within = (np.exp(within) - np.exp(0.5)) / 2.16
    cost = np.log1p(np.maximum(scenario.spread * within, -0.5))
    if scenario.noise == "interrupts":
        cost = cost + np.log(2) * (random.random(cost.shape) < 0.02)
    busy = np.log(2) * (random.random(count) < scenario.contended) if scenario.contended else np.zeros(count)
    return np.asarray((boot + process + busy)[:, None] + cost, dtype=float)


def _ar1(white: Floats, correlation: float) -> Floats:
    """Turn rows of white noise into stationary AR(1) noise of variance 1."""
    noise = white.copy()
    for column in range(1, white.shape[1]):
        noise[:, column] = correlation * noise[:, column - 1] + np.sqrt(1 - correlation**2) * white[:, column]
    return noise


def _results(scenario: Scenario, side: int, log: Floats, slots: Floats) -> ExperimentResults:
    count, reps = log.shape
    size = count * reps
    block = np.repeat(np.arange(count), reps)
    point = PointSamples(
        factors={"call": "getppid"},
        block=block,
        process=block + 1000 * side,
        boot=block // scenario.blocks[side],
        rep=np.tile(np.arange(reps), count),
        started_ns=((slots[:, None] + np.arange(reps) / (2 * reps)) * SECOND).ravel().astype(np.int64),
        raw=np.zeros(size),
        iterations=np.ones(size, dtype=np.int64),
        correction=np.zeros(size),
        metrics={"time_ns": 100 * np.exp(log).ravel()},
        covariates={},
    )
    return ExperimentResults(
        f"run{side}", "syscall.cost", "syscall.cost", 1, "", 0, (point,), METRIC, {}, ENVIRONMENT
    )


def compared(scenario: Scenario, seed: int, count: int, ratio: float = 1.0) -> Iterator[ComparedMetric]:
    """Compare `count` simulated pairs."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        a, b = (side.points[0] for side in simulate(scenario, random, ratio))
        yield compare_points(a, b, METRIC["time_ns"], same_run=scenario.interleaved)


def share(rows: list[ComparedMetric], holds: Callable[[ComparedMetric], bool]) -> tuple[float, float, float]:
    """Share of the rows for which `holds`, with its 95 % binomial interval (Wilson)."""
    rate = Rate(sum(holds(row) for row in rows), len(rows))
    return rate.share, *rate.interval


@dataclass(frozen=True)
class Verdicts:
    """What came of the comparisons of one scenario; shares with their 95 % intervals."""

    scenario: Scenario
    alarms: tuple[float, float, float]
    cover: tuple[float, float, float]
    detectable: float
    power: float
    """Share found at a true difference of `detectable`."""


def judged(simulations: int, seed: int, scenarios: Sequence[Scenario] = SCENARIOS) -> Iterator[Verdicts]:
    """Compare simulated pairs of every scenario."""
    for scenario in scenarios:
        rows = list(compared(scenario, seed, simulations))
        detectable = float(np.median([row.detectable for row in rows]))
        again = list(compared(scenario, seed + 1, max(1, simulations // 4), 1 + detectable))
        yield Verdicts(
            scenario,
            alarms=share(rows, lambda row: row.different == "yes"),
            cover=share(rows, lambda row: row.ci95[0] <= 1 <= row.ci95[1]),
            detectable=detectable,
            power=share(again, lambda row: row.different == "yes")[0],
        )


def simulated(bench: Bench) -> Iterator[Figure]:
    """Give the false positives of each scenario."""
    count = bench.pick(2, 200, 2000)
    for found in judged(count, 1):
        value, *interval = (100 * each for each in found.alarms)
        text = f"of {count}; a difference of {found.detectable:.1%} is found in {found.power:.0%}"
        yield Figure(BARS[found.scenario.name], value, (interval[0], interval[1]), text)


BARS = {
    scenario.name: Bar(f"false positives: {scenario.name}", "%", most=MOST, by_interval=True)
    for scenario in SCENARIOS
}
PARTS = (
    Part(
        "Share of simulated pairs of equal sides in which a comparison finds a difference.",
        tuple(BARS.values()),
        simulated,
        short_s=50,
        full_s=1200,
    ),
)


def main() -> int:
    """Print the table; return 1 if a scenario has too many false positives."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--simulations", type=int, default=2000, metavar="N", help="pairs a scenario (default 2000)"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = False
    print(f"{'scenario':<44} {'false positives':>22} {'coverage':>24} {'detectable':>10} {'found':>7}")
    for found in judged(options.simulations, options.seed):
        alarms, cover = found.alarms, found.cover
        failed |= alarms[1] > 0.06
        print(
            f"{found.scenario.name:<44} {alarms[0]:>7.1%} ({alarms[1]:.1%} to {alarms[2]:.1%})"
            f" {cover[0]:>7.1%} ({cover[1]:.1%} to {cover[2]:.1%})"
            f" {found.detectable:>9.2%} {found.power:>7.1%}",
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

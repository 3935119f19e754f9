"""False positives of `oscope history` on series without a change, and how often it finds one.

    python benchmarks/null_changes.py [--simulations 500] [--seed 1]

Prints one row a scenario: in how many of the simulated tables any change is found (where there is none, these
are false positives at a nominal 5 %), and, where there is one, the share in which it is found, is placed at
the very run, and has an interval that holds the true size; each with its 95 % binomial interval (Wilson). It
is an exit failure if the lower end of an interval of false positives is above 6 %, or 8 % where runs are
autocorrelated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bars import Bar, Bench, Figure, Part, share
from oscope.statistics.changes import Change, find_changes
from oscope.statistics.rate import Rate

Floats = npt.NDArray[np.float64]
SPREAD = 0.01
"""Relative deviation between runs."""
MOST = 6.0
"""Per cent of false positives that independent runs may have, at a nominal 5 %."""
MOST_AUTOCORRELATED = 8.0
"""Per cent that autocorrelated runs may have: how much they are is estimated from few runs."""
OFF = 8.0
"""How far outliers are off, in deviations between runs."""


@dataclass(frozen=True)
class Scenario:
    """How the series come about."""

    name: str
    runs: int = 20
    series: int = 1
    shift: float = 0.0
    """Of the first series from the middle on, in deviations between runs."""
    dof: float = np.inf
    """Degrees of freedom of Student's t that the runs follow: heavy tails where it is small."""
    correlation: float = 0.0
    """Lag-1 correlation from run to run (AR(1))."""
    common: float = 0.0
    """Share of the variance that all series have in common."""
    gaps: float = 0.0
    """Share of the values that are missing."""
    outliers: float = 0.0
    """Share of the values that are far off, to either side."""

    @property
    def most(self) -> float:
        """Per cent of false positives that it may have."""
        return MOST_AUTOCORRELATED if self.correlation else MOST


SCENARIOS = (
    Scenario("1 series of 20 runs"),
    Scenario("1 series of 8 runs", runs=8),
    Scenario("1 series of 60 runs", runs=60),
    Scenario("12 series of 20 runs", series=12),
    Scenario("12 series of 20 runs, half in common", series=12, common=0.5),
    Scenario("12 series of 20 runs, a fifth missing", series=12, gaps=0.2),
    Scenario("1 series of 20 runs, t with 3 degrees", dof=3),
    Scenario("12 series of 20 runs, t with 3 degrees", series=12, dof=3),
    Scenario("1 series of 20 runs, AR(1) 0.3", correlation=0.3),
    Scenario("1 series of 20 runs, AR(1) 0.6", correlation=0.6),
    Scenario("1 series of 8 runs, AR(1) 0.6", runs=8, correlation=0.6),
    Scenario("1 series of 12 runs, AR(1) 0.6", runs=12, correlation=0.6),
    Scenario("1 series of 60 runs, AR(1) 0.6", runs=60, correlation=0.6),
    Scenario("1 series, t with 3 degrees, AR(1) 0.6", dof=3, correlation=0.6),
    Scenario("1 series, 5 % outliers, AR(1) 0.6", outliers=0.05, correlation=0.6),
    Scenario("12 series of 20 runs, AR(1) 0.3", series=12, correlation=0.3),
    Scenario("12 series of 20 runs, AR(1) 0.6", series=12, correlation=0.6),
    Scenario("shift of 2 in the middle of 20 runs", shift=2),
    Scenario("shift of 2 in one of 12 series", series=12, shift=2),
    Scenario("shift of 3 in one of 12 series", series=12, shift=3),
    Scenario("shift of 2, t with 3 degrees", shift=2, dof=3),
    Scenario("shift of 3 in the middle of 10 runs", runs=10, shift=3),
    Scenario("shift of 1 in the middle of 60 runs", runs=60, shift=1),
    Scenario("shift of 3 in the middle of 40 runs", runs=40, shift=3),
    Scenario("shift of 3 in 40 runs, AR(1) 0.6", runs=40, shift=3, correlation=0.6),
    Scenario("shift of 5 in 40 runs, AR(1) 0.6", runs=40, shift=5, correlation=0.6),
)


@dataclass(frozen=True)
class Outcome:
    """What was found in one simulated table."""

    changes: tuple[tuple[Change, ...], ...]
    middle: int

    @property
    def any(self) -> bool:
        """Whether a change was found in any series."""
        return any(self.changes)

    def first(self, reach: int) -> Change | None:
        """Return the first series' change within `reach` runs of the middle, if it was found."""
        return next((c for c in self.changes[0] if abs(c.at - self.middle) <= reach), None)


def simulate(scenario: Scenario, random: np.random.Generator) -> Floats:
    """Draw a table of series around 100."""
    shape = (scenario.series, scenario.runs)
    noise = _draw(shape, scenario, random)
    if scenario.common:
        noise = np.sqrt(1 - scenario.common) * noise + np.sqrt(scenario.common) * _draw(
            (1, scenario.runs), scenario, random
        )
    noise[0, scenario.runs // 2 :] += scenario.shift
    if scenario.outliers:
        off = random.choice([-OFF, OFF], shape)
        noise += np.where(random.random(shape) < scenario.outliers, off, 0.0)
    table = 100 * np.exp(SPREAD * noise)
    table[random.random(shape) < scenario.gaps] = np.nan
    return np.asarray(table, dtype=float)


def _draw(shape: tuple[int, int], scenario: Scenario, random: np.random.Generator) -> Floats:
    if np.isinf(scenario.dof):
        white = random.normal(size=shape)
    else:
        white = random.standard_t(scenario.dof, size=shape)
    for run in range(1, shape[1]):
        kept = scenario.correlation * white[:, run - 1]
        white[:, run] = kept + np.sqrt(1 - scenario.correlation**2) * white[:, run]
    return np.asarray(white, dtype=float)


def outcomes(scenario: Scenario, simulations: int, seed: int) -> Iterator[Outcome]:
    """Search simulated tables for changes."""
    random = np.random.default_rng(seed)
    for _ in range(simulations):
        yield Outcome(find_changes(simulate(scenario, random)), scenario.runs // 2)


def share_text(found: int, of: int) -> str:
    """Return a share with its 95 % binomial interval (Wilson)."""
    if not of:
        return "–"
    low, high = Rate(found, of).interval
    return f"{found / of:.1%} ({low:.1%} to {high:.1%})"


def simulated(bench: Bench) -> Iterator[Figure]:
    """Give the false positives of each scenario without a change, and how often a change is found."""
    for scenario in SCENARIOS:
        # A table of many series takes as long as that many tables.
        count = bench.pick(2, 200 if scenario.series == 1 else 100, 500)
        every = list(outcomes(scenario, count, 1))
        if scenario.shift:
            hits = sum(each.first(2) is not None for each in every)
        else:
            hits = sum(each.any for each in every)
        yield share(BARS[scenario.name], hits, count)


def bar_of(scenario: Scenario) -> Bar:
    """Return what is wanted of a scenario: nothing where there is a change."""
    if scenario.shift:
        return Bar(f"history: change found, {scenario.name}", "%")
    return Bar(f"history: false positives, {scenario.name}", "%", most=scenario.most, by_interval=True)


BARS = {scenario.name: bar_of(scenario) for scenario in SCENARIOS}
PARTS = (
    Part(
        "Share of simulated series in which a change is found.",
        tuple(BARS.values()),
        simulated,
        short_s=150,
        full_s=900,
    ),
)


def main() -> int:
    """Print the table; 1 if there are too many false positives."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--simulations", type=int, default=500, metavar="N", help="tables a scenario")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = False
    print(f"{'scenario':<40} {'any change':>24} {'found':>24} {'at the very run':>24} {'size covered':>24}")
    for scenario in SCENARIOS:
        every = list(outcomes(scenario, options.simulations, options.seed))
        alarms = sum(each.any for each in every)
        row = f"{scenario.name:<40} {share_text(alarms, len(every)):>24}"
        if scenario.shift:
            near = [c for each in every if (c := each.first(2)) is not None]
            exact = sum(each.first(0) is not None for each in every)
            true = SPREAD * scenario.shift
            covered = sum(c.estimate.low <= true <= c.estimate.high for c in near)
            row += f" {share_text(len(near), len(every)):>24} {share_text(exact, len(every)):>24}"
            row += f" {share_text(covered, len(near)):>24}"
        else:
            failed |= 100 * Rate(alarms, len(every)).interval[0] > scenario.most
        print(row, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

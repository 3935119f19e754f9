"""How often the odd host of a simulated fleet is named with its setting, and an alike one's for nothing.

    python benchmarks/odd_fleets.py [--odd 40] [--alike 200] [--seed 1]

The records are drawn from none of the models that judge them: hosts have effects with heavy tails and unequal
noise; blocks are autocorrelated, drift and wander; samples are skewed, rounded to the clock's step, and
affected by bursts. What is planted acts as its setting would: on all metrics or a part of them, on all
samples or some.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bars import Bar, Bench, Figure, Part
from oscope.analysis.fleet import compare_hosts
from oscope.model.samples import Column, ExperimentResults, PointSamples, Results
from oscope.statistics.rate import Rate

Floats = npt.NDArray[np.float64]
Random = np.random.Generator
METRIC = {"time_ns": Column("time_ns", "ns", "time", "less")}


@dataclass(frozen=True)
class Fault:
    """A planted setting, and what it does."""

    name: str
    part: str
    key: str
    ordinary: Any
    odd: Any
    acts: Callable[[Random, int, tuple[int, int]], Floats]
    """Returns by what the samples of each metric are multiplied: metrics x blocks x repetitions."""

    @property
    def setting(self) -> str:
        """As findings name it."""
        return f"{self.part}.{self.key}"


def _everywhere(random: Random, metrics: int, size: tuple[int, int]) -> Floats:
    """Have all metrics take longer, each by another factor."""
    return np.ones((metrics, *size)) * random.uniform(1.15, 1.4, (metrics, 1, 1))


def _somewhere(random: Random, metrics: int, size: tuple[int, int]) -> Floats:
    """Have a part of the metrics take longer."""
    factor = np.ones((metrics, *size))
    factor[random.permutation(metrics)[: max(1, metrics // 3)]] *= random.uniform(1.15, 1.6)
    return factor


def _either_way(random: Random, metrics: int, size: tuple[int, int]) -> Floats:
    """Have some metrics take longer, some less."""
    change = random.choice([-1, 0, 1], metrics) * random.uniform(0.15, 0.3, metrics)
    change[random.integers(metrics)] = 0.2
    return np.ones((metrics, *size)) * (1 + change[:, None, None])


def _sometimes(random: Random, metrics: int, size: tuple[int, int]) -> Floats:
    """Have some samples of each metric take much longer, as where a quota of time is used up."""
    hit = random.random((metrics, *size)) < random.uniform(0.25, 0.4)
    return np.where(hit, random.uniform(1.5, 2.5), 1.0)


FAULTS = (
    Fault("governor", "cpu", "governor", "performance", "powersave", _everywhere),
    Fault("SMT off", "cpu", "smt", True, False, _everywhere),
    Fault(
        "mitigations", "cpu", "mitigations", {"spectre_v2": "IBRS"}, {"spectre_v2": "Vulnerable"}, _somewhere
    ),
    Fault("huge pages", "memory", "thp", "madvise", "never", _somewhere),
    Fault("less memory", "memory", "total_bytes", 64e9, 48e9, _somewhere),
    Fault("another kernel", "kernel", "release", "6.1.0-20", "6.1.0-9", _either_way),
    Fault("quota of CPU time", "cgroup", "cpu_max", "max 100000", "50000 100000", _sometimes),
)


def simulate(random: Random, fault: Fault | None) -> tuple[dict[str, Results], str]:
    """Return a fleet's results, and the host with the fault; without one the name is empty."""
    hosts, metrics = int(random.integers(8, 21)), int(random.integers(3, 13))
    size = (int(random.integers(8, 17)), int(random.integers(6, 13)))
    odd = int(random.integers(hosts)) if fault else -1
    costs = 10 ** random.uniform(1, 5, metrics)
    spreads = random.choice([0.0, 0.003, 0.005], metrics)
    shared = random.normal(0, 0.01, metrics)[:, None] * np.linspace(0, 1, size[0])
    noise = _Noise.draw(random, metrics)
    found = {}
    for host in range(hosts):
        # Heavy tails, but nothing that matters: that would be an odd host.
        own = np.clip(spreads * random.standard_t(4, metrics), -0.03, 0.03)
        values = (1 + own)[:, None, None] * (1 + shared[:, :, None]) * noise.of_host(random, size)
        if fault is not None and host == odd:
            values = values * fault.acts(random, metrics, size)
        environment = _environment(random, host)
        for each in FAULTS:
            environment.setdefault(each.part, {})[each.key] = each.ordinary
        environment["memory"]["total_bytes"] += float(random.normal(0, 1e8))
        if fault is not None and host == odd:
            environment[fault.part][fault.key] = fault.odd
        found[f"n{host}"] = _results(costs, values, environment)
    return found, f"n{odd}" if fault else ""


@dataclass(frozen=True)
class _Noise:
    """What all hosts of a fleet have alike, by metric."""

    blocks: Floats
    """Deviation of a block's innovation."""
    correlation: Floats
    samples: Floats
    bursts: float

    @classmethod
    def draw(cls, random: Random, metrics: int) -> _Noise:
        return cls(
            random.choice([0.002, 0.005, 0.015], metrics),
            random.choice([0.0, 0.5, 0.8], metrics),
            random.choice([0.005, 0.02, 0.08], metrics),
            float(random.choice([0.0, 0.02, 0.05])),
        )

    def of_host(self, random: Random, size: tuple[int, int]) -> Floats:
        """Return factors about 1: metrics x blocks x repetitions."""
        metrics, (blocks, reps) = len(self.blocks), size
        loudness = float(random.lognormal(0, 0.5))
        level = np.zeros((metrics, blocks))
        innovations = loudness * self.blocks[:, None] * random.standard_t(3, (metrics, blocks))
        for block in range(blocks):
            level[:, block] = innovations[:, block]
            if block:
                level[:, block] += self.correlation * level[:, block - 1]
        wander = 0.002 * loudness * random.normal(0, 1, (metrics, blocks)).cumsum(axis=1)
        skewed = (
            loudness * self.samples[:, None, None] * (random.gamma(1.5, 1, (metrics, blocks, reps)) - 1.0)
        )
        values = (1 + level + wander)[:, :, None] * (1 + skewed)
        # An interference lasts for a part of a block.
        hit = random.random((metrics, blocks)) < self.bursts
        length = np.arange(reps) < random.integers(1, reps + 1, (metrics, blocks))[:, :, None]
        burst = np.where(hit[:, :, None] & length, 1 + random.pareto(2, (metrics, blocks, reps)), 1.0)
        return np.asarray(np.maximum(values, 0.2) * burst, dtype=float)


def _environment(random: Random, host: int) -> dict[str, Any]:
    """Return settings that go with nothing: some hosts have them otherwise, or each has its own."""
    return {
        "machine": f"{host:016x}",
        "boot_id": f"boot-{host}",
        "clock": {"kind": "tsc", "hz": 2.1e9 + float(random.normal(0, 1e4))},
        "kernel": {"cmdline": f"root=UUID={int(random.integers(2**31))} quiet", "arch": "x86_64"},
        "cpu": {"microcode": str(random.choice(["0xd1", "0xd2"])), "model": "CPU"},
        "limits": {"open_files": int(random.choice([1024, 4096]))},
        "host": {"name": f"n{host}", "labels": {"rack": f"r{int(random.integers(3))}", "serial": str(host)}},
    }


def _results(costs: Floats, values: Floats, environment: Mapping[str, Any]) -> Results:
    blocks, reps = values.shape[1:]
    block = np.repeat(np.arange(blocks), reps)
    count = blocks * reps
    points = []
    for number, cost in enumerate(costs):
        # Times are multiples of the clock's step over the iterations.
        step = cost / 2000
        measured = np.round(cost * values[number].ravel() / step) * step
        points.append(
            PointSamples(
                factors={"case": f"c{number}"},
                block=block,
                process=block + 1,
                boot=np.zeros(count, dtype=np.int64),
                rep=np.tile(np.arange(reps), blocks),
                started_ns=np.arange(count, dtype=np.int64) * 1_000_000,
                raw=measured,
                iterations=np.ones(count, dtype=np.int64),
                correction=np.zeros(count),
                metrics={"time_ns": measured},
                covariates={},
            )
        )
    return Results(
        (
            ExperimentResults(
                run_id=str(environment["machine"]),
                experiment="fleet.case",
                workload="fleet.case",
                workload_version=1,
                started="2026-01-01T00:00:00+00:00",
                seed=1,
                points=tuple(points),
                metrics=METRIC,
                covariates={},
                environment=environment,
            ),
        )
    )


@dataclass(frozen=True)
class Judged:
    """What came of one fleet."""

    fault: str
    found: bool
    """The odd host was named."""
    ranked: bool
    """And its setting came first."""
    others: int
    """Hosts that were named for nothing."""


def judge(random: Random, fault: Fault | None) -> Judged:
    """Simulate a fleet, and judge it as `oscope fleet outliers` does."""
    results, odd = simulate(random, fault)
    findings = compare_hosts("simulated", results)
    host = next((each for each in findings.odd if each.host == odd), None)
    ranked = bool(host and host.suspects and fault and host.suspects[0].setting.startswith(fault.setting))
    others = sum(each.host != odd for each in findings.odd)
    return Judged(fault.name if fault else "", host is not None, ranked, others)


def odd_fleets(seed: int, count: int) -> Iterator[Judged]:
    """Judge so many fleets with a fault each, every kind in turn."""
    random = np.random.default_rng([seed, 1])
    for number in range(count):
        yield judge(random, FAULTS[number % len(FAULTS)])


def alike_fleets(seed: int, count: int) -> Iterator[Judged]:
    """Judge so many fleets without a fault."""
    random = np.random.default_rng([seed, 2])
    for _ in range(count):
        yield judge(random, None)


FOUND = Bar("odd host named, its setting ranked first", "%", least=90, by_interval=True)
ALONE = Bar("fleets with an odd host that name another too", "%")
ALARMS = Bar("alike fleets that name a host", "%", most=5, by_interval=True)


def _figure(bar: Bar, hits: int, count: int) -> Figure:
    rate = Rate(hits, count)
    low, high = rate.interval
    return Figure(bar, 100 * rate.share, (100 * low, 100 * high), f"{hits} of {count} fleets")


def simulated(bench: Bench) -> Iterator[Figure]:
    """Give the share of fleets that are judged rightly."""
    odd = list(odd_fleets(1, bench.pick(2, 40, 400)))
    yield _figure(FOUND, sum(each.ranked for each in odd), len(odd))
    yield _figure(ALONE, sum(each.others > 0 for each in odd), len(odd))
    alike = list(alike_fleets(1, bench.pick(2, 40, 2000)))
    yield _figure(ALARMS, sum(each.others > 0 for each in alike), len(alike))


PARTS = (
    Part(
        "Simulated fleets of 8 to 20 hosts: the odd one and its setting; alike ones.",
        (FOUND, ALONE, ALARMS),
        simulated,
        short_s=4,
        full_s=300,
    ),
)


def main() -> int:
    """Print what came of both kinds of fleets; return 1 where too few are right."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--odd", type=int, default=40, metavar="N", help="fleets with a fault (default 40)")
    parser.add_argument("--alike", type=int, default=200, metavar="N", help="alike fleets (default 200)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    odd = list(odd_fleets(options.seed, options.odd))
    for fault in FAULTS:
        own = [each for each in odd if each.fault == fault.name]
        print(
            f"{fault.name:<20} named {sum(each.found for each in own)} of {len(own)}, "
            f"its setting first {sum(each.ranked for each in own)}, others named {sum(e.others for e in own)}"
        )
    alarms = sum(each.others > 0 for each in alike_fleets(options.seed, options.alike))
    ranked = sum(each.ranked for each in odd)
    print(f"odd host named with its setting first: {ranked} of {len(odd)}")
    print(f"alike fleets that name a host: {alarms} of {options.alike}")
    return int(ranked < 0.9 * len(odd) or alarms > 0.05 * options.alike)


if __name__ == "__main__":
    sys.exit(main())

"""Which host of a fleet is odd: rates of error on simulated fleets, and what must not be concluded."""

from __future__ import annotations

import numpy as np
import pytest

from oscope.analysis.fleet import find_suspects
from oscope.statistics import fleet as fleet_statistics
from oscope.statistics.fleet import QUANTILES, HostSamples, Series, judge


def simulated(
    rng: np.random.Generator,
    hosts: int,
    metrics: int,
    odd: int | None = None,
    size: float = 0.2,
    slow_share: float = 1.0,
) -> list[Series]:
    """Return a fleet: hosts with effects of their own, blocks that drift and are disturbed, skewed samples.

    Of the odd host this share of the samples is longer by `size`, in half of the metrics.
    """
    blocks, reps = int(rng.integers(6, 13)), 10
    series = []
    for metric in range(metrics):
        between, of_blocks, within = (
            rng.choice(choice)
            for choice in ([0, 0.002, 0.005, 0.01, 0.02], [0.002, 0.01, 0.03], [0.005, 0.02, 0.1])
        )
        centre, drift = 10 ** rng.uniform(1, 5), rng.normal(0, 0.01, blocks)
        found = {}
        for host in range(hosts):
            block = rng.normal(0, of_blocks, blocks) + drift
            block = block + (rng.random(blocks) < 0.05) * rng.exponential(0.2, blocks)
            skewed = within * (rng.lognormal(0, 0.7, (blocks, reps)) - 1)
            values = (1 + rng.normal(0, between)) * (1 + block[:, None] + skewed)
            values += (rng.random((blocks, reps)) < 0.02) * rng.exponential(2, (blocks, reps))
            if host == odd and metric < (metrics + 1) // 2:
                values *= 1 + size * (rng.random((blocks, reps)) < slow_share)
            found[f"n{host}"] = HostSamples((centre * values).ravel(), np.repeat(np.arange(blocks), reps))
        series.append(Series(metric, found))
    return series


def named(series: list[Series]) -> set[str]:
    return {cell.host for metric in judge(series) for cell in metric.cells if cell.verdict == "odd"}


@pytest.mark.parametrize("fleets", [60, pytest.param(200, marks=pytest.mark.full)])
def test_alike_fleets_name_hardly_any_host(fleets: int) -> None:
    rng = np.random.default_rng(1)
    false = [
        bool(named(simulated(rng, int(rng.integers(5, 21)), int(rng.integers(1, 15))))) for _ in range(fleets)
    ]
    assert sum(false) <= 0.05 * fleets


@pytest.mark.parametrize(("size", "slow_share"), [(0.2, 1.0), (-0.2, 1.0), (1.0, 0.4)])
def test_a_planted_host_is_named_and_no_other(size: float, slow_share: float) -> None:
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(40):
        hosts = int(rng.integers(8, 21))
        odd = int(rng.integers(hosts))
        found = named(simulated(rng, hosts, int(rng.integers(4, 15)), odd, size, slow_share))
        hits += found == {f"n{odd}"}
    assert hits >= 36


def test_two_odd_hosts_do_not_hide_each_other() -> None:
    rng = np.random.default_rng(3)
    (one,) = simulated(rng, 12, 1, odd=4, size=0.5)
    other = one.hosts["n7"]
    both = Series(0, {**one.hosts, "n7": HostSamples(other.values * 1.5, other.block)})
    assert named([both]) == {"n4", "n7"}


def samples(values: list[list[float]]) -> HostSamples:
    return HostSamples(
        np.array([value for block in values for value in block]),
        np.array([number for number, block in enumerate(values) for _ in block]),
    )


def test_what_was_measured_too_little_cannot_be_told() -> None:
    steady = [[100.0, 101.0], [100.5, 99.5], [100.0, 100.2], [99.8, 100.1]]
    hosts = {f"n{number}": samples(steady) for number in range(6)}
    hosts["short"] = samples([[100.0, 100.3], [100.0, 99.9]])
    hosts["noisy"] = samples([[50.0], [100.0], [190.0], [101.0]])
    hosts["empty"] = samples([[float("nan")]])
    (metric,) = judge([Series("m", hosts)])
    cells = {cell.host: cell for cell in metric.cells}
    assert "empty" not in cells
    assert {cells[name].verdict for name in ("short", "noisy")} == {"cannot tell"}
    assert "2 blocks" in cells["short"].reason
    assert "uncertainty" in cells["noisy"].reason
    few = {name: hosts[name] for name in ("n0", "n1", "n2")}
    assert {cell.verdict for metric in judge([Series("m", few)]) for cell in metric.cells} == {"cannot tell"}


def test_counts_that_are_equal_on_all_but_one_host_name_it() -> None:
    equal = samples([[7.0, 7.0]] * 4)
    hosts = {f"n{number}": equal for number in range(6)} | {"odd": samples([[9.0, 9.0]] * 4)}
    (metric,) = judge([Series("faults", hosts)])
    assert {cell.host for cell in metric.cells if cell.verdict == "odd"} == {"odd"}
    assert metric.spread == 0
    zeros = {name: samples([[0.0]] * 4) for name in hosts}
    assert {cell.verdict for cell in judge([Series("m", zeros)])[0].cells} == {"cannot tell"}


def test_a_host_whose_samples_are_ordinary_as_a_whole_is_not_called_odd() -> None:
    """In most of its blocks two of three samples are long, and yet most of its samples are not."""
    rng = np.random.default_rng(5)
    usual = np.array([100.0, 100.0, 200.0])
    hosts = {f"n{number}": samples((usual + rng.normal(0, 1, (40, 3))).tolist()) for number in range(8)}
    hosts["split"] = samples([[100.0, 199.0, 200.0]] * 24 + [[100.0, 100.0, 100.0]] * 16)
    (metric,) = judge([Series("m", hosts)])
    (cell,) = (cell for cell in metric.cells if cell.host == "split")
    assert (cell.criterion, cell.q < 0.05) == ("median", True)
    assert (cell.verdict, cell.reason.partition(",")[0]) == ("cannot tell", "its typical block is odd")


def test_what_does_not_matter_is_not_odd() -> None:
    rng = np.random.default_rng(4)
    hosts = {
        f"n{number}": samples((100 + rng.normal(0, 0.01, (8, 4)) + 2 * (number == 3)).tolist())
        for number in range(8)
    }
    (metric,) = judge([Series("m", hosts)])
    assert {cell.verdict for cell in metric.cells} == {"ordinary"}
    (strict,) = judge([Series("m", hosts)], 0.01)
    assert {cell.host for cell in strict.cells if cell.verdict == "odd"} == {"n3"}


def test_the_spread_between_hosts_is_estimated_without_their_own_uncertainty() -> None:
    rng = np.random.default_rng(5)
    found = []
    for _ in range(60):
        hosts = {}
        for number in range(12):
            effect = rng.normal(0, 0.02)
            hosts[f"n{number}"] = samples((100 * (1 + effect + rng.normal(0, 0.03, (8, 5)))).tolist())
        (metric,) = judge([Series("m", hosts)])
        found.append((metric.spread, metric.spread_interval[0] <= 0.02 <= metric.spread_interval[1]))
    assert np.median([spread for spread, _ in found]) == pytest.approx(0.02, rel=0.2)
    assert sum(covered for _, covered in found) >= 52


def test_the_planted_setting_is_ranked_first() -> None:
    rng = np.random.default_rng(6)
    for _ in range(40):
        count = int(rng.integers(8, 21))
        hosts = [f"n{number}" for number in range(count)]
        odd = hosts[int(rng.integers(count))]
        settings = {
            host: {
                "cpu.smt": host != odd,
                "serial": host,
                "memory.total_bytes": 16e9 + float(rng.normal(0, 1e7)),
                "label rack": f"r{int(rng.integers(3))}",
                "kernel.release": str(rng.choice(["6.1", "6.2"])),
            }
            for host in hosts
        }
        found = find_suspects(settings, odd, [host for host in hosts if host != odd])
        assert found[0].setting == "cpu.smt"
        assert (found[0].value, found[0].score) == ("false", pytest.approx(1.0))
        assert found[0].command == "cat /sys/devices/system/cpu/smt/active"
        assert "memory.total_bytes" not in [each.setting for each in found]


@pytest.mark.parametrize("spread", [0.0, 0.004, 0.08])
def test_hosts_that_are_taken_off_no_more_would_not_have_been_odd(spread: float) -> None:
    # As long as the values lie within the threshold, nothing that is taken off makes another host odd.
    rng = np.random.default_rng(8)
    for _ in range(20):
        count = int(rng.integers(8, 40))
        values = rng.normal(0, spread, count)
        values[: int(rng.integers(3))] += 0.3
        own, blocks = rng.uniform(0, 1e-5, count), np.full(count, 10)
        hosts = [
            fleet_statistics._Location(
                dict.fromkeys(QUANTILES, float(value)),
                dict.fromkeys(QUANTILES, float(variance)),
                10,
                float(value),
            )
            for value, variance in zip(values, own, strict=True)
        ]
        found = fleet_statistics._compare_hosts(hosts, "median", 0.05, logarithmic=True)
        kept, p, taken = np.arange(count), fleet_statistics._beside_others(values, own, blocks, 0.05)[3], []
        for _ in range(max(1, count // 5)):
            now = fleet_statistics._beside_others(values[kept], own[kept], blocks[kept], 0.05)
            at = int(np.lexsort((-np.abs(now[0]), now[3]))[0])
            p[kept[at]] = now[3][at]
            taken.append(int(kept[at]))
            kept = np.delete(kept, at)
        p[taken[::-1]] = np.minimum.accumulate(p[taken[::-1]])
        # Of those that are left at last, none is compared with the odd ones.
        assert all(
            one.p == other or (one.p == 1.0 and other > 0.05) for one, other in zip(found, p, strict=True)
        )


def test_blocks_of_unequal_size_have_their_own_quantiles() -> None:
    rng = np.random.default_rng(9)
    for _ in range(20):
        sizes = rng.integers(1, 6, int(rng.integers(1, 30)))
        block = np.repeat(np.arange(len(sizes)), sizes)
        values = rng.lognormal(0, 1, len(block))
        shuffled = rng.permutation(len(block))
        found = fleet_statistics._locate(HostSamples(values[shuffled], block[shuffled]), logarithmic=False)
        assert found is not None
        own = [np.quantile(values[block == number], [0.5, 0.1, 0.9]) for number in range(len(sizes))]
        assert list(found.values.values()) == np.median(own, axis=0).tolist()
        assert found.blocks == len(sizes)


def test_quantiles_are_those_of_numpy_to_the_last_bit() -> None:
    rng = np.random.default_rng(10)
    for _ in range(300):
        values = rng.lognormal(0, 1, (int(rng.integers(1, 9)), int(rng.integers(1, 30))))
        levels = [0.5, 0.1, 0.9, 0.75, 0.25]
        own = fleet_statistics._quantiles(values, levels)
        assert own.tolist() == np.quantile(values, levels, axis=1).tolist()


def test_series_that_cannot_be_judged_do_not_hide_odd_hosts() -> None:
    """What is 0 on a fleet's median host, or measured on three hosts, is no test that others are paid for."""
    rng = np.random.default_rng(9)
    blocks, reps = 10, 5
    block = np.repeat(np.arange(blocks), reps)
    hosts = {
        f"n{number}": HostSamples(
            100 * (1 + rng.normal(0, 0.01, blocks * reps) + (0.09 * (number == 3))), block
        )
        for number in range(8)
    }
    judgeable = Series("time", hosts)
    zeros = HostSamples(np.zeros(blocks * reps), block)
    ones = HostSamples(np.ones(blocks * reps), block)
    unknown = [Series(f"zero {at}", dict.fromkeys(hosts, zeros)) for at in range(400)]
    unknown += [Series(f"few {at}", dict.fromkeys(("n0", "n1", "n2"), ones)) for at in range(400)]
    (alone,) = judge([judgeable])
    together, *others = judge([judgeable, *unknown])
    assert named([judgeable]) == {"n3"}
    assert named([judgeable, *unknown]) == {"n3"}
    assert [cell.q for cell in together.cells] == [cell.q for cell in alone.cells]
    cells = [cell for metric in others for cell in metric.cells]
    assert {cell.verdict for cell in cells} == {"cannot tell"}
    assert all(np.isnan([cell.p, cell.q]).all() for cell in cells)

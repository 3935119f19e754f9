"""Other tools' rules on known samples, and how the methods are compared by the trials that they judged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import judge_trials
import synthetic
from cli_driver import CommandLine
from oscope.analysis.calibration import peers, trials
from oscope.analysis.calibration.method_rates import MethodRates, method_rates
from oscope.analysis.calibration.methods import (
    MEDIAN,
    METHODS,
    MINIMUM,
    OSCOPE,
    T_INTERVAL,
    MethodVerdict,
    judge,
)
from oscope.analysis.calibration.peers import CRITERION, HYPERFINE, PYPERF, RULES, WELCH
from oscope.analysis.calibration.spec import CalibrationSpec
from oscope.analysis.calibration.trials import Trial
from oscope.figures.error_rates import by_method, by_method_and_way
from oscope.labs.trust.answers import section
from oscope.model.samples import ExperimentResults, Floats
from oscope.storage import record
from oscope.storage.store import Store

OLD = (OSCOPE, T_INTERVAL, MINIMUM, MEDIAN)
"""Methods of calibrations from before other tools' rules."""
COST = synthetic.cost()


def values(*each: float) -> Floats:
    """Return the samples of a side."""
    return np.array(each, dtype=np.float64)


def drawn(mean: float, deviation: float, count: int = 100, seed: int = 0) -> Floats:
    """Return normal samples with exactly this mean and standard deviation."""
    sample = np.random.default_rng(seed).normal(size=count)
    return mean + deviation * (sample - sample.mean()) / sample.std(ddof=1)


def spread(factor: float, *, between: float, seed: int, run_id: str) -> ExperimentResults:
    """Return a run of 10 processes with 10 samples each: they differ by `between`, and samples by 1 %."""
    random = np.random.default_rng([seed, len(run_id), sum(map(ord, run_id))])
    point = synthetic.Maker().point(COST.points[0].factors, 100.0, reps=100, blocks=10)
    ns = 100 * factor * (1 + between * random.normal(size=10)[point.block] + 0.01 * random.normal(size=100))
    point = replace(point, metrics={"time_ns": ns, "cycles": ns * 2.6})
    return replace(COST, run_id=run_id, points=(point,))


def judged(effect: float, between: float, pairs: int) -> list[Trial]:
    """Return the trials of separate runs whose processes differ by `between`."""
    side = partial(spread, between=between)
    return [
        Trial("s", "time_ns", "in sequence", effect, 1 + effect, detectable, 2.0, verdicts)
        for seed in range(pairs)
        for verdicts, detectable in [
            judge(side(1.0, seed=seed, run_id="a"), side(1 + effect, seed=seed, run_id="b"))
        ]
    ]


def trial(effect: float, different: Mapping[str, bool], way: str = "interleaved") -> Trial:
    """Return a trial of 1.5 s a side in which the methods say so."""
    verdicts = {name: MethodVerdict(different_by, 1.1, 1.0, 1.2) for name, different_by in different.items()}
    return Trial("s", "time_ns", way, effect, 1 + effect, 0.03, 1.5, verdicts)


def test_hyperfine_claims_what_is_beyond_its_printed_deviation() -> None:
    # By hand: 1.1 ± 1.1 × 9 / 100 = 1.1 ± 0.099, and with 9.2 in place of 9 it is 1.1 ± 0.1012.
    b = values(110, 110, 110)
    assert peers.hyperfine(values(91, 100, 109), b) == MethodVerdict(True, pytest.approx(1.1))
    assert not peers.hyperfine(values(90.8, 100, 109.2), b).different
    # Both deviations count: 1.1 × √(0.06² + 0.066²) = 0.098; and the slower side may be A.
    a, b = values(94, 100, 106), values(110 - 7.26, 110, 110 + 7.26)
    assert peers.hyperfine(a, b).different
    assert peers.hyperfine(b, a) == MethodVerdict(True, pytest.approx(1 / 1.1))
    assert not peers.hyperfine(a, b * (1.09 / 1.1)).different


def test_hyperfines_line_does_not_become_sharper_with_more_runs() -> None:
    a, b = drawn(100, 5, seed=1), drawn(103, 5, seed=2)
    assert not peers.hyperfine(a, b).different
    assert not peers.hyperfine(np.tile(a, 50), np.tile(b, 50)).different
    assert peers.welch(a, b).different


@pytest.mark.parametrize("times", [1.003, 1.006, 1.008, 1.012, 0.99])
def test_hyperfines_script_is_welchs_test(times: float) -> None:
    a, b = drawn(100, 1, 40), drawn(100 * times, 3, 70)
    error = np.sqrt(1 / 40 + 9 / 70)
    dof = error**4 / ((1 / 40) ** 2 / 39 + (9 / 70) ** 2 / 69)
    p = 2 * stats.t.sf(abs(100 * times - 100) / error, dof)
    verdict = peers.welch(a, b)
    assert verdict.different == (p < 0.05)
    assert verdict.ratio == pytest.approx(times)


@pytest.mark.parametrize(
    ("dof", "critical"),
    [
        *[(1, 12.706), (10, 2.228), (30, 2.042), (39, 2.042), (45, 2.021), (55, 2.009), (70, 2.000)],
        *[(85, 1.990), (100, 1.984), (199, 1.984), (200, 1.960), (5000, 1.960)],
    ],
)
def test_pyperfs_critical_values_step_as_its_table_does(dof: int, critical: float) -> None:
    assert peers.critical_value(dof) == pytest.approx(critical, abs=6e-4)


def test_pyperf_is_students_test_of_pooled_values() -> None:
    # By hand: equal deviations of 1 and n = 16 give t = d / √(1/8), against 2.042 of 30 degrees of freedom.
    a, beyond, within = drawn(100, 1, 16), drawn(100.73, 1, 16, 1), drawn(100.71, 1, 16, 1)
    assert peers.pyperf(a, beyond).different
    assert peers.pyperf(beyond, a).different
    assert not peers.pyperf(a, within).different
    assert stats.ttest_ind(a, beyond).pvalue < 0.05 < stats.ttest_ind(a, within).pvalue
    # More values with a larger deviation weigh more in Student's test, and less in Welch's.
    a, b = drawn(100, 1, 10), drawn(102, 6, 90)
    assert not peers.pyperf(a, b).different
    assert peers.welch(a, b).different


def test_criterion_has_three_outcomes() -> None:
    baseline = drawn(100, 1)
    assert not peers.criterion(baseline, drawn(100.1, 1, seed=1)).different
    within = peers.criterion(baseline, drawn(100.8, 1, seed=1))
    assert within.low > 1
    assert not within.different, "it is within the noise threshold"
    assert peers.welch(baseline, drawn(100.8, 1, seed=1)).different
    regressed, improved = (peers.criterion(baseline, drawn(mean, 1, seed=1)) for mean in (102, 98))
    assert regressed.finds(1.02)
    assert improved.finds(0.98)
    assert regressed.holds(1.02)
    assert not regressed.holds(1.01)


def test_the_bootstrap_agrees_with_the_t_test_on_normal_samples() -> None:
    a, b = drawn(100, 1), drawn(100.25, 1, seed=1)
    expected = stats.ttest_ind(a, b, equal_var=False).pvalue
    error = 2 * np.sqrt(expected / 2 / peers.RESAMPLES)
    p = peers.bootstrap_p(a, b, peers.RESAMPLES, np.random.default_rng(1))
    assert p == pytest.approx(expected, abs=5 * error)
    verdict = peers.criterion(a, b)
    half = 1.96 * np.sqrt(1 / 100 + 1.0025**2 / 100) / 100
    assert (verdict.low, verdict.high) == pytest.approx((1.0025 - half, 1.0025 + half), abs=0.1 * half)
    assert peers.criterion(a, b) == verdict, "equal data have equal verdicts"


def test_more_resamples_give_the_same_verdicts() -> None:
    """Half of these pairs are near the threshold; benchmarks hold it against criterion's 100 000."""
    random = np.random.default_rng(1)
    pairs = [(random.normal(100, 1, 50), random.normal(mean, 1, 50)) for mean in [100, 101.4] * 40]
    few = [peers.criterion(a, b).different for a, b in pairs]
    many = [peers.criterion(a, b, 20_000).different for a, b in pairs]
    assert 5 < sum(many) < 35
    assert abs(sum(few) - sum(many)) <= 1


def test_large_sides_are_resampled_in_parts() -> None:
    a, b = drawn(100, 1, 6000), drawn(102, 1, 9000, seed=1)
    verdict = peers.criterion(a, b)
    assert verdict.different
    assert verdict.high - verdict.low == pytest.approx(2 * 1.96e-2 * np.sqrt(1 / 6000 + 1 / 9000), rel=0.1)


@pytest.mark.parametrize("rule", RULES.values())
def test_sides_without_variance_are_judged_by_their_means(rule: peers.Rule) -> None:
    level = values(100, 100, 100)
    assert not rule(level, level).different
    assert rule(level, level * 2).finds(2)


@pytest.mark.parametrize("rule", RULES.values())
def test_times_that_are_corrected_below_0_have_no_ratio(rule: peers.Rule) -> None:
    verdict = rule(values(-3, 1, 1), values(1, 2, 3))
    assert np.isnan(verdict.ratio)
    assert not verdict.finds(2)


def test_rates_are_judged_by_the_times_behind_them() -> None:
    a = spread(1.0, between=0, seed=1, run_id="a")
    b = spread(1.25, between=0, seed=1, run_id="b")
    of_times = judge(a, b)[0]
    a, b = (_as_rate(each) for each in (a, b))
    of_rates = judge(a, b)[0]
    for name in RULES:
        assert of_rates[name].different == of_times[name].different
        assert of_rates[name].ratio == pytest.approx(1 / of_times[name].ratio)
    times, rates = of_times[CRITERION], of_rates[CRITERION]
    assert (rates.low, rates.high) == pytest.approx((1 / times.high, 1 / times.low), abs=5e-4)
    assert rates.finds(0.8)
    assert rates.holds(1 / times.ratio)


def _as_rate(results: ExperimentResults) -> ExperimentResults:
    (point,) = results.points
    point = replace(point, metrics={**point.metrics, "time_ns": 1e9 / point.metrics["time_ns"]})
    column = replace(results.metrics["time_ns"], better="more")
    return replace(results, points=(point,), metrics={**results.metrics, "time_ns": column})


def test_sides_of_unequal_size_are_judged() -> None:
    a, b = (spread(1.0, between=0, seed=2, run_id=name) for name in "ab")
    (point,) = b.points
    b = replace(b, points=(point.only(point.block < 7),))
    verdicts, _ = judge(a, b)
    assert set(verdicts) == set(METHODS)
    assert not verdicts[PYPERF].different


def test_pooling_the_samples_of_processes_gives_false_positives() -> None:
    """Processes differ by as much as samples do, as where each has its own layout of memory."""
    by_name = {rates.method: rates for rates in method_rates(judged(0.0, between=0.01, pairs=60))}
    for name in (WELCH, PYPERF, T_INTERVAL):
        assert by_name[name].exceeds_level
        assert by_name[name].false_positives.share > 0.25
    assert not by_name[OSCOPE].exceeds_level
    assert by_name[HYPERFINE].false_positives.count == 0, "its deviation is that of samples, not of means"
    # Without a spread between processes the same rules hold their level.
    alike = {rates.method: rates for rates in method_rates(judged(0.0, between=0.0, pairs=60))}
    for name in (WELCH, PYPERF, T_INTERVAL, OSCOPE):
        assert not alike[name].exceeds_level


def test_a_method_costs_the_time_of_a_pair_over_its_power() -> None:
    always, never = dict.fromkeys(METHODS, True), dict.fromkeys(METHODS, False)
    found = [trial(0.0, never)] * 20 + [trial(0.02, always)] * 3 + [trial(0.02, never)] * 1
    rates = _of(found, OSCOPE)
    assert (rates.power[0.02].count, rates.power[0.02].of) == (3, 4)
    assert rates.seconds_per_find(0.02) == pytest.approx(3.0 / 0.75)
    # It found none.
    assert _of([trial(0.0, never), trial(0.02, never)], OSCOPE).seconds_per_find(0.02) is None
    # No equal sides show that it has few false positives.
    assert _of([trial(0.02, always)], OSCOPE).seconds_per_find(0.02) is None


@pytest.mark.parametrize(("alarms", "exceeds"), [(0, False), (2, False), (3, True), (20, True)])
def test_a_method_with_too_many_false_positives_has_no_cost(alarms: int, exceeds: bool) -> None:
    always, never = dict.fromkeys(METHODS, True), dict.fromkeys(METHODS, False)
    # Of 15 pairs 2 are within what 5 % give by chance (Wilson: from 3.7 %), and 3 are not (from 7.0 %).
    found = [trial(0.0, always)] * alarms + [trial(0.0, never)] * (15 - alarms) + [trial(0.02, always)]
    rates = _of(found, OSCOPE)
    assert rates.exceeds_level == exceeds
    assert (rates.seconds_per_find(0.02) is None) == exceeds


def _of(found: list[Trial], method: str) -> MethodRates:
    (rates,) = (each for each in method_rates(found) if each.method == method)
    return rates


def test_calibrations_of_earlier_versions_show_the_methods_that_they_have() -> None:
    found = [trial(effect, dict.fromkeys(OLD, effect > 0)) for effect in (0.0, 0.02)]
    read = trials.from_object(json.loads(record.dump(trials.to_object(found))))
    assert [rates.method for rates in method_rates(read)] == list(OLD)
    result = {"wanted": CalibrationSpec().to_object(), "interrupted": False, "trials": trials.to_object(read)}
    made = section("Title", result)
    assert [row[0] for row in by_method(read).rows] == list(OLD)
    assert [trace["name"] for trace in made.figures[0].traces] == list(OLD)


def test_the_table_has_power_and_its_cost_for_each_effect() -> None:
    always, never = dict.fromkeys(METHODS, True), dict.fromkeys(METHODS, False)
    found = [trial(0.0, never), trial(0.01, never), trial(0.02, always), trial(0.02, never)]
    table = by_method(found)
    assert list(table.columns) == [
        "method",
        "false positives",
        "found 1.0 %",
        "s per 1.0 %",
        "found 2.0 %",
        "s per 2.0 %",
        "truth held",
    ]
    rows = {row[0]: row for row in table.rows}
    assert rows[PYPERF][1:] == ["0.0 % (0.0 to 79.3)", "0 %", "–", "50 %", "6", "–"]
    assert rows[CRITERION][-1].startswith("100.0 %")


def test_each_way_of_measuring_has_a_table() -> None:
    never = dict.fromkeys(METHODS, False)
    one = [trial(0.0, never)]
    assert [table.title for table in by_method_and_way(one)] == [by_method(one).title]
    both = [*one, trial(0.0, never, "in sequence")]
    tables = by_method_and_way(both)
    assert [table.title.rpartition(", sides ")[2] for table in tables] == ["in sequence", "interleaved"]
    assert all(table.note.startswith("1 pairs without") for table in tables)
    assert tables[-1].note == by_method(one).note
    assert len(tables[0].note) < len(tables[-1].note), "it is explained once"


def test_stored_pairs_are_judged_anew_as_they_were(probe: Path, tmp_path: Path) -> None:
    command = CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe), "OSCOPE_STORE": str(tmp_path / "oscope.db")})
    subject = ("syscall.cost", "--set", "call=getppid", "--set", "style=loop")
    amount = ("--pairs", "2", "--blocks", "3", "--reps", "3", "--effect", "300%", "--seed", "1")
    reported = command("calibrate", *subject, *amount, "--keep", "pairs.db", "--json", "-")
    assert reported.code == 0, reported.err
    expected = trials.from_object(json.loads(reported.out)["result"]["trials"])
    with Store.read(tmp_path / "pairs.db") as store:
        again = list(judge_trials.judged(store))
    # Two ways, with a difference and without, twice.
    assert len(again) == len(expected) == 8
    for one, other in zip(again, expected, strict=True):
        assert (one.way, one.effect, one.metric) == (other.way, other.effect, other.metric)
        assert one.truth == pytest.approx(other.truth)
        for name in METHODS:
            assert one.verdicts[name].different == other.verdicts[name].different
            assert one.verdicts[name].ratio == pytest.approx(other.verdicts[name].ratio)
        assert one.seconds > 0


def test_a_store_without_pairs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store.open(tmp_path / "empty.db"):
        pass
    assert judge_trials.main([str(tmp_path / "empty.db")]) == 1
    assert "no pair of runs" in capsys.readouterr().err
    (tmp_path / "text.db").write_text("no database" * 100)
    assert judge_trials.main([str(tmp_path / "text.db")]) == 1
    assert "text.db" in capsys.readouterr().err

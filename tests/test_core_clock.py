"""The speed of the core as a control variate of separate runs: where it is used, and that it is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy

import invented_runs
from oscope.model.samples import ExperimentResults, Floats, PointSamples, Results
from oscope.statistics import ComparedMetric, compare_results
from oscope.statistics.candidates import candidates
from oscope.statistics.core_clock import CORE_LOADS, FEWEST, core_loads, excess_error, explain
from oscope.statistics.earlier import EarlierRuns
from oscope.storage import record

CALL = "getppid"


def measured(seed: int, *, slope: float, count: int) -> tuple[Floats, Floats]:
    """Return medians and loads of runs: the core's speed varies by 2 %, and the medians by 0.2 % beyond."""
    random = np.random.default_rng(seed)
    speed = random.normal(0, 0.02, count)
    return (
        100 * np.exp(slope * speed + random.normal(0, 0.002, count)),
        4500 * np.exp(speed + random.normal(0, 0.0002, count)),
    )


def run(number: int, cost: float, loads: float, release: str = "6.1.0") -> ExperimentResults:
    """Return a run in which a call costs so many ns, and the loads took so long."""
    environment = {**invented_runs.ENVIRONMENT, "kernel": {"release": release}}
    found = invented_runs.run({CALL: cost}, number, environment=environment)
    (point,) = found.points
    return replace(found, points=(replace(point, covariates={CORE_LOADS: np.full(len(point), loads)}),))


def history() -> list[ExperimentResults]:
    """Return 12 runs whose medians follow the core's speed."""
    medians, loads = measured(3, slope=1.0, count=12)
    return [run(100 + i, *each) for i, each in enumerate(zip(medians, loads, strict=True))]


def compared(
    a: ExperimentResults, b: ExperimentResults, earlier: Sequence[ExperimentResults]
) -> tuple[ComparedMetric, list[str]]:
    """Return the row of the time, and what is said of the core's speed."""
    found = compare_results(a, b, earlier=earlier)
    (row,) = [each for each in found.rows if each.metric == "time_ns"]
    return row, [each for each in found.caveats if "loads from its first cache" in each]


def bare(results: ExperimentResults) -> tuple[PointSamples, ...]:
    return tuple(replace(point, covariates={}) for point in results.points)


def test_what_the_core_explains_is_not_taken_for_a_difference() -> None:
    a, b = run(1, 100.0, 4500.0), run(2, 103.0, 4500.0 * 1.03)
    row, (note,) = compared(a, b, history())
    assert row.different != "yes"
    assert row.ci95[0] < 1 < row.ci95[1]
    assert note.startswith("* the core was slower in B, by 3.0 % (loads")


def test_a_difference_beyond_it_is_found_which_the_runs_alone_do_not_show() -> None:
    # 4 % more, of which the core explains 2: runs differ by 2 % each.
    a, b = run(1, 100.0, 4500.0), run(2, 104.0, 4500.0 * 1.02)
    row, _ = compared(a, b, history())
    assert (row.different, row.method) == ("yes", "unpaired over processes, at one speed of the core")
    assert row.ci95[0] < 1.04 / 1.02 < row.ci95[1]
    assert "more than A, at one speed of the core (95 %" in row.sentence
    plain, notes = compared(a, b, [replace(each, points=bare(each)) for each in history()])
    assert (plain.different, notes) == ("cannot tell", [])


def test_no_claim_contradicts_the_medians_that_are_shown() -> None:
    # The median rises by 1 %, where the core alone would bring 3 %.
    a, b = run(1, 100.0, 4500.0), run(2, 101.0, 4500.0 * 1.03)
    row, _ = compared(a, b, history())
    assert row.p < 0.05
    assert row.different == "cannot tell"
    assert "opposite direction" in row.sentence


@pytest.mark.parametrize("change", ["another kernel", "another clock frequency", "too few runs"])
def test_a_change_that_may_act_on_the_core_stays_in_the_difference(change: str) -> None:
    """A kernel may set the frequency; and loads beyond all earlier ones tell of something that was set."""
    earlier = history()[: FEWEST - 1] if change == "too few runs" else history()
    slower = 1.3 if change == "another clock frequency" else 1.03
    a = run(1, 100.0, 4500.0)
    b = run(2, 100.0 * slower, 4500.0 * slower, "6.2.0" if change == "another kernel" else "6.1.0")
    found = compare_results(a, b, earlier=earlier, allow=["kernel"])
    row = next(each for each in found.rows if each.metric == "time_ns")
    assert row.ratio == pytest.approx(slower, rel=0.01)
    assert not [each for each in found.caveats if "first cache" in each]


def test_loads_that_explain_nothing_are_not_used() -> None:
    medians, loads = measured(1, slope=0.0, count=30)
    assert explain(medians, loads, 4500.0, 4510.0) is None


@pytest.mark.parametrize("slope", [1.0, -1.0, 0.5])
def test_the_interval_of_what_remains_holds_in_95_percent(slope: float) -> None:
    """Rates fall where times rise; work that waits for the memory follows the core by half."""
    held, of, widths = 0, 2000, []
    for seed in range(of):
        medians, loads = measured(seed, slope=slope, count=14)
        found = explain(medians[:12], loads[:12], *loads[12:])
        if found is None:
            continue
        left = float(np.log(medians[13] / medians[12])) - found.change
        reach = scipy.stats.t.isf(0.025, found.spread.dof) * np.sqrt(2) * found.spread.deviation
        held += abs(left) <= reach
        widths.append(reach)
    # Where the loads of the two lie beyond the earlier ones (1 in 50 or so) nothing is explained.
    assert len(widths) > 0.9 * of
    assert 0.93 < held / len(widths) < 0.97
    assert np.median(widths) < 0.01


@pytest.mark.parametrize(("error", "least", "most"), [(0.01, 0.93, 0.99), (0.0, 0.0, 0.7)])
def test_what_short_runs_know_of_their_own_loads_is_in_the_interval(
    error: float, least: float, most: float
) -> None:
    """Two runs of few blocks have loads that are off by 1 %, where those of earlier runs are exact."""
    held = []
    for seed in range(1000):
        medians, loads = measured(seed, slope=1.0, count=14)
        seen = loads[12:] * np.exp(np.random.default_rng(seed).normal(0, 0.01, 2))
        if (found := explain(medians[:12], loads[:12], *seen, error)) is None:
            continue
        left = float(np.log(medians[13] / medians[12])) - found.change
        reach = scipy.stats.t.isf(0.025, found.spread.dof) * np.sqrt(2) * found.spread.deviation
        held.append(abs(left) <= reach)
    assert len(held) > 700
    assert least <= np.mean(held) <= most


def test_the_error_of_the_loads_is_that_beyond_earlier_runs() -> None:
    exact = [each.points[0] for each in history()]
    a, b = exact[:2]
    assert excess_error(a, b, exact) == pytest.approx(0, abs=1e-12)
    rough = replace(a, covariates={CORE_LOADS: a.covariates[CORE_LOADS] * np.tile([0.99, 1.01], len(a) // 2)})
    blocks = replace(rough, block=np.arange(len(a)))
    assert excess_error(blocks, b, exact) > 0
    assert excess_error(replace(a, block=np.zeros(len(a), dtype=int)), b, exact) == float("inf")


def test_a_record_keeps_the_loads_and_attribution_does_not_take_them_for_a_cause(tmp_path: Path) -> None:
    results = run(1, 100.0, 4500.0)
    record.write(Results((results,)), tmp_path / "run.json")
    (point,) = record.read(tmp_path / "run.json").experiments[0].points
    assert core_loads(point) == 4500.0
    assert CORE_LOADS not in candidates(point.covariates, None, None)


def test_runs_that_were_interleaved_count_once_and_partners_of_a_side_not_at_all() -> None:
    def grouped(results: ExperimentResults, *others: int) -> ExperimentResults:
        names = [f"run{number}" for number in others]
        return replace(results, run_id=names[0], settings={**results.settings, "interleaved": names})

    a, b = grouped(run(1, 100.0, 4500.0), 1, 50), grouped(run(2, 103.0, 4635.0), 2, 60)
    pairs = [grouped(each, 100 + i, 100 + (i ^ 1)) for i, each in enumerate(history())]
    pairs = [
        replace(each, settings={**each.settings, "interleaved": sorted(each.settings["interleaved"])})
        for each in pairs
    ]
    found = EarlierRuns.of(a, b, [*pairs, grouped(run(50, 100.0, 4500.0), 50, 1)])
    assert [each.run_id for each in found.runs] == [f"run{100 + i}" for i in range(1, 12, 2)]


def test_runs_of_another_build_of_ones_own_program_are_no_unchanged_runs() -> None:
    def built(number: int, digest: str) -> ExperimentResults:
        made = run(number, 100.0, 4500.0)
        return replace(made, environment={**made.environment, "program": {"name": "./a", "sha256": digest}})

    before, after = built(1, "old"), built(2, "new")
    others = [built(3, "old"), built(4, "new"), built(5, "old"), built(6, "new")]
    assert [each.run_id for each in EarlierRuns.of(before, after, others).runs] == [
        each.run_id for each in (others[0], others[2])
    ]


def test_runs_whose_self_check_failed_do_not_show_how_much_runs_differ() -> None:
    others = [run(number, 100.0, 4500.0) for number in range(3, 7)]
    failed = {**others[1].environment, "self_check": {"ratio_of_double_work": 7.9, "ok": False}}
    others[1] = replace(others[1], environment=failed)
    found = EarlierRuns.of(run(1, 100.0, 4500.0), run(2, 100.0, 4500.0), others)
    assert [each.run_id for each in found.runs] == [others[place].run_id for place in (0, 2, 3)]


def test_runs_of_another_build_of_a_command_are_no_unchanged_runs() -> None:
    def built(number: int, digest: str | None) -> ExperimentResults:
        made = run(number, 100.0, 4500.0)
        programs = [{"factors": dict(made.points[0].factors), "sha256": digest}] if digest else []
        return replace(made, settings={**made.settings, "programs": programs})

    def known(before: ExperimentResults) -> int:
        others = [built(number, ("old", "new", None)[number % 3]) for number in range(10, 22)]
        found = EarlierRuns.of(before, built(2, "new"), others)
        return len(found.points(before.points[0], before.metrics["time_ns"]).points)

    assert [known(built(1, digest)) for digest in ("old", "new", "newest", None)] == [4, 4, 0, 4]


def test_one_run_does_not_decide_on_the_slope() -> None:
    loads = np.full(12, 4500.0)
    loads[-1] = 4600.0
    medians = 100 * np.exp(np.random.default_rng(1).normal(0, 0.001, 12))
    medians[-1] = 110.0
    assert explain(medians, loads, 4500.0, 4500.0) is None


def test_no_difference_is_not_claimed_against_the_medians_that_are_shown() -> None:
    row, _ = compared(run(1, 100.0, 4500.0), run(2, 103.0, 4500.0 * 1.03), history())
    assert (row.different, row.matters) == ("cannot tell", "cannot tell")

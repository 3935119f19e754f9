"""Statistics of the instructions clock: exact where nothing varies, interrupts out, unlike things refused."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import synthetic
import synthetic_instructions as invented
from oscope.model.errors import UsageError
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics import ComparedMetric, compare_points, compare_results, compare_within, summarise_point
from oscope.statistics.exact import ONE_COURSE
from synthetic_instructions import SOME, pair, point, results

ALL = tuple(tuple(range(10)) for _ in range(5))

compared = partial(compare_results, allow=("kernel",))


@pytest.fixture(autouse=True)
def _no_warning() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def headline(a: ExperimentResults, b: ExperimentResults) -> ComparedMetric:
    rows = compared(a, b).rows
    return next(row for row in rows if row.metric == "instructions")


def test_a_summary_of_equal_boots_has_no_spread() -> None:
    whole = results(point("getppid", 236, SOME))
    found = summarise_point(whole, whole.points[0], "instructions")
    assert (found.median, found.ci95, found.std) == (236.0, (236.0, 236.0), 0.0)
    assert (found.n, found.level) == (47, "boot")
    assert (found.warmup, found.drift.found, len(found.modes)) == (0, False, 1)
    assert "3 of 50 samples had an interrupt in them and are left out." in found.notes


@pytest.mark.parametrize("boots", [1, 2, 5, 40])
def test_equal_values_have_no_warmup_no_drift_and_no_doubt(boots: int) -> None:
    whole = results(point("getppid", 236, ((),) * boots, reps=12))
    found = summarise_point(whole, whole.points[0], "instructions")
    assert (found.std, found.warmup, found.drift.found, len(found.modes)) == (0.0, 0, False, 1)
    assert found.ci95 == (236.0, 236.0)
    assert not any("wide" in note for note in found.notes)


def test_a_rate_leaves_the_same_samples_out() -> None:
    whole = results(point("getppid", 236, SOME))
    found = summarise_point(whole, whole.points[0], "calls_per_s")
    assert (found.n, found.std) == (47, 0.0)


def test_one_sample_left_out_is_told_in_the_singular() -> None:
    whole = results(point("getppid", 236, ((2,), (), (), (), ())))
    found = summarise_point(whole, whole.points[0], "instructions")
    assert "1 of 50 samples had an interrupt in them and is left out." in found.notes


def test_where_each_sample_has_an_interrupt_all_are_used() -> None:
    whole = results(point("getppid", 236, ALL))
    found = summarise_point(whole, whole.points[0], "instructions")
    assert found.n == 50
    assert found.median == pytest.approx(236 + invented.HANDLER / invented.ITERATIONS)
    assert "50 of 50 samples had an interrupt in them; too few are without, so all are used." in found.notes


def test_a_boot_of_interrupts_alone_is_left_out_where_the_others_are_clean() -> None:
    whole = results(point("getppid", 236, (ALL[0], (), (), (), ())))
    found = summarise_point(whole, whole.points[0], "instructions")
    assert (found.n, found.blocks, found.std) == (40, 4, 0.0)


def test_unrecorded_interrupts_are_told() -> None:
    bare = replace(point("getppid", 236, SOME), covariates={"interrupts": np.full(50, np.nan)})
    whole = results(bare)
    found = summarise_point(whole, bare, "instructions")
    assert found.n == 50
    assert "whether interrupts fell into the samples was not recorded." in found.notes


def test_a_wall_clock_keeps_its_interrupted_samples() -> None:
    whole = synthetic.cost()
    hit = whole.points[2].covariates["interrupts"] > 0
    assert hit.any()
    assert summarise_point(whole, whole.points[2], "time_ns").n == len(whole.points[2])


def test_the_step_is_an_instruction_over_the_iterations() -> None:
    whole = results(point("getppid", 236, SOME))
    assert whole.resolution(whole.points[0], "instructions") == 1 / invented.ITERATIONS
    assert whole.clock == "instructions"
    assert synthetic.cost().clock == "wall"


def test_equal_sides_are_identical() -> None:
    row = headline(*pair(0))
    assert (row.different, row.matters, row.difference, row.ratio) == ("no", "no", 0.0, 1.0)
    assert row.ci95 == (1.0, 1.0)
    assert row.sentence == "no difference found: identical in all 5 boots a side"
    assert row.detectable == pytest.approx(1 / invented.ITERATIONS / 236)


@pytest.mark.parametrize("k", [1, 5, -3, 1000])
def test_k_instructions_more_are_reported_as_k(k: int) -> None:
    row = headline(*pair(k))
    assert row.difference == k
    assert row.different == "yes"
    assert row.ratio == pytest.approx(1 + k / 236)


def test_the_sentence_tells_instructions_share_and_verdict() -> None:
    assert headline(*pair(5)).sentence == (
        "B is 5 instructions (2.1 %) more than A, the same in each of 5 boots a side, worse; it matters"
    )
    assert headline(*pair(1)).sentence == (
        "B is 1 instruction (0.42 %) more than A, the same in each of 5 boots a side, worse; "
        "too small to matter"
    )


def test_many_points_do_not_weaken_what_does_not_vary() -> None:
    calls = [f"call{i}" for i in range(20)]
    a = results(*(point(call, 236, SOME) for call in calls))
    b = results(*(point(call, 241, SOME) for call in calls), kernel="other", run="20260101-000001-bbbb")
    assert {(row.different, row.matters) for row in compared(a, b).rows} == {("yes", "yes")}


def test_what_was_left_out_is_told_for_each_side() -> None:
    caveats = compared(*pair(5)).caveats
    assert "A: 3 of 50 samples had an interrupt in them and are left out" in caveats
    assert "B: 2 of 50 samples had an interrupt in them and are left out" in caveats


def test_a_side_full_of_interrupts_makes_the_other_keep_its_own() -> None:
    a, b = pair(0)
    b = replace(b, points=(point("getppid", 236, ALL),))
    found = compared(a, b)
    assert (
        "A: 3 of 50 samples had an interrupt in them; the other side has too few without, so all are used"
        in found.caveats
    )
    assert (
        "B: 50 of 50 samples had an interrupt in them; too few are without, so all are used" in found.caveats
    )
    assert found.rows[0].n_a == found.rows[0].n_b == 50


def test_a_side_that_tells_of_no_interrupts_is_named_as_the_reason() -> None:
    a, b = pair(0)
    bare = replace(b.points[0], covariates={"interrupts": np.full(50, np.nan)})
    caveats = compared(a, replace(b, points=(bare,))).caveats
    assert any("the other side does not record interrupts, so all are used" in caveat for caveat in caveats)


@pytest.mark.parametrize("k", [0, 5])
def test_boots_that_repeat_are_told_once_to_be_one_course_of_events(k: int) -> None:
    calls = ("getppid", "getpid")
    a = results(*(point(call, 236, SOME) for call in calls))
    b = results(*(point(call, 236 + k, SOME) for call in calls), kernel="other", run="r2")
    assert compared(a, b).caveats.count(ONE_COURSE) == 1


def test_boots_that_differ_are_no_single_course_of_events() -> None:
    a = results(point("getppid", 236, SOME, boot_effect=(0, 3, 1, 8, 2)))
    b = results(point("getppid", 236, SOME, boot_effect=(5, 1, 0, 2, 7)), kernel="other", run="r2")
    assert ONE_COURSE not in compared(a, b).caveats


@pytest.mark.parametrize("name", ["cpu_instructions", "instructions of the walk (cpu_instructions)"])
@pytest.mark.parametrize("same_run", [True, False])
def test_a_count_by_steps_of_a_thousand_is_never_exact(name: str, same_run: bool) -> None:
    one, other = point("getppid", 100_000, SOME, iterations=1), point("getpid", 101_000, SOME, iterations=1)

    def named(side: PointSamples) -> PointSamples:
        return replace(side, metrics={name: side.metrics["instructions"]})

    column = replace(invented.COLUMN, name=name)
    row = compare_points(named(one), named(other), column, same_run=same_run)
    assert "the same in each" not in row.sentence
    assert row.ci95[0] < 1.01 < row.ci95[1]
    assert row.p > 0
    # A step between two values is a thousand: less could not have been seen.
    assert row.detectable >= 1000 / 100_000 - 1e-12
    alike = compare_points(named(one), named(one), column, same_run=same_run)
    assert "identical" not in alike.sentence
    assert alike.ci95[0] < 1 < alike.ci95[1]
    exact = compare_points(one, other, invented.COLUMN, same_run=same_run)
    assert exact.p == 0


@pytest.mark.parametrize("boots", [5, 16])
def test_a_count_that_becomes_nothing_has_the_ratio_nothing(boots: int) -> None:
    random = np.random.default_rng(7)
    # Skewed, so that mean and median differ.
    effects = tuple((random.pareto(1.5, boots) * 900).round())
    one = point("getppid", 2038, ((),) * boots, boot_effect=effects)
    nothing = replace(one, metrics={name: np.zeros(len(one)) for name in one.metrics})
    for same_run in (True, False):
        row = compare_points(one, nothing, invented.COLUMN, same_run=same_run)
        assert row.ratio == pytest.approx(0, abs=1e-12)
        half = replace(one, metrics={name: values / 2 for name, values in one.metrics.items()})
        assert compare_points(one, half, invented.COLUMN, same_run=same_run).ratio == pytest.approx(0.5)


def test_a_difference_that_is_the_same_in_every_boot_needs_no_equal_boots() -> None:
    effects = (0.0, 3.0, 1.0, 8.0, 2.0)
    whole = results(
        point("getppid", 236, SOME, boot_effect=effects), point("getpid", 241, SOME, boot_effect=effects)
    )
    row = compare_within(whole, "call", "getppid", "getpid").rows[0]
    assert row.difference == pytest.approx(5, abs=1e-9)
    assert row.sentence.startswith("B is 5 instructions (2.1 %) more than A, the same in each of 5 boots, ")


def test_boots_that_differ_give_an_interval_with_the_difference_in_it() -> None:
    random = np.random.default_rng(4)
    effects = [tuple(random.integers(0, 4, 6).astype(float)) for _ in range(2)]
    none = ((),) * 6
    a = results(point("getppid", 236, none, boot_effect=effects[0]))
    b = results(point("getppid", 256, none, boot_effect=effects[1]), kernel="other", run="r2")
    row = headline(a, b)
    assert row.different == "yes"
    assert row.ci95[0] < 1 + row.difference / 237.5 < row.ci95[1]
    assert "instructions (" in row.sentence
    assert "95 % interval" in row.sentence


def test_one_boot_a_side_is_no_evidence_of_what_boots_do() -> None:
    a = results(point("getppid", 236, ((),)))
    b = results(point("getppid", 237, ((),)), kernel="other", run="r2")
    found = compared(a, b)
    assert found.rows[0].different == "cannot tell"
    assert any("one process" in caveat for caveat in found.caveats)


def test_two_points_compare_as_runs_do() -> None:
    one, other = point("getppid", 236, SOME), point("getppid", 240, SOME)
    row = compare_points(one, other, invented.COLUMN, same_run=True)
    assert (row.difference, row.different) == (4.0, "yes")


def test_a_wall_clock_has_a_difference_in_its_unit() -> None:
    whole = synthetic.cost()
    row = compare_within(whole, "style", "loop", "single").rows[0]
    assert row.difference == pytest.approx(6, abs=1)
    assert row.unit == "ns"


def test_the_clocks_are_never_compared() -> None:
    wall = synthetic.cost()
    a, _ = pair(0)
    with pytest.raises(UsageError, match=r"clock differs \(tsc and instructions\)") as caught:
        compare_results(wall, a, allow=("machine",))
    assert caught.value.remedy == "the two clocks do not count the same; measure both with one"


def test_other_kernels_are_refused_unless_they_are_the_question() -> None:
    with pytest.raises(UsageError, match=r"kernel differs .base .* and my_precious") as caught:
        compare_results(*pair(0))
    assert caught.value.remedy == "--allow kernel compares them if that is the question"


def test_kernels_may_differ_and_are_named() -> None:
    found = compared(*pair(0))
    assert found.label_a == "20260101-000000-aaaa, kernel base"
    assert found.label_b == "20260101-000001-bbbb, kernel my_precious"
    assert any(c.startswith("the kernels differ: A ran base") for c in found.caveats)
    assert not any("different boots" in caveat for caveat in found.caveats)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"accelerator": "kvm"}, "accelerator of the guests"),
        ({"cpu_model": "qemu64"}, "CPU model of the guests"),
        ({"cpus": 2}, "CPU count of the guests"),
    ],
)
def test_guests_of_another_make_are_refused_unless_allowed(change: dict[str, object], what: str) -> None:
    a, b = pair(0, **change)
    with pytest.raises(UsageError, match=f"{what} differs"):
        compared(a, b)
    assert any(what in caveat for caveat in compare_results(a, b, allow=("machine",)).caveats)


def test_a_guest_is_another_machine() -> None:
    a, b = pair(0)
    a = replace(a, environment={key: value for key, value in a.environment.items() if key != "guest"})
    with pytest.raises(UsageError, match="machine differs") as caught:
        compared(a, b)
    assert "a guest is another machine" in (caught.value.remedy or "")
    assert any("guest" in caveat for caveat in compare_results(a, b, allow=("machine",)).caveats)


def test_counts_that_are_multiples_are_compared_by_their_ratio() -> None:
    """One side waits, and varies: what the other has less is no number to be told, and no ratio near 0."""
    waits = (1.0, 1.02, 0.99, 1.01, 0.98)
    a = results(point("getppid", 5_000_000, SOME, boot_effect=[5_000_000 * (each - 1) for each in waits]))
    b = results(point("getppid", 236, SOME), kernel="other", run="20260101-000001-bbbb")
    (row,) = (each for each in compared(a, b).rows if each.metric == "instructions")
    assert row.ratio == pytest.approx(236 / 5_000_000, rel=0.02)
    assert 0 < row.ci95[0] < row.ratio < row.ci95[1] < 2 * row.ratio
    assert (row.different, row.matters) == ("yes", "yes")
    assert row.sentence.startswith("B is 99.99")

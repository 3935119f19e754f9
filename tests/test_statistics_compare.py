"""Comparisons: error rate on simulated null data, known differences found, unlike things refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import null_compare as null
import synthetic
from oscope.model.errors import UsageError
from oscope.model.samples import Column, ExperimentResults, PointSamples
from oscope.report.comparison_verdict import verdict
from oscope.runner.injection.spec import Injection
from oscope.statistics import ComparedMetric, compare_points, compare_results, compare_within
from oscope.statistics.sides import _median_weights

PLAIN = null.Scenario("plain")
PAIRED = null.Scenario("paired", interleaved=True, drift=0.02)
EACH_KIND = {
    "two runs, level variances",
    "two runs, drift 2 % through both",
    "two runs, 8 and 14 blocks, 3 and 20 reps",
    "two runs, blocks AR(1) 0.5",
    "two runs, 12 blocks, 10 % contended",
    "two runs, 5 boots a side",
    "interleaved, drift 2 %",
}
"""What is simulated each time; the others are for `make test-full`."""


def sides(
    scenario: object = PLAIN, seed: int = 0, ratio: float = 1.0
) -> tuple[ExperimentResults, ExperimentResults]:
    a, b = null.simulate(scenario, np.random.default_rng(seed), ratio)
    return a, b


def judged(scenario: object = PAIRED, ratio: float = 1.0) -> ComparedMetric:
    row: ComparedMetric = next(null.compared(scenario, 0, 1, ratio))
    return row


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(each, id=each.name, marks=() if each.name in EACH_KIND else pytest.mark.full)
        for each in null.SCENARIOS
    ],
)
def test_false_alarms_stay_at_their_nominal_level(scenario: object) -> None:
    rows = list(null.compared(scenario, 11, 300))
    alarms = null.share(rows, lambda row: row.different == "yes")
    assert alarms[1] <= 0.06
    covering = null.share(rows, lambda row: row.ci95[0] <= 1 <= row.ci95[1])
    assert covering[2] >= 0.94


def test_each_kind_is_among_the_scenarios() -> None:
    assert {each.name for each in null.SCENARIOS} > EACH_KIND


def test_detectable_is_found_about_as_often_as_it_says() -> None:
    rows = list(null.compared(PAIRED, 1, 200))
    detectable = float(np.median([row.detectable for row in rows]))
    found = null.share(
        list(null.compared(PAIRED, 2, 200, 1 + detectable)), lambda row: row.different == "yes"
    )
    assert found[1] <= 0.8 <= found[2]


def test_null_case_says_what_would_have_been_found() -> None:
    row = compare_results(*sides()).rows[0]
    assert row.different in ("no", "cannot tell")
    assert row.sentence.startswith("no difference found; one of ")
    assert row.sentence.endswith(" % would have been")
    assert 0 < row.detectable < 0.2


def test_interleaved_sides_are_paired_and_see_more() -> None:
    assert judged().method == "paired by block"
    assert judged().detectable < compare_results(*sides()).rows[0].detectable


def test_a_difference_is_found_with_its_size() -> None:
    row = judged(ratio=1.2)
    assert (row.different, row.matters) == ("yes", "yes")
    assert row.ci95[0] <= 1.2 <= row.ci95[1]
    assert "worse" in row.sentence
    assert "% more than A" in row.sentence


@pytest.mark.parametrize("interleaved", [True, False])
def test_contended_blocks_do_not_hide_a_difference(interleaved: bool) -> None:
    busy = null.Scenario("busy", blocks=(40, 40), contended=0.05, interleaved=interleaved)
    assert judged(busy, ratio=1.1).different == "yes"


def test_a_difference_may_be_too_small_to_matter() -> None:
    quiet = replace(PAIRED, process_spread=0.0005, spread=0.0005)
    row = judged(quiet, ratio=1.003)
    assert (row.different, row.matters) == ("yes", "no")
    same = judged(quiet)
    assert (same.different, same.matters) == ("no", "no")


def test_exact_counts_that_differ_are_different() -> None:
    exact = replace(PLAIN, process_spread=0.0, spread=0.0)
    row = compare_results(*sides(exact, ratio=1.02)).rows[0]
    assert (row.different, row.matters) == ("yes", "yes")
    assert compare_results(*sides(exact)).rows[0].different == "no"


def test_no_answer_stands_beside_a_sentence_that_says_another() -> None:
    a, b = sides(replace(PAIRED, blocks=(11, 11), reps=(20, 20)))
    levels = np.repeat(np.arange(100.0, 111.0), 20)
    # B takes more in 10 blocks of 11, though its median, which the other block holds, is lower.
    more = np.repeat([0.1] * 5 + [-0.05] + [0.1] * 5, 20)
    one, two = (_with_values(side, cost).points[0] for side, cost in ((a, levels), (b, levels + more)))
    row = compare_points(one, two, a.metrics["time_ns"], same_run=True)
    assert row.p < 0.05
    assert row.median_b < row.median_a < row.ratio * row.median_a
    assert row.sentence.startswith("cannot tell: ")
    assert (row.different, row.matters) == ("cannot tell", "cannot tell")


def test_one_process_a_side_cannot_tell() -> None:
    lone = replace(PLAIN, blocks=(1, 1), process_spread=0.0, spread=0.001)
    [row] = (found := compare_results(*sides(lone, ratio=1.5))).rows
    assert (row.different, row.matters) == ("cannot tell", "cannot tell")
    assert row.ratio == pytest.approx(1.5, rel=0.01)
    assert row.sentence == "cannot tell: one process a side does not show how processes differ"
    assert any("one process" in caveat for caveat in found.caveats)


def test_one_sample_a_side_cannot_tell() -> None:
    row = compare_results(*sides(replace(PLAIN, blocks=(1, 1), reps=(1, 1)))).rows[0]
    assert row.different == row.matters == "cannot tell"
    assert row.sentence.startswith("cannot tell")


def test_boots_are_the_unit_where_they_vary() -> None:
    row = compare_results(*sides(replace(PLAIN, boots=5, boot_spread=0.02))).rows[0]
    assert (row.clusters_a, row.clusters_b) == (5, 5)
    assert "boots" in row.method


def test_values_around_zero_have_no_ratio() -> None:
    a, b = sides()
    shifted = [_with_values(side, side.points[0].metrics["time_ns"] - 100.0) for side in (a, b)]
    row = compare_results(*shifted).rows[0]
    assert np.isnan(row.ratio)
    assert row.different == "cannot tell"
    assert " ns would have been" in row.sentence


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0])
@pytest.mark.parametrize("scenario", [PLAIN, PAIRED], ids=["separate", "paired"])
def test_equal_constants_are_equal_and_say_nothing_of_what_would_be_found(
    scenario: object, value: float
) -> None:
    a, b = (constant(side, value) for side in sides(scenario))
    comparison = compare_results(a, b)
    (row,) = comparison.rows
    assert (row.different, row.matters, row.difference) == ("no", "no", 0.0)
    assert (row.ratio, row.ci95, row.p_holm) == (1.0, (1.0, 1.0), 1.0)
    assert verdict(comparison) == "no difference found in 1 of 1"
    varying = replace(row, detectable=0.1)
    assert "(a difference of 10 % would have been found)" in verdict(replace(comparison, rows=(row, varying)))


@pytest.mark.parametrize(("unit", "exact"), [("B", True), ("1", True), ("ns", False)])
@pytest.mark.parametrize("scenario", [PLAIN, PAIRED], ids=["separate", "paired"])
def test_counts_that_repeat_differ_by_no_more_and_no_less(scenario: object, unit: str, exact: bool) -> None:
    """Of 9 and 11 bytes, the same in all blocks, no interval but that of 11/9 can be given."""
    a, b = (constant(side, value) for side, value in zip(sides(scenario), (9.0, 11.0), strict=True))
    column = Column("time_ns", unit, better="less")
    row = compare_points(a.points[0], b.points[0], column, same_run=scenario is PAIRED)
    assert row.different == "yes"
    assert row.ratio == pytest.approx(11 / 9)
    low, high = row.ci95
    assert (low == pytest.approx(high)) is exact
    # Each byte more or less may be chance where there are few blocks.
    few = [point.only(np.asarray(point.block < 4)) for point in (a.points[0], b.points[0])]
    low, high = compare_points(*few, column, same_run=scenario is PAIRED).ci95
    assert low < 11 / 9 < high


def test_zeros_in_which_one_sample_differs_are_not_taken_as_equal() -> None:
    a, b = (constant(side, 0.0) for side in sides(PAIRED))
    b.points[0].metrics["time_ns"][0] = 5.0
    (row,) = compare_results(a, b).rows
    assert row.different == "cannot tell"


@pytest.mark.parametrize("value", [1.6416250766416163, 609152488.122177])
def test_equal_samples_are_equal_though_one_side_has_more_of_them(value: float) -> None:
    a, b = (constant(side, value) for side in sides(PAIRED))
    [more], [point] = a.points, b.points
    fewer = point.only(np.asarray(point.rep < 5))
    for pair in ((more, fewer), (fewer, more)):
        row = compare_points(*pair, a.metrics["time_ns"], same_run=True)
        assert row.n_a != row.n_b
        assert (row.different, row.ratio, row.difference) == ("no", 1.0, 0.0)
        assert row.sentence.startswith("no difference found: identical")


def test_a_difference_is_not_claimed_beside_equal_medians() -> None:
    """Most pairs differ by 1, but half of all samples are at 10 on either side."""
    a, b = sides(PAIRED)
    blocks = np.repeat(np.arange(24), 5)
    slower, faster = [11.0, 11.0, 11.0, 10.0, 10.0], [9.0] * 5
    first = _samples(a.points[0], np.full(120, 10.0), blocks)
    second = _samples(b.points[0], np.array([*(slower * 4 + faster) * 4, *slower * 3, *faster]), blocks)
    row = compare_points(first, second, Column("time_ns", "ns", better="less"), same_run=True)
    assert row.median_a == row.median_b
    assert (row.p < 0.05, row.different, row.matters) == (True, "cannot tell", "cannot tell")
    assert row.sentence.startswith("cannot tell: the medians of all samples are equal")


def test_a_ratio_of_separate_runs_is_that_of_the_medians_beside_it() -> None:
    """The median of the blocks' medians may be another: most blocks of A are at 12, most samples at 10."""
    a, b = sides(PLAIN)
    sizes = [1] * 7 + [20] * 5
    level = np.repeat([12.0] * 7 + [10.0] * 5, sizes)
    # A value of 0 has no logarithm.
    level[-1] = 0.0
    first = _samples(a.points[0], level, np.repeat(np.arange(12), sizes))
    second = _samples(b.points[0], np.array([50.0] * 11 + [0.0]), np.arange(12))
    for pair, ratio in (((first, second), 5.0), ((second, first), 0.2)):
        row = compare_points(*pair, Column("time_ns", "ns", better="less"), same_run=False)
        assert row.median_b / row.median_a == ratio
        assert row.ratio == pytest.approx(ratio)


def _samples(point: PointSamples, values: np.ndarray, block: np.ndarray) -> PointSamples:
    """Return the first samples of a point with these values, in these blocks."""
    first = point.only(np.arange(len(point)) < len(values))
    return replace(first, metrics={"time_ns": values}, block=block, process=block)


def constant(results: ExperimentResults, value: float) -> ExperimentResults:
    """Return the results with every sample of the headline at this value."""
    name = results.headline
    points = tuple(
        replace(point, metrics={name: np.full_like(point.metrics[name], value)}) for point in results.points
    )
    return replace(results, points=points, metrics={name: results.metrics[name]})


def test_a_metric_that_a_side_lacks_is_told() -> None:
    a, b = sides()
    metrics = {
        name: Column(name, unit, better="less") for name, unit in (("time_ns", "ns"), ("cycles", "cycles"))
    }
    both = []
    for side, cycles in ((a, 1.0), (b, np.nan)):
        values = side.points[0].metrics["time_ns"]
        point = replace(side.points[0], metrics={"time_ns": values, "cycles": values * cycles})
        both.append(replace(side, points=(point,), metrics=metrics))
    result = compare_results(*both)
    assert [row.metric for row in result.rows] == ["time_ns"]
    assert "cycles: not compared, B has no value" in result.caveats


def test_metrics_that_a_side_lacks_are_told_in_one_line() -> None:
    a, b = (replace(synthetic.cost(seed=seed), run_id=f"run{seed}") for seed in (1, 2))
    names = ("minor_faults", "major_faults")
    a, b = (
        replace(side, metrics={**side.metrics, **{name: Column(name, "", better="less") for name in names}})
        for side in (a, b)
    )

    def without(points: int) -> list[str]:
        """Return what is said where so many points of a side have no value."""
        sides_filled = [
            replace(
                side,
                points=tuple(
                    replace(
                        point,
                        metrics={
                            **point.metrics,
                            **{name: np.full(len(point), np.nan if at < lacking else 1.0) for name in names},
                        },
                    )
                    for at, point in enumerate(side.points)
                ),
            )
            for side, lacking in ((a, 0), (b, points))
        ]
        caveats = compare_results(*sides_filled).caveats
        return [caveat for caveat in caveats if "B has no value" in caveat]

    assert without(len(b.points)) == ["minor_faults, major_faults: not compared, B has no value"]
    (line,) = without(1)
    assert line.startswith("minor_faults, major_faults [call=")
    assert without(0) == []


def test_a_side_with_injected_interference_is_named_with_what_was_injected() -> None:
    a, b = sides()

    def injected(side: ExperimentResults, injection: Injection) -> ExperimentResults:
        return replace(side, settings={**side.settings, "injection": injection.to_object()})

    text = "was measured with injected interference"
    assert not any(text in caveat for caveat in compare_results(a, b).caveats)
    hog = injected(a, Injection(causes=("hog",)))
    found = [caveat for caveat in compare_results(hog, b).caveats if text in caveat]
    assert found == [f"A {text} (hog): no clean measurement"]
    both = compare_results(hog, injected(b, Injection(causes=("interrupts",), delay_ns=50.0)))
    found = [caveat for caveat in both.caveats if text in caveat]
    assert found[1:] == [f"B {text} (interrupts, delay=50ns): no clean measurement"]


def test_levels_of_a_run_with_injected_interference_are_no_clean_measurement() -> None:
    results = synthetic.cost()
    injection = Injection(causes=("hog",)).to_object()
    results = replace(results, settings={**results.settings, "injection": injection})
    found = compare_within(results, "style", "loop", "single")
    assert any(
        caveat.startswith(f"run {results.run_id} was measured with injected interference (hog)")
        for caveat in found.caveats
    )


def test_a_metric_that_is_neither_better_nor_worse_is_not_compared() -> None:
    a, b = sides()
    both = []
    for side in (a, b):
        point = side.points[0]
        twice = replace(point, metrics={**point.metrics, "bytes": point.metrics["time_ns"]})
        columns = {**side.metrics, "bytes": Column("bytes", "B")}
        both.append(replace(side, points=(twice,), metrics=columns))
    assert [row.metric for row in compare_results(*both).rows] == ["time_ns"]


def test_levels_of_one_run_are_paired_by_block() -> None:
    a, b = sides(PAIRED, ratio=1.1)
    points = [replace(side.points[0], factors={"call": call}) for side, call in ((a, "read"), (b, "lseek"))]
    run = replace(a, points=tuple(points))
    result = compare_within(run, "call", "read", "lseek")
    assert result.rows[0].different == "yes"
    assert result.rows[0].method == "paired by block"
    assert result.label_b == "call=lseek"
    with pytest.raises(UsageError, match="call=fork"):
        compare_within(run, "call", "read", "fork")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workload_version": 2}, "version of syscall.cost differs"),
        ({"workload": "process.create"}, "workload differs"),
        ({"environment": {"machine": "0", "clock": {"kind": "monotonic_raw"}}}, "clock differs"),
        ({"environment": {"machine": "1", "clock": {"kind": "tsc"}}}, "machine differs"),
        ({"metrics": {"time_ns": Column("time_ns", "s")}}, "unit of time_ns differs"),
        ({"points": ()}, "no point in common"),
    ],
)
def test_unlike_results_are_refused(change: dict[str, object], message: str) -> None:
    a, b = sides()
    with pytest.raises(UsageError, match=message) as caught:
        compare_results(a, replace(b, **change))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert caught.value.remedy


def test_a_changed_copy_of_a_run_is_named() -> None:
    a = sides()[0]
    with pytest.raises(UsageError, match="cannot be compared with itself"):
        compare_results(a, a)
    halves = {name: values / 2 for name, values in a.points[0].metrics.items()}
    point = replace(a.points[0], metrics=halves)
    with pytest.raises(UsageError, match="the two copies of run run0 differ: one was changed after"):
        compare_results(a, replace(a, points=(point, *a.points[1:])))


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"release": "6.2.0"}, "kernel release differs (6.1.0 and 6.2.0)"),
        ({"version": "#2"}, "kernel build differs (#1 and #2)"),
        ({"cmdline": "quiet " * 20 + "nokaslr"}, "command line differs (without that and nokaslr)"),
    ],
)
def test_another_kernel_is_refused_unless_allowed(change: dict[str, str], reported: str) -> None:
    a, b = sides()
    kernel = {"release": "6.1.0", "version": "#1", "cmdline": "quiet " * 20}
    a = replace(a, environment={**a.environment, "kernel": kernel})
    b = replace(b, environment={**b.environment, "kernel": kernel | change})
    with pytest.raises(UsageError, match="cannot compare: kernel") as caught:
        compare_results(a, b)
    assert reported in caught.value.message
    caveats = compare_results(a, b, allow={"kernel"}).caveats
    assert any(caveat.startswith("the kernels differ: A ran ") for caveat in caveats)
    # Another machine has a kernel of its own.
    assert compare_results(a, b, allow={"machine"}).caveats == caveats
    same = compare_results(a, replace(b, environment=a.environment))
    assert not any("kernel" in caveat for caveat in same.caveats)


def test_rows_beside_are_corrected_for_too() -> None:
    alone, among = (compare_results(*sides(ratio=1.05), beside=rows).rows[0] for rows in (0, 19))
    assert among.p == alone.p
    assert among.p_holm == pytest.approx(min(1.0, 20 * alone.p_holm))
    assert among.detectable > alone.detectable
    assert [(each.tests, each.correction) for each in (alone, among)] == [(1, "Holm"), (20, "Holm")]


def test_another_machine_may_be_allowed() -> None:
    a, b = sides()
    other = replace(b, environment={"machine": "1", "clock": {"kind": "tsc"}})
    assert any("machines" in caveat for caveat in compare_results(a, other, allow={"machine"}).caveats)
    with pytest.raises(UsageError, match="clock"):
        compare_results(a, other, allow={"clock"})


def test_a_run_is_not_compared_with_itself() -> None:
    a, _ = sides()
    with pytest.raises(UsageError, match="itself"):
        compare_results(a, replace(a))


def test_two_experiments_of_one_run_are_not_paired() -> None:
    a, b = sides()
    row = compare_results(a, replace(b, run_id=a.run_id, experiment="syscall.other")).rows[0]
    assert row.method.startswith("unpaired")


def test_equal_input_gives_equal_output() -> None:
    assert repr(compare_results(*sides())) == repr(compare_results(*sides()))


@pytest.mark.parametrize(("count", "drawn"), [(5, 1), (5, 2), (7, 3), (6, 5)])
def test_median_weights_are_those_of_all_subsets(count: int, drawn: int) -> None:
    from itertools import combinations

    values = np.sort(np.random.default_rng(count).normal(size=count))
    every = [np.median(subset) for subset in combinations(values, drawn)]
    assert values @ _median_weights(count, drawn) == pytest.approx(np.mean(every))


def _with_values(side: ExperimentResults, values: np.ndarray) -> ExperimentResults:
    point: PointSamples = replace(side.points[0], metrics={"time_ns": values})
    return replace(side, points=(point,))


def test_a_figure_in_several_units_is_one_test() -> None:
    a, b = (synthetic.cost(seed=seed) for seed in (1, 2))
    first, second = (replace(each, run_id=f"run{i}", points=each.points[:1]) for i, each in enumerate((a, b)))

    def with_cycles(results: ExperimentResults, wander: float) -> ExperimentResults:
        (point,) = results.points
        times = point.metrics["time_ns"]
        drawn = np.random.default_rng(len(results.run_id)).normal(0, wander, int(point.block.max()) + 1)
        cycles = 2.4 * times * np.exp(drawn[point.block])
        return replace(results, points=(replace(point, metrics={"time_ns": times, "cycles": cycles}),))

    # By what they are, not by how alike they turned out.
    for wander in (1e-5, 0.05):
        same = compare_results(with_cycles(first, wander), with_cycles(second, wander))
        assert [row.metric for row in same.rows] == ["time_ns", "cycles"]
        time, cycles = same.rows
        assert time.p_holm == time.p
        assert cycles.p_holm == max(time.p, cycles.p)


def test_separate_runs_are_told_what_interleaving_would_find() -> None:
    a, b = (synthetic.cost(seed=seed, reps=400, blocks=80) for seed in (1, 2))
    a, b = (replace(each, run_id=f"run{i}", points=each.points[:1]) for i, each in enumerate((a, b)))
    (note,) = [each for each in compare_results(a, b).caveats if each.startswith("two separate runs")]
    assert "at least 1.7 %: the store has fewer than 2 other comparable runs of this machine)" in note
    point = "syscall.cost --set call=getpid --set style=loop"
    assert note.endswith(f": oscope ab OLD/oscope-probe NEW/oscope-probe {point}")
    # Rows have the mde after the correction for all rows: no figure that contradicts theirs.
    assert " % of what it is" in note
    assert "instead of" not in note
    others = [replace(a, run_id=f"other{i}") for i in range(12)]
    (note,) = [e for e in compare_results(a, b, earlier=others).caveats if e.startswith("two separate runs")]
    assert "by the 12 newest runs of this machine" in note
    (note,) = [
        e for e in compare_results(a, b, earlier=others[:4]).caveats if e.startswith("two separate runs")
    ]
    assert "by 4 other runs of this machine and the drift within these two" in note
    guests = [
        replace(each, environment={**each.environment, "guest": {"kernel": {"name": "k"}}}) for each in (a, b)
    ]
    assert any(each.endswith(f"oscope kernel ab {point}") for each in compare_results(*guests).caveats)
    own = [replace(each, environment={**each.environment, "program": {"name": "./a"}}) for each in (a, b)]
    commands = [replace(each, experiment="command.run") for each in (a, b)]
    for sides, command in (
        (own, f"oscope ab ./OLD ./NEW {point}"),
        (commands, "oscope bench -- ./OLD --vs ./NEW"),
    ):
        assert any(each.endswith(command) for each in compare_results(*sides).caveats)
    together = [replace(each, settings={**each.settings, "interleaved": ["run0", "run1"]}) for each in (a, b)]
    assert not any(each.startswith("two separate runs") for each in compare_results(*together).caveats)

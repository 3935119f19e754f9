"""The IPC lab: what is drawn from traces, and what a tracer changes, on results whose causes are known."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import synthetic
import synthetic_ipc
from oscope.figures import traces
from oscope.figures.analysed import Analysed
from oscope.figures.traced import traced
from oscope.labs.ipc import CHANNELS, COMPARED, calls, effect
from oscope.model.document import Section
from oscope.model.factors import Level
from oscope.model.samples import ExperimentResults, PointSamples, Results
from oscope.questions import histograms
from oscope.questions.curve_shapes import orders
from oscope.questions.run import Run
from oscope.questions.traced import effect_note, losses
from oscope.statistics.multiplicity import holm
from synthetic import column, number, prose
from synthetic_disk import changed
from synthetic_ipc import sections
from test_ipc_lab import CALLS, EFFECT, FAULTS, INSIDE, SIZES, SWITCHES


@pytest.fixture(scope="module")
def survey() -> dict[str, Section]:
    return sections(*synthetic_ipc.survey().experiments)


def retraced(
    experiment: ExperimentResults, change: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> ExperimentResults:
    """Return the experiment with each reading changed; None takes it away."""
    points = tuple(
        dataclasses.replace(
            point, traces=tuple(made for each in point.traces if (made := change(dict(each))) is not None)
        )
        for point in experiment.points
    )
    return dataclasses.replace(experiment, points=points)


# ---- traces


def test_calls_and_their_errors_are_those_of_one_repetition() -> None:
    call = {"count": 3740, "errors": {"ENOENT": 1430, "EACCES": 1}}
    reading = {"tracer": "bpf-count", "reps": 110, "regions": 1, "region_ns": 1, "calls": {"openat": call}}
    (table,) = traces.tables(retraced(synthetic_ipc.trace(), lambda _: reading))
    cells = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert cells
    errors = {each["errors"] for each in cells}
    assert errors == {"13.000 ENOENT, 0.009091 EACCES"}
    assert {each["a repetition"] for each in cells} == {"34.00"}


def test_the_only_point_has_no_column_of_its_own_but_for_a_program() -> None:
    made = synthetic_ipc.trace()
    level = {name: made.points[0].factors[name] for name in made.names if name != "tracer"}
    points = tuple(point for point in made.points if level.items() <= point.factors.items())
    one = dataclasses.replace(made, points=points)
    (several, *_), (table, *_), (plain, *_) = (
        traces.tables(made),
        traces.tables(one),
        traces.tables(one, plain=True),
    )
    assert several.columns[:2] == plain.columns[:2] == ("point", "slow-down")
    assert table.columns == plain.columns[1:]
    assert table.rows == [row[1:] for row in plain.rows]
    assert {table.columns[at] for at in table.numeric} == {plain.columns[at] for at in plain.numeric}


def test_the_share_of_time_in_calls_is_the_one_put_in_in_every_mode() -> None:
    for point in traced(synthetic_ipc.trace(), "time_s", "calls"):
        assert calls.inside(point) == pytest.approx(synthetic_ipc.IN_CALLS, rel=0.01), point.name


def test_shares_of_time_are_of_all_threads_in_every_table() -> None:
    (made, *_) = traces.tables(synthetic_ipc.trace())
    shares: dict[str, float] = {}
    for point, share in zip(made.rows, column(made, "share of time"), strict=True):
        if point[2] in ("read", "write"):
            shares[point[0]] = shares.get(point[0], 0.0) + number(share)
    assert len(shares) == 12
    assert all(abs(each - 100 * synthetic_ipc.IN_CALLS) < 2 for each in shares.values()), shares


@pytest.mark.parametrize(
    ("workload", "threads", "known"), [("disk.read", 4, 4), ("disk.read", 0, 0), ("command.run", "auto", 1)]
)
def test_a_factor_named_threads_counts_threads_in_workloads_of_ours_alone(
    workload: str, threads: Level, known: int
) -> None:
    """0 is one for each CPU; a parameter of a command may be anything."""
    made = synthetic_ipc.trace()
    points = tuple(
        dataclasses.replace(point, factors={**point.factors, "threads": threads}) for point in made.points
    )
    found = traced(dataclasses.replace(made, workload=workload, points=points), "time_s", "calls")
    assert {each.time_ns for each in found} == {known * each.reading["region_ns"] for each in found}
    (table, *_) = traces.tables(dataclasses.replace(made, workload=workload, points=points))
    assert ("command's run" in table.note) == (workload == "command.run")


def test_time_in_calls_stands_beside_the_untraced_cpu_time(survey: dict[str, Section]) -> None:
    for row in survey[INSIDE].tables[0].rows:
        assert row[1].startswith("70")
        assert row[2].startswith("100" if "1thread" in row[0] else "50")
        assert row[3].startswith("60")
    assert "70 % of the time passes in calls, but only 50 % on a CPU" in prose(survey[INSIDE])


@pytest.mark.parametrize("slow", [1.0, 1.25, 3.0])
def test_every_traced_figure_carries_its_probe_effect(slow: float) -> None:
    points = traced(synthetic_ipc.trace(traced=slow), "time_s", "calls")
    assert len(points) == 12
    for point in points:
        assert point.effect is not None
        assert point.effect.ratio == pytest.approx(slow, rel=0.05)
    found = sections(synthetic_ipc.trace(traced=slow), synthetic_ipc.fault())
    for title in (SIZES, INSIDE, CALLS, FAULTS):
        assert found[title].figures
        assert all("Probe effect" in figure.note for figure in found[title].figures)
        assert all(table.columns[-1].startswith("probe effect") for table in found[title].tables)
    assert "Probe effect" in found[SWITCHES].figures[-1].note


def test_a_point_without_its_untraced_twin_has_no_probe_effect() -> None:
    trace = synthetic_ipc.trace()
    only = tuple(point for point in trace.points if point.factors["tracer"] != "none")
    points = traced(dataclasses.replace(trace, points=only), "time_s", "calls")
    assert all(point.effect is None and point.effect_text == "–" for point in points)
    assert "not known" in effect_note(points)


def test_losses_are_told_with_their_kind() -> None:
    lost = {"ring": 3, "map_full": {"calls": 2}, "recursion": 1}
    trace = retraced(synthetic_ipc.trace(), lambda each: {**each, "losses": lost})
    reported = losses(traced(trace, "time_s", "calls"))
    assert (
        "15 events that found the ring full, 10 updates that the full map calls refused and "
        "5 events that came while a program ran"
    ) in reported[0]
    # One attachment may have served all points: what it lost is not lost at each of them.
    assert f"in all, while {len(traced(trace, 'time_s', 'calls'))} points were traced" in reported[0]
    for title in (SIZES, INSIDE, CALLS, FAULTS, SWITCHES):
        assert any("lower bounds" in text for text in sections(trace)[title].text), title
    assert losses(traced(synthetic_ipc.trace(), "time_s", "calls")) == []


def test_where_nothing_could_be_traced_the_remedy_is_told_and_what_is_known_untraced() -> None:
    trace = synthetic_ipc.trace()
    points = tuple(
        dataclasses.replace(
            synthetic.skipped(point.factors), skipped="bpftrace needs root", remedy="run it with sudo"
        )
        if point.factors["tracer"] != "none"
        else point
        for point in trace.points
    )
    found = sections(synthetic_ipc.throughput(), dataclasses.replace(trace, points=points))
    for title in (SIZES, INSIDE, CALLS, SWITCHES, FAULTS):
        assert "12 of 24 points: bpftrace needs root: run it with sudo." in found[title].missing, title
    assert "on a CPU" in found[INSIDE].answer
    assert prose(found[SIZES])
    assert prose(found[SWITCHES])
    assert prose(found[CALLS]) == ""


def test_untraced_levels_alone_say_how_to_trace() -> None:
    trace = retraced(synthetic_ipc.trace(), lambda _: None)
    assert "--trace syscalls,sched,faults" in sections(trace)[CALLS].missing


def test_wake_up_latency_and_its_tail_are_those_put_in(survey: dict[str, Section]) -> None:
    (_, table) = survey[SWITCHES].tables
    row = next(row for row in table.rows if row[0].endswith("pipe · 2proc"))
    assert (row[5], row[6]) == ("2.048 µs to 4.096 µs", "16.384 µs to 32.768 µs")


def test_gaps_in_a_histogram_are_drawn_as_empty() -> None:
    figure = histograms.figure("t", "x", {"a": [[1024, 2047, 9], [8192, 16383, 1]]}, "")
    assert list(figure.traces[0]["y"]) == [90, 0, 0, 10]


# ---- faults


def test_traced_faults_are_held_against_timed_touches(survey: dict[str, Section]) -> None:
    answer = prose(survey[FAULTS])
    assert "zero-page is the quickest fault with 225.0 ns" in answer
    ratios = {row[0]: number(row[5]) for row in survey[FAULTS].tables[0].rows}
    assert set(ratios) == {"zero-page", "anonymous", "file", "file-major", "copy-on-write", "huge"}
    assert all(abs(ratio - 1) <= 0.25 for ratio in ratios.values())


def test_faults_that_do_not_agree_with_the_touches_are_not_said_to() -> None:
    wrong = dict.fromkeys(synthetic_ipc.TOUCH_NS, 0.9) | {"file": 3.0}
    table = sections(synthetic_ipc.fault(traced=wrong))[FAULTS].tables[0]
    ratios = {row[0]: number(row[5]) for row in table.rows}
    assert ratios.pop("file") == pytest.approx(3, rel=0.05)
    assert len(ratios) == 5
    assert all(abs(ratio - 1) <= 0.25 for ratio in ratios.values())


def test_without_traces_the_timed_touches_are_told() -> None:
    section = sections(retraced(synthetic_ipc.fault(), lambda _: None))[FAULTS]
    assert prose(section).startswith("Untraced, touching zero-page takes")
    assert "--trace" in section.missing


def test_the_rate_of_faults_is_that_of_one_region(survey: dict[str, Section]) -> None:
    rate = survey[FAULTS].figures[-1]
    assert rate.layout["xaxis"]["title"]["text"] == "time since the region's begin [ms]"
    assert list(rate.traces[0]["y"]) == [4000, 96]


# ---- the probe effect


def test_the_slow_down_of_each_tracer_is_the_one_put_in(survey: dict[str, Section]) -> None:
    rows = {(row[0], row[1]): row for row in survey[EFFECT].tables[0].rows}
    for tracer, slow in synthetic_ipc.SLOW.items():
        if tracer == "none":
            continue
        assert float(rows[tracer, "getppid"][2].split()[0]) == pytest.approx(slow, rel=0.05)
        added = float(rows[tracer, "getppid"][4].split()[0])
        assert added == pytest.approx(synthetic_ipc.CALL_NS * (slow - 1), rel=0.1, abs=3)
    moving = {row[0]: number(row[2]) for row in survey[EFFECT].tables[0].rows if row[1] != "getppid"}
    assert max(moving, key=moving.__getitem__) == "strace"


def test_calls_are_those_the_tracer_counted_where_it_did() -> None:
    effect = synthetic_ipc.effect()
    count = {"count": 700, "errors": {}}
    reading = {"tracer": "bpf-count", "reps": 1, "regions": 1, "region_ns": 1, "calls": {"read": count}}
    points = tuple(
        dataclasses.replace(point, traces=(reading,)) if point.factors["tracer"] == "bpf-count" else point
        for point in effect.points
    )
    (table, *_) = sections(dataclasses.replace(effect, points=points))[EFFECT].tables
    assert {tuple(row[6:]) for row in table.rows} == {("700", "counted by bpf-count")}
    (table, *_) = sections(effect)[EFFECT].tables
    assert {row[7] for row in table.rows} == {"writes and reads"}


def test_slow_downs_of_all_tracers_and_points_are_one_family_of_tests() -> None:
    run = Run.of(Analysed.of(Results((synthetic_ipc.effect(),))), effect.MOVING)
    assert run is not None
    rows = [each.row for each in effect.section.rows(run)]
    assert {row.tests for row in rows} == {len(rows)} == {24}
    assert [row.p_holm for row in rows] == pytest.approx(list(holm(np.array([row.p for row in rows]))))


def _only_strace(pipe: float, local: float) -> synthetic_ipc.Slow:
    def slow(tracer: str, channel: str, _: int) -> float:
        return 1.0 if tracer != "strace" else pipe if channel == "pipe" else local

    return slow


def test_a_tracer_that_reverses_the_order_of_channels_is_named() -> None:
    table = sections(synthetic_ipc.effect(slow=_only_strace(40.0, 10.0)))[EFFECT].tables[1]
    assert ["strace", "by 4 KiB, pipe is faster than local", "local is faster than pipe"] in table.rows
    assert not any(row[0] == "strace" and row[2].startswith("pipe is") for row in table.rows)


def test_a_tracer_that_changes_the_best_buffer_is_named() -> None:
    def slow(tracer: str, _: str, buffer: int) -> float:
        return 100.0 if tracer == "bpf-full" and buffer == COMPARED[-1] else 1.0

    table = sections(synthetic_ipc.effect(slow=slow))[EFFECT].tables[1]
    assert ["bpf-full", "the best buffer of pipe is 128 KiB", "it is 4 KiB"] in table.rows


def test_tracers_that_change_nothing_are_said_to_change_nothing() -> None:
    slow = synthetic_ipc.effect(slow=lambda tracer, *_: synthetic_ipc.SLOW[tracer], blocks=12)
    table = sections(slow)[EFFECT].tables[1]
    assert "nothing changes" in column(table, "untraced")
    assert "local is faster than pipe" not in column(table, "under the tracer")


def test_a_tracer_that_could_not_run_is_told_and_judged_nowhere() -> None:
    effect = synthetic_ipc.effect()
    points = tuple(
        dataclasses.replace(
            synthetic.skipped(point.factors), skipped="there is no strace", remedy="apt-get install strace"
        )
        if str(point.factors["tracer"]).startswith("strace")
        else point
        for point in effect.points
    )
    section = sections(dataclasses.replace(effect, points=points))[EFFECT]
    assert "8 of 28 points: there is no strace: apt-get install strace." in section.missing
    # The text says what the tracers are, whichever ran.
    assert "strace" not in section.answer
    assert not any(row[0].startswith("strace") for table in section.tables for row in table.rows)


@pytest.mark.parametrize(
    ("kept", "read", "words"),
    [
        (1, 400, "`write` takes 50 % of the time in calls at"),
        (1, 500, "and `read` at"),
        (12, 500, "and 5 others each take 50 % of the time in calls."),
    ],
)
def test_of_calls_that_take_equal_time_none_alone_is_the_headline(kept: int, read: int, words: str) -> None:
    times = {"write": 500, "read": read, "poll": 500 - read}
    reading = {name: {"count": 100, "errors": {}, "time_ns": time} for name, time in times.items()}
    left = [kept]

    def change(each: dict[str, Any]) -> dict[str, Any] | None:
        left[0] -= "calls" in each
        return {**each, "calls": reading} if "calls" in each and left[0] >= 0 else None

    assert words in prose(sections(retraced(synthetic_ipc.trace(), change))[CALLS])


def test_channels_whose_medians_contradict_the_pairs_have_no_order() -> None:
    """In most blocks B is 10 % faster, but the median of all of its samples is lower."""
    often = {"pipe": np.random.default_rng(2).permutation(np.repeat([10.0, 500.0, 1000.0], [16, 8, 16]))}
    often["local"] = np.where(often["pipe"] == 500, 200, often["pipe"] * 1.1)

    def reversed_by_few(point: PointSamples) -> dict[str, np.ndarray]:
        return {"throughput": often[str(point.factors["channel"])]}

    plain = synthetic_ipc.effect(blocks=40)
    points = tuple(point for point in plain.points if point.factors["tracer"] == "none")
    made = changed(dataclasses.replace(plain, points=points), reversed_by_few)
    assert set(orders(made, "throughput", "channel", CHANNELS).values()) == {0}
    often["local"] = often["pipe"] * 1.1
    assert set(orders(changed(made, reversed_by_few), "throughput", "channel", CHANNELS).values()) == {-1}

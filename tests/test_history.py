"""The history of an experiment: lines of runs that compare, changes, what changed there, wrong input."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import null_changes
from cli_driver import CommandLine, described
from injected import mark_as_injected
from invented_runs import ENVIRONMENT, run
from oscope.analysis.run_history import Series, Value, collect, environment_changes, to_object
from oscope.cli.views.history import autocorrelation, changes, remarks, series_columns, series_name, sparkline
from oscope.model.errors import UsageError
from oscope.model.samples import Column
from oscope.report import theme
from oscope.report.history_figure import figure
from oscope.statistics import effect, summarise_point
from oscope.statistics.changes import enough, find_changes, search

FULL = pytest.mark.full
PLAIN = null_changes.Scenario("plain")


def step(runs: int, at: int, size: float, seed: int = 0) -> np.ndarray:
    table = null_changes.simulate(replace(PLAIN, runs=runs), np.random.default_rng(seed))
    table[0, at:] *= 1 + size
    return table


def test_a_change_is_found_at_its_run_with_its_size() -> None:
    ((change,),) = find_changes(step(20, 12, 0.1))
    assert change.at == 12
    assert change.p < 0.01
    ratio, low, high = change.ratio
    assert low < 1.1 < high
    assert change.after / change.before == pytest.approx(ratio)


def test_two_changes_are_found() -> None:
    table = step(30, 10, 0.1)
    table[0, 20:] *= 1.1
    (found,) = find_changes(table)
    assert [change.at for change in found] == [10, 20]


def test_two_runs_that_lie_off_are_no_new_level() -> None:
    table = step(20, 18, 0.5)
    assert find_changes(table) == ((),)


def test_exact_counts_change_where_they_do_and_nowhere_else() -> None:
    counts = np.array([[236.0] * 10 + [237.0] * 10, [236.0] * 20])
    (change,), none = find_changes(counts)
    assert (change.at, change.before, change.after) == (10, pytest.approx(236.0), pytest.approx(237.0))
    assert none == ()


def test_values_around_zero_change_by_a_difference() -> None:
    values = np.random.default_rng(1).normal(0, 1, (1, 20))
    values[0, 10:] += 8
    ((change,),) = find_changes(values)
    assert np.isnan(change.ratio[0])
    assert change.estimate.low < 8 < change.estimate.high


def test_a_gap_is_no_run() -> None:
    table = step(24, 12, 0.1)
    table[0, [3, 12, 20]] = np.nan
    ((change,),) = find_changes(table)
    assert change.at == 13


def test_too_few_runs_are_not_searched() -> None:
    assert not enough(7)
    assert enough(8)
    assert not enough(8, looks=2)
    assert find_changes(step(7, 4, 5.0)) == ((),)
    ((change,),) = find_changes(step(8, 4, 5.0))
    assert change.at == 4


def test_equal_input_gives_equal_changes() -> None:
    assert repr(find_changes(step(20, 12, 0.1))) == repr(find_changes(step(20, 12, 0.1)))


@pytest.mark.parametrize(("series", "tries"), [(1, 200), (12, 60), pytest.param(12, 200, marks=FULL)])
def test_false_alarms_stay_at_their_nominal_level(series: int, tries: int) -> None:
    from scipy import stats

    scenario = replace(PLAIN, series=series)
    alarms = sum(each.any for each in null_changes.outcomes(scenario, tries, 5))
    assert stats.binomtest(alarms, tries).proportion_ci(method="wilson").low <= 0.06


@pytest.mark.parametrize("correlation", [0.3, 0.6])
def test_a_level_that_wanders_is_no_change(correlation: float) -> None:
    from scipy import stats

    scenario = replace(PLAIN, correlation=correlation)
    alarms = sum(each.any for each in null_changes.outcomes(scenario, 200, 5))
    assert stats.binomtest(alarms, 200).proportion_ci(method="wilson").low <= 0.08


@pytest.mark.parametrize(
    ("shift", "runs", "tries", "least"),
    [(2, 20, 100, 50), (3, 20, 100, 70), (3, 40, 30, 29), pytest.param(3, 40, 100, 98, marks=FULL)],
)
def test_a_shift_is_found_mostly(shift: float, runs: int, tries: int, least: int) -> None:
    found = list(null_changes.outcomes(replace(PLAIN, shift=shift, runs=runs), tries, 6))
    assert sum(each.first(2) is not None for each in found) >= least


def test_a_large_step_of_a_level_that_wanders_is_found() -> None:
    scenario = replace(PLAIN, runs=40, shift=5, correlation=0.6)
    found = list(null_changes.outcomes(scenario, 50, 7))
    assert sum(each.first(2) is not None for each in found) >= 40


def test_a_level_that_steps_up_and_down_again_is_found() -> None:
    table = step(40, 13, 0.1)
    table[0, 26:] /= 1.1
    (found,) = find_changes(table)
    assert [change.at for change in found] == [13, 26]


def test_series_that_wander_are_reported() -> None:
    wandering = null_changes.simulate(replace(PLAIN, runs=40, correlation=0.8), np.random.default_rng(1))
    steady = step(40, 40, 0.0, seed=2)
    (one,), (other,) = search(wandering), search(steady)
    assert one.is_autocorrelated
    assert one.r > 0.4
    assert not other.is_autocorrelated
    lines = collect([run({"read": float(value)}, place) for place, value in enumerate(wandering[0])])
    (series,) = to_object("syscall.cost", lines)["lines"][0]["series"]
    assert series["autocorrelated"]
    assert series["autocorrelation"] > 0.4
    sentence = (
        f"runs are autocorrelated (r = {series['autocorrelation']:.1f}): only larger steps can be found"
    )
    assert autocorrelation(lines[0]) == sentence


def test_the_interval_of_a_step_is_wider_where_runs_are_autocorrelated() -> None:
    wandering = null_changes.simulate(replace(PLAIN, runs=40, correlation=0.7), np.random.default_rng(1))
    wandering[0, 20:] *= 1.2
    (found,) = search(wandering)
    (change,) = found.changes
    independent = effect.welch(*(np.log(wandering[0, side]) for side in (slice(20), slice(20, 40))))
    assert change.at == 20
    assert found.r > 0.3
    assert change.estimate.error > 1.3 * independent.error


def test_the_median_is_that_of_the_summary() -> None:
    results = run({"read": 240.0})
    summary = summarise_point(results, results.points[0], "time_ns")
    (line,) = collect([results])
    (value,) = line.series[0].values
    assert (value.n, value.median, value.ci95) == (summary.n, summary.median, summary.ci95)


def test_the_bars_of_medians_within_an_interval_are_level() -> None:
    def bars(*medians: float) -> str:
        values = tuple(Value(100, median, (median - 5.0, median + 5.0)) for median in medians)
        return sparkline(Series({}, Column("time_ns", "ns"), values, (), is_searched=False))

    assert bars(100.1, 100.1001, 100.1002) == "▁▁▁"
    assert bars(100.0, 150.0, 125.0) == "▁█▅"
    assert bars(100.0) == ""


def test_series_of_the_figure_can_be_told_apart() -> None:
    costs = {f"call{number}": 100.0 + number for number in range(12)}
    drawn = figure("syscall.cost", collect([run(costs, number) for number in range(3)]))
    colours = len(theme.SERIES["light"])
    styles = [(each["meta"]["colour"] % colours, each["line"]["dash"]) for each in drawn.traces]
    assert len(set(styles)) == len(styles) == len(costs)
    # Five labels stand beside each other on a telephone.
    assert max(len(line) for text in drawn.layout["xaxis"]["ticktext"] for line in text.split("<br>")) <= 6
    # Their intervals stand beside each other, each nearest to its own run.
    for place in range(3):
        across = [each["x"][place] for each in drawn.traces]
        assert len(set(across)) == len(across)
        assert max(abs(x - place - 1) for x in across) < 0.25


def test_a_series_that_begins_with_0_is_drawn_over_its_first_count() -> None:
    line = collect([run({"a": cost}, number) for number, cost in enumerate((100.0, 100.0, 100.0))])[0]
    values = tuple(Value(9, median, (median, median)) for median in (0.0, 5000.0, 10_000.0))
    line.series = (replace(line.series[0], values=values),)
    (trace,) = figure("syscall.cost", [line]).traces
    assert list(trace["y"]) == [0.0, 1.0, 2.0]


def test_runs_that_may_not_be_compared_are_in_lines_of_their_own() -> None:
    other = {**ENVIRONMENT, "machine": "f" * 16}
    clock = {**ENVIRONMENT, "clock": {"kind": "monotonic_raw"}}
    runs = [run({"read": 240.0}, n, environment=e) for n, e in enumerate((ENVIRONMENT, other, clock) * 2)]
    newer = replace(run({"read": 240.0}, 6), workload_version=2)
    lines = collect([*runs, newer])
    assert [len(line.runs) for line in lines] == [2, 2, 2, 1]
    assert len({line.name for line in lines}) == 4


def test_counts_in_another_order_of_the_points_are_a_line_of_their_own() -> None:
    """They may differ for what was measured before them, though nothing changed."""
    runs = [run({"read": 240.0}, number) for number in range(4)]
    runs[2:] = [replace(each, settings={**each.settings, "order": "fixed"}) for each in runs[2:]]
    lines = collect(runs)
    assert [len(line.runs) for line in lines] == [2, 2]
    assert ["order of the points fixed" in line.name for line in lines] == [False, True]


def test_another_kernel_stays_in_the_line_and_is_marked_as_what_changed() -> None:
    newer = {**ENVIRONMENT, "kernel": {**ENVIRONMENT["kernel"], "release": "6.2.0"}, "boot_id": "boot-2"}
    runs = [
        run(
            {"read": 240.0 * (1.1 if n >= 6 else 1), "getppid": 100.0},
            n,
            environment=newer if n >= 6 else ENVIRONMENT,
        )
        for n in range(12)
    ]
    (line,) = collect(runs)
    assert line.kernel_changes() == {6: "kernel release 6.1.0 → 6.2.0"}
    read, getppid = line.series
    (change,) = read.changes
    assert change.at == 6
    assert getppid.changes == ()
    assert line.changed_environment(read, change) == {
        "kernel release": ("6.1.0", "6.2.0"),
        "boot": ("boot-1", "boot-2"),
    }
    ((with_kernels, without_kernels),) = (
        line["series"] for line in to_object("syscall.cost", (line,))["lines"]
    )
    assert with_kernels["changes"][0]["run"] == runs[6].run_id
    assert without_kernels["changes"] == []


@pytest.mark.parametrize(("factor", "word"), [(1.1, "more"), (0.9, "less")])
def test_a_change_and_its_interval_count_in_one_direction(factor: float, word: str) -> None:
    runs = [run({"read": 240.0 * (factor if n >= 6 else 1)}, n) for n in range(12)]
    (line,) = collect(runs)
    (sentence,) = changes(line)
    match = re.search(rf"([\d.]+) % {word} \(95 % interval (-?[\d.]+) to (-?[\d.]+) %\)", sentence)
    assert match is not None, sentence
    share, low, high = map(float, match.groups())
    assert 0 < low < share < high


def test_series_that_were_searched_without_a_change_are_told_beside_those_with_too_few_runs() -> None:
    runs = [run({"read": 240.0} if n < 6 else {"read": 240.0, "getppid": 100.0}, n) for n in range(12)]
    (line,) = collect(runs)
    assert list(remarks(line))[:2] == [
        "not enough runs to look for changes in 1 of 2 series: it takes 8 or more comparable runs",
        "1 series searched: no change found",
    ]
    (alone,) = collect(runs[:6])
    assert not any("no change found" in text for text in remarks(alone))


def test_only_what_differs_and_is_known_on_both_sides_is_told() -> None:
    a = run({"read": 1.0})
    later: dict[str, Any] = {"oscope": "0.2.0", "git_commit": "b" * 40, "python": "3.13"}
    b = run({"read": 1.0}, 1, environment={**ENVIRONMENT, "laboratory": later})
    assert environment_changes(a, b) == {
        "Oscope": ("0.1.0", "0.2.0"),
        "commit of Oscope": ("a" * 12, "b" * 12),
    }
    assert environment_changes(a, a) == {}


def test_a_metric_that_no_run_has_is_told() -> None:
    with pytest.raises(UsageError, match="no run has a metric 'speed'") as caught:
        collect([run({"read": 1.0})], "speed")
    assert caught.value.remedy == "there is time_ns, calls_per_s"


def test_series_of_different_headlines_at_one_point_are_told_apart() -> None:
    first, second = (run({"read": 240.0}, number) for number in range(2))
    # The first metric is the headline.
    (line,) = collect([first, replace(second, metrics=dict(reversed(second.metrics.items())))])
    names = ["read · time_ns", "read · calls_per_s"]
    assert [series_name(line, series) for series in line.series] == names
    assert [each["name"] for each in figure("syscall.cost", [line]).traces] == names


def measure(oscope: CommandLine, **variables: str) -> None:
    words = ("run", "syscall.cost", "--set", "call=getppid,read", "--set", "style=loop", "--reps", "6")
    assert oscope(*words, **variables).code == 0


def test_the_command_shows_the_stored_runs_and_what_it_cannot_say(oscope: CommandLine) -> None:
    for _ in range(2):
        measure(oscope)
    measure(oscope, FAKE_PROBE_MACHINE="ffff")
    measure(oscope, FAKE_PROBE_DESCRIBE=described(version=2))
    answer = oscope("history", "syscall.cost")
    assert (answer.code, answer.err) == (0, "")
    assert "syscall.cost: 4 runs in 3 lines that must not be compared" in answer.out
    assert answer.out.count("not enough runs to look for changes: it takes 8 or more") == 3
    for id_ in oscope.runs():
        assert len(re.findall(rf"^{id_} ", answer.out, re.MULTILINE)) == 2
    narrow = oscope("history", "syscall.cost", COLUMNS="60").out
    assert "started" in answer.out
    assert "started" not in narrow
    one = oscope("history", "syscall.cost", "--point", "call=read", "--json", "-", "--figure", "h.png")
    assert one.code == 0
    lines = json.loads(one.out)["lines"]
    assert [[series["factors"]["call"] for series in line["series"]] for line in lines] == [["read"]] * 3
    assert (oscope.folder / "h.png").read_bytes().startswith(b"\x89PNG")
    shown = oscope("show", oscope.runs()[0]).out
    median = re.search(r"^read +([\d.]+)", shown, re.MULTILINE)
    assert median is not None
    assert lines[0]["series"][0]["median"][0] == pytest.approx(float(median[1]), rel=0.01)
    page = oscope("history", "syscall.cost", "--metric", "cycles", "--figure", "h.html")
    assert page.code == 0
    assert "over its runs" in (oscope.folder / "h.html").read_text()


def test_the_digits_of_a_median_follow_its_own_interval() -> None:
    wide = Value(88, 284.76, (187.47, 391.74))
    narrow = Value(60, 168.51, (168.02, 168.97))
    (line,) = collect([run({"read": 100.0}), run({"read": 100.0}, 1)])
    series = replace(line.series[0], values=(wide, narrow))
    columns = series_columns(line, series, 10)
    assert [cell.strip() for cell in columns[2][1:]] == ["280", "168.51"]
    assert columns[3][1:] == ["190 to 390", "168.02 to 168.97"]


def test_runs_with_injected_interference_are_left_out_and_counted(oscope: CommandLine) -> None:
    for _ in range(3):
        measure(oscope)
    clean, *injected = oscope.runs()
    place = oscope.folder / oscope.all_variables({})["OSCOPE_STORE"]
    mark_as_injected(place, injected[0])
    assert "1 run with injected interference is left out" in oscope("history", "syscall.cost").out
    mark_as_injected(place, injected[1])
    answer = oscope("history", "syscall.cost", "--json", "history.json")
    assert "syscall.cost: 1 run, " in answer.out
    assert "2 runs with injected interference are left out" in answer.out
    found = json.loads((oscope.folder / "history.json").read_text())
    assert [run["id"] for line in found["lines"] for run in line["runs"]] == [clean]
    assert found["left_out"] == injected
    mark_as_injected(place, clean)
    refused = oscope("history", "syscall.cost")
    assert (refused.code, refused.out) == (2, "")
    assert "3 runs with injected interference are left out: measure without --inject" in refused.err


WRONG = {
    "syscall.cost --since yesterday": "--since yesterday: not a date",
    "syscall.cost --since 2999-01-01": "no run of syscall.cost since then",
    "syscall.cost --point call": "--point call: not of the form factor=level",
    "syscall.cost --point call=fork": "no point of syscall.cost with call=fork",
    "syscall.cost --metric speed": "no run has a metric 'speed': there is time_ns, cycles",
    "syscall.cost --figure h.pdf": "--figure h.pdf: not a file of a known form",
    "syscall.cost --figure missing/h.png": "--figure missing/h.png: the folder",
    "syscall.cost --json missing/h.json": "--json missing/h.json: the folder",
    "syscall.costs": "did you mean 'syscall.cost'?",
    "quux": "the labs are disk, fs, ipc, kernel, memory",
    "syscalls": "syscalls is a lab: name one of its experiments: syscall.cost, ",
    "process.create": "the store has no samples of process.create",
    "tools.devices": "tools.devices is an inspection and has no samples",
}


def test_without_a_name_the_last_experiment_is_shown(oscope: CommandLine) -> None:
    measure(oscope)
    answer = oscope("history")
    assert answer.out == oscope("history", "syscall.cost").out
    assert answer.err == "oscope: the last experiment: syscall.cost\n"


def test_without_a_name_the_program_measured_last_is_shown(oscope: CommandLine, probe: Path) -> None:
    assert oscope("bench", "--reps", "10", "--", "true", OSCOPE_PROBE=str(probe)).code == 0
    answer = oscope("history")
    assert (answer.code, answer.err) == (0, "oscope: the last experiment: command.run\n")


def test_a_wrong_request_gets_one_line(oscope: CommandLine) -> None:
    measure(oscope)
    for line, message in WRONG.items():
        answer = oscope("history", *line.split())
        assert (answer.code, answer.out) == (2, ""), (line, answer)
        (error,) = answer.err.splitlines()
        assert message in error, line

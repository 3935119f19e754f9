"""Programs without measuring them: how much fits a budget, what is noted, and trials that are judged anew."""

from __future__ import annotations

import functools
import json
import operator
import os
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import program_trials
from oscope.analysis.gate import judge
from oscope.model.formatting import format_share
from oscope.model.revision import FACTOR, Revision
from oscope.model.samples import Column, ExperimentResults, PointSamples, Results
from oscope.programs import functions
from oscope.programs.bisection import Bisection, search, sentences
from oscope.programs.experiment import BLOCK_S, BLOCKS, LEAST_REPS, MOST_BLOCKS, TURN_OVERHEAD_S, size_run
from oscope.programs.export import hyperfine_json
from oscope.programs.findings import find
from oscope.programs.functions import FunctionBench
from oscope.programs.identity import command_digest
from oscope.programs.spec import Amount
from oscope.programs.trial import Trial
from oscope.statistics import compare_results


@pytest.mark.parametrize(("budget_s", "boot_s", "boots"), [(60.0, 2.0, 8), (20.0, 2.0, 4), (5.0, 2.0, 2)])
def test_boots_of_guests_count_as_part_of_a_budget(budget_s: float, boot_s: float, boots: int) -> None:
    reps, blocks = size_run(Amount(budget_s=budget_s), [Trial(0.009, 0.01, 1)] * 2, boot_s=boot_s)
    assert blocks == boots
    assert reps % boots == 0
    assert 0.8 * budget_s < boots * boot_s + reps * 0.02 <= 1.01 * budget_s


def planned(budget_s: float, each_s: float, commands: int = 2) -> tuple[int, int, float]:
    """Return repetitions, blocks and the seconds that they take, of commands that take `each_s` each."""
    reps, blocks = size_run(Amount(budget_s=budget_s), [Trial(0.9 * each_s, each_s, 1)] * commands)
    assert blocks is not None
    took_s = commands * each_s * reps + blocks * (BLOCK_S + commands * (TURN_OVERHEAD_S + each_s))
    return reps, blocks, took_s


@pytest.mark.parametrize("each_s", [0.0015, 0.006, 0.03])
@pytest.mark.parametrize("budget_s", [5, 10, 60])
def test_a_budget_is_used_up_and_not_exceeded(budget_s: float, each_s: float) -> None:
    reps, blocks, took_s = planned(budget_s, each_s)
    assert 0.85 * budget_s < took_s <= budget_s
    assert BLOCKS <= blocks <= MOST_BLOCKS
    assert reps % blocks == 0


def test_more_time_gives_more_blocks_of_quick_commands_alone() -> None:
    assert planned(10, 0.006)[1] > BLOCKS
    assert planned(10, 0.006)[1] > planned(10, 0.03)[1]
    assert planned(10, 0.006)[1] > planned(2, 0.006)[1]


def test_what_takes_longer_than_the_budget_is_planned_all_the_same() -> None:
    assert planned(10, 2.0)[:2] == (LEAST_REPS, LEAST_REPS)


def results(time_ns: float, cpu_ns: float, involuntary: float, voluntary: float) -> Results:
    """Return a bench of one command whose runs are all alike."""
    count = 20
    block = np.arange(count)
    values = {
        "time_ns": time_ns,
        "cpu_ns": cpu_ns,
        "involuntary_switches": involuntary,
        "voluntary_switches": voluntary,
    }
    whole = np.zeros(count, dtype=np.int64)
    point = PointSamples(
        factors={"command": "work"},
        block=block,
        process=block,
        boot=whole,
        rep=whole,
        started_ns=block * 10**9,
        raw=np.full(count, time_ns),
        iterations=whole + 1,
        correction=np.zeros(count),
        metrics={name: np.full(count, value) for name, value in values.items()},
        covariates={},
    )
    metrics = {name: Column(name, "ns" if name.endswith("_ns") else "1", better="less") for name in values}
    found = ExperimentResults(
        "run", "command.run", "command.run", 1, "", 0, (point,), metrics, {}, {"clock": {"hz": 1e9}}
    )
    return Results((found,))


@pytest.mark.parametrize(
    ("time_ns", "cpu_ns", "involuntary", "voluntary", "noted"),
    [
        pytest.param(10e6, 6e6, 2, 1, True, id="others had the CPU for 40 % of the time"),
        pytest.param(10e6, 9.5e6, 1, 1, False, id="they had it for 5 %"),
        pytest.param(10e6, 6e6, 1, 5, False, id="it waited for something else"),
        pytest.param(10e6, 6e6, 0, 0, False, id="it was never taken off"),
        pytest.param(10e6, 18e6, 3, 1, False, id="it used two CPUs"),
    ],
)
def test_a_note_says_that_others_had_the_cpu(
    time_ns: float, cpu_ns: float, involuntary: float, voluntary: float, noted: bool
) -> None:
    notes = find(results(time_ns, cpu_ns, involuntary, voluntary)).notes
    ours = [note for note in notes if "--metric cpu_ns" in note]
    assert len(ours) == noted
    assert all("commands did not run for up to 40 % of their time" in note for note in ours)


@pytest.mark.parametrize(
    ("codes", "noted"),
    [
        ([3.0] * 20, ["20 of 20 runs of work ended with exit code 3"]),
        ([0.0] * 18 + [1.0, 137.0], ["2 of 20 runs of work ended with exit codes 1 and 137"]),
        ([0.0] * 20, []),
    ],
)
def test_a_note_says_how_many_runs_failed(codes: list[float], noted: list[str]) -> None:
    (found,) = results(10e6, 9e6, 0, 0).experiments
    (point,) = found.points
    failing = replace(point, metrics={**point.metrics, "exit_code": np.array(codes)})
    notes = find(Results((replace(found, points=(failing,)),))).notes
    assert [note for note in notes if "exit code" in note] == noted


def test_a_digest_has_no_output_no_secret_and_no_file_of_the_kernels(tmp_path: Path) -> None:
    def digest(*words: str, environment: tuple[str, ...] = ()) -> str:
        arguments = ["cat", *words]
        params = {"program": "/bin/cat", "arguments": arguments, "folder": str(tmp_path)}
        return command_digest({**params, "environment": environment}, begun_ns)

    (tmp_path / "script").write_text("one")
    begun_ns = time.time_ns() + 10**9
    first = digest("script", "out"), digest("/proc/self/pagemap")
    (tmp_path / "script").write_text("two")
    assert digest("script", "out") != first[0]
    (tmp_path / "out").write_text("written by the command")
    os.utime(tmp_path / "out", ns=(begun_ns, begun_ns))
    (tmp_path / "script").write_text("one")
    assert (digest("script", "out"), digest("/proc/self/pagemap")) == first
    assert digest(environment=("TOKEN=a",)) == digest(environment=("TOKEN=b",)) != digest()


def test_functions_are_digested_by_source_and_arguments_whatever_these_are() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError

    def bench(*args: object) -> FunctionBench:
        return FunctionBench((operator.mul, functools.partial(operator.mul, 10**5000)), args=args)

    points = [{"function": label} for label in bench().labels]
    digests = [functions._digests(bench(*args), points) for args in ((10**5000,), (3,), (3,), (Odd(),))]
    assert digests[1] == digests[2]
    assert len({digest for pair in digests for digest in pair}) == 6


def test_a_comparison_says_of_which_side_runs_failed() -> None:
    (found,) = results(10e6, 9e6, 0, 0).experiments
    (point,) = found.points

    def side(number: int, codes: list[float]) -> ExperimentResults:
        metrics = {**point.metrics, "exit_code": np.array(codes)}
        return replace(found, run_id=f"run-{number}", points=(replace(point, metrics=metrics),))

    working, broken = side(1, [0.0] * 20), side(2, [0.0] * 14 + [3.0] * 5 + [137.0])
    (note,) = [each for each in compare_results(working, broken).caveats if "exit code" in each]
    assert note == "B: 6 of 20 runs of work ended with exit codes 3 and 137: no measure of what they do"
    assert not any("exit code" in each for each in compare_results(working, side(3, [0.0] * 20)).caveats)


def test_of_many_commands_that_fail_some_are_named() -> None:
    (found,) = results(10e6, 9e6, 0, 0).experiments
    (point,) = found.points
    metrics = {**point.metrics, "exit_code": np.ones(20)}
    points = tuple(replace(point, factors={"command": f"c{n}"}, metrics=metrics) for n in range(7))
    (note,) = [each for each in find(Results((replace(found, points=points),))).notes if "exit code" in each]
    assert note.startswith("20 of 20 runs of c0 ended with exit code 1; ")
    assert note.endswith("of c4 ended with exit code 1; 2 further commands failed, too")


def with_parts(user_ns: list[float]) -> Results:
    """Return a bench of one command whose runs have this CPU time in user mode; NaN for none."""
    (found,) = results(10e6, 9e6, 0, 0).experiments
    (point,) = found.points
    metrics = {**point.metrics, "user_ns": np.array(user_ns), "system_ns": np.array(user_ns) / 10}
    described = {**found.metrics, **{name: Column(name, "ns", better="less") for name in metrics}}
    return Results((replace(found, points=(replace(point, metrics=metrics),), metrics=described),))


def test_parts_of_the_cpu_time_are_shown_where_every_run_has_them() -> None:
    (row,) = find(with_parts([8e6] * 20)).rows
    assert (row.medians["user_ns"], row.medians["system_ns"]) == (8e6, 0.8e6)
    # Only the longest runs have them: their median is above that of the whole.
    (row,) = find(with_parts([float("nan")] * 15 + [12e6] * 5)).rows
    assert row.medians["cpu_ns"] == 9e6
    assert (row.medians["user_ns"], row.medians["system_ns"]) == (None, None)


def with_sizes(sizes: list[float]) -> Results:
    """Return a bench of one command whose runs have this largest resident set; NaN for none."""
    (found,) = results(10e6, 9e6, 0, 0).experiments
    (point,) = found.points
    metrics = {**point.metrics, "max_rss_bytes": np.array(sizes), "exit_code": np.zeros(20)}
    metrics |= {name: np.full(20, 1e6) for name in ("user_ns", "system_ns")}
    described = {**found.metrics, "max_rss_bytes": Column("max_rss_bytes", "B", better="less")}
    return Results((replace(found, points=(replace(point, metrics=metrics),), metrics=described),))


def test_a_size_that_only_some_runs_have_is_not_measured() -> None:
    """A program about as large as the launcher has it where the launcher was smaller."""
    whole, partly = with_sizes([4e6] * 20), with_sizes([float("nan")] * 15 + [4e6] * 5)
    assert find(whole).rows[0].medians["max_rss_bytes"] == 4e6
    assert find(partly).rows[0].medians["max_rss_bytes"] is None
    (known,), (unknown,) = (json.loads(hyperfine_json(find(each)))["results"] for each in (whole, partly))
    assert known["memory_usage_byte"] == [4_000_000] * 20
    assert "memory_usage_byte" not in unknown
    # The launcher of a later run may be larger than the program: nothing is missing then.
    (never,) = with_sizes([float("nan")] * 20).experiments
    gate = judge(whole, Results((replace(never, run_id="another"),)), 0.03)
    assert gate.missing == ()
    assert any("max_rss_bytes: not compared, B has no value" in caveat for caveat in gate.caveats)


def test_a_run_that_failed_does_not_hide_the_parts_of_the_others() -> None:
    (found,) = with_parts([8e6] * 19 + [float("nan")]).experiments
    (point,) = found.points
    metrics = {name: np.append(values[:-1], float("nan")) for name, values in point.metrics.items()}
    failed = replace(point, metrics=metrics, failed=((19, "exit code 1"),))
    (row,) = find(Results((replace(found, points=(failed,)),))).rows
    assert row.medians["user_ns"] == 8e6


def line(commits: int) -> tuple[Revision, ...]:
    """Return the end before, and so many commits after it."""
    return tuple(Revision(f"{at:040x}"[::-1], f"Change {at}", f"c{at}") for at in range(commits + 1))


def step(
    measured: Sequence[Revision], medians: Sequence[float], noise: float, metric: str = "time_ns"
) -> ExperimentResults:
    """Return a run of these commits with 20 runs each around these medians, in ns; `noise` is a share."""
    (found,) = results(10e6, 9e6, 0, 0).experiments
    (point,) = found.points
    random = np.random.default_rng(1)
    points = tuple(
        replace(
            point,
            factors={"command": "work", FACTOR: each.short},
            raw=(values := median * random.normal(1, noise, len(point))),
            metrics={metric: values},
        )
        for each, median in zip(measured, medians, strict=True)
    )
    return replace(found, points=points, metrics={metric: Column(metric, "ns", better="less")})


@pytest.mark.parametrize(("metric", "advised"), [("time_ns", True), ("cpu_ns", False)])
def test_ends_that_cannot_be_told_apart_say_how_far_apart_they_may_be(metric: str, advised: bool) -> None:
    found = Bisection(line(4))
    found.learn(step((found.line[0], found.line[-1]), (10e6, 10e6), 0.05, metric))
    assert found.ends[0].different == "cannot tell"
    first, *others = sentences(found, metric)
    assert re.search(
        r"cannot tell whether they differ \([+-][\d.]+ % \[-[\d.]+, \+[\d.]+\]\); nothing", first
    )
    detectable, remedy = others
    assert detectable.startswith(f"a difference of {format_share(found.ends[0].detectable)} would have been")
    assert 0.01 < found.ends[0].detectable < 0.2
    assert "--reps N (20 runs of each here)" in remedy
    assert ("--metric cpu_ns" in remedy) == advised


def test_a_step_is_only_said_to_be_the_last_if_it_confirms_the_commit_found() -> None:
    found = Bisection(line(8))
    notes: list[str] = []

    def measure(chosen: Sequence[Revision]) -> ExperimentResults:
        sides = (found.line[0], *chosen, found.line[-1])
        # So noisy that a commit has to be measured more than once.
        return step(sides, [10e6 if found.position(each) < 5 else 10.5e6 for each in sides], 0.03)

    found.learn(measure(()))
    search(found, measure, notes.append)
    steps = [re.match(r"step (\d+) of about (\d+)", text) for text in notes]
    counts = [(int(each[1]), int(each[2])) for each in steps if each]
    assert len(counts) > found.expected_steps - 1
    *earlier, last = counts
    assert all(number < expected for number, expected in earlier)
    assert last[0] == last[1] == len(found.steps)


def trial(tool: str, effect: float, found: float, seed: int) -> program_trials.Trial:
    """Return a trial in which the second program takes `found` longer: 5 ms, give or take 0.3 %."""
    random = np.random.default_rng(seed)
    a, b = (
        program_trials.Side(
            np.round(random.normal(5000 * (1 + more), 15, 400)).astype(np.uint32),
            np.round(random.normal(4500 * (1 + more), 15, 400 if tool == "oscope" else 0)).astype(np.uint32),
            np.repeat(np.arange(40), 10 if tool == "oscope" else 0).astype(np.uint32),
        )
        for more in (0.0, found)
    )
    return program_trials.Trial(tool, effect, 1.5, 10.0, (a, b))


def test_trials_that_are_written_and_read_are_judged_alike(tmp_path: Path) -> None:
    tools = ("oscope", "hyperfine")
    trials = [
        trial(tool, effect, effect, seed) for seed in range(3) for tool in tools for effect in (0.0, 0.02)
    ]
    program_trials.write(tmp_path / "trials.npz", trials)
    again = program_trials.read(tmp_path / "trials.npz")
    assert list(program_trials.lines(again)) == list(program_trials.lines(trials))
    assert [(each.tool, each.effect, each.load, each.seconds) for each in again] == [
        (each.tool, each.effect, each.load, each.seconds) for each in trials
    ]
    for one, other in zip(again, trials, strict=True):
        for mine, theirs in zip(one.sides, other.sides, strict=True):
            for name in ("wall", "cpu", "block"):
                assert np.array_equal(getattr(mine, name), getattr(theirs, name))
    for method in program_trials.METHODS:
        assert program_trials.rate(again, method, 0.02).share == 1


def test_a_difference_in_the_wrong_direction_is_not_found() -> None:
    backwards = trial("oscope", 0.02, -0.02, 1)
    assert not program_trials.finds(backwards, program_trials.OSCOPE)
    assert program_trials.finds(replace(backwards, effect=0.0), program_trials.OSCOPE)

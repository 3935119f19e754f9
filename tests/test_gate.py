"""The gate: what is proven worse fails, what cannot be told is said loudly, and how much it would take."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

import null_compare as null
from cli_driver import CommandLine
from injected import mark_as_injected
from invented_runs import ENVIRONMENT, QUIET, run, write
from oscope.analysis.gate import Gate, blocks_needed, each_quantity_once, judge, to_object
from oscope.cli.views.gate import print_gate, take_more
from oscope.model.errors import UsageError
from oscope.model.samples import Column, ExperimentResults, Results
from oscope.report.comparison_verdict import verdict
from oscope.report.terminal import console
from oscope.statistics import compare_results
from oscope.storage.store import UNFINISHED, Store, StoredEvent

NOISY = replace(QUIET, blocks=(6, 6), process_spread=0.05)
BASE = {"read": 240.0, "getppid": 100.0}


EARLIER = tuple(run(BASE, number) for number in range(20, 32))


def judged(a: ExperimentResults, b: ExperimentResults, limit: float = 0.03, **options: object) -> Gate:
    """Judge them where twelve earlier runs show how much unchanged ones differ."""
    options = {"earlier": lambda *_: EARLIER, **options}
    return judge(Results((a,)), Results((b,)), limit, **options)  # type: ignore[arg-type]


def verdicts(gate: Gate) -> dict[tuple[object, str], str]:
    return {(row.row.factors["call"], row.row.metric): row.verdict for row in gate.rows}


def test_a_regression_is_proven_in_both_directions_of_better_and_comes_first() -> None:
    gate = judged(run(BASE), run({"read": 240.0, "getppid": 108.0}, 1))
    assert verdicts(gate) == {
        ("getppid", "time_ns"): "regressed",
        ("getppid", "calls_per_s"): "regressed",
        ("read", "time_ns"): "within",
        ("read", "calls_per_s"): "within",
    }
    assert {each.row.factors["call"] for each in gate.regressed} == {"getppid"}
    assert [each.verdict for each in gate.rows[:2]] == ["regressed", "regressed"]


def test_a_side_whose_self_check_failed_is_told() -> None:
    b = run(BASE, 1)
    failed = {**b.environment, "self_check": {"ratio_of_double_work": 7.9, "ok": False}}
    text = f"run {b.run_id}: do not trust its figures: the probe's self-check failed"
    assert text in judged(run(BASE), replace(b, environment=failed)).caveats
    assert text not in judged(run(BASE), b).caveats


def test_the_other_way_round_it_is_an_improvement() -> None:
    gate = judged(run({"read": 108.0}), run({"read": 100.0}, 1))
    assert set(verdicts(gate).values()) == {"improved"}


def test_a_difference_below_the_limit_is_within_it() -> None:
    gate = judged(run({"read": 100.0}), run({"read": 101.0}, 1))
    assert set(verdicts(gate).values()) == {"within"}
    assert not gate.blind


def test_noise_as_large_as_the_limit_cannot_tell_and_asks_for_blocks_that_would_do() -> None:
    gate = judged(run({"read": 100.0}, scenario=NOISY), run({"read": 100.0}, 1, scenario=NOISY), 0.02)
    assert set(verdicts(gate).values()) == {"not proven"}
    assert len(gate.blind) == 2
    asked = [each.enough for each in gate.blind]
    assert all(count is not None and count > 6 for count in asked)
    one = gate.rows[0]
    own = replace(one.experiment, environment={**one.experiment.environment, "program": {"name": "./a"}})
    gate = replace(gate, rows=(replace(one, enough=None, experiment=own),))
    assert take_more(gate).endswith(
        "or interleaved sides: oscope ab ./OLD ./NEW syscall.cost --set call=read"
    )


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [(0.0, 5.0, "regressed"), (5.0, 0.0, "improved"), (-39.5, -34.6, "regressed")],
)
def test_a_baseline_without_a_ratio_is_judged_by_the_difference(
    before: float, after: float, verdict: str
) -> None:
    """Of no errors, and of decibels, no share can be taken."""

    def counting(number: int, level: float) -> ExperimentResults:
        made = run({"read": 100.0}, number)
        jitter = np.random.default_rng(number).normal(0, 0.01, len(made.points[0]))
        points = (replace(made.points[0], metrics={"errors": np.full(len(made.points[0]), level) + jitter}),)
        return replace(made, points=points, metrics={"errors": Column("errors", "1", better="less")})

    gate = judged(counting(0, before), counting(1, after))
    assert [each.verdict for each in gate.rows] == [verdict]
    assert not gate.blind


def test_a_rate_that_falls_to_nothing_is_the_worst_regression() -> None:
    def hits(number: int, level: float) -> ExperimentResults:
        made = run({"read": 100.0}, number)
        chance = np.random.default_rng(number).normal(0, 0.001, len(made.points[0]))
        values = np.full(len(made.points[0]), level) + (chance if level else 0)
        points = (replace(made.points[0], metrics={"hits": values}),)
        return replace(made, points=points, metrics={"hits": Column("hits", "1", better="more")})

    (row,) = judged(hits(0, 0.9), hits(1, 0.0)).rows
    assert (row.verdict, row.worse) == ("regressed", float("inf"))


def test_a_gate_that_sees_nothing_says_so_within_bounds() -> None:
    gate = judged(run({"read": 100.0}), run({"read": 100.0}, 1))
    rows = tuple(replace(each, row=replace(each.row, detectable=1700.0)) for each in gate.rows)
    out = Console(record=True, width=120, file=io.StringIO())
    print_gate(replace(gate, rows=rows), out)
    *_, power, total = out.export_text().splitlines()
    assert power.startswith("minimum detectable effect, the largest of all rows: >10000 %; smallest regress")
    assert total.startswith("0 of 1 worse by more than 3 %, ")


def shown(gate: Gate, width: int) -> list[str]:
    out = Console(record=True, width=width, file=io.StringIO())
    print_gate(gate, out)
    return out.export_text().splitlines()


def test_the_smallest_difference_found_has_a_column_before_what_is_the_same_in_all_rows() -> None:
    """Also where a row has no ratio, and where a long name leaves little room; what has none is named."""
    gate = judged(run(BASE), run(BASE, 1))
    longest = replace(gate.rows[0].row, metric="involuntary_switches_of_all_threads", ratio=float("nan"))
    rows = (replace(gate.rows[0], row=replace(longest, detectable=0.123)), *gate.rows[1:])
    for width, named in ((140, set()), (90, {"limit"}), (72, {"95 % interval", "limit"})):
        _, heading, *others = shown(replace(gate, rows=rows), width)
        assert heading.split()[-1] == "mde"
        assert any(line.rstrip().endswith("12 %") for line in others)
        hidden = [line for line in others if line.startswith("wider terminals also show: ")]
        assert set(", ".join(hidden).removeprefix("wider terminals also show: ").split(", ")) - {""} == named


def test_rows_without_a_minimum_detectable_effect_are_named() -> None:
    gate = judged(run(BASE), run(BASE, 1))
    none = replace(
        gate,
        rows=tuple(replace(each, row=replace(each.row, detectable=float("nan"))) for each in gate.rows),
    )
    some = [
        unknown if unknown.row.factors["call"] == "read" else each
        for each, unknown in zip(gate.rows, none.rows, strict=True)
    ]
    *_, power, _ = shown(replace(gate, rows=tuple(some)), 300)
    assert power.startswith("minimum detectable effect, the largest of 1 rows: ")
    assert power.endswith("; unknown of syscall.cost read time_ns")
    assert shown(none, 300)[-2] == "the minimum detectable effect is unknown"


def test_compare_and_gate_give_the_same_advice_on_two_separate_runs() -> None:
    """More samples do not help where runs differ by more than their blocks, and the rows say so alike."""
    wild = replace(QUIET, blocks=(8, 8), process_spread=1.5)
    a, b = run({"read": 100.0}, scenario=wild), run({"read": 100.0}, 1, scenario=wild)
    gate, comparison = judged(a, b), compare_results(a, b)
    advice = (
        "how much runs differ does not shrink with their blocks: it would take a quieter machine, "
        "or interleaved sides: oscope ab OLD/oscope-probe NEW/oscope-probe syscall.cost --set call=read"
    )
    assert {row.method.partition(" ")[0] for row in comparison.rows} == {"unpaired"}
    assert take_more(gate) == advice
    found = verdict(comparison, a)
    assert found.endswith(f"; {advice})")
    assert "too few samples" not in " ".join([found, *(row.sentence for row in comparison.rows)])
    thin = replace(wild, blocks=(3, 3))
    a, b = run({"read": 100.0}, scenario=thin), run({"read": 100.0}, 1, scenario=thin)
    assert take_more(judged(a, b)).startswith("take 5 blocks a side or more")
    assert "take more: --reps, or a longer --budget" in verdict(compare_results(a, b), a)


def test_a_pipe_gets_all_rows_and_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of a width that is set, the output is made as for a terminal.
    monkeypatch.delenv("COLUMNS", raising=False)
    costs = {f"nr:{number}": 100.0 for number in range(30)}
    gate = judged(run(costs), run(costs, 1))
    print_gate(gate, console())
    out = capsys.readouterr().out
    assert all(heading in out.splitlines()[1] for heading in ("95 % interval", "limit", "mde"))
    assert sum(line.startswith("nr:") for line in out.splitlines()) == 30
    assert "more rows" not in out


def test_the_blocks_asked_for_would_do() -> None:
    """Interleaved sides, whose error is the blocks' alone: with as many as are asked for, 2 % is found."""
    few = null.Scenario("few", blocks=(8, 8), interleaved=True)
    asked = [blocks_needed(row, 0.02, 1) for row in null.compared(few, 3, 100)]
    count = int(np.median([n for n in asked if n is not None]))
    enough = replace(few, blocks=(count, count))
    detectable = np.median([row.detectable for row in null.compared(enough, 4, 50)])
    assert detectable == pytest.approx(0.02, rel=0.15)


def test_false_alarms_of_gates_over_many_rows() -> None:
    """40 gates of 12 rows each at the limit of nothing: none proves what is not there, save 5 in 100."""
    costs = {f"nr:{number}": 100.0 for number in range(6)}
    alarms = sum(
        bool(judged(run(costs, seed=2 * k), run(costs, 1, seed=2 * k + 1), 0.0001).regressed)
        for k in range(40)
    )
    assert alarms <= 6  # P(more) < 1 % at 5 %.


def test_what_the_run_lacks_is_missing() -> None:
    a, b = run(BASE), run({"read": 240.0}, 1)
    nothing = np.full(len(b.points[0]), np.nan)
    b = replace(b, points=(replace(b.points[0], metrics={**b.points[0].metrics, "calls_per_s": nothing}),))
    other = replace(a, experiment="syscall.other")
    gate = judge(Results((a, other)), Results((b,)), 0.03)
    found = [(each.experiment, each.factors, each.metric) for each in gate.missing]
    assert ("syscall.other", None, None) in found
    assert ("syscall.cost", {"call": "getppid"}, None) in found
    assert ("syscall.cost", {"call": "read"}, "calls_per_s") in found
    assert len(found) == 3


def test_an_experiment_without_samples_leaves_the_verdicts_on_others() -> None:
    def without_samples(number: int) -> ExperimentResults:
        made = run(BASE, number)
        points = tuple(
            replace(point.only(np.zeros(len(point), bool)), metrics={}, skipped="no such device")
            for point in made.points
        )
        return replace(made, experiment="syscall.other", points=points)

    a, b = run(BASE), run({"read": 240.0, "getppid": 130.0}, 1)
    gate = judge(
        Results((without_samples(0), a)), Results((without_samples(1), b)), 0.03, earlier=lambda *_: EARLIER
    )
    assert verdicts(gate) == verdicts(judged(a, b))
    assert any(caveat.startswith("syscall.other: ") for caveat in gate.caveats)
    with pytest.raises(UsageError):
        judged(without_samples(0), without_samples(1))


def test_only_the_metrics_named_are_judged() -> None:
    gate = judged(run(BASE), run(BASE, 1), metrics=["time_ns"])
    assert {each.row.metric for each in gate.rows} == {"time_ns"}
    with pytest.raises(UsageError, match="no metric speed to judge"):
        judged(run(BASE), run(BASE, 1), metrics=["speed"])


def test_the_object_is_plain_json_and_its_figures_those_of_the_rows() -> None:
    from oscope.storage import record

    gate = judged(run(BASE), run({"read": 240.0, "getppid": 108.0}, 1))
    plain = json.loads(record.dump(to_object(gate)))
    assert plain["schema"] == "oscope.gate/1"
    assert (plain["judged"], plain["regressed"], plain["cannot_tell"], len(plain["rows"])) == (2, 1, 0, 4)
    assert [row["ratio"] for row in plain["rows"]] == [each.row.ratio for each in gate.rows]


def test_a_figure_in_several_units_is_one_row_of_the_table_unless_another_verdict_would_be_lost() -> None:
    gate = judged(run(BASE), run({"read": 240.0, "getppid": 108.0}, 1), 5.0)
    printed, others = each_quantity_once(gate)
    assert [each.row.metric for each in printed.rows] == ["time_ns", "time_ns"]
    assert others == ("in other units, with --json: calls_per_s as time_ns",)
    out = Console(record=True, width=200, file=io.StringIO())
    print_gate(gate, out)
    screen = out.export_text()
    # The limit is written as it was asked for.
    assert screen.count("500 %") >= 3
    assert "calls_per_s" not in screen.replace(others[0], "")
    assert "0 of 2 worse by more than 500 %" in screen
    # A rate that is judged otherwise than its time stays in the table.
    rates = [each for each in gate.rows if each.row.metric == "calls_per_s"]
    lost = replace(gate, rows=(replace(rates[0], verdict="regressed"), *gate.rows))
    assert lost.rows[0] in each_quantity_once(lost)[0].rows
    # The only unit that is judged is shown.
    alone = judged(run(BASE), run(BASE, 1), metrics=["calls_per_s"])
    assert each_quantity_once(alone) == (alone, ())


def invented(name: str) -> ExperimentResults:
    """Return the run that a command names by its file."""
    few = replace(NOISY, blocks=(1, 1))
    other = {
        "kernel": {"kernel": {**ENVIRONMENT["kernel"], "release": "6.2.0"}},
        "machine": {"machine": "f" * 16},
        "clock": {"clock": {"kind": "monotonic_raw"}},
    }
    match name:
        case "base":
            return run(BASE)
        case "same":
            return run(BASE, 1)
        case "slow":
            return run({"read": 240.0, "getppid": 120.0}, 2)
        case "less":
            return run({"read": 240.0}, 3)
        case "noisy" | "noise":
            return run({"read": 240.0}, 4 + (name == "noise"), scenario=NOISY)
        case "one":
            return run({"read": 240.0}, 6, scenario=few)
        case _:
            return run(BASE, 7, environment={**ENVIRONMENT, **other[name]})


COMMANDS = {
    "base.json same.json": (0, "0 of 2 worse by more than 3 %"),
    "base.json same.json --strict": (1, "cannot tell whether anything is worse by more than 3 %"),
    "base.json same.json --max-regression 10% --strict": (0, "2 within"),
    "base.json slow.json": (1, "worse by more than 3 %: syscall.cost getppid time_ns\n"),
    "slow.json base.json": (0, "1 improved"),
    "base.json slow.json --max-regression 40%": (0, "0 of 2 worse by more than 40 %"),
    "base.json slow.json --metric calls_per_s": (
        1,
        "worse by more than 3 %: syscall.cost getppid calls_per_s",
    ),
    "base.json less.json": (0, "missing in the run: syscall.cost getppid"),
    "base.json less.json --max-regression 10% --strict": (1, "missing in the run: syscall.cost getppid"),
    "noisy.json noise.json --max-regression 1%": (0, "CANNOT TELL for 1 of 1"),
    "noisy.json noise.json --max-regression 1% --strict": (
        1,
        "cannot tell whether anything is worse by more",
    ),
    "noisy.json one.json --max-regression 1% --strict": (1, "take 5 blocks a side or more"),
    "base.json kernel.json": (2, "kernel release differs (6.1.0 and 6.2.0): --allow kernel"),
    "base.json kernel.json --allow kernel": (0, "note: syscall.cost: the kernels differ"),
    "base.json machine.json": (2, "machine differs"),
    "base.json machine.json --allow machine,kernel": (0, "ran on different machines"),
    "base.json clock.json --allow machine,kernel": (2, "clock differs"),
    "base.json same.json --allow clock": (2, "only machine and kernel can be allowed"),
    "base.json base.json": (2, "cannot be compared with itself: choose another run; oscope compare "),
    "base.json same.json --metric speed": (2, "no metric speed to judge"),
    "base.json same.json --max-regression 0": (2, "give a share above 0"),
    "base.json same.json --max-regression 5": (2, "--max-regression: '5' would be 500 %: write 5%"),
    "base.json same.json --max-regression much": (2, "--max-regression: 'much' is not a share"),
    "base.json same.json --json missing/g.json": (2, "--json missing/g.json: the folder"),
    "base.json": (2, "the store has no run of syscall.cost after the baseline"),
    "nothing.json": (2, "there is no record file nothing.json"),
    "last": (2, "the store has no run yet"),
    "": (2, "the store has no two runs that may be compared"),
}


@pytest.mark.parametrize("line", COMMANDS)
def test_every_answer_has_its_exit_code_and_errors_are_one_line(line: str, oscope: CommandLine) -> None:
    for word in line.split():
        if word.endswith(".json") and "/" not in word and word != "nothing.json":
            write(invented(word.removesuffix(".json")), oscope.folder / word)
    code, reported = COMMANDS[line]
    answer = oscope("gate", *line.split())
    assert answer.code == code
    assert reported in " ".join((answer.out if code == 0 else answer.err).split()) + "\n"
    assert len(answer.err.splitlines()) == (code != 0)
    assert bool(answer.out) == (code != 2)


def test_the_gate_shows_what_its_machine_can_find(oscope: CommandLine) -> None:
    from oscope.analysis.calibration.certificate import Entry
    from oscope.analysis.calibration.certificate import to_object as entry_object

    entry = Entry("syscall.cost read", "time_ns", 0.01, 0.02, 0.02, 0.01, 6)
    known = {
        "run": "20260101-110000-aaaa",
        "ended": "2026-01-01T11:00:00+00:00",
        "load": "none",
        **{rate: {"count": 0, "of": 30} for rate in ("false_alarms", "coverage")},
        "found": [],
        "certificate": entry_object([entry]),
    }
    base, later = run(BASE), run(BASE, 1)
    names = [
        write(each, oscope.folder / f"{number}.json")
        for number, each in enumerate(
            [base, later, replace(later, settings={**later.settings, "calibrated": known})]
        )
    ]
    answer = oscope("gate", names[0], names[2], "--json", "gate.json")
    found = json.loads((oscope.folder / "gate.json").read_text())["calibrated"]
    assert found["certificate"][0]["subject"] == "syscall.cost read"
    text = " ".join(answer.out.split())
    assert "certificate: 10 s of interleaved measuring find a difference of 0.2" in text
    assert "two separate runs of 10 s each" in text
    assert "Calibrated 2026-01-01" in text
    assert "oscope calibrate --quick makes it" in " ".join(oscope("gate", names[0], names[1]).out.split())
    # One that came after the run holds for its machine, too; another machine's does not.
    assert oscope("run", "syscall.cost", "--set", "call=read", "--reps", "1").code == 0
    (later_run,) = oscope.runs()
    with Store.open(oscope.folder / oscope.all_variables({})["OSCOPE_STORE"]) as store:
        for machine, day in ((ENVIRONMENT["machine"], "01"), ("f" * 16, "02")):
            found = known | {"machine": machine, "ended": f"2026-02-{day}T11:00:00+00:00"}
            store.add(later_run, (), [StoredEvent("calibration", found)])
    assert "Calibrated 2026-02-01" in " ".join(oscope("gate", names[0], names[1]).out.split())


def test_json_on_standard_output_leaves_it_to_json(oscope: CommandLine) -> None:
    names = [write(invented(name), oscope.folder / f"{name}.json") for name in ("base", "slow")]
    answer = oscope("gate", *names, "--json", "-")
    assert answer.code == 1
    assert json.loads(answer.out)["regressed"] == 1
    assert "limit 3 %" in answer.err


def test_the_newest_run_after_the_baseline_is_judged(oscope: CommandLine) -> None:
    for name in ("syscall.cost", "syscall.cost", "syscall.throughput", "syscall.cost"):
        oscope("run", name, "--set", "call=read", "--reps", "10")
    first, second, _, under_way = oscope.runs()
    # One that is still measured is neither the newest nor one of the last two.
    with Store.open(oscope.folder / oscope.all_variables({})["OSCOPE_STORE"]) as store:
        store.add(under_way, (), [StoredEvent("status", UNFINISHED)])
    assert f"A is {first}, B is {second}" in oscope("gate", "--max-regression", "90%").err
    answer = oscope("gate", first, "--max-regression", "90%")
    assert (answer.code, answer.err) == (0, "")
    assert f"gate: {second} against {first}" in answer.out
    # A run of other points cannot be judged, and an older one can.
    oscope("run", "syscall.cost", "--set", "call=lseek", "--reps", "10")
    assert f"gate: {second} against {first}" in oscope("gate", first, "--max-regression", "90%").out
    refused = oscope("gate", second)
    assert refused.code == 2
    assert "of syscall.cost after the baseline" in refused.err
    # A record of the baseline stands for it.
    assert oscope("export", first, "--format", "json", "-o", "base.json").code == 0
    assert f"gate: {second} against {first}" in oscope("gate", "base.json", "--max-regression", "90%").out


def test_a_run_with_injected_interference_is_judged_only_where_it_is_named(oscope: CommandLine) -> None:
    for _ in range(4):
        oscope("run", "syscall.cost", "--set", "call=read", "--reps", "10")
    first, injected, second, last = oscope.runs()
    place = oscope.folder / oscope.all_variables({})["OSCOPE_STORE"]
    for run_id in (injected, last):
        mark_as_injected(place, run_id)
    for command in (("compare",), ("gate", "--max-regression", "90%")):
        answer = oscope(*command)
        assert answer.err == f"oscope: the last two comparable runs: A is {first}, B is {second}\n"
        assert "injected" not in answer.out
    limit = ("--max-regression", "90%")
    assert f"gate: {second} against {first}" in oscope("gate", first, *limit).out
    assert oscope("gate", second, *limit).code == 2
    caveat = "was measured with injected interference (hog): no clean measurement"
    named = " ".join(oscope("gate", first, last, *limit, "--json", "gate.json").out.split())
    assert f"note: syscall.cost: B {caveat}" in named
    assert f"syscall.cost: B {caveat}" in json.loads((oscope.folder / "gate.json").read_text())["caveats"]
    assert f"note: A {caveat}" in " ".join(oscope("compare", injected, second).out.split())


def test_the_json_counts_what_the_screen_counts(oscope: CommandLine) -> None:
    names = [write(invented(name), oscope.folder / f"{name}.json") for name in ("noisy", "noise")]
    answer = oscope("gate", *names, "--max-regression", "1%", "--json", "gate.json")
    found = json.loads((oscope.folder / "gate.json").read_text())
    assert "CANNOT TELL for 1 of 1" in answer.out
    assert (found["judged"], found["cannot_tell"]) == (1, 1)
    assert sorted(row["metric"] for row in found["rows"]) == ["calls_per_s", "time_ns"]

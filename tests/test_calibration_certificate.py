"""The certificate: what pairs show of how small a difference is found, and amounts that follow from it."""

from __future__ import annotations

import io
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf, sqrt
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

import synthetic
from cli_driver import CommandLine
from conftest import make_experiment
from oscope.analysis import probe_ab
from oscope.analysis.calibration import certificate, detection, trials
from oscope.analysis.calibration.certificate import Entry, entries, observe
from oscope.analysis.calibration.methods import METHODS, MethodVerdict
from oscope.analysis.calibration.spec import CalibrationSpec, quick
from oscope.analysis.calibration.trials import Observed, Trial
from oscope.cli.request import parse_settings, select
from oscope.cli.views.calibrate import print_calibration
from oscope.figures import mde
from oscope.labs.trust.answers import section
from oscope.model.errors import UsageError
from oscope.model.guest import Guest
from oscope.model.program import Program
from oscope.model.samples import ExperimentResults
from oscope.planning.plan import Plan, make_plan
from oscope.probe.catalogue import Catalogue, load
from oscope.storage import record
from oscope.storage.store import Store
from run_writer import RunWriter

ENTRY = Entry("e.cost getppid", "time_ns", 0.02, 0.01, 0.02, 0.005, 6)


def trial(ratio: float, observed: Observed | None, effect: float = 0.0) -> Trial:
    verdicts = dict.fromkeys(METHODS, MethodVerdict(False, ratio, 0.9, 1.1))
    return Trial("e.cost getppid", "time_ns", "interleaved", effect, 1.0, 0.01, 1.0, verdicts, observed)


def observed(median: float = 100.0, pairs: int = 400, error: float = 0.01) -> Observed:
    return Observed(median, pairs, 0.02, error, 0.02)


def one_point(seed: int, blocks: int, spread: float = 0.01) -> ExperimentResults:
    """Return blocks of 5 samples whose medians scatter by `spread`."""
    random = np.random.default_rng(seed)
    cost = synthetic.cost(seed=seed, reps=5 * blocks, blocks=blocks)
    times = 100 * np.exp(np.repeat(random.normal(0, spread, blocks), 5) + random.normal(0, 1e-4, 5 * blocks))
    point = replace(cost.points[0], metrics={"time_ns": times}, covariates={}, failed=())
    return replace(cost, run_id=f"run-{seed}", points=(point,), metrics={"time_ns": cost.metrics["time_ns"]})


def test_what_a_pair_shows_is_the_error_of_its_difference() -> None:
    found = [observe(one_point(seed, 300), one_point(seed + 50, 300), interleaved=True) for seed in range(20)]
    assert all(one is not None and one.pairs == 300 for one in found)
    errors = [one.pair_error for one in found if one is not None]
    # The median of normal differences, whose deviation is that of two blocks.
    assert np.mean(errors) == pytest.approx(0.01 * sqrt(2) * sqrt(np.pi / 2), rel=0.1)
    assert np.mean([one.block_error for one in found if one]) == pytest.approx(
        0.01 * sqrt(np.pi / 2), rel=0.2
    )
    assert observe(one_point(1, 4), one_point(2, 4), interleaved=True) is None
    apart = observe(one_point(1, 30), one_point(2, 30), interleaved=False)
    assert apart is not None
    assert (apart.pairs, np.isnan(apart.pair_error)) == (0, True)


def test_entries_take_equal_pairs_and_how_much_runs_differ() -> None:
    medians = (100.0, 101.0, 99.0, 100.5)
    found = [trial(1.0, observed(median)) for median in medians]
    found += [trial(1.5, observed(500.0), effect=0.5), trial(1.0, None)]
    (entry,) = entries(found)
    assert (entry.subject, entry.experiment, entry.runs) == ("e.cost getppid", "e.cost", 4)
    assert entry.run_deviation == pytest.approx(np.log(medians).std(ddof=1))
    assert entry.pair_error == 0.01
    assert entries([trial(1.0, None)]) == ()


def test_trials_that_scatter_by_more_than_their_errors_say_raise_the_error() -> None:
    sure = [trial(1 + sign * 0.0005, observed()) for sign in (1, -1) * 4]
    wild = [trial(1 + sign * 0.005, observed()) for sign in (1, -1) * 4]
    assert entries(sure)[0].pair_error == 0.01
    assert entries(wild)[0].pair_error == pytest.approx(0.01 * 0.005 / 0.0005, rel=0.01)


def test_a_difference_of_the_size_that_is_promised_is_found_in_nine_of_ten() -> None:
    """By the very t test that the promise rests on, and by the comparison's own."""
    from oscope.statistics import effect

    random = np.random.default_rng(3)
    pairs = ENTRY.pairs_in(10)
    size = np.log1p(ENTRY.interleaved(10))
    deviation = ENTRY.pair_error / sqrt(np.pi / 2)
    found = sum(effect.paired(random.normal(size, deviation, pairs)).p < 0.05 for _ in range(400))
    low, high = stats.binom.interval(0.999, 400, certificate.POWER)
    assert low <= found <= high


def test_more_time_finds_less_and_separate_runs_end_at_how_much_runs_differ() -> None:
    together = [ENTRY.interleaved(seconds) for seconds in (0.05, 1, 10, 600)]
    assert together[0] == inf
    assert together == sorted(together, reverse=True)
    assert together[3] == pytest.approx(together[2] / sqrt(60), rel=0.05)
    assert ENTRY.separate(600) == ENTRY.separate(60) > 0.005
    assert replace(ENTRY, runs=2).separate(600) == inf


def test_runs_whose_difference_is_not_known_promise_nothing() -> None:
    """A corrected time can be below 0: its runs have no relative deviation, however many they are."""
    medians = (100.0, -1.0, 99.0, 100.5, 101.0)
    (entry,) = entries([trial(1.0, observed(median)) for median in medians])
    assert (entry.runs, np.isnan(entry.run_deviation)) == (5, True)
    assert [entry.separate(seconds) for seconds in certificate.TIMES_S] == [inf] * len(certificate.TIMES_S)
    assert entry.blocks_for(0.5) is None
    assert mde.separate([entry]) is None


@pytest.mark.parametrize("expected", [0.1, 0.01, 0.001, 0.0003])
def test_the_pairs_for_an_effect_are_the_fewest(expected: float) -> None:
    pairs = ENTRY.pairs_for(expected)
    assert pairs is not None
    assert ENTRY.interleaved(pairs * ENTRY.pair_s + 1e-9) <= expected
    if pairs > certificate.FEWEST_PAIRS + 1:
        assert ENTRY.interleaved((pairs - 1) * ENTRY.pair_s + 1e-9) > expected
    assert ENTRY.pairs_for(1e-9) is None


def test_blocks_for_an_effect_end_where_runs_differ_by_as_much() -> None:
    least = ENTRY.separate(1e6)
    assert ENTRY.blocks_for(0.9 * least) is None
    blocks = ENTRY.blocks_for(1.1 * least)
    assert blocks is not None
    assert ENTRY.separate(blocks * ENTRY.pair_s + 1e-9) <= 1.1 * least


def test_an_entry_is_read_as_it_was_written() -> None:
    unknown = replace(ENTRY, run_deviation=float("nan"), runs=1)
    data = json.loads(record.dump(certificate.to_object([ENTRY, unknown])))
    again = certificate.from_object(data)
    assert again[0] == ENTRY
    assert np.isnan(again[1].run_deviation)
    assert data[0]["curve"][1]["seconds"] == 10
    assert data[1]["curve"][1]["separate"] is None
    written = json.loads(record.dump(trials.to_object([trial(1.0, observed())])))
    assert trials.from_object(written)[0].observed == observed()
    del written[0]["observed"]
    assert trials.from_object(written)[0].observed is None


def brief(found: Sequence[Entry]) -> dict[str, object]:
    return {"certificate": json.loads(record.dump(certificate.to_object(found)))}


def planned(catalogue: Catalogue, points: int = 2) -> Plan:
    return make_plan([make_experiment({"size": tuple(range(1, points + 1))}, 10, 2)], catalogue, seed=1)


def test_a_run_is_sized_by_the_certificate(catalogue: Catalogue) -> None:
    plan = planned(catalogue)
    name = plan.experiments[0].name
    own = replace(ENTRY, subject=f"{name} x")
    sized = detection.size_run(plan, 0.05, brief([own, replace(ENTRY, pair_error=1.0)]))
    (experiment,) = sized.plan.experiments
    assert experiment.blocks == own.blocks_for(0.05)
    assert experiment.reps == 5 * (experiment.blocks or 0)
    assert f"{experiment.blocks} blocks of 5 samples at each of 2 points" in sized.notes[0]
    assert "taken from" not in sized.notes[0]
    other = detection.size_run(plan, 0.05, brief([ENTRY]))
    assert "taken from e.cost getppid" in other.notes[0]


def test_what_no_run_can_show_is_refused_with_the_way_that_can(catalogue: Catalogue) -> None:
    with pytest.raises(UsageError, match="was not calibrated") as refused:
        detection.size_run(planned(catalogue), 0.01, None)
    assert "oscope calibrate --quick" in (refused.value.remedy or "")
    with pytest.raises(UsageError, match="though nothing was changed") as refused:
        detection.size_run(planned(catalogue), 0.001, brief([ENTRY]))
    plan = planned(catalogue)
    [command] = re.findall(r"`(.+)`", refused.value.remedy or "")
    program, verb, old, new, *words = shlex.split(command)
    assert (program, verb, old, new) == ("oscope", "ab", "OLD/oscope-probe", "NEW/oscope-probe")
    # What is typed is what was planned.
    name, *options = words
    assert name == plan.experiments[0].name
    assert options[-2:] == ["--detect", "0.1%"]
    points = plan.experiments[0].points
    given = dict(text.split("=", 1) for text in options[1:-2:2])
    assert given == {
        name: ",".join(dict.fromkeys(str(point[name]) for point in points)) for name in points[0]
    }


@pytest.mark.parametrize("typed", [{"call": ("getppid",), "style": ("loop",)}, {"call": ("getpid",)}, {}])
def test_the_interleaved_command_measures_the_points_of_the_run(
    real_probe: Path, typed: dict[str, tuple[str, ...]]
) -> None:
    """A design has more levels than its workload's default, and `oscope ab` takes the quick one."""
    described, found = load(real_probe), select(["syscall.cost"], "full").experiments
    (wanted,) = make_plan(found, described, settings=typed).experiments
    words = shlex.split(detection.interleaved_command(wanted, 0.001))
    settings = parse_settings([text for before, text in pairwise(words) if before == "--set"])
    for side in probe_ab.make_plans([(described, found)] * 2, settings, 1.0):
        assert side.experiments[0].points == wanted.points


def test_points_left_out_have_no_interleaved_command(real_probe: Path) -> None:
    """Levels that are typed are measured in every combination, but those that the experiment excludes."""
    described, found = load(real_probe), select(["disk.write"], "quick").experiments
    plan = make_plan(found, described, profile="quick")
    settings = {name: [point[name]] for point in plan.experiments[0].points for name in point}
    typed = make_plan(found, described, profile="quick", settings=settings)
    for one, is_expressible in ((plan, False), (typed, True)):
        with pytest.raises(UsageError) as refused:
            detection.size_run(one, 0.001, brief([ENTRY]), found)
        remedy = refused.value.remedy or ""
        assert ("`oscope ab" in remedy) == is_expressible
        assert ("each combination of their levels" in remedy) == (not is_expressible)


def test_programs_and_kernels_have_interleaved_commands_of_their_own(catalogue: Catalogue) -> None:
    (probe,) = planned(catalogue).experiments
    levels = shlex.split(detection.interleaved_command(probe, 0.02))[5:-2]
    program = replace(probe, program=Program("./mine", ("/mine",), "/"))
    assert shlex.split(detection.interleaved_command(program, 0.02)) == [
        *("oscope", "ab", "./OLD", "./NEW", probe.name, *levels, "--detect", "2%")
    ]
    guest = replace(probe, guest=Guest("base"))
    assert shlex.split(detection.interleaved_command(guest, 0.02)) == [
        *("oscope", "kernel", "ab", "--patch", "PATCH", probe.name, *levels, "--clock", "wall")
    ]
    for experiment, sides in ((program, "two builds of the program"), (guest, "two kernels")):
        plan = replace(planned(catalogue), experiments=(experiment,))
        with pytest.raises(UsageError) as refused:
            detection.size_run(plan, 0.001, brief([ENTRY]))
        assert f"compare {sides} in one" in (refused.value.remedy or "")


def test_interleaved_sides_get_the_time_that_an_effect_takes(catalogue: Catalogue) -> None:
    sized = detection.size_interleaved(planned(catalogue, 3), 0.001, brief([ENTRY]))
    pairs = ENTRY.pairs_for(0.001)
    assert sized.plan.budget_s == round(3 * (pairs or 0) * ENTRY.pair_s, 1)
    with pytest.raises(UsageError, match="would take days"):
        detection.size_interleaved(planned(catalogue), 1e-9, brief([ENTRY]))


def test_each_experiment_records_its_part_of_the_time(catalogue: Catalogue, tmp_path: Path) -> None:
    small, large = (make_experiment({"size": tuple(range(1, end))}, 10, 2) for end in (2, 5))
    plan = make_plan([small, replace(large, name="fake.large")], catalogue, seed=1)
    open_blocks = tuple(replace(each, blocks=None) for each in plan.experiments)
    sized = detection.size_interleaved(replace(plan, experiments=open_blocks), 0.001, brief([ENTRY])).plan
    with Store.open(tmp_path / "store.db") as store:
        run = RunWriter(store, sized).run_id
        parts = [each.settings["budget_s"] for each in store.results(run).experiments]
    pairs = ENTRY.pairs_for(0.001) or 0
    assert parts == [pairs * ENTRY.pair_s, 4 * pairs * ENTRY.pair_s]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.01, "about 0.1 s"), (12.34, "about 12 s"), (100, "about 100 s"), (150, "about 2.5 min")],
)
def test_expected_times_are_round(seconds: float, text: str) -> None:
    assert detection.about(seconds) == text


def test_the_table_and_the_figure_show_each_class() -> None:
    found = [ENTRY, replace(ENTRY, subject="e.other x", pair_error=0.1, runs=1)]
    shown = mde.table(found)
    assert [row[:2] for row in shown.rows] == [
        ["e.cost getppid", "interleaved"],
        ["e.cost getppid", "separate runs"],
        ["e.other x", "interleaved"],
        ["e.other x", "separate runs"],
    ]
    assert set(shown.rows[3][2:]) == {"–"}
    names = [trace["name"] for trace in mde.figure(found).traces]
    assert names == ["e.cost getppid, interleaved", "e.cost getppid, separate runs", "e.other x, interleaved"]
    assert "two separate runs of 10 s each" in mde.sentence(found)


def test_a_calibration_shows_its_certificate() -> None:
    found = json.loads(record.dump(trials.to_object([trial(1.0, observed(100.0 + i)) for i in range(4)])))
    result = {"wanted": quick().to_object(), "interrupted": False, "ended": "", "trials": found}
    made = section("Title", result)
    assert made.tables[0].title == mde.TITLE
    assert made.figures[0].title == mde.TITLE
    assert made.answer.startswith("10 s of interleaved measuring find a difference of")
    out = Console(file=io.StringIO(), width=110)
    print_calibration(result, "run", out)
    text = " ".join(out.file.getvalue().split())  # type: ignore[attr-defined]
    assert mde.TITLE in text
    assert mde.sentence(entries(trials.from_object(found))) in text


def test_a_quick_calibration_is_one_of_times() -> None:
    expected = quick()
    expected.check()
    assert expected.to_object()["seconds"] == expected.seconds
    with pytest.raises(UsageError, match="interleaved pairs of equal sides only"):
        CalibrationSpec(seconds=1.0).check()


@pytest.mark.parametrize("option", [["--pairs", "3"], ["--effect", "1%"], ["--way", "both"]])
def test_a_quick_calibration_decides_its_amounts_itself(oscope: CommandLine, option: list[str]) -> None:
    answer = oscope("calibrate", "--quick", *option)
    assert answer.code == 2
    assert f"--quick and {option[0]} contradict each other" in answer.errors[-1]


@pytest.mark.parametrize("option", [["--reps", "10"], ["--budget", "10s"]])
def test_detect_decides_the_amount_itself(oscope: CommandLine, option: list[str]) -> None:
    answer = oscope("run", "syscall.cost", "--detect", "1%", *option)
    assert answer.code == 2
    assert f"--detect and {option[0]} contradict each other" in answer.errors[-1]


def test_detect_without_a_calibration_names_the_command_that_makes_one(oscope: CommandLine) -> None:
    answer = oscope("run", "syscall.cost", "--detect", "1%")
    assert answer.code == 2
    assert "oscope calibrate --quick" in answer.errors[-1]

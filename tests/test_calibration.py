"""Calibrations: what each method says of known samples, rates with their intervals, and the pairs."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import synthetic
from cli_driver import CommandLine
from oscope import labs
from oscope.analysis.calibration import trials
from oscope.analysis.calibration.methods import (
    MEDIAN,
    METHODS,
    MINIMUM,
    OSCOPE,
    T_INTERVAL,
    MethodVerdict,
    judge,
)
from oscope.analysis.calibration.result import calibrate, in_brief
from oscope.analysis.calibration.spec import CalibrationSpec, Subject
from oscope.analysis.calibration.trials import Trial
from oscope.figures import certificate
from oscope.labs.trust.answers import section
from oscope.model.errors import UsageError
from oscope.model.samples import ExperimentResults, Floats
from oscope.runner import execution
from oscope.runner.active_run import ActiveRun
from oscope.runner.process_chain import ProcessChain
from oscope.statistics.rate import Rate
from oscope.storage import record
from oscope.targets.affinity import Affinity
from waiting import wait_until

SUBJECT = ("syscall.cost", "--set", "call=getppid", "--set", "style=loop")
SMALL = ("--pairs", "1", "--blocks", "3", "--reps", "3", "--way", "interleaved", "--seed", "1")


def one_point(factor: float = 1.0, seed: int = 1) -> ExperimentResults:
    """Return results with one point, whose times are multiplied by `factor`."""
    cost = synthetic.cost(seed=seed)
    point = cost.points[0]
    scaled = {name: values * factor for name, values in point.metrics.items()}
    return replace(cost, run_id=f"run-{seed}", points=(replace(point, metrics=scaled),))


def trial(effect: float, *, different: bool, ratio: float, low: float, high: float, way: str = "w") -> Trial:
    """Return a trial in which every method says the same."""
    verdict = MethodVerdict(different, ratio, low, high)
    return Trial("s", "time_ns", way, effect, 1 + effect, 0.03, 1.5, dict.fromkeys(METHODS, verdict))


def test_each_method_finds_a_large_difference_with_its_sign() -> None:
    verdicts, detectable = judge(one_point(), one_point(1.5, seed=2))
    assert set(verdicts) == set(METHODS)
    for verdict in verdicts.values():
        assert verdict.finds(1.5)
        assert not verdict.finds(0.5)
        assert verdict.ratio == pytest.approx(1.5, rel=0.1)
    assert verdicts[OSCOPE].holds(1.5)
    assert 0 < detectable < 0.5
    # Habits without a test give no interval, which holds nothing.
    assert not verdicts[MINIMUM].holds(1.5)
    assert not verdicts[MEDIAN].holds(1.5)


def test_the_t_interval_is_welchs() -> None:
    a, b = one_point(), one_point(1.1, seed=3)
    first, second = (_finite(each.points[0].metrics["time_ns"]) for each in (a, b))
    found = judge(a, b)[0][T_INTERVAL]
    error = np.sqrt(first.var(ddof=1) / len(first) + second.var(ddof=1) / len(second))
    half = (found.high - found.low) / 2
    assert found.ratio == pytest.approx(second.mean() / first.mean())
    assert (found.high + found.low) / 2 == pytest.approx(found.ratio)
    assert half == pytest.approx(1.96 * error / first.mean(), rel=0.1)


def _finite(values: Floats) -> Floats:
    return values[np.isfinite(values)]


def test_the_best_of_what_is_better_more_is_its_maximum() -> None:
    a = one_point()
    speed = replace(a.metrics["time_ns"], better="more")
    a = replace(a, metrics={**a.metrics, "time_ns": speed})
    values = a.points[0].metrics["time_ns"].copy()
    values[0] = np.nanmax(values) * 2
    b = replace(
        a, run_id="b", points=(replace(a.points[0], metrics={**a.points[0].metrics, "time_ns": values}),)
    )
    assert judge(a, b)[0][MINIMUM].ratio == pytest.approx(2)


def test_rates_count_what_they_say() -> None:
    found = [
        trial(0, different=True, ratio=1.1, low=1.05, high=1.15),
        trial(0, different=False, ratio=1.0, low=0.9, high=1.1),
        trial(0.1, different=True, ratio=1.1, low=1.05, high=1.15),
        trial(0.1, different=True, ratio=0.9, low=0.85, high=0.95),
        trial(0.1, different=False, ratio=1.1, low=0.9, high=1.2),
        trial(0.5, different=True, ratio=1.5, low=1.4, high=1.6),
    ]
    assert trials.false_alarms(found) == Rate(1, 2)
    assert trials.coverage(found) == Rate(3, 4)
    assert trials.found(found, 0.1) == Rate(1, 3)
    assert trials.effects(found) == (0.1, 0.5)


def test_a_rate_has_wilsons_interval() -> None:
    # Brown, Cai and DasGupta, Statistical Science 16, 2001: n = 10, x = 0 and x = 5.
    assert Rate(0, 10).interval == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert Rate(5, 10).interval == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert str(Rate(0, 0)) == "–"
    assert str(Rate(1, 20)).startswith("5.0 % (0.9 to 23.6) of 20")


def test_a_calibration_is_read_as_it_was_written() -> None:
    first = trial(0.1, different=True, ratio=1.1, low=float("nan"), high=float("nan"))
    (again,) = trials.from_object(json.loads(record.dump(trials.to_object([first]))))
    assert np.isnan(again.verdicts[OSCOPE].low)
    assert replace(again, verdicts={}) == replace(first, verdicts={})
    with pytest.raises(UsageError, match="malformed"):
        trials.from_object([{"subject": "s"}])


def test_the_answer_shows_each_method_and_subject() -> None:
    found = [
        trial(effect, different=effect > 0, ratio=1 + effect, low=0.99 + effect, high=1.01 + effect, way=way)
        for effect in (0.0, 0.02)
        for way in ("interleaved", "in sequence")
    ]
    result = {
        "wanted": CalibrationSpec().to_object(),
        "interrupted": False,
        "ended": "2026-11-21T10:00:00+00:00",
        "trials": json.loads(record.dump(trials.to_object(found))),
    }
    made = section("Title", result)
    subjects, methods = made.tables
    assert [row[:2] for row in subjects.rows] == [["s", "in sequence"], ["s", "interleaved"], ["all", ""]]
    assert [row[0] for row in methods.rows] == list(METHODS)
    assert "0.0 % (0.0 to 65.8) of 2" in made.answer
    (figure,) = made.figures
    assert [trace["name"] for trace in figure.traces] == list(METHODS)
    assert figure.traces[0]["y"] == [0, 100]
    brief = in_brief(result, "run")
    assert brief["false_alarms"] == {"count": 0, "of": 2}
    assert brief["found"] == [{"effect": 0.02, "count": 2, "of": 2}]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (CalibrationSpec(pairs=0), "--pairs 0"),
        (CalibrationSpec(blocks=1), "--blocks 1"),
        (CalibrationSpec(reps=0), "--reps 0"),
        (CalibrationSpec(effects=(-0.1,)), "--effect -0.1"),
        (CalibrationSpec(load="heavy"), "no load 'heavy'"),
        (CalibrationSpec(equal=False, effects=()), "neither equal sides nor an effect"),
    ],
)
def test_what_makes_no_sense_is_refused(spec: CalibrationSpec, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        spec.check()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU cannot be kept free")
def test_a_run_within_another_keeps_off_the_same_cpu() -> None:
    before = os.sched_getaffinity(0)
    with Affinity():
        apart = os.sched_getaffinity(0)
        assert apart < before
        with Affinity() as inner, inner.starting():
            assert os.sched_getaffinity(0) == before
        assert os.sched_getaffinity(0) == apart
    assert os.sched_getaffinity(0) == before


@pytest.fixture
def command(probe: Path, tmp_path: Path) -> CommandLine:
    """Give the command line, in a folder of its own, with the real probe and a store."""
    return CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe), "OSCOPE_STORE": str(tmp_path / "oscope.db")})


@pytest.mark.alone
def test_a_known_difference_is_measured_stored_and_carried_by_later_runs(command: CommandLine) -> None:
    done = command("calibrate", *SUBJECT, *SMALL, "--effect", "300%", "--keep", "pairs.db", "--json", "-")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["inspection"] == "trust.calibration"
    result = found["result"]
    assert {each["effect"] for each in result["trials"]} == {0.0, 3.0}
    (slowed,) = (each for each in result["trials"] if each["effect"])
    # The truth is by the pair's own side A, which is not the pilot's: other work may be going on here.
    assert slowed["truth"] > 1.2
    assert slowed["verdicts"][OSCOPE]["ratio"] > 1.2
    # The pilot, and two runs for each pair.
    assert len(command("--store", "pairs.db", "runs").out.splitlines()) >= 5
    run = command("run", *SUBJECT, "--reps", "5", "--json", "-", "--report", "r.html")
    assert run.code == 0, run.err
    calibrated = json.loads(run.out)["settings"]["calibrated"]
    assert calibrated["run"] == found["id"]
    assert calibrated["false_alarms"]["of"] == 1
    assert found["id"] in (command.folder / "r.html").read_text()
    assert command("report", found["id"], "-o", "c.html").code == 0
    assert "Errors of Oscope and of common habits" in (command.folder / "c.html").read_text()


def test_the_certificate_has_what_is_known() -> None:
    cost = synthetic.cost()
    rows = certificate.table(cost.environment, cost, "").rows
    assert [row[0] for row in rows[:4]] == [
        "an empty measured region takes",
        "twice the work takes",
        "the clock against the kernel's",
        "these checks",
    ]
    assert rows[3][1] == "passed"
    assert "oscope calibrate" in rows[4][1]
    found = {
        "run": "a-run",
        "ended": "2026-11-21T10:00:00+00:00",
        "load": "sibling",
        "false_alarms": {"count": 3, "of": 100},
        "coverage": {"count": 95, "of": 100},
        "found": [{"effect": 0.02, "count": 90, "of": 100}],
    }
    known = replace(cost, settings={**cost.settings, "calibrated": found})
    text = " ".join(cell for row in certificate.table(cost.environment, known, "").rows for cell in row)
    assert "run a-run" in text
    assert "under the load sibling" in text
    assert "3.0 % (1.0 to 8.5) of 100" in text
    # Older runs tell less, and a failed check is told in capitals.
    broken = {**cost.environment, "self_check": {"ratio_of_double_work": 1.2, "ok": False}}
    assert [row[1] for row in certificate.table(broken, None, "").rows] == ["1.2000 times as long", "FAILED"]


def test_it_is_an_inspection_of_any_run(command: CommandLine) -> None:
    done = command("run", "trust.calibration", "--profile", "quick", "--json", "-")
    assert done.code == 0, done.err
    found = json.loads(done.out)["result"]
    assert not found["interrupted"]
    # Five subjects, two ways, with a difference and without.
    assert len(found["trials"]) == 20
    assert all(set(each["verdicts"]) == set(METHODS) for each in found["trials"])


@pytest.mark.alone
def test_the_sides_of_a_pair_differ_in_the_delay_alone(command: CommandLine) -> None:
    done = command("calibrate", *SUBJECT, *SMALL, "--effect", "100%", "--keep", "pairs.db", "--json", "-")
    assert done.code == 0, done.err
    listed = command("--store", "pairs.db", "runs").out.splitlines()
    settings = []
    for name in [line.split()[0] for line in listed if line.startswith("20")]:
        shown = command("--store", "pairs.db", "export", name, "--format", "json", "-o", f"{name}.json")
        assert shown.code == 0, shown.err
        settings.append(json.loads((command.folder / f"{name}.json").read_text())["settings"])
    delayed = [each["injection"] for each in settings if "injection" in each]
    assert sorted(each["delay_ns"] > 0 for each in delayed) == [False, True]
    assert all(each["steady"] and not each["causes"] for each in delayed)
    assert len(settings) - len(delayed) == 3


def test_an_interrupted_calibration_tells_of_the_pairs_up_to_then(command: CommandLine) -> None:
    words = ("calibrate", *SUBJECT, "--pairs", "500", "--blocks", "2", "--reps", "2", "--effect", "0")
    with command.start(*words, "--keep", "pairs.db", "--json", "c.json") as process:
        kept = CommandLine(command.folder, {"OSCOPE_STORE": "pairs.db"})
        wait_until(lambda: process.poll() is not None or len(kept.runs()) >= 6, "six runs")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    found = json.loads((command.folder / "c.json").read_text())["result"]
    assert found["interrupted"]
    assert 1 <= len(found["trials"]) < 1000


def test_a_signal_after_the_last_sample_of_a_pair_ends_the_calibration(
    real_probe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is looked at once more after each run, for as long as a short run takes."""
    monkeypatch.setenv("OSCOPE_PROBE", str(real_probe))
    surveys: list[object] = []
    look = execution._record_environment_after

    def interrupted_look(run: ActiveRun, chain: ProcessChain) -> None:
        surveys.append(run)
        # The run for the time of an iteration, a pair, and the first side of another.
        if len(surveys) == 4:
            os.kill(os.getpid(), signal.SIGINT)
        look(run, chain)

    monkeypatch.setattr(execution, "_record_environment_after", interrupted_look)
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    subject = Subject("syscall.cost", {"call": "getpid", "style": "loop"})
    try:
        result = calibrate(
            CalibrationSpec((subject,), pairs=5, effects=(), blocks=2, reps=2, ways=("in sequence",)),
            find=labs.experiment,
        )
    finally:
        signal.signal(signal.SIGINT, former)
    assert result["interrupted"]
    assert len(result["trials"]) == 1
    assert len(surveys) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "call=getpid"), "--set sets the point of experiments that are named"),
        (("syscall.cost", "--set", "call=getpid,read"), "--set call has 2 levels"),
        (("--effect", "fast"), "--effect"),
        (("tools.devices",), "is an inspection"),
        (("--pairs", "0"), "--pairs 0"),
    ],
)
def test_wrong_requests_are_one_line(oscope: CommandLine, words: tuple[str, ...], message: str) -> None:
    done = oscope("calibrate", *words)
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert message in line


def test_a_factor_that_is_not_there_is_refused_in_one_line(command: CommandLine) -> None:
    done = command("calibrate", "syscall.cost", *SMALL, "--effect", "0", "--set", "nonsense=1")
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert "no experiment here has a factor 'nonsense'" in line

"""`oscope run --inject`: each cause raises its own covariate, and the truth is stored with the run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli_driver import CommandLine
from injected import sides
from oscope.storage import record

pytestmark = pytest.mark.alone

POINT = ("syscall.cost", "--set", "call=getppid", "--set", "style=loop")
SEVERAL = len(os.sched_getaffinity(0)) > 1


@pytest.fixture
def command(probe: Path, tmp_path: Path) -> CommandLine:
    """Give the command line, in a folder of its own, with the real probe and a store."""
    return CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe), "OSCOPE_STORE": str(tmp_path / "oscope.db")})


def measured(command: CommandLine, *words: str, reps: int) -> dict[str, Any]:
    """Run the point, and return its record."""
    answer = command("run", *POINT, "--reps", str(reps), "--seed", "5", "--json", "-", *words)
    assert answer.code == 0, answer.err
    found: dict[str, Any] = json.loads(answer.out)
    return found


@pytest.mark.parametrize(
    ("cause", "covariate"),
    [
        ("hog", "run_delay_ns"),
        ("interrupts", "timer_interrupts"),
        pytest.param("sibling", "runnable_others", marks=pytest.mark.skipif(not SEVERAL, reason="one CPU")),
        pytest.param("memory", "runnable_others", marks=pytest.mark.skipif(not SEVERAL, reason="one CPU")),
        pytest.param("migrate", "migrations", marks=pytest.mark.skipif(not SEVERAL, reason="one CPU")),
    ],
)
def test_a_cause_raises_its_covariate(command: CommandLine, cause: str, covariate: str) -> None:
    # Phases last some hundred milliseconds, and how many samples those hold, the machine decides.
    for reps in (600, 2400, 9600, 38400):
        found = measured(command, "--inject", cause, reps=reps)
        on, off = sides(found, cause, covariate)
        if min(len(on), len(off)) > 100:
            break
    assert len(on) > 20
    assert len(off) > 20
    assert on.mean() > off.mean()
    assert all(phase["done"] > 0 for phase in found["settings"]["injection"]["phases"]) or cause == "migrate"


def test_a_delay_is_told_by_each_sample_and_is_in_its_time(command: CommandLine) -> None:
    found = measured(command, "--inject", "delay=1us", reps=300)
    (point,) = found["points"]
    times = np.array(point["metrics"]["time_ns"]["values"])
    each_ns = np.array(point["samples"]["covariates"]["injected_ns"]) / np.array(
        point["samples"]["iterations"]
    )
    is_on = each_ns > 0
    assert 0 < is_on.sum() < len(is_on)
    assert each_ns[is_on] == pytest.approx(1000, rel=1e-3)
    # A call takes well below a microsecond, so that the least of the delayed ones is above the delay alone.
    assert times[is_on].min() >= 1000
    assert np.median(times[is_on]) > np.median(times[~is_on]) + 500


def test_a_drift_grows_with_the_time_since_the_run_began(command: CommandLine) -> None:
    found = measured(command, "--inject", "drift=100ns", reps=200)
    samples = found["points"][0]["samples"]
    each_ns = np.array(samples["covariates"]["injected_ns"]) / np.array(samples["iterations"])
    began_s = np.array(samples["started_ns"]) / 1e9
    slope, _ = np.polyfit(began_s - began_s[0], each_ns, 1)
    assert slope == pytest.approx(100, rel=1e-3)


def test_a_disturbed_run_says_so_wherever_it_is_shown(command: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    answer = command("run", *POINT, "--reps", "10", "--inject", "hog,delay=50ns", "--json", str(file))
    warning = "interference injected by --inject (hog, delay=50ns): no clean measurement"
    assert answer.code == 0
    assert warning in " ".join(answer.out.split())
    assert warning in answer.err
    assert warning in " ".join(command("show", "last").out.split())
    assert command("report", "last", "-o", "report.html").code == 0
    assert "interference injected by --inject" in (tmp_path / "report.html").read_text()
    (read,) = record.read(file).experiments
    injection = read.settings["injection"]
    assert injection["causes"] == ["hog"]
    assert injection["injector"]["places"][0]["cause"] == "hog"
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(record.__file__).parent.parent / "record.schema.json").read_text())
    jsonschema.validate(json.loads(file.read_text()), schema)


def test_a_clean_run_says_nothing_of_it(command: CommandLine) -> None:
    found = measured(command, reps=10)
    assert "injection" not in found["settings"]
    assert "injected_ns" not in found["points"][0]["samples"]["covariates"]


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["--inject", "hgo"], "there is no cause 'hgo' to inject: did you mean 'hog'?"),
        (["--inject", "delay=3s"], "--inject delay: not above 0 and at most 1 s: write delay=2us"),
        (
            ["--inject", "hog", "--on", "guest"],
            "--inject disturbs this machine, and syscall.cost",
        ),
    ],
)
def test_what_cannot_be_injected_is_refused_before_the_run(
    command: CommandLine, words: list[str], reported: str
) -> None:
    answer = command("run", *POINT, *words)
    assert answer.code == 2
    assert answer.errors[-1].startswith(f"oscope: {reported}")
    assert command.runs() == []

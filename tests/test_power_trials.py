"""Trials whose answer is known are measured, packed and judged; the stored ones can be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import power_trials
from cli_driver import ROOT
from oscope.analysis.calibration.methods import METHODS, OSCOPE
from oscope.storage.store import Store


@pytest.mark.usefixtures("probe")
@pytest.mark.alone
def test_trials_are_measured_packed_and_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(power_trials, "PILOT_S", 0.3)
    monkeypatch.setattr(power_trials, "SEPARATE_S", 0.3)
    store, packed = tmp_path / "trials.db", tmp_path / "trials.npz"
    assert power_trials.main(["measure", str(store), "--rounds", "1", "--seconds", "1"]) == 0
    assert power_trials.main(["pack", str(store), "-o", str(packed)]) == 0
    runs = power_trials.unpack(packed)
    assert [run.subject for run, _ in runs if not run.group] == list(power_trials.SUBJECTS)
    interleaved = [(run, results) for run, results in runs if run.group]
    assert [run.effect for run, _ in interleaved] == 2 * list(power_trials.EFFECTS)
    for subject in power_trials.INTERLEAVED:
        # The delay is a share of what a pilot took, at another time; the sides share theirs.
        found = {run.effect: run.slower for run, _ in interleaved if run.subject == subject}
        assert found[0.0] == 0
        assert found[0.01] > 0
        assert found[0.01] / found[0.003] == pytest.approx(0.01 / 0.003, rel=0.01)
    with Store.read(store) as kept:
        first = next(each for each in kept.runs() if each.samples and len(each.experiments) == 1)
        assert first.experiments == ("syscall.cost",)
    assert power_trials.main(["judge", str(packed)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(f", {OSCOPE}: found in" in line for line in lines) == 2 * 3
    assert sum(": found in" in line for line in lines) == 2 * 3 * len(METHODS)


@pytest.mark.parametrize(
    "name", ["interleaved", "idle", "noisy", "noisy-2", "noisy-3", "separate-1", "separate-2"]
)
def test_the_stored_trials_can_be_read(name: str) -> None:
    runs = power_trials.unpack(ROOT / "benchmarks" / "trials" / f"{name}.npz")
    for run, results in runs:
        values = results.points[0].metrics["value"]
        assert len(values) == run.blocks > 10
        assert np.median(values) == pytest.approx(run.median, rel=1e-4)
    assert (
        len(runs)
        == {
            "interleaved": 2 * 48 * 4,
            "idle": 2 * 55 * 4 + 70,
            "noisy": 2 * 21 * 4,
            "noisy-2": (40 + 39) * 4,
            "noisy-3": 2 * 40 * 4,
            "separate-1": 142,
            "separate-2": 60,
        }[name]
    )

"""Energy in `oscope bench`: measured with its floor where there is RAPL, and said not to be elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import oscope
from oscope.programs.findings import Findings, find


@pytest.fixture(scope="module")
def findings(real_probe: Path, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """Return what a real bench of two commands found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OSCOPE_PROBE", str(real_probe))
        store = tmp_path_factory.mktemp("energy") / "store.db"
        return oscope.bench(["sleep 0.03", "true"], reps=4, store=store).findings


def notes(findings: Findings) -> list[str]:
    """Return the notes on energy."""
    return [note for note in findings.notes if note.startswith("energy: ")]


def given(findings: Findings, idle_w: float, energy_j: float) -> Findings:
    """Return the same findings as if the probe had measured these values."""
    experiment = findings.experiment
    points = tuple(
        replace(
            point,
            metrics={
                **point.metrics,
                "idle_w": np.full(len(point), idle_w),
                "energy_j": np.full(len(point), energy_j),
            },
        )
        for point in experiment.points
    )
    return find(replace(findings.results, experiments=(replace(experiment, points=points),), memo={}))


def test_a_machine_without_rapl_says_so_once(findings: Findings) -> None:
    counters = list(Path("/sys/class/powercap").glob("*/energy_uj"))
    (note,) = notes(findings)
    if not counters:
        assert note == "energy: not measured (no RAPL here)"
        for row in findings.rows:
            assert np.isnan(row.point.metrics["energy_j"]).all()
            assert np.isnan(row.point.metrics["idle_w"]).all()


def test_the_floor_stands_beside_the_energy(findings: Findings) -> None:
    (note,) = notes(given(findings, 12.5, 0.4))
    assert note.startswith("energy: of the whole machine")
    assert "the idle machine takes 12.5" in note
    (note,) = notes(given(findings, 12.5, float("nan")))
    assert "not measured (the runs are shorter than 20 ms)" in note
    assert "the idle machine takes 12.5" in note


def test_a_run_of_an_earlier_probe_says_nothing_of_energy(findings: Findings) -> None:
    experiment = findings.experiment
    known = {name: metric for name, metric in experiment.metrics.items() if name != "energy_j"}
    earlier = replace(findings, experiment=replace(experiment, metrics=known))
    assert notes(earlier) == []

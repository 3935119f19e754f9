from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

import oscope
from conftest import make_experiment
from oscope import labs
from oscope.model.errors import UsageError
from oscope.model.experiment import Lab


@pytest.fixture
def fake_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the laboratory know one lab, over the fake probe."""
    experiments = (
        make_experiment({"size": (1, 2)}, reps=12, blocks=6, name="fake.one"),
        dataclasses.replace(make_experiment({"width": (5,)}, name="fake.two")),
    )
    lab = Lab("fake", "Fake", "none", experiments, lambda _: [])
    monkeypatch.setattr(labs, "LABS", (lab,))


@pytest.mark.usefixtures("fake_probe", "fake_lab")
class TestRun:
    def test_a_run_is_measured_and_loaded(self) -> None:
        run = oscope.run("fake.one", size=["4K", 8192], reps=4, seed=1)
        assert [dict(p.factors) for p in run.results.experiments[0].points] == [
            {"size": 4096},
            {"size": 8192},
        ]
        assert len(run.frame()) == 8
        assert len(run.summary()) == 4
        assert oscope.load().id == oscope.load(run.id).id == run.id
        assert run.id in repr(run)
        assert run.record()["id"] == run.id  # type: ignore[call-overload]

    def test_a_lab_gives_all_its_experiments(self, tmp_path: Path) -> None:
        run = oscope.run("fake", reps=2, store=tmp_path / "own.db")
        assert [r["experiment"] for r in run.record()] == ["fake.one", "fake.two"]
        assert oscope.load("last", store=tmp_path / "own.db").id == run.id

    def test_one_level_need_not_be_a_list(self) -> None:
        run = oscope.run("fake.one", size="1M", reps=1)
        assert [p.factors["size"] for p in run.results.experiments[0].points] == [1048576]

    def test_amounts_are_understood_as_typed(self) -> None:
        run = oscope.run("fake.one", size=1, precision="50%", budget="20s")
        assert run.results.experiments[0].settings["precision"] == 0.5
        assert run.results.experiments[0].settings["budget_s"] == 20

    def test_runs_are_compared(self) -> None:
        one, two = (oscope.run("fake.one", seed=seed) for seed in (1, 2))
        assert one.compare(two).rows
        both = oscope.run("fake", reps=2)
        assert both.compare(one).rows
        with pytest.raises(UsageError, match=r"name one of fake\.one, fake\.two"):
            both.compare(both)
        with pytest.raises(UsageError, match="not in both"):
            one.compare(two, experiment="fake.two")

    def test_a_figure_is_drawn(self, tmp_path: Path) -> None:
        figure = oscope.run("fake.one", reps=6).plot()
        figure.savefig(tmp_path / "a.png")
        assert figure.axes[0].get_xlabel() == "time_ns [ns]"
        assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["size=1", "size=2"]

    def test_a_report_is_written(self, tmp_path: Path) -> None:
        path = oscope.run("fake.one", reps=6).report(tmp_path / "report.html")
        assert path == tmp_path / "report.html"
        assert "<html" in path.read_text()

    def test_unknown_names_are_usage_errors(self) -> None:
        with pytest.raises(UsageError, match=r"did you mean 'fake\.one'"):
            oscope.run("fake.oen")
        with pytest.raises(UsageError, match="did you mean 'size'"):
            oscope.run("fake.one", sise=3)
        with pytest.raises(UsageError, match="measures nothing"):
            oscope.run("fake.one", reps=0)
        with pytest.raises(UsageError, match="no run"):
            oscope.load("1999")


def test_importing_is_light() -> None:
    code = (
        "import sys, oscope, oscope.labs, oscope.probe.catalogue, oscope.model.units, oscope.planning.plan\n"
        "heavy = {'numpy', 'scipy', 'pandas', 'sqlalchemy', 'plotly', 'matplotlib', 'jinja2', 'orjson'}\n"
        "sys.exit(' '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (answer.returncode, answer.stderr) == (0, "")

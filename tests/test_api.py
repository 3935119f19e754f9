from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from IPython.core.formatters import DisplayFormatter

import oscope
import synthetic
from conftest import make_experiment
from oscope import labs
from oscope.api import Run
from oscope.model.errors import StoreNameError, UsageError
from oscope.model.experiment import Lab
from oscope.model.samples import Results
from oscope.report.comparison import each_quantity_once
from oscope.report.comparison_verdict import verdict


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
    def test_a_run_is_measured_and_loaded(self, tmp_path: Path) -> None:
        run = oscope.run("fake.one", size=["4K", 8192], reps=4, seed=1)
        assert [dict(p.factors) for p in run.results.experiments[0].points] == [
            {"size": 4096},
            {"size": 8192},
        ]
        assert len(run.frame()) == 8
        assert len(run.summary()) == 4
        assert oscope.load().id == oscope.load(run.id).id == run.id
        assert run.id in repr(run)
        written = tmp_path / "record.json"
        written.write_text(json.dumps(run.record()))
        for name in (written, str(written)):
            loaded = oscope.load(name)
            assert (loaded.id, loaded.record()) == (run.id, run.record())
        with pytest.raises(UsageError, match="there is no record file"):
            oscope.load(tmp_path / "none.json")
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
        shown, _ = DisplayFormatter().format(figure)
        assert shown["image/png"][1:4] == b"PNG"
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
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        ({"name": 5}, "name is the name of an experiment or lab, such as 'syscall.cost', and not 5 (int)"),
        ({"reps": "4"}, "reps is a whole number, and not '4' (str)"),
        ({"reps": True}, "reps is a whole number, and not True (bool)"),
        ({"precision": [1]}, "precision is a share"),
        ({"store": 3}, "store is a path or URL"),
        ({"size": None}, "size is a level or a list of levels, and not None (NoneType)"),
        ({"size": [4, None]}, "a level of size is a text or a number, and not None"),
    ],
)
def test_an_argument_of_a_wrong_type_is_refused_with_a_sentence(
    words: dict[str, object], reported: str
) -> None:
    with pytest.raises(TypeError) as refused:
        oscope.run(**{"name": "fake.one"} | words)  # type: ignore[arg-type]
    assert reported in str(refused.value)


def test_a_profile_that_there_is_none_of_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no profile 'qick'"):
        oscope.run("fake.one", profile="qick")  # type: ignore[arg-type]


def test_runs_without_a_common_experiment_say_what_each_has() -> None:
    one, two = synthetic.cost(), synthetic.create()
    for others, what in (((two,), "process.create"), ((), "no experiment")):
        with pytest.raises(
            UsageError, match=f"A has syscall.cost, B has {what}: nothing in common"
        ) as caught:
            Run("a", Results((one,))).compare(Run("b", Results(others)))
        assert caught.value.remedy == "choose runs of the same experiment"


def test_a_run_is_loaded_by_a_text_and_compared_with_a_run() -> None:
    with pytest.raises(TypeError, match="run_id is the id of a run"):
        oscope.load(3)  # type: ignore[arg-type]
    run = Run("id", synthetic.survey())
    with pytest.raises(TypeError, match="a run is compared with a run, and not with 'last'"):
        run.compare("last")  # type: ignore[arg-type]


def test_a_notebook_shows_a_run_and_a_comparison_as_tables() -> None:
    made = replace(synthetic.cost(seed=1), run_id="<a>")
    one, two = Run("a", Results((made,))), Run("b", Results((synthetic.cost(seed=2),)))
    page = one._repr_html_()
    assert page.count("<table>") == 1
    assert page.count("<tr>") == 1 + len(made.points)
    compared = one.compare(two)
    shown = compared._repr_html_()
    assert "&lt;a&gt;" in shown
    assert "<a>" not in shown
    # The cycles are in the table as time.
    assert shown.count("<tr>") == 1 + sum(row.metric == "time_ns" for row in compared.rows)
    assert verdict(each_quantity_once(made, compared)[0]) in unescape(shown)


def test_every_experiment_is_listed_once() -> None:
    names = [each.name for each in oscope.experiments()]
    assert len(names) == len(set(names))
    assert {"syscall.cost", "memory.latency"} <= set(names)


def test_the_runs_of_a_store_are_listed(fake_probe: Path, fake_lab: None, tmp_path: Path) -> None:
    del fake_probe, fake_lab
    store = tmp_path / "own.db"
    made = [oscope.run("fake.one", reps=2, store=store).id for _ in range(2)]
    found = oscope.runs(store=store)
    assert [each.id for each in found] == made
    assert all(each.experiments == ("fake.one",) and each.samples for each in found)


def test_a_store_that_cannot_be_is_refused_before_a_program_runs(tmp_path: Path, real_probe: Path) -> None:
    ran, own = tmp_path / "ran", tmp_path / "own"
    own.write_text(f"#!/bin/sh\necho ran >> {ran}\n")
    own.chmod(0o755)
    absent = tmp_path / "absent" / "x.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OSCOPE_PROBE", str(real_probe))
        with pytest.raises(StoreNameError, match="absent"):
            oscope.run("own", workload=own, store=absent)
        with pytest.raises(StoreNameError, match="absent"):
            oscope.bench([str(own)], reps=2, store=absent)
        with pytest.raises(StoreNameError, match="absent"):
            oscope.bench(lambda: ran.write_text("ran"), reps=2, store=absent)
    assert not ran.exists()


def test_the_package_is_typed() -> None:
    assert (Path(oscope.__file__).parent / "py.typed").is_file()

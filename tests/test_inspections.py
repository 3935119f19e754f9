"""Inspections: what a run keeps of them, in the store, the record, the report and on the terminal."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest
from rich.console import Console

import oscope as interface
from cli_driver import CommandLine
from conftest import make_experiment
from oscope import labs
from oscope.cli.request import select
from oscope.cli.summary import print_results
from oscope.figures.analysed import Analysed
from oscope.model.document import Section, Table
from oscope.model.errors import OscopeError, UsageError
from oscope.model.experiment import Experiment, Inspection, Lab
from oscope.model.factors import Profile
from oscope.model.samples import Results
from oscope.planning.plan import Amount, Plan, make_plan
from oscope.probe.catalogue import Catalogue
from oscope.report import page
from oscope.report.build import build, title, verdict
from oscope.runner.execution import execute as carry_out
from oscope.storage import record
from oscope.storage.export import export
from oscope.storage.store import Store

execute = partial(carry_out, find_inspection=labs.inspection)

VALIDATOR = jsonschema.Draft202012Validator(
    json.loads(resources.files("oscope").joinpath("inspection.schema.json").read_text())
)
EXPERIMENT = make_experiment({"size": (1, 2)}, name="fake.measured")


class Looks:
    """Counts how often each inspection is made."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def inspection(
        self, name: str, give: Callable[[Profile], Mapping[str, Any]], *, quick: bool = True
    ) -> Inspection:
        def inspect(profile: Profile) -> Mapping[str, Any]:
            self.seen.append(name)
            return give(profile)

        return Inspection(name, f"Title of {name}", f"Question of {name}?", inspect, quick, "a moment")


def refuse(_: Profile) -> Mapping[str, Any]:
    raise OscopeError("there is no such thing here", remedy="buy one")


def press_ctrl_c(_: Profile) -> Mapping[str, Any]:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
    raise AssertionError("the signal did not come")


def sections(results: Results) -> list[Section]:
    return [
        Section(each.title, f"Seen: {each.result}", tables=[Table("Seen", ["what"], [[str(each.result)]])])
        for each in results.inspections
        if each.result is not None
    ]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    """Have the laboratory know a lab of inspections over the fake probe."""
    looks = Looks()
    inspections = (
        looks.inspection("fake.seen", lambda profile: {"profile": profile, "list": [1, 2.5, None, "µ"]}),
        looks.inspection("fake.refused", refuse),
        looks.inspection("fake.slow", lambda _: {"n": 1}, quick=False),
        looks.inspection("fake.stopped", press_ctrl_c, quick=False),
    )
    lab = Lab("fake", "Fake lab", "none", (EXPERIMENT,), sections, inspections)
    monkeypatch.setattr(labs, "LABS", (lab,))
    monkeypatch.setattr("oscope.cli.summary.LABS", (lab,))
    return looks


def planned(catalogue: Catalogue, *names: str, experiments: tuple[Experiment, ...] = ()) -> Plan:
    return make_plan(experiments, catalogue, seed=1, inspections=[labs.inspection(name) for name in names])


@pytest.mark.usefixtures("looks")
def test_an_inspection_is_stored_with_what_it_found(catalogue: Catalogue, store: Store) -> None:
    outcome = execute(planned(catalogue, "fake.seen", "fake.refused"), store)
    assert (outcome.status, outcome.samples, outcome.failures) == ("done", 0, ())
    results = store.results(outcome.run_id)
    seen, refused = results.inspections
    assert seen.result == {"profile": "full", "list": [1, 2.5, None, "µ"]}
    assert (seen.title, seen.question) == ("Title of fake.seen", "Question of fake.seen?")
    assert seen.environment["machine"] == "0123456789abcdef"
    assert (refused.result, refused.skipped, refused.remedy) == (
        None,
        "there is no such thing here",
        "buy one",
    )
    assert results.inspected("fake.seen") is seen
    assert results.inspected("fake.other") is None
    (entry,) = store.runs()
    assert entry.experiments == ("fake.seen", "fake.refused")


@pytest.mark.usefixtures("looks")
def test_experiments_are_measured_after_a_skipped_inspection(catalogue: Catalogue, store: Store) -> None:
    outcome = execute(planned(catalogue, "fake.refused", experiments=(EXPERIMENT,)), store)
    results = store.results(outcome.run_id)
    assert results.names == ("fake.measured", "fake.refused")
    assert sum(map(len, results.experiments[0].points)) == outcome.samples == 8


@pytest.mark.usefixtures("looks")
def test_a_plan_survives_the_store_and_older_ones_have_no_inspection(catalogue: Catalogue) -> None:
    plan = planned(catalogue, "fake.seen", experiments=(EXPERIMENT,))
    reported = orjson.loads(orjson.dumps(plan.to_object()))
    assert Plan.from_object(reported) == plan
    del reported["inspections"]
    assert Plan.from_object(reported).inspections == ()


def test_ctrl_c_keeps_what_is_there_and_resuming_does_not_repeat_it(
    catalogue: Catalogue, store: Store, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(
        catalogue, "fake.seen", "fake.refused", "fake.stopped", "fake.slow", experiments=(EXPERIMENT,)
    )
    handler = signal.getsignal(signal.SIGINT)
    outcome = execute(plan, store)
    assert signal.getsignal(signal.SIGINT) is handler
    assert outcome.status == "interrupted"
    assert looks.seen == ["fake.seen", "fake.refused", "fake.stopped"]
    before = store.results(outcome.run_id)
    stopped = before.inspected("fake.stopped")
    assert stopped is not None
    assert (stopped.skipped, stopped.remedy) == (
        "the run ended before its turn",
        f"oscope run --resume {outcome.run_id}",
    )
    lab = labs.LABS[0]
    going_on = looks.inspection("fake.stopped", lambda _: {"n": 2})
    others = tuple(each for each in lab.inspections if each.name != "fake.stopped")
    monkeypatch.setattr(
        labs, "LABS", (Lab("fake", "Fake lab", "none", (EXPERIMENT,), sections, (*others, going_on)),)
    )
    outcome = execute(store.plan(outcome.run_id), store, resume=outcome.run_id)
    assert outcome.status == "done"
    assert looks.seen == ["fake.seen", "fake.refused", "fake.stopped", "fake.stopped", "fake.slow"]
    after = store.results(outcome.run_id)
    assert [each.result for each in after.inspections][2:] == [{"n": 2}, {"n": 1}]
    assert after.inspections[0].started == before.inspections[0].started


def test_no_inspection_is_begun_after_the_budget(catalogue: Catalogue, store: Store, looks: Looks) -> None:
    plan = make_plan(
        [EXPERIMENT],
        catalogue,
        seed=1,
        amount=Amount(budget_s=1e-6),
        inspections=[labs.inspection("fake.seen")],
    )
    outcome = execute(plan, store)
    assert looks.seen == []
    (seen,) = store.results(outcome.run_id).inspections
    assert seen.skipped == "the budget ran out before its turn"


@pytest.mark.usefixtures("looks")
def test_what_is_no_inspection_any_more_is_skipped(
    catalogue: Catalogue, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(catalogue, "fake.seen")
    monkeypatch.setattr(labs, "LABS", ())
    (seen,) = store.results(execute(plan, store).run_id).inspections
    assert "there is no experiment 'fake.seen'" in (seen.skipped or "")


@pytest.mark.usefixtures("looks")
def test_records_fit_their_schema_and_are_read_back(
    catalogue: Catalogue, store: Store, tmp_path: Path
) -> None:
    plan = planned(catalogue, "fake.seen", "fake.refused", experiments=(EXPERIMENT,))
    results = store.results(execute(plan, store).run_id)
    path = tmp_path / "record.json"
    record.write(results, path)
    kinds = [each["schema"] for each in json.loads(path.read_text())]
    assert kinds == ["oscope.record/1", "oscope.inspection/1", "oscope.inspection/1"]
    for each in json.loads(path.read_text())[1:]:
        VALIDATOR.validate(each)
    assert record.read(path).inspections == results.inspections
    alone = Results((), results.inspections[:1])
    assert json.loads(record.to_json(alone))["inspection"] == "fake.seen"


def test_a_record_with_neither_result_nor_reason_is_refused() -> None:
    reported = {
        "schema": "oscope.inspection/1",
        "id": "x",
        "inspection": "fake.seen",
        "started": "",
        "title": "",
    }
    assert not VALIDATOR.is_valid(reported | {"question": ""})
    with pytest.raises(UsageError, match="malformed"):
        record.from_records([reported | {"question": ""}])


@pytest.mark.usefixtures("looks")
def test_the_report_lives_without_samples(catalogue: Catalogue, store: Store) -> None:
    results = store.results(execute(planned(catalogue, "fake.seen", "fake.refused"), store).run_id)
    report = build(results, labs.LABS)
    assert report.title == "Fake lab"
    assert report.verdict == "1 inspection was made; 1 inspection could not be made."
    titles = [table.title for table in report.method]
    assert titles[:3] == ["What was looked at", "The certificate", "The machine"]
    assert [row[3] for row in report.method[0].rows] == ["done", "skipped"]
    html = page.render(report)
    assert "Seen: {" in html
    assert "Every experiment" not in html
    assert 'id="data"' not in html
    alone = Results((), results.inspections[:1])
    assert title(alone, labs.LABS) == "Title of fake.seen"
    assert verdict(Analysed.of(alone)) == "1 inspection was made, and nothing asked for is missing."


@pytest.mark.usefixtures("looks")
def test_the_report_has_both_where_both_were_asked_for(catalogue: Catalogue, store: Store) -> None:
    plan = planned(catalogue, "fake.seen", experiments=(EXPERIMENT,))
    report = build(store.results(execute(plan, store).run_id), labs.LABS)
    assert report.verdict.startswith("8 samples of 2 points were taken; 1 inspection was made, and ")
    assert [table.title for table in report.method][:2] == ["What was run", "What was looked at"]
    assert [section.title for section in report.labs[0].sections] == ["Title of fake.seen"]


@pytest.mark.usefixtures("looks")
def test_the_summary_shows_tables_and_what_was_skipped(
    catalogue: Catalogue, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    results = store.results(execute(planned(catalogue, "fake.seen", "fake.refused"), store).run_id)
    print_results(results, Console(width=100, highlight=False, markup=False, emoji=False))
    out = capsys.readouterr().out
    assert "fake.seen: Question of fake.seen?" in out
    assert "{'profile': 'full'" in out
    assert "skipped: there is no such thing here\n  → buy one\n" in out


@pytest.mark.usefixtures("looks")
def test_a_table_of_samples_is_refused_and_the_json_has_all(
    catalogue: Catalogue, store: Store, tmp_path: Path
) -> None:
    results = store.results(execute(planned(catalogue, "fake.seen"), store).run_id)
    for form in ("csv", "parquet"):
        with pytest.raises(UsageError, match="an inspection has no samples"):
            export(results, form, tmp_path / "table")
    export(results, "json", tmp_path / "all.json")
    assert record.read(tmp_path / "all.json").inspections == results.inspections


@pytest.mark.usefixtures("looks")
class TestNames:
    def test_a_lab_means_its_experiments_and_inspections(self) -> None:
        selection = select(["fake"], "quick")
        assert [each.name for each in selection.inspections] == ["fake.seen", "fake.refused"]
        assert "fake.slow is not in the quick profile: a moment" in selection.left_out
        everything = select(["fake"], "full")
        assert len(everything.inspections) == 4
        assert everything.experiments == (EXPERIMENT,)

    def test_what_is_named_is_made_whatever_the_profile(self) -> None:
        selection = select(["fake.slow"], "quick")
        assert [each.name for each in selection.inspections] == list(selection.named) == ["fake.slow"]

    def test_an_unknown_name_gets_the_nearest_inspection(self) -> None:
        with pytest.raises(UsageError, match=r"did you mean 'fake\.seen'"):
            select(["fake.sen"], "full")

    def test_an_inspection_is_no_experiment(self) -> None:
        with pytest.raises(UsageError, match="is an inspection and has no samples"):
            labs.experiment("fake.seen")
        with pytest.raises(UsageError, match="is an experiment and no inspection"):
            labs.inspection("fake.measured")

    @pytest.mark.parametrize(
        ("asked", "option"),
        [
            ({"settings": {"size": [1]}}, "--set"),
            ({"amount": Amount(reps=3)}, "--reps"),
            ({"amount": Amount(precision=0.1)}, "--precision"),
            ({"trace": "syscalls"}, "--trace"),
        ],
    )
    def test_what_belongs_to_samples_is_refused(
        self, asked: dict[str, Any], option: str, catalogue: Catalogue
    ) -> None:
        with pytest.raises(UsageError, match=option):
            make_plan([], catalogue, inspections=[labs.inspection("fake.seen")], **asked)

    @pytest.mark.usefixtures("fake_probe")
    def test_python_makes_them_too(self) -> None:
        run = interface.run("fake.seen", profile="quick")
        assert run.results.inspections[0].result == {"profile": "quick", "list": [1, 2.5, None, "µ"]}
        assert "fake.seen" in repr(run)
        with pytest.raises(UsageError, match="made on this machine"):
            interface.run("fake.seen", on="guest")


def test_names_are_of_one_thing_each() -> None:
    names = [part.name for lab in labs.LABS for part in {each.name: each for each in lab.parts}.values()]
    shared = {each.name for lab in labs.LABS for each in lab.experiments}
    inspections = [each.name for lab in labs.LABS for each in lab.inspections]
    assert len(inspections) == len(set(inspections))
    assert not shared & set(inspections)
    assert set(inspections) <= set(names)


def test_the_command_line_lists_runs_and_shows_them(oscope: CommandLine) -> None:
    assert "tools.devices: Device files held open" in oscope("list", "tools").out
    answer = oscope("run", "tools.devices", "tools.interfaces", "--json", "-", "--report", "r.html")
    assert answer.code == 0
    assert [each["inspection"] for each in json.loads(answer.out)] == ["tools.devices", "tools.interfaces"]
    assert "Device files held open" in answer.err
    assert "Device files held open" in (oscope.folder / "r.html").read_text()
    (run,) = oscope.runs()
    shown = oscope("show", run)
    assert (shown.code, shown.err) == (0, "")
    assert "Network interfaces" in shown.out
    refused = oscope("export", run, "--format", "csv")
    assert (refused.code, refused.err) == (
        2,
        "oscope: an inspection has no samples to make a table of: --format json has it\n",
    )


def test_an_export_of_both_says_what_it_leaves_out(oscope: CommandLine) -> None:
    assert oscope("run", "syscall.cost", "tools.interfaces", "--reps", "1").code == 0
    answer = oscope("export", "last", "--format", "csv")
    assert answer.code == 0
    assert "syscall.cost" in answer.out
    assert "left out, since they have no samples: tools.interfaces" in answer.err


def test_kernels_are_not_compared_by_inspections(oscope: CommandLine) -> None:
    answer = oscope("kernel", "ab", "--patch", "my_precious", "tools.devices")
    assert answer.code == 2
    assert "tools.devices has no samples to compare" in answer.err


def test_a_named_inspection_that_cannot_be_made_is_a_failure(oscope: CommandLine, tmp_path: Path) -> None:
    # Without ip(8) there is nothing to ask for interfaces.
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("setpriv", "git"):
        for folder in os.environ["PATH"].split(os.pathsep):
            if (found := Path(folder, name)).is_file():
                (programs / name).symlink_to(found)
                break
    answer = oscope("run", "tools.interfaces", PATH=str(programs))
    assert answer.code == 1
    assert "skipped: ip(8) is missing" in answer.out
    assert "apt install iproute2" in answer.out
    assert answer.err.splitlines()[-1].startswith("oscope: nothing could be measured of tools.interfaces")

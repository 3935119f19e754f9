"""A run that the probe refused says so, and is neither resumed nor taken where no run is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_driver import CommandLine
from conftest import make_experiment
from oscope.model.errors import UsageError
from oscope.model.samples import PointSamples
from oscope.planning.plan import make_plan
from oscope.probe.catalogue import Catalogue
from oscope.probe.wire import Refusal
from oscope.runner import losses
from oscope.runner.execution import execute
from oscope.storage.store import Store, StoredEvent
from run_writer import RunWriter

COST = ("run", "syscall.cost", "--set", "call=read", "--reps", "10")
LIMIT = ("--max-regression", "90%")


def refused_by(catalogue: Catalogue, store: Store, field: str) -> tuple[str, PointSamples]:
    """Have a request refused over a parameter; return the run and its first point."""
    plan = make_plan([make_experiment({"size": (1, 2)})], catalogue, seed=1)
    recorder = RunWriter(store, plan)
    run_id = recorder.run_id
    point = recorder.points[plan.experiments[0].name][0]
    refusal = Refusal("request", f"{field}: cannot be", field=field)
    events = losses.refuse(point, 0, refusal)
    recorder.append(next(events))
    with pytest.raises(UsageError, match=f"{field}: cannot be"):
        next(events)
    store.add(run_id, (), [StoredEvent("status", "failed")])
    return run_id, store.results(run_id).experiments[0].points[0]


def test_a_refused_level_is_the_reason_and_the_run_is_not_resumed(catalogue: Catalogue, store: Store) -> None:
    plan = make_plan([make_experiment({"do": ("request", "ok")})], catalogue, seed=1)
    with pytest.raises(UsageError, match="do: cannot be"):
        execute(plan, store)
    run_id = store.runs()[0].id
    empty = [point for point in store.results(run_id).experiments[0].points if not len(point)]
    assert empty
    for point in empty:
        assert point.skipped is not None
        assert "do=request: do: cannot be" in point.skipped
        assert point.remedy == "choose another"
    with pytest.raises(UsageError, match=r"cannot be resumed.*do: cannot be") as refused:
        execute(plan, store, resume=run_id)
    assert refused.value.remedy == "choose another"
    assert store.runs()[0].status == "failed"


def test_a_refused_level_without_a_remedy_has_none(catalogue: Catalogue, store: Store) -> None:
    _, point = refused_by(catalogue, store, "size")
    assert "size: cannot be" in (point.skipped or "")
    assert point.remedy is None


def test_a_refused_file_may_be_there_when_the_run_is_resumed(catalogue: Catalogue, store: Store) -> None:
    run_id, point = refused_by(catalogue, store, "file")
    assert "file: cannot be" in (point.skipped or "")
    assert point.remedy == f"oscope run --resume {run_id}"
    assert execute(store.plan(run_id), store, resume=run_id).status == "done"


@pytest.fixture
def oscope_real(real_probe: Path, tmp_path: Path) -> CommandLine:
    """Give a command line with the real probe and a store of its own."""
    variables = {"OSCOPE_PROBE": str(real_probe), "OSCOPE_STORE": str(tmp_path / "oscope.db")}
    return CommandLine(tmp_path, variables)


@pytest.mark.parametrize("number", ["60", "513", str(2**30)])
def test_a_number_that_may_not_be_called_is_refused_before_a_run_begins(
    oscope_real: CommandLine, number: str
) -> None:
    """exit(2), the rt_sigreturn(2) of x32, and what is no number of a call."""
    answer = oscope_real("run", "syscall.cost", "--quick", "--set", f"call=getppid,nr:{number}")
    assert answer.code == 2
    assert f"call=nr:{number}: this number is refused: N in nr:N may be " in answer.err
    assert "548 to 1073741823" in answer.err
    assert oscope_real.runs() == []


@pytest.mark.parametrize(
    ("words", "why"), [((), ", which is measured as well unless pages is set"), (("--set", "pages=huge"), "")]
)
def test_a_part_of_a_huge_page_is_refused_before_a_run_begins(
    oscope_real: CommandLine, words: tuple[str, ...], why: str
) -> None:
    answer = oscope_real("run", "process.create", "--set", "how=fork", "--set", "resident=0,1M", *words)
    assert answer.code == 2
    assert answer.err == (
        "oscope: process.create: resident=1048576: must be a multiple of 2097152 B with pages=huge"
        f"{why}: give --set pages=4K, or a multiple such as --set resident=2M\n"
    )
    assert oscope_real.runs() == []


def test_levels_that_the_probe_refuses_together_are_the_reason_shown(oscope_real: CommandLine) -> None:
    answer = oscope_real(
        "run", "syscall.cost", "--quick", "--set", "call=gethostid", "--set", "entry=instruction"
    )
    assert answer.code == 2
    reason = "must be function for gethostid"
    assert reason in answer.err
    (run_id,) = oscope_real.runs()
    shown = " ".join(oscope_real("show", "last").out.split())
    assert reason in shown
    assert "before its turn" not in shown
    assert "--resume" not in shown
    again = oscope_real("run", "--resume", run_id)
    assert again.code == 2
    assert "cannot be resumed" in again.err


def test_a_run_without_samples_is_not_the_newest_to_be_judged(oscope: CommandLine) -> None:
    for _ in range(2):
        oscope(*COST)
    first, second = oscope.runs()
    with Store.open(oscope.folder / oscope.all_variables({})["OSCOPE_STORE"]) as store:
        empty = store.create_run(store.plan(first))
        store.add(empty, (), [StoredEvent("status", "failed")])
    assert f"gate: {second} against {first}" in oscope("gate", first, *LIMIT).out
    refused = oscope("gate", second, *LIMIT)
    assert refused.code == 2
    assert "no run with samples of syscall.cost after the baseline" in refused.err


@pytest.mark.parametrize("command", [("compare",), ("gate", *LIMIT)])
def test_only_runs_with_a_point_in_common_are_chosen(oscope: CommandLine, command: tuple[str, ...]) -> None:
    for level in ("read", "lseek"):
        oscope("run", "syscall.cost", "--set", f"call={level}", "--reps", "10")
    first, second = oscope.runs()
    refused = oscope(*command)
    assert refused.code == 2
    assert len(refused.err.splitlines()) == 1
    assert (
        f"no two runs that may be compared: runs {first} and {second} have no point in common" in refused.err
    )
    oscope(*COST)
    third = oscope.runs()[-1]
    answer = oscope(*command)
    assert answer.code == 0
    assert answer.err == f"oscope: the last two comparable runs: A is {first}, B is {third}\n"

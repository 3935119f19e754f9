"""How a run uses tracers: when they are attached, whose the findings are, what happens when they fail."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from conftest import make_experiment
from oscope.model.errors import OscopeError, UsageError
from oscope.model.factors import Level
from oscope.model.samples import ExperimentResults, PointSamples, Results
from oscope.planning.plan import Amount, Plan, make_plan
from oscope.probe.catalogue import Catalogue
from oscope.runner.execution import execute
from oscope.storage import record
from oscope.storage.store import Store
from oscope.trace import tracers
from oscope.trace.factor import LEVELS, parse_kinds, tracer_of
from oscope.trace.tracer import Losses, Tracer, TraceUnavailable, Tracing

TRACED = "syscalls+sched"


class EveryToken(dict[int, dict[str, Any]]):
    """A reading for whatever token is asked for: it found as many regions as the token says."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __contains__(self, token: object) -> bool:
        return True

    def __getitem__(self, token: int) -> dict[str, Any]:
        return {"tracer": self.name, "regions": token}


class FakeTracer(Tracer):
    """A tracer that remembers what was done with it, and finds what it is told to."""

    follows_marks = True
    made: ClassVar[list[FakeTracer]] = []
    losses = Losses()
    blind = False
    refuse: OscopeError | None = None
    deaths = 0
    """Number of tracers that are still to die while they watch."""

    def __init__(self, name: str, room: int) -> None:
        self.name = name
        self.room = room
        self.pids: list[int] = []
        self.ended = ""
        type(self).made.append(self)

    def start(self, pid: int) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.pids.append(pid)
        self.dies = FakeTracer.deaths > 0
        FakeTracer.deaths = max(0, FakeTracer.deaths - 1)

    def alive(self) -> bool:
        return not self.dies

    def stop(self) -> Tracing:
        self.ended = "stopped"
        if self.blind:
            return Tracing({}, self.losses)
        whole = {0: {"tracer": self.name, "regions": 0}}
        return Tracing(EveryToken(self.name) if self.follows_marks else whole, self.losses)

    def kill(self) -> None:
        self.ended = self.ended or "killed"


class ProcessTracer(FakeTracer):
    """One that watches a process, whatever it does."""

    follows_marks = False


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeTracer]:
    """Return the tracers that were made, in order."""

    def make(level: str, probe: Path, *, turns: int) -> Tracer | None:
        assert probe.exists()
        assert level != "none"
        return (ProcessTracer if level.startswith("strace") else FakeTracer)(level, turns)

    monkeypatch.setattr(tracers, "make", make)
    monkeypatch.setattr(FakeTracer, "made", [])
    for name, value in (("losses", Losses()), ("blind", False), ("refuse", None), ("deaths", 0)):
        monkeypatch.setattr(FakeTracer, name, value)
    return FakeTracer.made


def run(
    catalogue: Catalogue, store: Store, levels: dict[str, Sequence[Level]], **more: Any
) -> ExperimentResults:
    amount = {name: more.pop(name) for name in ("reps", "blocks") if name in more}
    factors = {name: tuple(given) for name, given in levels.items()}
    plan = make_plan([make_experiment(factors, **amount)], catalogue, seed=1, **more)
    outcome = execute(plan, store)
    results = store.results(outcome.run_id).experiments[0]
    assert not any(each.ended == "" for each in FakeTracer.made), "a tracer is left attached"
    return results


def at(results: ExperimentResults, **factors: Level) -> PointSamples:
    point = results.point(**factors)
    assert point is not None
    return point


def test_ctrl_c_ends_the_attaching_of_a_tracer_and_loses_nothing(
    catalogue: Catalogue, store: Store, made: list[FakeTracer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(self: FakeTracer, pid: int) -> None:
        del self, pid
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
        raise AssertionError("the signal did not come")

    tracer = make_experiment({"tracer": ("none", "bpf-count")}, reps=2, blocks=1)
    plan = make_plan([tracer], catalogue, seed=1)
    with monkeypatch.context() as patched:
        patched.setattr(FakeTracer, "start", start)
        outcome = execute(plan, store)
    assert (outcome.status, outcome.failures) == ("interrupted", ())
    assert [each.ended for each in made] == ["killed"]
    resumed = execute(plan, store, resume=outcome.run_id)
    assert (resumed.status, resumed.samples, resumed.failures) == ("done", 4, ())


def test_a_traced_run_measures_every_point_with_and_without_and_attaches_once(
    catalogue: Catalogue, store: Store, made: list[FakeTracer]
) -> None:
    results = run(catalogue, store, {"size": (1, 2)}, trace=TRACED, reps=6, blocks=3)
    assert [p.factors["tracer"] for p in results.points] == ["none", TRACED, "none", TRACED]
    assert results.factor_types["tracer"] == "choice"
    assert [each.name for each in made] == [TRACED]
    assert made[0].ended == "stopped"
    assert made[0].room >= 6
    for point in results.points:
        assert point.block.tolist() == [0, 0, 1, 1, 2, 2], "each block has both sides"
    traced, untraced = at(results, tracer=TRACED, size=1), at(results, tracer="none", size=1)
    assert untraced.started_ns[3] < traced.started_ns[0] < traced.started_ns[-1] < untraced.started_ns[4]
    assert untraced.traces == ()
    assert [each["block"] for each in traced.traces] == [0, 1, 2]
    assert {each["reps"] for each in traced.traces} == {2}


def test_each_finding_belongs_to_the_point_whose_request_it_was(
    catalogue: Catalogue, store: Store, made: list[FakeTracer]
) -> None:
    results = run(catalogue, store, {"size": (1, 2, 3), "tracer": ("bpf-count",)}, reps=2, blocks=2)
    # The fake tracer finds as many regions as the request's number says, and these rise by one.
    taken = sorted(
        (p.started_ns[block], p.traces[block]["regions"]) for p in results.points for block in (0, 1)
    )
    first = taken[0][1]
    assert [number for _, number in taken] == list(range(first, first + 6))
    assert len(made) == 1


def test_tracers_that_are_compared_take_turns_within_each_block(
    catalogue: Catalogue, store: Store, made: list[FakeTracer]
) -> None:
    levels = ("none", "bpf-count", "strace", "strace-count")
    results = run(catalogue, store, {"tracer": levels}, reps=4, blocks=4)
    assert len(made) == 4 * 3
    orders = set()
    for block in range(4):
        times = {str(p.factors["tracer"]): p.started_ns[block] for p in results.points}
        orders.add(tuple(sorted(times, key=lambda level: times[level])))
    assert len(orders) > 1, "the order is drawn anew in each block"
    assert len({p.process[0] for p in results.points}) == 4, "each tracer has a process of its own"


def test_a_tracer_of_processes_tells_of_a_point_only_where_it_saw_no_other(
    catalogue: Catalogue, store: Store, made: list[FakeTracer]
) -> None:
    alone = run(catalogue, store, {"tracer": ("strace",)}, reps=2, blocks=2)
    assert [each["block"] for each in alone.points[0].traces] == [0, 1]
    together = run(catalogue, store, {"tracer": ("strace",), "size": (1, 2)}, reps=2, blocks=2)
    assert [p.traces for p in together.points] == [(), ()]
    assert not any("saw nothing" in note for p in together.points for note in p.notes)
    assert all(len(each.pids) == 1 for each in made)


def test_losses_are_kept_and_told(
    catalogue: Catalogue, store: Store, made: list[FakeTracer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeTracer, "losses", Losses(ring=3, map_full={"@times": 2}, recursion=1))
    results = run(catalogue, store, {"size": (1,)}, trace="counts")
    traced = at(results, tracer="counts")
    assert traced.traces[0]["losses"] == {"ring": 3, "map_full": {"@times": 2}, "recursion": 1}
    (note,) = traced.notes
    assert "3 events" in note
    assert "2 updates that the full map @times refused" in note
    assert "1 event that came while a program ran" in note
    assert made


def test_a_tracer_that_saw_nothing_is_told(
    catalogue: Catalogue, store: Store, made: list[FakeTracer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeTracer, "blind", True)
    results = run(catalogue, store, {"size": (1,)}, trace="counts")
    assert at(results, tracer="counts").notes == ("the tracer counts saw nothing of it",)
    assert made


def test_what_this_machine_cannot_trace_is_skipped_with_its_remedy(
    catalogue: Catalogue, store: Store, made: list[FakeTracer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        FakeTracer, "refuse", TraceUnavailable("no bpftrace here", remedy="apt install bpftrace")
    )
    results = run(catalogue, store, {"size": (1, 2)}, trace="counts")
    for size in (1, 2):
        assert len(at(results, tracer="none", size=size)) == 4
        traced = at(results, tracer="counts", size=size)
        assert (traced.skipped, traced.remedy) == ("no bpftrace here", "apt install bpftrace")
    assert made


def test_samples_of_a_tracer_that_died_are_not_believed(
    catalogue: Catalogue, store: Store, made: list[FakeTracer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeTracer, "deaths", 1)
    plan = make_plan([make_experiment({"size": (1,)}, reps=4, blocks=2)], catalogue, seed=1, trace="counts")
    outcome = execute(plan, store)
    results = store.results(outcome.run_id).experiments[0]
    traced = at(results, tracer="counts")
    assert set(traced.block.tolist()) == {1}, (
        "the turn that it died in is lost, the next has a tracer of its own"
    )
    assert any("the tracer died while it watched" in failure for failure in outcome.failures)
    assert [each.ended for each in made] == ["killed", "stopped"]


@pytest.mark.parametrize("misdeed", ["die_once", "failed_once", "hang", "garbage"])
def test_no_tracer_is_left_when_the_probe_fails(
    misdeed: str, catalogue: Catalogue, store: Store, made: list[FakeTracer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oscope.runner.point_request.PATIENCE_S", 0.3)
    run(catalogue, store, {"do": ("ok", misdeed), "tracer": ("none", "strace", "bpf-count")})
    assert made


def test_findings_survive_a_record(
    catalogue: Catalogue, store: Store, made: list[FakeTracer], tmp_path: Path
) -> None:
    results = run(catalogue, store, {"size": (1,)}, trace="counts")
    record.write(Results((results,)), tmp_path / "record.json")
    again = record.read(tmp_path / "record.json").experiments[0]
    assert at(again, tracer="counts").traces == at(results, tracer="counts").traces
    assert made


def test_a_plan_with_a_tracer_survives_the_store(catalogue: Catalogue) -> None:
    plan = make_plan([make_experiment({"size": (1,)})], catalogue, seed=1, trace="counts")
    assert Plan.from_object(plan.to_object()) == plan


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"settings": {"tracer": ["strace"]}, "trace": "counts"}, "contradict each other"),
        ({"amount": Amount(precision=0.02), "trace": "counts"}, "contradict each other"),
        ({"settings": {"tracer": ["strase"]}}, "did you mean 'strace'"),
    ],
)
def test_what_cannot_be_traced_so_is_refused(catalogue: Catalogue, more: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as error:
        make_plan([make_experiment({"size": (1,)})], catalogue, seed=1, **more)
    assert words in str(error.value) + str(error.value.remedy)


def test_kinds_make_a_level_whatever_their_order() -> None:
    assert parse_kinds(["sched", "syscalls"]) == TRACED
    assert TRACED in LEVELS
    with pytest.raises(UsageError, match="'syscals' cannot be traced"):
        parse_kinds(["syscals"])


def test_a_point_without_the_factor_is_untraced() -> None:
    assert tracer_of({"size": 1}) == "none"

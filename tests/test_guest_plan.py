"""Guests in plans, and passes at targets that are made up."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conftest import make_experiment
from oscope.model.errors import OscopeError, ProbeError, UsageError
from oscope.model.experiment import GuestSpec
from oscope.model.guest import Guest
from oscope.planning.plan import Plan, make_plan
from oscope.probe.catalogue import Catalogue
from oscope.probe.process import Probe, Request
from oscope.probe.wire import Sample
from oscope.runner import execution, point_request, targets
from oscope.runner.point_state import PointState
from oscope.storage.store import Store
from oscope.targets.guest.console import Console
from oscope.targets.guest.spec import Where, make_guest, place
from test_run import order_taken, planned_order

GUEST = Guest("0123456789ab", "wall", 2)


class FakeGuests:
    """Guests that are processes here, each with a boot of its own, and slower by a factor that tells."""

    name = "guest:fake"
    traceable = False
    slowness = 1.0

    def __init__(self, path: Path, accelerators: Iterator[str], failing: Iterable[bool] = ()) -> None:
        """`failing`: whether each of the first boots fails."""
        self._path = path
        self._failing = itertools.chain(failing, itertools.repeat(False))
        self._boots = itertools.count()
        self._accelerators = accelerators

    def start(self, begun: Callable[[Probe], None] | None = None) -> Probe:
        if next(self._failing):
            raise ProbeError("the guest was silent for 60 s and was killed")
        return Probe([self._path, "run"], begun=begun)

    def environment(self, probe: Probe) -> Mapping[str, Any]:
        made = dict.fromkeys(("kernel", "cpu_model", "kernel_options", "qemu"), "fake")
        guest = made | {"accelerator": next(self._accelerators)}
        return {**probe.hello.environment, "boot_id": f"guest-{next(self._boots)}", "guest": guest}

    def translate(self, sample: Sample, workload: str) -> Sample:
        assert workload == "fake.work"
        return msgspec.structs.replace(sample, metrics={**sample.metrics, "time_ns": 7.0})


def in_guests(catalogue: Catalogue, blocks: int = 2) -> Plan:
    experiments = [
        make_experiment({"size": (1, 2)}, reps=2 * blocks, blocks=blocks),
        make_experiment({"size": (1,)}, name="fake.here"),
    ]
    return make_plan(experiments, catalogue, seed=1, guests={"fake.experiment": GUEST})


def test_a_plan_with_guests_survives_the_store(catalogue: Catalogue) -> None:
    plan = in_guests(catalogue)
    assert Plan.from_object(plan.to_object()) == plan
    assert plan.place == "guest and local"
    older = plan.to_object()
    for experiment in older["experiments"]:
        del experiment["guest"]
    assert [e.guest for e in Plan.from_object(older).experiments] == [None, None]


def test_the_instructions_clock_renames_metrics_in_the_plan(catalogue: Catalogue) -> None:
    guest = Guest("0123456789ab", "instructions", 1)
    plan = make_plan([make_experiment({})], catalogue, guests={"fake.experiment": guest})
    (planned,) = plan.experiments
    assert planned.metrics[0] == "instructions"
    assert planned.workload.metrics[0].unit == "instructions"
    assert not any(name.endswith("_ns") for name in planned.metrics)


class CountingGuests(FakeGuests):
    """Guests that count: the same in each."""

    def translate(self, sample: Sample, workload: str) -> Sample:
        return msgspec.structs.replace(super().translate(sample, workload), metrics={"instructions": 236.0})


def test_runs_that_count_instructions_have_the_same_order_by_every_seed(
    fake_probe: Path, catalogue: Catalogue, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    guests = CountingGuests(fake_probe, itertools.repeat("tcg"))
    monkeypatch.setattr(targets, "guest_target", lambda *_: guests)
    experiments = [make_experiment({"size": (1, 2, 3, 4)}, reps=3, blocks=3)]
    where = {"fake.experiment": Guest("0123456789ab", "instructions", 1)}
    plans = [make_plan(experiments, catalogue, seed=seed, guests=where) for seed in (1, 2)]
    older = Plan.from_object(without_order(plans[0].to_object()))
    assert Plan.from_object(plans[0].to_object()) == plans[0]
    runs = [store.results(execution.execute(plan, store).run_id).experiments[0] for plan in (*plans, older)]
    taken = [order_taken(run) for run in runs]
    assert taken == [planned_order(plan) for plan in (*plans, older)]
    assert taken[0] == taken[1] != taken[2]
    assert [run.settings.get("order") for run in runs] == ["fixed", "fixed", None]


def without_order(plan: dict[str, Any]) -> dict[str, Any]:
    """Return a plan as it was stored before orders were fixed."""
    for experiment in plan["experiments"]:
        assert experiment.pop("order") == "fixed"
    return plan


def test_every_pass_is_a_boot_and_the_environment_is_the_guests(
    fake_probe: Path, catalogue: Catalogue, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    guests = FakeGuests(fake_probe, itertools.repeat("tcg"))
    monkeypatch.setattr(targets, "guest_target", lambda *_: guests)
    outcome = execution.execute(in_guests(catalogue, blocks=3), store)
    there, here = store.results(outcome.run_id).experiments
    assert outcome.failures == ()
    assert there.environment["guest"]["accelerator"] == "tcg"
    assert there.environment["boots"] == ["guest-0", "guest-1", "guest-2"]
    assert "guest" not in here.environment
    for point in there.points:
        assert len(set(point.boot)) == 3
        assert [len(set(point.boot[point.block == block])) for block in range(3)] == [1, 1, 1]
        assert set(point.metrics["time_ns"]) == {7.0}
    assert not set(there.points[0].boot) & set(here.points[0].boot)
    assert set(here.points[0].metrics["time_ns"]) != {7.0}


def test_guests_of_another_make_are_not_mixed_in(
    fake_probe: Path, catalogue: Catalogue, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    guests = FakeGuests(fake_probe, iter(("tcg", "kvm")))
    monkeypatch.setattr(targets, "guest_target", lambda *_: guests)
    with pytest.raises(UsageError, match=r"another accelerator \(tcg, now kvm\)"):
        execution.execute(in_guests(catalogue), store)


def test_a_boot_that_fails_costs_its_block_alone(
    fake_probe: Path, catalogue: Catalogue, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    guests = FakeGuests(fake_probe, itertools.repeat("tcg"), [True])
    monkeypatch.setattr(targets, "guest_target", lambda *_: guests)
    outcome = execution.execute(in_guests(catalogue, blocks=3), store)
    there, here = store.results(outcome.run_id).experiments
    assert outcome.status == "done"
    (failure,) = outcome.failures
    assert "the guest was silent for 60 s" in failure
    assert sorted(len(set(point.block.tolist())) for point in there.points) == [2, 3]
    assert len(here.points[0]) > 0


def test_a_guest_that_never_boots_is_given_up_and_told(
    fake_probe: Path, catalogue: Catalogue, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    guests = FakeGuests(fake_probe, itertools.repeat("tcg"), itertools.repeat(True))
    monkeypatch.setattr(targets, "guest_target", lambda *_: guests)
    outcome = execution.execute(in_guests(catalogue, blocks=9), store)
    there, here = store.results(outcome.run_id).experiments
    assert len(outcome.failures) == 3
    for point in there.points:
        assert "the guest was silent for 60 s" in (point.skipped or "")
        assert len(point) == 0
    assert len(here.points[0]) > 0


def test_the_probe_may_be_silent_for_all_repetitions_where_writing_would_be_counted(
    catalogue: Catalogue,
) -> None:
    limits = []
    for guest in (Guest("0123456789ab"), Guest("0123456789ab", "instructions", 1)):
        plan = make_plan([make_experiment({})], catalogue, guests={"fake.experiment": guest})
        point = PointState("a", plan.experiments[0], 0, [])
        request = Request(1, "fake.work", reps=100, min_time_ns=10**9)
        limits.append(point_request.silence_limit_s(point, request) - point_request.PATIENCE_S)
    wall, instructions = limits
    assert instructions == pytest.approx(100 * wall)


def test_a_guest_is_what_was_asked_for_then_what_the_experiment_wants() -> None:
    expected = GuestSpec("base", "wall", cpus=4, memory_bytes=1 << 29)
    assert make_guest("k", "wall", Where(), expected) == Guest("k", "wall", 4, 1 << 29)
    assert make_guest("k", "wall", Where(cpus=3), expected).cpus == 3
    assert make_guest("k", "instructions", Where(), expected).cpus == 1
    assert make_guest("k", "wall", Where(), None) == Guest("k")
    for nothing in (Where(cpus=0), Where(memory_bytes=0)):
        with pytest.raises(UsageError, match="0 "):
            make_guest("k", "wall", nothing, expected)


def test_a_guest_that_cannot_be_is_told_before_anything_is_measured(
    fake_probe: Path, catalogue: Catalogue, store: Store
) -> None:
    del fake_probe
    with pytest.raises(OscopeError, match="0123456789ab"):
        execution.execute(in_guests(catalogue), store)
    assert not store.runs()


@pytest.mark.parametrize(
    ("values", "reported"),
    [
        ({"clock": "instructions", "cpus": 2}, "one CPU"),
        ({"cpus": 0}, "0 CPUs"),
        ({"cpus": 65}, "65 CPUs"),
        ({"memory_bytes": 64 << 20}, "too few"),
    ],
)
def test_guests_that_cannot_be(values: dict[str, Any], reported: str) -> None:
    with pytest.raises(UsageError, match=reported):
        Guest("base", **values)


@pytest.mark.parametrize(
    ("where", "reported"),
    [
        (Where("moon"), "--on moon"),
        (Where("guest:"), "names no kernel"),
        (Where("local:base"), "no such place"),
        (Where("local", clock="wall"), "--clock is of a guest"),
        (Where(cpus=2), "--cpus is of a guest"),
        (Where("local", memory_bytes=1 << 30), "--memory is of a guest"),
    ],
)
def test_places_that_cannot_be(where: Where, reported: str) -> None:
    with pytest.raises(UsageError, match=reported):
        place([make_experiment({})], (), where, "full")


def test_a_guest_has_no_more_memory_than_this_machine() -> None:
    with pytest.raises(UsageError, match=r"a guest with 8 TiB of memory: this machine has \d+\.\d GiB"):
        make_guest("base", "wall", Where("guest", memory_bytes=1 << 43), None)


def test_an_experiment_without_its_kernel_is_left_out_unless_it_was_named() -> None:
    wanting = dataclasses.replace(make_experiment({}, name="fake.guest"), guest=GuestSpec("no-such-kernel"))
    both = [wanting, make_experiment({})]
    placed = place(both, (), Where(), "full")
    assert [e.name for e in placed.experiments] == ["fake.experiment"]
    (text,) = placed.left_out
    assert "fake.guest is left out" in text
    assert "no-such-kernel" in text
    for chosen, named in ((both, ("fake.guest",)), ([wanting], ())):
        with pytest.raises(OscopeError, match="no-such-kernel"):
            place(chosen, named, Where(), "full")
    assert place([wanting], (), Where("local"), "full").guests == {}


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", "the console said nothing"),
        ("[    1.5] hello\n", "the console's last lines: hello"),
        ("[ 1.0] Kernel panic - not syncing: Oh no\n", "its kernel panicked: not syncing: Oh no"),
        ("Out of memory: Killed process 7 (probe) total-vm:1\n", "ran out of memory .*larger --memory"),
        ("Kernel panic - not syncing: System is deadlocked on memory\n", "ran out of memory"),
    ],
)
def test_what_a_console_tells(text: str, reported: str) -> None:
    with Console() as console:
        console.path.write_text(text)
        assert_told(console, reported)
    assert console.path.exists(), "somebody was told of it"
    console.path.unlink()


def assert_told(console: Console, reported: str) -> None:

    assert re.search(reported, console.explain())
    assert "\n" not in console.explain()
